"""Heads and tails of ops: how long before its start, and after its end, a schedule must last.

The head of an op is a lower bound on its start in any schedule, its tail one on the time from its end (when its
result can be used) to the makespan. Both count the longest path *and* the work that an op's ancestors bring to each
engine and channel: before the first matrix job of a matmul can start, all its activations must have passed the one
DMA pipe. Where ops slow each other times are no whole ticks, so all is computed in a fine part of a tick.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import lcm
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from hexloom.formulations.problem import slows
from hexloom.formulations.ticks import whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.problem import Engine, Mode, Problem, Rule

Ints = npt.NDArray[np.int64]

DENSE_LIMIT = 4096
"""Above this many ops only paths are followed: the closure of the precedence takes n^2 numbers."""

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
    found: list[Demand] = []
    for engine in problem.engines:
        rows = _rows(problem, partial(_on_engine, engine=engine, grid=grid))
        if rows:
            found.append(Demand(engine.name, engine.kind, engine.units, *rows))
    for channel in problem.channels if grid.shared else ():
        rows = _rows(problem, partial(_on_channel, channel=channel.name, grid=grid))
        if rows:
            found.append(Demand(channel.name, "channel", channel.capacity, *rows))
    return found


def _rows(problem: Problem, ask: Callable[[Mode], Part]) -> tuple[Ints, Ints, Ints, Ints] | None:
    rows = []
    # Tiles of a stage share their modes: each is asked once.
    known = {id(mode): mode for op in problem.ops for mode in op.modes}
    asked = {key: ask(mode) for key, mode in known.items()}
    for i, op in enumerate(problem.ops):
        parts = [asked[id(mode)] for mode in op.modes]
        energy = min(p[0] for p in parts)
        if energy > 0:
            rows.append((i, energy, min(p[1] for p in parts), min(p[2] for p in parts)))
    if not rows:
        return None
    ops, energies, lead, trail = (np.array(c, dtype=np.int64) for c in zip(*rows, strict=True))
    return ops, energies, lead, trail


def _on_engine(mode: Mode, engine: Engine, grid: Grid) -> Part:
    """Return what a mode asks of an engine; a share is held for the whole life of the op."""
    dma = mode.dma
    for use in mode.uses:
        if use.engine == engine.name and use.ticks > 0:
            if engine.kind == "share":
                return use.units * grid.duration(mode), 0, 0
            held, rest = grid.work(mode, use.ticks), grid.work(mode, mode.latency_ticks - use.ticks)
            if dma is None:
                return use.units * (mode.overhead_ticks * grid.scale + held), 0, rest
            return use.units * held, dma.issue_ticks * grid.scale, rest + dma.poll_ticks * grid.scale
    if dma is not None and dma.owner_engine == engine.name:
        return (dma.issue_ticks + dma.poll_ticks) * grid.scale, 0, 0
    return 0, 0, 0


def _on_channel(mode: Mode, channel: str, grid: Grid) -> Part:
    rate = next((pull.rate for pull in mode.pulls if pull.channel == channel), 0)
    before, behind = (mode.overhead_ticks, 0) if mode.dma is None else (mode.dma.issue_ticks, mode.dma.poll_ticks)
    return rate * mode.latency_ticks * grid.scale, before * grid.scale, behind * grid.scale


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
    group = np.zeros(n, dtype=np.int64)
    for k, ops in enumerate(problem.components):
        group[list(ops)] = k
    parts = _by_group(demands, group, len(problem.components))
    for ops, mine in zip(problem.components, parts, strict=True):
        mirrored = [replace(d, lead=d.trail, trail=d.lead) for d in mine]
        _heads(ops, problem.predecessors, duration, mine, head, grid)
        _heads(ops[::-1], problem.successors, duration, mirrored, tail, grid)
    return HeadsTails(head, duration, tail)


def _by_group(demands: list[Demand], group: Ints, groups: int) -> list[list[Demand]]:
    """Return for each group of ops what they ask: what is not connected is neither before nor behind."""
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
    order: tuple[int, ...],
    before: tuple[tuple[int, ...], ...],
    duration: Ints,
    demands: list[Demand],
    head: Ints,
    grid: Grid,
) -> None:
    """Raise ``head`` of the ops in ``order``: by paths, and by what their ancestors ask of one engine."""
    n = len(order)
    if n > DENSE_LIMIT:
        for i in order:
            for p in before[i]:
                head[i] = max(head[i], head[p] + duration[p])
        return
    place = {i: k for k, i in enumerate(order)}
    # All demands one behind the other: of each op all are summed up at once, which is what most of the time goes to.
    ops, energies, lead, trail = (
        np.concatenate([getattr(d, name) for d in demands]) if demands else np.zeros(0, dtype=np.int64)
        for name in ("ops", "energy", "lead", "trail")
    )
    first_of = np.cumsum([0, *(len(d.ops) for d in demands)])[:-1]
    columns = np.array([place[int(i)] for i in ops], dtype=np.int64)
    # after[k, a]: longest path from the end of ancestor a to the start of op k; -1 where a is no ancestor of k.
    after = np.full((n, n), -1, dtype=np.int64)
    for k, i in enumerate(order):
        row = after[k]
        for p in before[i]:
            head[i] = max(head[i], head[p] + duration[p])
            through = after[place[p]]
            np.maximum(row, np.where(through >= 0, through + duration[p], -1), out=row)
            row[place[p]] = max(row[place[p]], 0)
        if len(before[i]) == 0 or len(demands) == 0:
            continue
        reach = row[columns]
        mine = reach >= 0
        energy = np.add.reduceat(np.where(mine, energies, 0), first_of)
        first = np.minimum.reduceat(np.where(mine, head[ops] + lead, FAR), first_of)
        last = np.minimum.reduceat(np.where(mine, reach + trail, FAR), first_of)
        for d in np.flatnonzero(energy).tolist():
            busy = grid.served(int(energy[d]), demands[d].units)
            head[i] = max(head[i], int(first[d]) + busy + int(last[d]))


def few_values(values: Ints) -> Ints:
    """Return the distinct values, or `WINDOW_LIMIT` of them evenly chosen: windows cost their square."""
    distinct = np.unique(values)
    if len(distinct) <= WINDOW_LIMIT:
        return distinct
    kept: Ints = distinct[np.linspace(0, len(distinct) - 1, WINDOW_LIMIT).astype(int)]
    return kept
