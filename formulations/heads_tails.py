"""Heads and tails of ops: how long before its start, and after its end, a schedule must last.

The head of an op is a lower bound on its start in any schedule, its tail one on the time from its end (when its
result can be used) to the makespan. Both count the longest path *and* the work that an op's ancestors bring to each
engine and channel: before the first matrix job of a matmul can start, all its activations must have passed the one
DMA pipe. Where ops slow each other times are no whole ticks, so all is computed in a fine part of a tick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from hexloom.formulations.problem import slows
from hexloom.formulations.ticks import whole

if TYPE_CHECKING:
    from hexloom.formulations.problem import Engine, Mode, Problem, Rule

Ints = npt.NDArray[np.int64]

DENSE_LIMIT = 4096
"""Above this many ops only paths are followed: the closure of the precedence takes n^2 numbers."""

BATCH_OPS = 64
"""Groups of connected ops are looked at together while they have no more ops than that."""

MOST_NUMBERS = 2**20
"""So many distances are looked at at once."""

FAR = np.int64(2**62)

FINEST = 2**10
"""Where ops slow each other, parts of a tick are so small if the numbers stay exact."""

WINDOW_LIMIT = 64
"""At most so many heads or deadlines are tried per engine."""

MOST_ENERGY = 2**61
"""Units times parts of ticks of all ops stay below this: sums are taken in 64 bits."""


class Grid:
    """The parts of a tick in which bounds are computed: one where times are whole, else many.

    Parameters
    ----------
    problem, rule
        What runs, and how channels are shared. Under rules that slow nobody all times are whole ticks.
    """

    def __init__(self, problem: Problem, rule: Rule) -> None:
        self.shared = slows(rule)
        self.scale = 1
        if not self.shared:
            return
        self._capacity = {channel.name: channel.capacity for channel in problem.channels}
        widest = max([1, *(pull.rate for op in problem.ops for mode in op.modes for pull in mode.pulls)])
        widest = max([widest, *(use.units for op in problem.ops for mode in op.modes for use in mode.uses)])
        most = MOST_ENERGY // max(1, widest * problem.horizon_ticks)
        units = lcm(*(engine.units for engine in problem.engines if engine.kind != "share"))
        self.scale = units if units <= most else 1
        while self.scale * 2 <= min(most, units * FINEST):
            self.scale *= 2

    def served(self, energy: int, units: int) -> int:
        """Return how long ``units`` take for ``energy``: up to the next tick where times are whole."""
        return energy // units if self.shared else -(-energy // units)

    def ticks(self, parts: int) -> int | Fraction:
        """Return a time in ticks."""
        return parts if self.scale == 1 else whole(Fraction(parts, self.scale))

    def work(self, mode: Mode, ticks: int) -> int:
        """Return how long ``ticks`` of work take at the speed of an op that is alone."""
        if not self.shared:
            return ticks
        slow = max([Fraction(1), *(Fraction(pull.rate, self._capacity[pull.channel]) for pull in mode.pulls)])
        return int(ticks * self.scale * slow)

    def duration(self, mode: Mode) -> int:
        """Return the shortest time from start to a result that others can use."""
        if mode.dma is None:
            return mode.overhead_ticks * self.scale + self.work(mode, mode.latency_ticks)
        return (mode.dma.issue_ticks + mode.dma.poll_ticks) * self.scale + self.work(mode, mode.latency_ticks)


@dataclass(frozen=True)
class Demand:
    """The least that ops ask of one engine or channel, in parts of ticks.

    ``ops`` are their positions; ``energy`` is units times time, the smallest over the modes; the work starts at least
    ``lead`` after the op and ends at least ``trail`` before its result. ``name`` and ``kind`` are those of the engine.
    """

    name: str
    kind: Literal["worker", "resource", "share", "pipe", "channel"]
    units: int
    ops: Ints
    energy: Ints
    lead: Ints
    trail: Ints


Part = tuple[int, int, int]
"""Energy, time from the op's start to it, time from its end to the result."""


def engine_demands(problem: Problem, grid: Grid) -> list[Demand]:
    """Return what each engine, and where they are shared each channel, must serve: what no mode of an op avoids."""
    engines = {engine.name: engine for engine in problem.engines}
    # Tiles of a stage share their modes: each is asked once.
    modes = {id(mode): mode for op in problem.ops for mode in op.modes}
    found: list[Demand] = []
    rows = _rows(problem, {key: _on_engines(mode, engines, grid) for key, mode in modes.items()})
    found += [Demand(e.name, e.kind, e.units, *_columns(rows[e.name])) for e in problem.engines if e.name in rows]
    if grid.shared:
        rows = _rows(problem, {key: _on_channels(mode, grid) for key, mode in modes.items()})
        found += [
            Demand(c.name, "channel", c.capacity, *_columns(rows[c.name])) for c in problem.channels if c.name in rows
        ]
    return found


