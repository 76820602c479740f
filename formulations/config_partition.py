"""Which ops share a price where there are many: tiles of one stage, and engines that count as one for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.config_parts import lanes_of, ways_of

if TYPE_CHECKING:
    from hexloom.formulations.config_parts import Merged
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem


def alike_pipes(problem: Problem) -> Merged:
    """Group pipes that serve the same stages and are never used together: the queues of equal owners."""
    stages: dict[str, set[tuple[str, str]]] = {engine.name: set() for engine in problem.engines}
    together: dict[str, set[str]] = {engine.name: set() for engine in problem.engines}
    for key, mode in {((op.task, op.stage), id(m)): m for op in problem.ops for m in op.modes}.items():
        used = [use.engine for use in mode.uses if use.ticks > 0]
        for name in used:
            stages[name].add(key[0])
            together[name].update(used)
    groups: list[list[str]] = []
    for engine in problem.engines:
        if engine.kind != "pipe":
            continue
        for group in groups:
            if stages[group[0]] == stages[engine.name] and together[engine.name].isdisjoint(group):
                group.append(engine.name)
                break
        else:
            groups.append([engine.name])
    return tuple(tuple(group) for group in groups if len(group) > 1)


def partition_by_way(problem: Problem, ht: HeadsTails, merged: Merged, most: int) -> list[tuple[int, ...]]:
    """Ops of one task and stage that run in the same ways, split by head and tail into about ``most`` classes."""
    lanes = lanes_of(problem, merged)
    number: dict[object, int] = {}
    of_modes: dict[int, int] = {}
    groups: dict[tuple[str, str, int], list[int]] = {}
    for i, op in enumerate(problem.ops):
        if id(op.modes) not in of_modes:
            of_modes[id(op.modes)] = number.setdefault(ways_of(problem, op, lanes), len(number))
        groups.setdefault((op.task, op.stage, of_modes[id(op.modes)]), []).append(i)
    pieces = max(1, most // len(groups))
    partition: list[tuple[int, ...]] = []
    for ops in groups.values():
        runs: dict[tuple[int, int], list[int]] = {}
        for i in ops:
            runs.setdefault((int(ht.head[i]), -int(ht.tail[i])), []).append(i)
        ordered = [runs[key] for key in sorted(runs)]
        size = -(-len(ordered) // pieces)
        for k in range(0, len(ordered), size):
            partition.append(tuple(sorted(i for run in ordered[k : k + size] for i in run)))
    return partition
