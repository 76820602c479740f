"""Heads, tails and the bounds that need no solver, derived a second time from the problem alone.

Nothing here is shared with the formulations but the problem. Where nobody slows anybody all numbers are ticks; else
they count a fine part of a tick, and what is divided is rounded down.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hexloom.formulations.problem import slows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hexloom.formulations.problem import Buffer, Engine, Mode, Problem, Rule
    from hexloom.optimizer.schedule import BoundRow

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
    found = _windows(problem, measure, all_work(problem, measure))
    return Windows(found.head // measure.fine, found.shortest // measure.fine, found.tail // measure.fine)


def _windows(problem: Problem, measure: Measure, work: Sequence[Work]) -> Windows:
    """Return heads and tails: the longest path, and the work of all ancestors (descendants) on each engine."""
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
    never = -(2**62)
    # away[a, k]: the longest way from the result of the a-th to the start of the k-th, far below 0 where there is none.
    away = np.full((n, n), never, dtype=np.int64)
    for k, i in enumerate(order):
        for p in behind[i]:
            ways = away[:, at[p]] + shortest[p]
            ways[at[p]] = 0
            away[:, k] = np.maximum(away[:, k], ways)
    engines = []
    for one, lead, trail in work:
        rows = [at[i] for i in one.ops.tolist()]
        comes = away[rows]
        amounts = one.amount @ (comes >= 0)
        last = np.where(comes >= 0, comes + trail[:, None], 2**62).min(axis=0)
        leads = dict(zip(rows, lead.tolist(), strict=True))
        engines.append((one.units, amounts.tolist(), last.tolist(), leads))
    # For each engine: when it is first reached by an op or one of its ancestors.
    reached: list[list[int]] = [[2**62] * n for _ in work]
    for k, i in enumerate(order):
        if behind[i]:
            earliest[i] = max(earliest[p] + shortest[p] for p in behind[i])
        for (units, amounts, last, _), first in zip(engines, reached, strict=True):
            if amounts[k]:
                first[k] = min(first[at[p]] for p in behind[i])
                earliest[i] = max(earliest[i], first[k] + measure.quotient(amounts[k], units) + last[k])
        for (_, _, _, leads), first in zip(engines, reached, strict=True):
            if k in leads:
                first[k] = min(first[k], earliest[i] + leads[k])


def check_arithmetic(problem: Problem, rows: Sequence[BoundRow], rule: Rule = "none") -> list[str]:
    """Return a message for every bound that claims more than arithmetic gives.

    Rows named ``configuration`` are not arithmetic: `hexloom.optimizer.certificate.check_certificate` checks them; nor
    is ``search``, which nobody can check without searching.
    """
    claimed = [row for row in rows if row.name not in ("configuration", "search")]
    if not claimed:
        return []
    measure = Measure(problem, rule)
    asked = all_work(problem, measure)
    work = {one.engine: one for one in asked}
    window = _windows(problem, measure, asked)
    entry = problem.entry_ticks * measure.fine
    messages: list[str] = []
    for row in claimed:
        one = work.get(row.engine or "")
        values: Iterator[int]
        if row.name == "critical_path":
            values = iter([_path(problem, window, entry)])
        elif row.name == "scratchpad":
            values = iter([_bytes_in_time(problem, pool, window, work, measure) for pool in _pools(problem)])
        elif row.name == "turns":
            values = chain.from_iterable(
                _one_after_the_other(problem, pool, window, work, measure) for pool in _pools(problem)
            )
        elif row.name not in ("engine_work", "channel_bytes", "heads_tails", "steady_interval"):
            messages.append(f"bound {row.name!r} is not known")
            continue
        elif one is None:
            messages.append(f"bound {row.name!r} names engine {row.engine!r}, on which no op must work")
            continue
        elif row.name == "heads_tails":
            values = _windowed(one, window, measure)
        elif row.name == "steady_interval":
            values = _intervals(problem, one, window, measure)
        else:
            values = iter([entry + measure.quotient(int(one.amount.sum()), one.units)])
        best = 0
        for value in values:
            best = max(best, value)
            if best >= row.ticks * measure.fine:
                break
        if best < row.ticks * measure.fine:
            gives = best if measure.fine == 1 else float(Fraction(best, measure.fine))
            where = f" of {row.engine}" if row.engine is not None else ""
            messages.append(f"bound {row.name!r}{where} claims {row.ticks} ticks, but arithmetic gives {gives}")
    return messages


def _path(problem: Problem, window: Windows, entry: int) -> int:
    end: dict[int, int] = {}
    for i in problem.topological_order:
        start = max((end[p] for p in problem.predecessors[i]), default=entry)
        end[i] = start + int(window.shortest[i])
    return max(end.values())


@dataclass(frozen=True)
class _Lived:
    """A buffer with the least time for which it needs its bytes, and what surrounds that."""

    size: int
    ticks: int
    before: int
    behind: int


def _pools(problem: Problem) -> list[str | None]:
    """Return the names of all places for buffers; the scratchpad has none."""
    return [None, *(pool.name for pool in problem.pools)]


def _lived(
    problem: Problem, pool: str | None, window: Windows, work: Mapping[str, Work], measure: Measure
) -> tuple[int, list[_Lived]]:
    """Return the bytes that are not always taken, and what every buffer that needs some of them needs at least."""
    pad = problem.scratchpad if pool is None else next(one for one in problem.pools if one.name == pool)
    room = pad.available_bytes
    found: list[_Lived] = []
    rank = {i: k for k, i in enumerate(problem.topological_order)}
    for buffer in problem.buffers:
        if buffer.pool != pool:
            continue
        if buffer.always:
            room -= buffer.occupied_bytes
        elif buffer.occupied_bytes and buffer.ops:
            users = list(
                dict.fromkeys(problem.op_index[name] for name in buffer.ops if name not in _shared(problem, buffer))
            )
            if not users:
                continue
            ticks = _span(problem, window, users, rank)
            for one in work.values():
                # From the start of the first user to the end of the last, the engine does all that they ask of it.
                mine = np.isin(one.ops, users)
                if mine.any():
                    busy = measure.quotient(int(one.amount[mine].sum()), one.units)
                    ticks = max(ticks, int(one.before[mine].min()) + busy + int(one.behind[mine].min()))
            before, behind = min(int(window.head[u]) for u in users), min(int(window.tail[u]) for u in users)
            if buffer.from_start:
                before, ticks = 0, max([ticks, *(int(window.head[u]) + int(window.shortest[u]) for u in users)])
            elif buffer.to_end:
                behind, ticks = 0, max([ticks, *(int(window.shortest[u]) + int(window.tail[u]) for u in users)])
            found.append(_Lived(buffer.occupied_bytes, ticks, before, behind))
    return room, found


def _shared(problem: Problem, buffer: Buffer) -> set[str]:
    """Return the op in which ``buffer`` may lie on one that the op reads: there it needs no bytes of its own."""
    old = next((b for b in problem.buffers if b.name == buffer.overwrites), None)
    return set() if old is None else set(old.ops).intersection(buffer.ops)


def _bytes_in_time(
    problem: Problem, pool: str | None, window: Windows, work: Mapping[str, Work], measure: Measure
) -> int:
    """Return what buffers occupy for as long as their users need, over the bytes that are not resident."""
    room, lived = _lived(problem, pool, window, work, measure)
    total = sum(one.size * one.ticks for one in lived)
    if not total or room <= 0:
        return 0
    return min(one.before for one in lived) + min(one.behind for one in lived) + measure.quotient(total, room)


def _one_after_the_other(
    problem: Problem, pool: str | None, window: Windows, work: Mapping[str, Work], measure: Measure
) -> Iterator[int]:
    """For sets of buffers of which no two fit together: all their lives, a head and the tail of another one."""
    room, lived = _lived(problem, pool, window, work, measure)
    large = [one for one in lived if one.size + one.size > room and one.ticks > 0]
    for earliest in {0, *(one.before for one in large)}:
        for latest in {0, *(one.behind for one in large)}:
            chosen = [one for one in large if one.before >= earliest and one.behind >= latest]
            if len(chosen) > 1:
                ends = (a.before + b.behind for a in chosen for b in chosen if a is not b)
                yield sum(one.ticks for one in chosen) + min(ends)


def _span(problem: Problem, window: Windows, users: Sequence[int], rank: Mapping[int, int]) -> int:
    """Longest path from the start of a user to the end of one, found backwards from the ends."""
    floor = min(rank[u] for u in users)
    needed, stack = set(users), list(users)
    while stack:
        for p in problem.predecessors[stack.pop()]:
            if rank[p] >= floor and p not in needed:
                needed.add(p)
                stack.append(p)
    reach: dict[int, int] = {}
    for i in sorted(needed, key=rank.__getitem__):
        before = [reach[p] for p in problem.predecessors[i] if p in reach]
        if i in users or before:
            reach[i] = int(window.shortest[i]) + max(before, default=0)
    return max(reach[u] for u in users)


def _windowed(one: Work, window: Windows, measure: Measure) -> Iterator[int]:
    """For every pair (a, b): a, the work of the ops that cannot begin before a nor end later than b before, b."""
    head, tail = window.head[one.ops] + one.before, window.tail[one.ops] + one.behind
    descending = np.argsort(-tail, kind="stable")
    for a in sorted(set(head.tolist())):  # not np.unique, which loads masked arrays: a tenth of a check
        inside = descending[head[descending] >= a]
        total = np.cumsum(one.amount[inside])
        work = total // one.units if measure.slowed else -(-total // one.units)
        yield int((a + work + tail[inside]).max())


def _intervals(problem: Problem, one: Work, window: Windows, measure: Measure) -> Iterator[int]:
    """For every task: its first head, all its work, its last tail."""
    of_task: dict[str, list[int]] = defaultdict(list)
    for k, i in enumerate(one.ops):
        of_task[problem.ops[i].task].append(k)
    for members in of_task.values():
        ops = one.ops[members]
        first = int((window.head[ops] + one.before[members]).min())
        last = int((window.tail[ops] + one.behind[members]).min())
        yield first + measure.quotient(int(one.amount[members].sum()), one.units) + last