def _rows(problem: Problem, asked: dict[int, dict[str, Part]]) -> dict[str, list[tuple[int, int, int, int]]]:
    """Return by name who asks for what in all of its modes: the op, and the least of each part."""
    rows: dict[str, list[tuple[int, int, int, int]]] = {}
    for i, op in enumerate(problem.ops):
        first, *others = (asked[id(mode)] for mode in op.modes)
        for name, part in first.items():
            if all(name in other for other in others):
                least = tuple(map(min, part, *(other[name] for other in others))) if others else part
                rows.setdefault(name, []).append((i, *least))
    return rows


def _columns(rows: list[tuple[int, int, int, int]]) -> tuple[Ints, Ints, Ints, Ints]:
    ops, energy, lead, trail = np.array(rows, dtype=np.int64).T.copy()
    return ops, energy, lead, trail


def _on_engines(mode: Mode, engines: dict[str, Engine], grid: Grid) -> dict[str, Part]:
    """Return what a mode asks of engines, by name; a share is held for the whole life of the op."""
    dma = mode.dma
    found: dict[str, Part] = {}
    for use in mode.uses:
        if use.ticks == 0 or use.engine in found:
            continue
        if engines[use.engine].kind == "share":
            found[use.engine] = use.units * grid.duration(mode), 0, 0
            continue
        held, rest = grid.work(mode, use.ticks), grid.work(mode, mode.latency_ticks - use.ticks)
        if dma is None:
            found[use.engine] = use.units * (mode.overhead_ticks * grid.scale + held), 0, rest
        else:
            found[use.engine] = use.units * held, dma.issue_ticks * grid.scale, rest + dma.poll_ticks * grid.scale
    if dma is not None:
        found.setdefault(dma.owner_engine, ((dma.issue_ticks + dma.poll_ticks) * grid.scale, 0, 0))
    return {name: part for name, part in found.items() if part[0] > 0}


def _on_channels(mode: Mode, grid: Grid) -> dict[str, Part]:
    before, behind = (mode.overhead_ticks, 0) if mode.dma is None else (mode.dma.issue_ticks, mode.dma.poll_ticks)
    work = mode.latency_ticks * grid.scale
    return {p.channel: (p.rate * work, before * grid.scale, behind * grid.scale) for p in mode.pulls if p.rate * work}


