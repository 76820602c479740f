"""Heads and tails, and the work on each engine, derived a second time from the problem alone: what bounds rest on.

Nothing here is shared with the formulations but the problem. Where nobody slows anybody all numbers are ticks; else
they count a fine part of a tick, and what is divided is rounded down.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hexloom.formulations.problem import slows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom.formulations.problem import Engine, Mode, Problem, Rule

PATHS_ONLY = 4096
"""Above so many ops heads and tails follow paths alone: distances between all pairs are too many."""

TOGETHER = 64
"""Parts that nothing connects are looked at together up to so many ops."""

LARGEST, PARTS = 2**61, 2**10
"""Units times time stay below the one; the other is the power of two of the parts of a tick."""

Column = npt.NDArray[np.int64]

Asked = dict[str, tuple[int, int, int]]
"""What a mode asks of engines or channels: the amount, and the time before and behind it."""


@dataclass(frozen=True)
class Work:
    """What the ops at positions ``ops`` must at least do on an engine or channel.

    ``amount`` is units times time; it begins ``before`` after the op does and ends ``behind`` before its result.
    """

    engine: str
    units: int
    pipe: bool
    ops: Column
    amount: Column
    before: Column
    behind: Column

    def part(self, rows: list[int]) -> Work:
        """Return the work of some of the ops."""
        columns = (self.ops[rows], self.amount[rows], self.before[rows], self.behind[rows])
        return Work(self.engine, self.units, self.pipe, *columns)


@dataclass(frozen=True)
class Windows:
    """No op starts before its ``head``; ``tail`` ticks follow its result; ``shortest`` is its shortest mode."""

    head: Column
    shortest: Column
    tail: Column


class Measure:
    """How time is counted: in ticks, or where ops slow each other in fine parts that also divide by engines' units."""

    def __init__(self, problem: Problem, rule: Rule) -> None:
        self.slowed = slows(rule)
        self.fine = 1
        self._limit = {channel.name: channel.capacity for channel in problem.channels}
        if self.slowed:
            numbers = [1]
            for op in problem.ops:
                for mode in op.modes:
                    numbers += [pull.rate for pull in mode.pulls] + [use.units for use in mode.uses]
            room = LARGEST // (max(numbers) * max(1, problem.horizon_ticks))
            units = math.lcm(*(engine.units for engine in problem.engines if engine.kind != "share"))
            self.fine = units if units <= room else 1
            while 2 * self.fine <= min(room, units * PARTS):
                self.fine *= 2

    def quotient(self, amount: int, units: int) -> int:
        """Return the least time in which ``units`` do ``amount``: in whole ticks, or rounded down."""
        return amount // units if self.slowed else -(-amount // units)

    def alone(self, mode: Mode, ticks: int) -> int:
        """Return the least time for ``ticks`` of work: a channel may be too small even for one op."""
        if not self.slowed:
            return ticks
        longest = Fraction(ticks)
        for pull in mode.pulls:
            longest = max(longest, Fraction(ticks * pull.rate, self._limit[pull.channel]))
        return math.floor(longest * self.fine)

    def shortest(self, mode: Mode) -> int:
        """Return the least time from the start of an op to its result."""
        around = mode.overhead_ticks if mode.dma is None else mode.dma.issue_ticks + mode.dma.poll_ticks
        return around * self.fine + self.alone(mode, mode.latency_ticks)


def all_work(problem: Problem, measure: Measure) -> list[Work]:
    """Return the work on every engine (and channel, where they are shared), over the modes of each op the least."""
    kinds = {engine.name: engine for engine in problem.engines}

    def engines(mode: Mode) -> Asked:
        owner = set() if mode.dma is None else {mode.dma.owner_engine}
        return {name: _ask(mode, kinds[name], measure) for name in {use.engine for use in mode.uses} | owner}

    def channels(mode: Mode) -> Asked:
        return {pull.channel: _bytes(mode, pull.channel, measure.fine) for pull in mode.pulls}

    found = _least(problem, [(e.name, e.units, e.kind == "pipe") for e in problem.engines], engines)
    if measure.slowed:
        found += _least(problem, [(c.name, c.capacity, False) for c in problem.channels], channels)
    return found


def _least(problem: Problem, places: Sequence[tuple[str, int, bool]], ask: Callable[[Mode], Asked]) -> list[Work]:
    """Return who asks for what of each place, whatever its mode."""
    answers: dict[int, Asked] = {}
    columns: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for i, op in enumerate(problem.ops):
        for mode in op.modes:
            if id(mode) not in answers:
                answers[id(mode)] = {name: answer for name, answer in ask(mode).items() if answer[0]}
        ways = [answers[id(mode)] for mode in op.modes]
        for name in ways[0].keys() if len(ways) == 1 else set.intersection(*map(set, ways)):
            amount, before, behind = (min(way[name][part] for way in ways) for part in range(3))
            columns[name].append((i, amount, before, behind))
    return [
        Work(name, units, pipe, *np.array(columns[name], dtype=np.int64).T)
        for name, units, pipe in places
        if name in columns
    ]


