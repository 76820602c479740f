"""Which ops share a price where there are many: tiles of one stage, and engines that count as one for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.configuration.parts import lanes_of, ways_of

if TYPE_CHECKING:
    from hexloom.formulations.configuration.parts import Merged
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.speeds import Speeds


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


def stages(problem: Problem, merged: Merged, speeds: Speeds) -> list[list[int]]:
    """Group ops of one task and stage that run in the same ways."""
    number = _way_numbers(problem, merged, speeds)
    groups: dict[tuple[str, str, int], list[int]] = {}
    for i, op in enumerate(problem.ops):
        groups.setdefault((op.task, op.stage, number[i]), []).append(i)
    return list(groups.values())


def split(groups: list[list[int]], ht: HeadsTails, most: int) -> list[tuple[int, ...]]:
    """Split groups by head and tail into about ``most`` classes."""
    pieces = max(1, most // len(groups))
    partition: list[tuple[int, ...]] = []
    for ops in groups:
        runs: dict[tuple[int, int], list[int]] = {}
        for i in ops:
            runs.setdefault((int(ht.head[i]), -int(ht.tail[i])), []).append(i)
        ordered = [runs[key] for key in sorted(runs)]
        size = -(-len(ordered) // pieces)
        for k in range(0, len(ordered), size):
            partition.append(tuple(sorted(i for run in ordered[k : k + size] for i in run)))
    return partition


def twins(problem: Problem, speeds: Speeds) -> list[tuple[int, ...]]:
    """Classes of ops that no set can tell apart: equal ways, neighbours and sizes of buffers that no other op uses.

    All others stay single. Nothing is lost by giving twins one price.
    """
    number = _way_numbers(problem, None, speeds)
    found: dict[object, list[int]] = {}
    for i in range(len(problem.ops)):
        buffers = [problem.buffers[b] for b in problem.op_buffers[i]]
        key: object = i
        if all(set(buffer.ops) == {problem.ops[i].name} and not buffer.resident for buffer in buffers):
            sizes = tuple(sorted(buffer.occupied_bytes for buffer in buffers))
            key = (number[i], problem.predecessors[i], problem.successors[i], sizes)
        found.setdefault(key, []).append(i)
    return [tuple(ops) for ops in found.values()]


def _way_numbers(problem: Problem, merged: Merged | None, speeds: Speeds) -> list[int]:
    """Return a number per op, equal for ops that run in the same ways; thousands of ops share a few modes."""
    lanes = lanes_of(problem, merged, speeds)
    known: dict[tuple[int, ...], int] = {}
    number: dict[object, int] = {}
    found = []
    for op in problem.ops:
        modes = tuple(id(mode) for mode in op.modes)
        if modes not in known:
            known[modes] = number.setdefault(ways_of(problem, op, lanes), len(number))
        found.append(known[modes])
    return found
