"""Prices of work: how long what is left takes at least, whoever works beside whom.

The configuration LP of a state: the sets S of op parts that may go on together (engines, units, precedence) are its
columns, with the speed of every part in S; ``min sum y_S`` so that every part gets done. Its dual are prices p >= 0 of
a tick of work of each part with ``sum of p_i x_i(S) <= 1`` for all S: then ``sum of p_i left_i`` is a lower bound on
the time left, in every state and not only in the one they were found for. So a few of them are kept.

States differ in what is left only, the right side. So the dual simplex method goes on where it stopped, and may stop
at any time: prices are made valid by dividing them by what the dearest set costs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hexloom.formulations.events.state import ARRIVED, FLYING, FRESH, OVER, POLLING, QUEUED, RUNNING
from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.formulations.events.tables import Tables, Way
    from hexloom.formulations.events.working import Course, WorkingState
    from hexloom.formulations.speeds import Speeds

Floats = npt.NDArray[np.float64]

MOST_SETS = 4_000
"""Above so many sets there are no prices."""

MOST_PIVOTS = 40
"""Per state."""

AFRESH = 64
"""After so many pivots the basis is inverted afresh."""

KEPT = 12
"""So many price vectors are kept."""

EPS = 1e-9

SMALLEST_PIVOT = 1e-7

STAGES = {"prepare": 0, "work": 1, "poll": 2}
"""Issue and overhead come first, then the work, then the poll."""


class Part(NamedTuple):
    """A stretch of an op, ``low`` to ``high`` of one of its stages; ``scale`` turns ticks into what the row counts."""

    op: int
    mode: int
    row: int
    stage: int
    low: float
    high: float
    scale: float
    load: int
    lanes: int
    takes: tuple[tuple[int, int], ...]


class Prices:
    """Lower bounds from prices; without sets (`usable` is false) there are none."""

    def __init__(self, tables: Tables, courses: Sequence[Sequence[Course | None]], speeds: Speeds) -> None:
        self._n = tables.n
        self._rooms = _rooms(tables)
        self._parts: list[Part] = []
        self._whole: list[float] = []
        for i in range(tables.n):
            self._add_parts(tables, i, courses[i])
        self._of: list[list[Part]] = [[part for part in self._parts if part.op == i] for i in range(tables.n)]
        self._rates = self._speeds_of_sets(_ordered(tables), speeds)
        self.usable = self._rates is not None and bool(self._whole)
        self._kept: list[list[float]] = []
        if self._rates is not None and self.usable:
            rows = len(self._whole)
            self._columns = np.hstack([self._rates.T, -np.eye(rows)])
            self._cost = np.concatenate([np.ones(len(self._rates)), np.zeros(rows)])
            self._basis: list[int] = []
            self._inverse: Floats = np.eye(0)
            self._begin_anew()
            self._pivots = 0

    def _add_parts(self, tables: Tables, i: int, courses: Sequence[Course | None]) -> None:
        found = [
            (m, list(_stretches(tables, way, course)))
            for m, (way, course) in enumerate(zip(tables.ways[i], courses, strict=True))
            if way is not None and course is not None
        ]
        if len(found) == 1:
            m, stretches = found[0]
            for stage, low, high, load, lanes, takes in stretches:
                self._parts.append(Part(i, m, len(self._whole), stage, low, high, 1.0, load, lanes, takes))
                self._whole.append(high - low)
            return
        # Of several modes only the work counts, and each does its fraction of the whole.
        works = [(m, [one for one in stretches if one[0] == STAGES["work"]]) for m, stretches in found]
        if works and all(stretches for _, stretches in works):
            for m, stretches in works:
                _, _, high, load, lanes, takes = stretches[-1]
                part = Part(i, m, len(self._whole), STAGES["work"], 0.0, high, 1 / high, load, lanes, takes)
                self._parts.append(part)
            self._whole.append(1.0)

    def _speeds_of_sets(self, ordered: list[int], speeds: Speeds) -> Floats | None:
        """Return per set what it does of every row in a tick."""
        found: list[Floats] = []
        for chosen in self._sets(ordered):
            if len(found) == MOST_SETS:
                return None
            sharing = [part for part in chosen if part.load != NOT_SHARING]
            pace = dict(zip(sharing, speeds.speeds(tuple(part.load for part in sharing)), strict=True))
            row = np.zeros(len(self._whole))
            for part in chosen:
                row[part.row] += float(pace.get(part, 1.0)) * part.scale
            found.append(row)
        return np.array(found) if found else None

    def _sets(self, ordered: list[int]) -> Iterator[list[Part]]:
        """Yield every set of parts that may go on together."""
        parts = self._parts

        def grow(first: int, chosen: list[Part], excluded: int, lanes: int, rooms: list[int]) -> Iterator[list[Part]]:
            for k in range(first, len(parts)):
                part = parts[k]
                if excluded >> part.op & 1 or lanes & part.lanes:
                    continue
                left = rooms[:]
                for room, units in part.takes:
                    left[room] -= units
                if min(left, default=0) < 0:
                    continue
                more = [*chosen, part]
                yield more
                yield from grow(k + 1, more, excluded | ordered[part.op], lanes | part.lanes, left)

        yield from grow(0, [], 0, 0, self._rooms)

    def least_left(self, state: WorkingState) -> float:
        """Return the most that the kept prices make of what is left."""
        if not self._kept:
            return 0.0
        left = self._left(state)
        return max([sum([p * a for p, a in zip(prices, left, strict=True)]) for prices in self._kept])

    def sharpened(self, state: WorkingState) -> float:
        """Return the least time left by prices made for this state, and keep them."""
        if not self.usable or self._rates is None:
            return 0.0
        left = np.array(self._left(state))
        for _ in range(MOST_PIVOTS):
            values = self._inverse @ left
            r = int(values.argmin())
            if values[r] >= -EPS or not self._pivot(r):
                break
        prices = np.maximum(self._cost[self._basis] @ self._inverse, 0.0)
        dearest = float((self._rates @ prices).max())
        if dearest > 1:
            prices = prices / dearest
        found = [float(p) for p in prices]
        if found not in self._kept:
            self._kept = [*self._kept[-KEPT + 1 :], found]
        return float(prices @ left)

    def _pivot(self, r: int) -> bool:
        """Let the variable of row ``r`` leave the basis; False if none can enter."""
        reduced = self._cost - (self._cost[self._basis] @ self._inverse) @ self._columns
        row = self._inverse[r] @ self._columns
        able = np.flatnonzero(row < -SMALLEST_PIVOT)
        if not len(able):
            return False
        ratios = np.maximum(reduced[able], 0.0) / -row[able]
        # Of those that tie the largest pivot does least harm.
        tied = able[ratios <= ratios.min() + EPS]
        enters = int(tied[row[tied].argmin()])
        self._basis[r] = enters
        self._pivots += 1
        if self._pivots % AFRESH == 0:
            return self._invert()
        entering = self._inverse @ self._columns[:, enters]
        self._inverse[r] /= entering[r]
        entering[r] = 0.0
        self._inverse -= np.outer(entering, self._inverse[r])
        return True

    def _invert(self) -> bool:
        """Invert the basis; False if rounding has made it singular, then all begins anew."""
        try:
            self._inverse = np.linalg.inv(self._columns[:, self._basis])
        except np.linalg.LinAlgError:
            self._begin_anew()
            return False
        return True

    def _begin_anew(self) -> None:
        rows = len(self._whole)
        self._basis = list(range(len(self._cost) - rows, len(self._cost)))
        self._inverse = -np.eye(rows)

    def _left(self, state: WorkingState) -> list[float]:
        """Return what is left of every row."""
        found = [0.0] * len(self._whole)
        for i, phase in enumerate(state.phase):
            if phase == OVER:
                continue
            if phase == FRESH:
                for part in self._of[i]:
                    found[part.row] = (part.high - part.low) * part.scale
                continue
            stage = 1 if phase in (RUNNING, FLYING, QUEUED) else 2 if phase in (ARRIVED, POLLING) else 0
            done = 0.0 if phase in (QUEUED, ARRIVED) else state.done[i]
            for part in self._of[i]:
                if part.mode != state.mode[i]:
                    continue
                if part.stage > stage:
                    found[part.row] = (part.high - part.low) * part.scale
                elif part.stage == stage and done < part.high:
                    found[part.row] = (part.high - max(done, part.low)) * part.scale
        return found


def _rooms(tables: Tables) -> list[int]:
    """Return the units of engines, then of pipes, then of shares."""
    return [count for _, count in tables.groups] + tables.pipe_units + tables.share_units


def _stretches(
    tables: Tables, way: Way, course: Course
) -> Iterator[tuple[int, float, float, int, int, tuple[tuple[int, int], ...]]]:
    """Yield (stage, low, high, load, lanes, takes) of a mode, between which nothing changes that it holds."""
    pipes, shares = len(tables.groups), len(tables.groups) + len(tables.pipe_units)
    kept = tuple((shares + share, amount) for share, amount in way.shares)
    thread = (*kept, (tables.group[way.owner], 1)) if way.owner >= 0 else kept
    if way.owner >= 0:
        if way.issue:
            yield STAGES["prepare"], 0.0, float(way.issue), NOT_SHARING, 1 << way.owner, thread
        holds = [(ticks, ((pipes + pipe, units),), 0) for pipe, units, ticks in way.pipes]
    else:
        holds = []
        for ask in way.asks:
            if ask is not None:
                lanes = 0 if ask.ids is None else sum(1 << ask.first + u for u in ask.ids)
                holds.append((ask.ticks - course.prepare, ((tables.group[ask.first], ask.units),), lanes))
        if course.prepare:
            lanes = sum(lanes for _, _, lanes in holds)
            takes = kept + tuple(take for _, mine, _ in holds for take in mine)
            yield STAGES["prepare"], 0.0, float(course.prepare), NOT_SHARING, lanes, takes
    end = course.steps[-1][0]
    marks = sorted({0.0, end} | {float(ticks) for ticks, _, _ in holds})
    for low, high in pairwise(marks):
        still = [(mine, lanes) for ticks, mine, lanes in holds if ticks >= high]
        takes = kept + tuple(take for mine, _ in still for take in mine)
        yield STAGES["work"], low, high, course.load, sum(lanes for _, lanes in still), takes
    if way.owner >= 0 and way.poll:
        yield STAGES["poll"], 0.0, float(way.poll), NOT_SHARING, 1 << way.owner, thread


def _ordered(tables: Tables) -> list[int]:
    """For each op itself, all that come before it and all that follow it: none of them goes on beside it."""
    found = list(tables.below)
    for i in range(tables.n):
        for j in range(tables.n):
            if tables.below[j] >> i & 1:
                found[i] |= 1 << j
    return found