def _ask(mode: Mode, engine: Engine, measure: Measure) -> tuple[int, int, int]:
    fine = measure.fine
    for use in mode.uses:
        if use.engine != engine.name or use.ticks == 0:
            continue
        if engine.kind == "share":
            # From the start of the op until its end is known.
            return measure.shortest(mode) * use.units, 0, 0
        held, rest = measure.alone(mode, use.ticks), measure.alone(mode, mode.latency_ticks - use.ticks)
        if mode.dma is None:
            return (mode.overhead_ticks * fine + held) * use.units, 0, rest
        return held * use.units, mode.dma.issue_ticks * fine, rest + mode.dma.poll_ticks * fine
    if mode.dma is not None and mode.dma.owner_engine == engine.name:
        return (mode.dma.issue_ticks + mode.dma.poll_ticks) * fine, 0, 0
    return 0, 0, 0


def _bytes(mode: Mode, channel: str, fine: int) -> tuple[int, int, int]:
    rate = sum(pull.rate for pull in mode.pulls if pull.channel == channel)
    around = (mode.overhead_ticks, 0) if mode.dma is None else (mode.dma.issue_ticks, mode.dma.poll_ticks)
    return rate * mode.latency_ticks * fine, around[0] * fine, around[1] * fine


def windows(problem: Problem, rule: Rule = "none") -> Windows:
    """Return heads and tails in whole ticks, rounded down."""
    measure = Measure(problem, rule)
    found = exact_windows(problem, measure, all_work(problem, measure))
    return Windows(found.head // measure.fine, found.shortest // measure.fine, found.tail // measure.fine)


def exact_windows(problem: Problem, measure: Measure, work: Sequence[Work]) -> Windows:
    """Return heads and tails as ``measure`` counts: by paths, and the work of all before (behind) on each engine."""
    shortest = [min(measure.shortest(m) for m in op.modes) for op in problem.ops]
    head, tail = [0] * len(shortest), [0] * len(shortest)
    # Ancestors are connected with their op, so all is looked at in parts that nothing connects.
    part: list[int] = []
    for k, group in enumerate(problem.components, start=1):
        part += group
        if k < len(problem.components) and len(part) + len(problem.components[k]) <= TOGETHER:
            continue
        inside = set(part)
        mine = [(one, [row for row, i in enumerate(one.ops.tolist()) if i in inside]) for one in work]
        asked = [one.part(rows) for one, rows in mine if rows]
        ahead = [(one, one.before, one.behind) for one in asked]
        _earliest(part, problem.predecessors, shortest, ahead, measure, head)
        back = [(one, one.behind, one.before) for one in asked]
        _earliest(part[::-1], problem.successors, shortest, back, measure, tail)
        part = []
    # The entry delays every op; it comes after the last op of none.
    columns = (np.array(column, dtype=np.int64) for column in (head, shortest, tail))
    first, length, last = columns
    return Windows(first + problem.entry_ticks * measure.fine, length, last)


def _earliest(
    order: Sequence[int],
    behind: Sequence[Sequence[int]],
    shortest: Sequence[int],
    work: Sequence[tuple[Work, Column, Column]],
    measure: Measure,
    earliest: list[int],
) -> None:
    """Fill in ``earliest`` for the ops in ``order``: by paths, and by the ancestors that one engine must serve."""
    n = len(order)
    if n > PATHS_ONLY or not work:
        for i in order:
            earliest[i] = max((earliest[p] + shortest[p] for p in behind[i]), default=0)
        return
    at = {i: k for k, i in enumerate(order)}
    parents = [[at[p] for p in behind[i]] for i in order]
    never = -(2**62)
    # away[k, a]: the longest way from the result of the a-th to the start of the k-th, far below 0 where there is none.
    away = np.full((n, n), never, dtype=np.int64)
    for mine, row in zip(parents, away, strict=True):
        for p in mine:
            np.maximum(row, away[p] + shortest[order[p]], out=row)
            row[p] = max(row[p], 0)
    # Per op and engine: the least time for the work of all ancestors there, and the way from it to the op.
    served: list[list[int]] = []
    ways: list[list[int]] = []
    leads: list[list[tuple[int, int]]] = [[] for _ in order]
    for e, (one, lead, trail) in enumerate(work):
        columns = [at[i] for i in one.ops.tolist()]
        comes = away[:, columns]
        served.append([measure.quotient(amount, one.units) for amount in ((comes >= 0) @ one.amount).tolist()])
        ways.append(np.where(comes >= 0, comes + trail, 2**62).min(axis=1).tolist())
        for k, ticks in zip(columns, lead.tolist(), strict=True):
            leads[k].append((e, ticks))
    # For each op: when each engine is first reached by it or one of its ancestors.
    reached: list[list[int]] = []
    for k, (i, mine) in enumerate(zip(order, parents, strict=True)):
        first = [2**62] * len(work)
        for p in mine:
            first = list(map(min, first, reached[p]))
        if mine:
            start = max(earliest[order[p]] + shortest[order[p]] for p in mine)
            for begun, amounts, rest in zip(first, served, ways, strict=True):
                if amounts[k]:
                    start = max(start, begun + amounts[k] + rest[k])
            earliest[i] = start
        for e, ticks in leads[k]:
            first[e] = min(first[e], earliest[i] + ticks)
        reached.append(first)
