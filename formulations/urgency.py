"""Urgency: when each op must start at the latest if the busiest engine is to work without a break.

The engine's ops are put into a sequence; who must be done before one of them inherits its date. What ends a tile comes
due with a later tile of the sequence, so that its bytes are free again in time.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.problem import Problem

Turns = tuple[int, ...]

MOST_TURNS = 3
"""Up to so many buffers every order of turns is offered; of more, the order of the file and its reverse."""

LEAST_SHARE = 16
"""Buffers of several tiles take turns when they hold at least one part in so many of the scratchpad."""


def turn_orders(problem: Problem) -> list[Turns]:
    """Return orders in which the large buffers that several tiles share could be alive one after the other."""
    if problem.pools:
        return []  # a turn reserves room in the scratchpad, which says nothing of a pool
    least = problem.scratchpad.available_bytes // LEAST_SHARE
    large = [
        b
        for b, buffer in enumerate(problem.buffers)
        if not buffer.resident
        and buffer.part_of is None
        and buffer.occupied_bytes >= max(1, least)
        and len({(problem.ops[problem.op_index[o]].task, problem.ops[problem.op_index[o]].tile) for o in buffer.ops})
        > 1
    ]
    if len(large) < 2:
        return []
    return list(permutations(large)) if len(large) <= MOST_TURNS else [tuple(large), tuple(large[::-1])]


def busiest_engine(problem: Problem, bounds: Bounds) -> str | None:
    """Return the engine of one unit with the most work, the one that the best bound names if it has one unit."""
    single = {engine.name for engine in problem.engines if engine.units == 1}
    if bounds.best.engine in single:
        return bounds.best.engine
    work = dict.fromkeys(single, 0)
    for op in problem.ops:
        for use in op.modes[0].uses:
            if use.engine in single:
                work[use.engine] += use.ticks
    busiest = max(work, key=lambda name: (work[name], name), default=None)
    return busiest if busiest is not None and work[busiest] > 0 else None


def due_priority(problem: Problem, bounds: Bounds, turns: Turns, ahead: int) -> tuple[float, ...]:
    """Return priorities by latest start, for a sequence of the busiest engine by ``turns``.

    What follows an op of the sequence, and the last users of its tile, are due when the op ``ahead`` places later
    starts. Of the ops of one turn the one with the shortest head comes first, the one with the shortest tail last.
    """
    ht = bounds.heads_tails
    shortest = [int(d) for d in ht.duration]
    end = int(bounds.best.ticks)
    latest = [end - int(t) - d for t, d in zip(ht.tail, shortest, strict=True)]
    sequence = _sequence(problem, bounds, turns)
    start: dict[int, int] = {}
    at = end - min((int(ht.tail[i]) for i in sequence), default=0)
    for i in reversed(sequence):
        at = min(at - shortest[i], latest[i])
        start[i] = latest[i] = at
    for k, i in enumerate(sequence):
        if k + ahead < len(sequence):
            due = start[sequence[k + ahead]]
            for s in problem.successors[i]:
                latest[s] = min(latest[s], due - shortest[s])
    for i in reversed(problem.topological_order):
        for s in problem.successors[i]:
            latest[i] = min(latest[i], latest[s] - shortest[i])
    return tuple(-float(t) for t in latest)


def lead(problem: Problem, bounds: Bounds, priority: Sequence[float]) -> tuple[float, ...]:
    """Return ``priority`` with all that the first op of the busiest engine needs put first, by due date."""
    needed = _needed_first(problem, bounds, ())
    due = due_priority(problem, bounds, (), 1)
    first = max(priority) + 1 - min(due)
    return tuple(due[i] + first if i in needed else p for i, p in enumerate(priority))


def head_start(problem: Problem, bounds: Bounds, turns: Turns) -> tuple[tuple[int, int], ...]:
    """Return guards that let the transfers before the first op of the sequence through.

    Transfers issued at one instant are served in the order of the file: those in front of it there wait for its end.
    """
    needed = _needed_first(problem, bounds, turns)
    pipes = [{u.engine for u in op.modes[0].uses if u.ticks > 0} if op.modes[0].dma else set() for op in problem.ops]
    return tuple(
        (first, other)
        for first in sorted(needed)
        for other in range(first)
        if not problem.predecessors[first]
        and not problem.predecessors[other]
        and other not in needed
        and not pipes[first].isdisjoint(pipes[other])
    )


def _needed_first(problem: Problem, bounds: Bounds, turns: Turns) -> set[int]:
    """Return the first op of the sequence and all that it needs; nothing where no engine of one unit works."""
    stack = _sequence(problem, bounds, turns)[:1]
    needed = set(stack)
    while stack:
        for p in problem.predecessors[stack.pop()]:
            if p not in needed:
                needed.add(p)
                stack.append(p)
    return needed


def _sequence(problem: Problem, bounds: Bounds, turns: Turns) -> list[int]:
    """Ops of the busiest engine: by turn, within a turn the shortest head first, then the longest tail first."""
    engine = busiest_engine(problem, bounds)
    place = {b: k for k, b in enumerate(turns)}
    ht = bounds.heads_tails
    by_turn: dict[int, list[int]] = {}
    for i, op in enumerate(problem.ops):
        if any(use.engine == engine and use.ticks > 0 for use in op.modes[0].uses):
            turn = max((place[b] for b in problem.op_buffers[i] if b in place), default=-1)
            by_turn.setdefault(turn, []).append(i)
    found: list[int] = []
    for turn in sorted(by_turn):
        ops = by_turn[turn]
        first = min(ops, key=lambda i: (int(ht.head[i]), -int(ht.tail[i]), i))
        rest = [i for i in ops if i != first]
        found += [first, *sorted(rest, key=lambda i: (-int(ht.tail[i]), int(ht.head[i]), i))]
    return found
