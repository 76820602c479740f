"""The least time at which a run can end whose ops share channels.

Nothing goes faster than alone, whatever the rule: a path takes at least what its ops take alone, the units of an
engine are held at least so long, and a channel passes no more bytes than its capacity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.events.state import ARRIVED, FLYING, FRESH, IDLE, ISSUING, OVER, POLLING, QUEUED, RUNNING
from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.events.tables import Tables, Way
    from hexloom.formulations.events.working import WorkingState
    from hexloom.formulations.problem import Mode
    from hexloom.formulations.speeds import Speeds


class Alone(NamedTuple):
    """A mode that nobody disturbs: its speed, its ticks before it works, of work, after it, and of all that."""

    speed: float
    before: float
    work: float
    after: float
    total: float


class Row(NamedTuple):
    """What an op asks of an engine or a channel: ``amount``, from ``lead`` after its begin, ``rest`` before the end."""

    op: int
    amount: float
    lead: float
    rest: float


class Remaining:
    """Lower bounds on the end of a run in any state."""

    def __init__(self, tables: Tables, speeds: Speeds) -> None:
        self._tables = tables
        problem = tables.problem
        self._alone: list[list[Alone | None]] = [
            [None if way is None else _alone(mode, way, speeds) for mode, way in zip(op.modes, ways, strict=True)]
            for op, ways in zip(problem.ops, tables.ways, strict=True)
        ]
        self._shortest = [min([mode.total for mode in of if mode is not None], default=0.0) for of in self._alone]
        self._tail = [float(t) for t in tables.tail]
        for i in reversed(tables.topological):
            after = [self._shortest[s] + self._tail[s] for s in problem.successors[i]]
            self._tail[i] = max([self._tail[i], *after])
        capacity = [float(c) for c in speeds.capacity]
        self._rate: list[list[dict[int, float]]] = []
        names = {channel.name: c for c, channel in enumerate(problem.channels)}
        for op in problem.ops:
            self._rate.append(
                [
                    {names[p.channel]: p.rate / capacity[names[p.channel]] for p in mode.pulls if p.rate}
                    for mode in op.modes
                ]
            )
        self._channels = [rows for c in names.values() if (rows := self._channel_rows(c))]
        self._channel_of = [c for c in names.values() if self._channel_rows(c)]
        self._lanes = [
            (tuple(range(first, first + count)), rows)
            for first, count in tables.groups
            if (rows := self._lane_rows(first, count))
        ]
        self._pipes = [(p, units, rows) for p, units in enumerate(tables.pipe_units) if (rows := self._pipe_rows(p))]

    def _rows(self, parts: list[list[tuple[float, float, float]]]) -> tuple[Row, ...]:
        """Return per op the least over its modes of (amount, lead, trail), the longest rest first."""
        found = []
        for i, modes in enumerate(parts):
            amount = min([part[0] for part in modes], default=0.0)
            if amount > 0:
                rest = min(part[2] for part in modes) + self._tail[i]
                found.append(Row(i, amount, min(part[1] for part in modes), rest))
        return tuple(sorted(found, key=lambda row: (-row.rest, row.op)))

    def _channel_rows(self, c: int) -> tuple[Row, ...]:
        return self._rows(
            [
                [
                    (rates.get(c, 0.0) * alone.work * alone.speed, alone.before, alone.after)
                    for alone, rates in zip(modes, all_rates, strict=True)
                    if alone is not None
                ]
                for modes, all_rates in zip(self._alone, self._rate, strict=True)
            ]
        )

    def _lane_rows(self, first: int, count: int) -> tuple[Row, ...]:
        parts: list[list[tuple[float, float, float]]] = []
        for ways, modes in zip(self._tables.ways, self._alone, strict=True):
            mine = []
            for way, alone in zip(ways, modes, strict=True):
                if way is None or alone is None:
                    continue
                if way.owner >= 0:
                    held = float(way.issue + way.poll) if first <= way.owner < first + count else 0.0
                    mine.append((held, 0.0, 0.0))
                    continue
                asks = [ask for ask in way.asks if ask is not None and ask.first == first]
                least = [alone.before + (ask.ticks - alone.before) / alone.speed for ask in asks]
                amount = sum(ask.units * ticks for ask, ticks in zip(asks, least, strict=True))
                mine.append((amount, 0.0, min([alone.total - ticks for ticks in least], default=0.0)))
            parts.append(mine)
        return self._rows(parts)

    def _pipe_rows(self, pipe: int) -> tuple[Row, ...]:
        parts: list[list[tuple[float, float, float]]] = []
        for ways, modes in zip(self._tables.ways, self._alone, strict=True):
            mine = []
            for way, alone in zip(ways, modes, strict=True):
                if way is None or alone is None:
                    continue
                uses = [(units, ticks / alone.speed) for used, units, ticks in way.pipes if used == pipe]
                amount = sum(units * ticks for units, ticks in uses)
                trail = alone.work - max([ticks for _, ticks in uses], default=0.0) + alone.after
                mine.append((amount, alone.before, trail))
            parts.append(mine)
        return self._rows(parts)

    def least_end(self, state: WorkingState) -> float:
        """Return the largest of the bounds: paths, engine work, channel bytes."""
        begins, ends = self._path(state)
        best = state.now
        for i, phase in enumerate(state.phase):
            if phase != OVER and ends[i] + self._tail[i] > best:
                best = ends[i] + self._tail[i]
        for c, rows in zip(self._channel_of, self._channels, strict=True):
            best = max(best, self._channel_end(state, c, rows, begins))
        for lanes, rows in self._lanes:
            best = max(best, self._lanes_end(state, lanes, rows, begins, ends))
        for pipe, units, rows in self._pipes:
            best = max(best, self._pipe_end(state, pipe, units, rows, begins))
        return best

    def _path(self, state: WorkingState) -> tuple[list[float], list[float]]:
        """Return when each op begins at least, and when its end is known at least."""
        now, n = state.now, self._tables.n
        begins, ends = [now] * n, [now] * n
        predecessors = self._tables.problem.predecessors
        for i in self._tables.topological:
            phase = state.phase[i]
            if phase == OVER:
                continue
            if phase == FRESH:
                begin = now
                for p in predecessors[i]:
                    if ends[p] > begin:
                        begin = ends[p]
                begins[i] = begin
                ends[i] = begin + self._shortest[i]
                continue
            alone = self._alone[i][state.mode[i]]
            assert alone is not None
            if phase in (RUNNING, FLYING):
                ends[i] = now + alone.work - state.done[i] / alone.speed + alone.after
            elif phase == QUEUED:
                ends[i] = now + alone.work + alone.after
            elif phase == ARRIVED:
                ends[i] = now + alone.after
            elif phase == POLLING:
                ends[i] = now + alone.after - state.done[i]
            else:  # it is issued, or prepares to work
                ends[i] = now + alone.total - state.done[i]
        return begins, ends

    def _channel_end(self, state: WorkingState, c: int, rows: tuple[Row, ...], begins: Sequence[float]) -> float:
        now, best, work, floor = state.now, 0.0, 0.0, -1.0
        for i, amount, lead, rest in rows:
            phase = state.phase[i]
            if phase == FRESH:
                begin = begins[i] + lead
                work += amount
            elif phase in (OVER, ARRIVED, POLLING):
                continue
            else:
                begin = now
                alone = self._alone[i][state.mode[i]]
                assert alone is not None
                done = state.done[i] if phase in (RUNNING, FLYING) else 0.0
                work += self._rate[i][state.mode[i]].get(c, 0.0) * (alone.work * alone.speed - done)
            if floor < 0 or begin < floor:
                floor = begin
            if floor + work + rest > best:
                best = floor + work + rest
        return best

    def _lanes_end(
        self,
        state: WorkingState,
        lanes: tuple[int, ...],
        rows: tuple[Row, ...],
        begins: Sequence[float],
        ends: Sequence[float],
    ) -> float:
        held: list[float] | None = None
        best, work, floor = 0.0, 0.0, -1.0
        for i, amount, lead, rest in rows:
            if state.phase[i] != FRESH:
                continue
            begin = begins[i] + lead
            work += amount
            if floor < 0 or begin < floor:
                floor = begin
            if held is None:
                held = sorted([self._held_until(state, lane, ends) for lane in lanes])
            best = max(best, _served(held, floor, work) + rest)
        return best

    def _held_until(self, state: WorkingState, lane: int, ends: Sequence[float]) -> float:
        """Return until when a lane is busy at least."""
        holder = int(state.lanes[lane])
        if holder == IDLE:
            return state.now
        if holder < IDLE:
            return ends[-2 - holder]
        way, alone = self._tables.ways[holder][state.mode[holder]], self._alone[holder][state.mode[holder]]
        assert way is not None and alone is not None
        phase, done = state.phase[holder], state.done[holder]
        if way.owner >= 0:
            return state.now + (way.issue if phase == ISSUING else way.poll) - done
        for ask, mine in zip(way.asks, state.held[holder], strict=True):
            if ask is not None and lane in mine:
                work = (ask.ticks - alone.before) / alone.speed
                return state.now + (work - done / alone.speed if phase == RUNNING else alone.before - done + work)
        return state.now

    def _pipe_end(
        self, state: WorkingState, pipe: int, units: int, rows: tuple[Row, ...], begins: Sequence[float]
    ) -> float:
        now, best, work, floor = state.now, 0.0, 0.0, -1.0
        held = [now] * units
        for i, phase in enumerate(state.phase):
            if phase == FLYING:
                alone = self._alone[i][state.mode[i]]
                assert alone is not None
                for used, count, ticks in self._way(i, state.mode[i]).pipes:
                    if used == pipe and ticks > state.done[i]:
                        held = held[count:] + [now + (ticks - state.done[i]) / alone.speed] * count
        held.sort()
        for i, amount, lead, rest in rows:
            phase = state.phase[i]
            if phase == FRESH:
                begin = begins[i] + lead
            elif phase in (QUEUED, ISSUING):
                begin = now
            else:
                continue
            work += amount
            if floor < 0 or begin < floor:
                floor = begin
            best = max(best, _served(held, floor, work) + rest)
        return best

    def _way(self, i: int, m: int) -> Way:
        way = self._tables.ways[i][m]
        assert way is not None
        return way


def _alone(mode: Mode, way: Way, speeds: Speeds) -> Alone:
    load = speeds.load_of(mode)
    speed = 1.0 if load == NOT_SHARING else float(speeds.speeds((load,))[0])
    work = way.latency / speed
    before, after = (way.issue, way.poll) if way.owner >= 0 else (mode.overhead_ticks, 0)
    if way.owner < 0 and load == NOT_SHARING:
        # Nothing slows it: overhead and work are one phase.
        before, work = 0, float(way.duration)
    return Alone(speed, float(before), work, float(after), before + work + after)


def _served(held: list[float], floor: float, work: float) -> float:
    """Return when the units can have done ``work``, begun when they are free and not before ``floor``."""
    total, end = work, 0.0
    for count, until in enumerate(held, 1):
        free = max(until, floor)
        if count > 1 and free >= end:
            break
        total += free
        end = total / count
    return end