@dataclass(frozen=True)
class HeadsTails:
    """Lower bounds per op: start, shortest duration, and time from its result to the end; in ticks, or finer."""

    head: Ints
    duration: Ints
    tail: Ints

    def in_ticks(self, grid: Grid) -> HeadsTails:
        """Return the same in whole ticks, rounded down."""
        if grid.scale == 1:
            return self
        return HeadsTails(self.head // grid.scale, self.duration // grid.scale, self.tail // grid.scale)


def heads_and_tails(problem: Problem, demands: list[Demand], grid: Grid) -> HeadsTails:
    """Return heads and tails of all ops of ``problem`` in parts of ticks."""
    n = len(problem.ops)
    duration = np.array([min(grid.duration(m) for m in op.modes) for op in problem.ops], dtype=np.int64)
    head = np.full(n, problem.entry_ticks * grid.scale, dtype=np.int64)
    tail = np.zeros(n, dtype=np.int64)
    batches = _batches(problem.components)
    group = np.zeros(n, dtype=np.int64)
    for k, ops in enumerate(batches):
        group[ops] = k
    for ops, mine in zip(batches, _by_group(demands, group, len(batches)), strict=True):
        _heads(ops, problem.predecessors, duration, mine, head, grid)
        mirrored = [replace(d, lead=d.trail, trail=d.lead) for d in mine]
        _heads(ops[::-1], problem.successors, duration, mirrored, tail, grid)
    return HeadsTails(head, duration, tail)


def _batches(components: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    """Return all ops in topological order, cut between components: each batch costs calls, and its square."""
    found: list[list[int]] = [[]]
    for ops in components:
        if found[-1] and len(found[-1]) + len(ops) > BATCH_OPS:
            found.append([])
        found[-1] += ops
    return found


def _by_group(demands: list[Demand], group: Ints, groups: int) -> list[list[Demand]]:
    """Return for each group of ops what they ask: what is not connected is neither before nor behind."""
    if groups == 1:
        return [demands]
    found: list[list[Demand]] = [[] for _ in range(groups)]
    for d in demands:
        of = group[d.ops]
        order = np.argsort(of, kind="stable")
        starts = np.flatnonzero(np.diff(of[order], prepend=-1))
        for rows in np.split(order, starts[1:]):
            mine = replace(d, ops=d.ops[rows], energy=d.energy[rows], lead=d.lead[rows], trail=d.trail[rows])
            found[int(of[rows[0]])].append(mine)
    return found


def _heads(
    order: list[int],
    before: tuple[tuple[int, ...], ...],
    duration: Ints,
    demands: list[Demand],
    head: Ints,
    grid: Grid,
) -> None:
    """Raise ``head`` of the ops in ``order``: by paths, and by what their ancestors ask of one engine.

    An op starts after the first of its ancestors on an engine has reached it, then all their work there, and what at
    least follows the work of one of them.
    """
    place = {i: k for k, i in enumerate(order)}
    parents = [[place[p] for p in before[i]] for i in order]
    lasts: list[int] = duration[order].tolist()
    starts: list[int] = head[order].tolist()
    busy: list[list[int]] = []
    behind: list[list[int]] = []
    leads: list[list[tuple[int, int]]] = [[] for _ in order]
    if len(order) <= DENSE_LIMIT and demands:
        busy, behind = _asked_before(place, parents, lasts, demands, grid)
        for d, demand in enumerate(demands):
            for i, lead in zip(demand.ops.tolist(), demand.lead.tolist(), strict=True):
                leads[place[i]].append((d, lead))
    # reached[k][d]: when work on engine d begins at the earliest, of op k and its ancestors.
    reached: list[list[int]] = []
    for k, mine in enumerate(parents):
        start = max((starts[p] + lasts[p] for p in mine), default=starts[k])
        first = [int(FAR)] * len(demands)
        for p in mine if busy else ():
            first = list(map(min, first, reached[p]))
        if mine and busy:
            for at, work, rest in zip(first, busy[k], behind[k], strict=True):
                if work and at + work + rest > start:
                    start = at + work + rest
        starts[k] = start = max(start, starts[k])
        for d, lead in leads[k]:
            first[d] = min(first[d], start + lead)
        reached.append(first)
    head[order] = starts


def _asked_before(
    place: dict[int, int], parents: list[list[int]], lasts: list[int], demands: list[Demand], grid: Grid
) -> tuple[list[list[int]], list[list[int]]]:
    """Return per op and engine how long it serves the op's ancestors, and the least time from that to the op."""
    n = len(parents)
    # after[k, a]: longest path from the end of ancestor a to the start of op k; below 0 where a is no ancestor of k.
    after = np.full((n, n), -FAR, dtype=np.int64)
    for k, mine in enumerate(parents):
        row = after[k]
        for p in mine:
            np.maximum(row, after[p] + lasts[p], out=row)
            if row[p] < 0:
                row[p] = 0
    # All demands one behind the other: of each op all are summed up at once, which is what most of the time goes to.
    ops, energy, trail = (np.concatenate([getattr(d, name) for d in demands]) for name in ("ops", "energy", "trail"))
    first_of = np.cumsum([0, *(len(d.ops) for d in demands)])[:-1]
    columns = np.array([place[i] for i in ops.tolist()], dtype=np.int64)
    units = np.array([d.units for d in demands], dtype=np.int64)
    busy: list[list[int]] = []
    behind: list[list[int]] = []
    step = max(1, MOST_NUMBERS // len(columns))
    for at in range(0, n, step):
        reach = after[at : at + step, columns]
        before = reach >= 0
        work = np.add.reduceat(np.where(before, energy, 0), first_of, axis=1)
        busy += (work // units if grid.shared else -(-work // units)).tolist()
        behind += np.minimum.reduceat(np.where(before, reach + trail, FAR), first_of, axis=1).tolist()
    return busy, behind


def few_values(values: Ints) -> Ints:
    """Return the distinct values, or `WINDOW_LIMIT` of them evenly chosen: windows cost their square."""
    distinct = np.array(sorted(set(values.tolist())), dtype=np.int64)
    if len(distinct) <= WINDOW_LIMIT:
        return distinct
    kept: Ints = distinct[np.linspace(0, len(distinct) - 1, WINDOW_LIMIT).astype(int)]
    return kept
