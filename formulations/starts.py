"""Where a search begins: policies worth a list schedule of their own, and what may hold a task back."""

from __future__ import annotations

from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING

from hexloom.formulations.greedy import Policy
from hexloom.formulations.urgency import due_priority, head_start, turn_orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.critical import Guards
    from hexloom.formulations.problem import Problem

GATES_PER_STAGE = 4
"""A task is held back until tile 0, 1/4, 1/2, 3/4 or the last of some stage of another one is done."""

CAPS = (4.0, 5.0, 3.0, 6.0, 2.0, None)
"""How many times a channel the transfers may demand that are under way together: the first is right most often."""

DEPTHS = (1, 2, 3, 4)
"""Tiles of a task that may hold bytes at a time, tried where the scratchpad is tight."""

DUE_DEPTHS = (6, 4, 3, 2)
"""Tiles of a task that may hold bytes at a time, the depths that most often pay first."""

AHEAD = (2, 3, 1)
"""How many jobs later the end of a tile comes due."""


def due_policies(problem: Problem, bounds: Bounds, modes: tuple[int, ...]) -> Iterator[Policy]:
    """Yield policies that keep the busiest engine fed, those that differ most first.

    They are meant for ops that form tiles: without buffers that several tiles share, and without any engine of one
    unit, there is nothing that they know better than longest tails.
    """
    orders = [*turn_orders(problem), ()]
    fitting = _tiles_that_fit(problem, orders[0])
    depths = sorted(DUE_DEPTHS, key=lambda depth: (abs(depth - fitting), -depth))
    priorities = cache(partial(due_priority, problem, bounds))
    head_starts = cache(partial(head_start, problem, bounds))
    for ahead, depth, foresight, turns in product(AHEAD, depths, (True, False), orders):
        priority, guards = priorities(turns, ahead), head_starts(turns)
        yield Policy(priority, modes, guards, careful=True, depth=depth, turns=turns, foresight=foresight, reserve=True)


def _tiles_that_fit(problem: Problem, turns: tuple[int, ...]) -> int:
    """Return how many of the hungriest tiles, rounded up, find room beside the largest buffer that takes turns."""
    largest = max((problem.buffers[b].occupied_bytes for b in turns), default=0)
    hungriest = max(
        (
            sum(problem.buffers[b].occupied_bytes for b in of if b not in turns and problem.buffers[b].pool is None)
            for of in problem.op_buffers
        ),
        default=0,
    )
    return -(-(problem.scratchpad.available_bytes - largest) // max(1, hungriest))


def ring_policy(problem: Problem, bounds: Bounds, modes: tuple[int, ...], turns: tuple[int, ...]) -> Policy:
    """Return the policy that is tried with rings of different sizes; slots take the place of its care for bytes."""
    return Policy(
        due_priority(problem, bounds, turns, AHEAD[0]),
        modes,
        head_start(problem, bounds, turns),
        turns=turns,
        foresight=True,
        reserve=True,
    )


def keep_apart(problem: Problem) -> Guards:
    """Order the tasks whose hungriest ops do not fit into the scratchpad together: the one in the file first."""
    hungriest: dict[str, int] = {}
    sources: dict[str, list[int]] = {}
    sinks: dict[str, list[int]] = {}
    for i, op in enumerate(problem.ops):
        mine = [problem.buffers[b] for b in problem.op_buffers[i]]
        need = sum(buffer.occupied_bytes for buffer in mine if buffer.pool is None)
        hungriest[op.task] = max(hungriest.get(op.task, 0), need)
        if not problem.predecessors[i]:
            sources.setdefault(op.task, []).append(i)
        if not problem.successors[i]:
            sinks.setdefault(op.task, []).append(i)
    guards: list[tuple[int, int]] = []
    earlier: list[str] = []
    for task, need in hungriest.items():
        rival = next((t for t in reversed(earlier) if need + hungriest[t] > problem.scratchpad.available_bytes), None)
        if rival is not None and need:
            guards += [(a, b) for a in sinks.get(rival, ()) for b in sources.get(task, ())]
        earlier.append(task)
    return tuple(guards)


def task_gates(problem: Problem) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """For each task its ops without predecessors, and the last op of some tiles of each stage."""
    sources: dict[str, list[int]] = {}
    last: dict[tuple[str, str], dict[int, int]] = {}
    for i, op in enumerate(problem.ops):
        if not problem.predecessors[i]:
            sources.setdefault(op.task, []).append(i)
        last.setdefault((op.task, op.stage), {})[op.tile] = i
    gates: dict[str, list[int]] = {}
    for (task, _), tiles in last.items():
        order = sorted(tiles)
        picked = {order[(len(order) - 1) * q // GATES_PER_STAGE] for q in range(GATES_PER_STAGE + 1)}
        gates.setdefault(task, []).extend(tiles[tile] for tile in sorted(picked))
    return sources, gates
