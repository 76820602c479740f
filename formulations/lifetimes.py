"""How long buffers must at least live, and what follows for the makespan when the scratchpad is small.

A buffer lives from the start of its first user to the end of its last. In between lies the longest path among its
users, and all the work that they bring to any one engine: the activations of a matmul stay while the one matrix
engine works off every job that reads them. One that is there from the start also lives for the head of every user,
one that stays to the end for the tail of every user.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from hexloom.formulations.bound import Bound
from hexloom.formulations.memory import Pool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from hexloom.formulations.heads_tails import Demand, Grid, HeadsTails
    from hexloom.formulations.problem import Problem

LIFE_STEPS = 500_000
"""Ops visited to find how long buffers must live; the buffers left after that count only their longest op."""

MOST_RIVALS = 24
"""Of more buffers that take turns only all together are looked at, not those with late heads or long tails alone."""


@dataclass(frozen=True, slots=True)
class Life:
    """Buffer ``buffer`` lives ``length`` or more, not before ``head``, and ``tail`` or more follows: parts of ticks."""

    buffer: int
    size_bytes: int
    length: int
    head: int
    tail: int


def least_lives(problem: Problem, demands: Sequence[Demand], ht: HeadsTails, grid: Grid) -> list[Life]:
    """Return the least life of every buffer that takes bytes for a part of the schedule."""
    place = {i: k for k, i in enumerate(problem.topological_order)}
    row = [{int(i): k for k, i in enumerate(demand.ops)} for demand in demands]
    found: list[Life] = []
    steps = 0
    for b, buffer in enumerate(problem.buffers):
        mine = problem.needed_by[b]
        if buffer.always or not mine or not buffer.occupied_bytes:
            continue
        length, visited = _longest_path(problem, ht, mine, place, LIFE_STEPS - steps)
        steps += visited
        for demand, at in zip(demands, row, strict=True):
            ks = np.array([at[i] for i in mine if i in at], dtype=np.int64)
            if len(ks):
                work = grid.served(int(demand.energy[ks].sum()), demand.units)
                length = max(length, int(demand.lead[ks].min()) + work + int(demand.trail[ks].min()))
        head, tail = min(int(ht.head[u]) for u in mine), min(int(ht.tail[u]) for u in mine)
        if buffer.from_start:
            length, head = max(length, *(int(ht.head[u] + ht.duration[u]) for u in mine)), 0
        elif buffer.to_end:
            length, tail = max(length, *(int(ht.duration[u] + ht.tail[u]) for u in mine)), 0
        found.append(Life(b, buffer.occupied_bytes, length, head, tail))
    return found


def _room(problem: Problem) -> int:
    return problem.scratchpad.available_bytes - sum(b.occupied_bytes for b in problem.buffers if b.always)


def scratchpad_time(problem: Problem, lives: Sequence[Life], grid: Grid) -> Bound | None:
    """All bytes, each for as long as it must live: first head + sum size x life / room + last tail."""
    room = _room(problem)
    area = sum(life.size_bytes * life.length for life in lives)
    if not area or room <= 0:
        return None
    head, load, tail = min(life.head for life in lives), grid.served(area, room), min(life.tail for life in lives)
    parts = (problem.in_words(grid.ticks(part)) for part in (head, load, tail))
    place = f"{problem.scratchpad.label} of {room:,} B"
    detail = "{}: head {} + bytes x time {} + tail {}".format(place, *parts)
    return Bound("scratchpad", grid.ticks(head + load + tail), None, detail, grid.ticks(load))


def scratchpad_turns(problem: Problem, lives: Sequence[Life], grid: Grid) -> Bound | None:
    """Buffers of more than half of the room live one after the other: head of one + all lives + tail of another.

    Holds for any set S of two or more of them: makespan >= sum of lives + min over i != j in S of head i + tail j.
    """
    room = _room(problem)
    # What lives for no time may share an instant with another one.
    rivals = [life for life in lives if life.size_bytes * 2 > room and life.length > 0]
    if len(rivals) < 2:
        return None
    marks = [(0, 0)]
    if len(rivals) <= MOST_RIVALS:
        marks = [(head, tail) for head in {r.head for r in rivals} for tail in {r.tail for r in rivals}]
    best: tuple[int, int, int, tuple[Life, Life]] | None = None
    for a, b in marks:
        inside = [r for r in rivals if r.head >= a and r.tail >= b]
        if len(inside) < 2:
            continue
        load = sum(r.length for r in inside)
        ends = min(permutations(inside, 2), key=lambda pair: pair[0].head + pair[1].tail)
        value = ends[0].head + load + ends[1].tail
        if best is None or value > best[0]:
            best = value, load, len(inside), ends
    if best is None:
        return None
    value, load, count, (first, last) = best
    parts = (problem.in_words(grid.ticks(part)) for part in (first.head, load, last.tail))
    place = f"{room:,} B of {problem.scratchpad.label}" if isinstance(problem.scratchpad, Pool) else f"{room:,} B"
    detail = "{} buffers, no two fit into {}: head {} + lives {} + tail {}".format(count, place, *parts)
    return Bound("turns", grid.ticks(value), None, detail, grid.ticks(load))


def _longest_path(
    problem: Problem, ht: HeadsTails, users: AbstractSet[int], place: dict[int, int], steps: int
) -> tuple[int, int]:
    """Return the longest path from the start of one of ``users`` to the end of one, and how many ops it visited."""
    last = max(place[u] for u in users)
    # Longest way from the start of any user to the start of an op, for ops in topological order.
    away = dict.fromkeys(users, 0)
    waiting = sorted((place[u], u) for u in users)
    life = visited = 0
    while waiting:
        _, i = heapq.heappop(waiting)
        visited += 1
        end = away[i] + int(ht.duration[i])
        if i in users:
            life = max(life, end)
        if visited > steps:
            continue
        for after in problem.successors[i]:
            if place[after] > last:
                continue
            if after not in away:
                heapq.heappush(waiting, (place[after], after))
            away[after] = max(away.get(after, 0), end)
    return life, visited
