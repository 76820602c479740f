"""The timeline: a schedule as Chrome trace events, for ui.perfetto.dev.

Four groups of tracks: what every engine unit runs, what every hardware thread is busy with, the life of every
transfer from issue until its end is observed, and counters. Dependencies are arrows.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexloom.emit.lanes import Lane, Slice, View, levels, unit_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import Schedule

Event = dict[str, Any]

ENGINES, THREADS, DMA, COUNTERS = range(1, 5)
PROCESSES = {ENGINES: "engines", THREADS: "hardware threads", DMA: "DMA", COUNTERS: "counters"}
FIRST_TID = 101
"""Thread numbers are unique over all processes and equal to no process: a viewer takes such a one as a main thread."""

MOST_DECIMALS = 12
ROUNDED_DECIMALS = 9
"""Decimals of a microsecond that are written when a tick has no short exact decimal."""


def timeline_json(schedule: Schedule) -> str:
    """Return the Chrome trace of ``schedule``: the same bytes for the same schedule.

    Notes
    -----
    Times are in microseconds; in a problem of bare ticks one tick is drawn as one microsecond, and ``otherData``
    says so. A step of no length is an instant event. An op that holds no unit is an async event of the engines;
    as it has no slice, no arrow can start or end at it.
    """
    writer = _Writer(schedule)
    writer.write()
    head = json.dumps(writer.other_data(), sort_keys=True)
    lines = ",\n".join(json.dumps(event, sort_keys=True, separators=(",", ":")) for event in writer.events)
    return f'{{"displayTimeUnit":"ns",\n"otherData":{head},\n"traceEvents":[\n{lines}\n]}}\n'


class _Clock:
    """Ticks to decimal microseconds. All ends are rounded alike, so that neighbours still touch.

    ``parts``: times are fractions of a tick, as where ops slow each other.
    """

    def __init__(self, tick: Fraction, parts: bool) -> None:
        self.tick = tick
        decimals = range(0 if parts else MOST_DECIMALS + 1)
        exact = (d for d in decimals if (tick * 10**d).denominator == 1)
        self.scale: int = 10 ** next(exact, ROUNDED_DECIMALS)

    def at(self, ticks: Moment) -> int | float:
        return self._number(self._scaled(ticks))

    def between(self, start: Moment, end: Moment) -> int | float:
        return self._number(self._scaled(end) - self._scaled(start))

    def _scaled(self, ticks: Moment) -> int:
        return round(ticks * self.tick * self.scale)

    def _number(self, scaled: int) -> int | float:
        whole, rest = divmod(scaled, self.scale)
        return float(Fraction(scaled, self.scale)) if rest else whole


class _Writer:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.view = View(schedule)
        self.lanes = self.view.lanes()
        parts = any(isinstance(row.done, Fraction) for row in schedule.rows)
        self.clock = _Clock(schedule.problem.tick or Fraction(1), parts)
        self.events: list[Event] = []
        self.tids: dict[tuple[int, str], int] = {}
        self.first: dict[int, tuple[int, int, Slice]] = {}
        self.last: dict[int, tuple[int, int, Slice]] = {}

    def other_data(self) -> Event:
        schedule = self.schedule
        found: Event = {
            "schema": "hexloom.timeline/1",
            "tool": schedule.tool,
            "name": schedule.name,
            "machine": schedule.machine,
            "contention": schedule.contention,
            "tick_us": schedule.problem.tick_us,
            "status": schedule.status,
            f"makespan_{schedule.unit}": self.clock.at(schedule.makespan),
            f"lower_bound_{schedule.unit}": self.clock.at(schedule.lower_bound),
        }
        if schedule.problem.tick is None:
            found["time"] = "the problem is in bare ticks: 1 tick is drawn as 1 us"
        return found

    def write(self) -> None:
        """Fill ``events``: names first, then by time; at one instant in the order in which they are made here."""
        timed: list[Event] = []
        self._entry(timed)
        for lane in self.lanes:
            self._engine_lane(timed, lane)
        for lane in self.lanes:
            if lane.queued:
                self._thread_lane(timed, lane)
        self._without_engine(timed)
        for i in self.view.transfers():
            self._transfer(timed, i)
        self._counters(timed)
        self._arrows(timed)
        timed.sort(key=lambda event: event["ts"])
        used = {event["pid"] for event in timed}
        self.events = [*self._names(used), *timed]

    def _names(self, used: set[int]) -> Iterator[Event]:
        def named(what: str, pid: int, tid: int, args: Event) -> Event:
            return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}

        for pid, name in PROCESSES.items():
            if pid in used:
                yield named("process_name", pid, 0, {"name": name})
                yield named("process_sort_index", pid, 0, {"sort_index": pid})
        for (pid, name), tid in self.tids.items():
            yield named("thread_name", pid, tid, {"name": name})
            yield named("thread_sort_index", pid, tid, {"sort_index": tid})

    def _tid(self, pid: int, label: str) -> int:
        return self.tids.setdefault((pid, label), FIRST_TID + len(self.tids))

    def _args(self, op: int) -> Event:
        it = self.view.ops[op]
        return {"task": it.task, "stage": it.stage, "tile": it.tile, "mode": self.view.modes[op].name}

    def _span(self, pid: int, tid: int, name: str, category: str, start: Moment, end: Moment, args: Event) -> Event:
        event = {"pid": pid, "tid": tid, "name": name, "cat": category, "ts": self.clock.at(start), "args": args}
        if end > start:
            return {**event, "ph": "X", "dur": self.clock.between(start, end)}
        return {**event, "ph": "i", "s": "t"}

    def _entry(self, timed: list[Event]) -> None:
        ticks = self.schedule.problem.entry_ticks
        if ticks:
            tid = self._tid(THREADS, "entry of the plan")
            timed.append(self._span(THREADS, tid, "entry", "overhead", 0, ticks, {}))

    def _engine_lane(self, timed: list[Event], lane: Lane) -> None:
        tid = self._tid(ENGINES, lane.label)
        for piece in lane.slices:
            if piece.kind not in ("run", "transfer"):
                continue
            name, args = self.view.ops[piece.op].name, self._args(piece.op)
            if piece.work_start > piece.start:
                timed.append(
                    self._span(ENGINES, tid, f"overhead {name}", "overhead", piece.start, piece.work_start, args)
                )
                self._remember(ENGINES, tid, Slice(piece.op, "run", piece.start, piece.start, piece.work_start))
            category = "work" if piece.kind == "run" else "transfer"
            timed.append(self._span(ENGINES, tid, name, category, piece.work_start, piece.end, args))
            self._remember(ENGINES, tid, Slice(piece.op, piece.kind, piece.work_start, piece.work_start, piece.end))

    def _thread_lane(self, timed: list[Event], lane: Lane) -> None:
        tid = self._tid(THREADS, lane.label)
        for piece in lane.slices:
            name, args = self.view.ops[piece.op].name, self._args(piece.op)
            if piece.kind != "run":
                name = f"{piece.kind} {name}"
            elif piece.work_start > piece.start:
                args["overhead_us"] = self.clock.between(piece.start, piece.work_start)
            timed.append(self._span(THREADS, tid, name, piece.kind, piece.start, piece.end, args))
            if piece.kind != "run":
                self._remember(THREADS, tid, piece)

    def _remember(self, pid: int, tid: int, piece: Slice) -> None:
        """Keep where arrows of an op start and end: engines come first, threads only for transfers without a pipe."""
        if piece.end == piece.start:
            return
        was_first, was_last = self.first.get(piece.op), self.last.get(piece.op)
        if was_first is None or (was_first[0] == pid and piece.start < was_first[2].start):
            self.first[piece.op] = (pid, tid, piece)
        if was_last is None or (was_last[0] == pid and piece.end > was_last[2].end):
            self.last[piece.op] = (pid, tid, piece)

    def _without_engine(self, timed: list[Event]) -> None:
        for i, (mode, row) in enumerate(zip(self.view.modes, self.view.rows, strict=True)):
            if mode.dma is None and all(use.ticks == 0 for use in mode.uses):
                name = self.view.ops[i].name
                timed += self._async(ENGINES, i, name, "no unit", row.start, row.done, self._args(i))

    def _async(
        self, pid: int, i: int, name: str, category: str, start: Moment, end: Moment, args: Event
    ) -> list[Event]:
        event = {"pid": pid, "tid": 0, "id": f"0x{i:x}", "name": name, "cat": category}
        return [
            {**event, "ph": "b", "ts": self.clock.at(start), "args": args},
            {**event, "ph": "e", "ts": self.clock.at(end)},
        ]

    def _transfer(self, timed: list[Event], i: int) -> None:
        """Nest the phases of a transfer in one span that bears the name of its owner: a viewer groups by that."""
        row, mode, name = self.view.rows[i], self.view.modes[i], self.view.ops[i].name
        assert mode.dma is not None
        engines = {engine.name: engine.units for engine in self.schedule.problem.engines}
        owner = mode.dma.owner_engine
        label = unit_label(owner, mode.dma.owner_unit, engines[owner])
        args = self._args(i)
        begin, finish = self._async(DMA, i, f"DMA of {label}", "dma", row.start, row.observed, {**args, "op": name})
        timed.append(begin)
        for phase, start, end in (
            ("issue", row.start, row.end),
            ("queued", row.end, row.transfer_start),
            ("in flight", row.transfer_start, row.done),
            ("done, not observed", row.done, row.observed),
        ):
            if end > start:
                timed += self._async(DMA, i, f"{phase}: {name}", "dma", start, end, {**args, "phase": phase})
        timed.append(finish)

    def _counters(self, timed: list[Event]) -> None:
        view, problem = self.view, self.schedule.problem
        if problem.buffers:
            self._counter(timed, "VTCM bytes", "bytes", view.live_bytes())
        for pool in problem.pools:
            self._counter(timed, f"{pool.name} bytes", "bytes", view.live_bytes(pool.name))
        if view.transfers():
            self._counter(timed, "DMA in flight", "transfers", view.in_flight())
        for engine in problem.engines:
            pieces = [s for lane in self.lanes if lane.engine == engine.name for s in lane.slices]
            if engine.kind != "pipe" or not pieces:
                continue
            busy = levels((s.start, s.end, 1) for s in pieces)
            self._counter(timed, f"busy fraction of {engine.name}", "fraction", busy, engine.units)
        self._channels(timed)

    def _channels(self, timed: list[Event]) -> None:
        """Draw what is served of each channel in front of its capacity; of a lowered problem both are bytes/us."""
        channels = {channel.name: channel for channel in self.schedule.problem.channels}
        unit = "" if self.schedule.problem.tick is None else ", bytes/us"
        for name, pairs in self.view.served().items():
            of = channels[name].unit or 1
            capacity = float(channels[name].capacity * of)
            for tick, served in pairs:
                event = {"ph": "C", "pid": COUNTERS, "tid": 0, "name": f"{name}{unit}", "ts": self.clock.at(tick)}
                timed.append({**event, "args": {"served": served * float(of), "capacity": capacity}})

    def _counter(
        self, timed: list[Event], name: str, series: str, pairs: list[tuple[Moment, int]], of: int | None = None
    ) -> None:
        for tick, level in pairs:
            value = level if of is None else level / of
            event = {"ph": "C", "pid": COUNTERS, "tid": 0, "name": name, "ts": self.clock.at(tick)}
            timed.append({**event, "args": {series: value}})

    def _arrows(self, timed: list[Event]) -> None:
        """Both ends lie at the start of their slices: viewers draw from the end of the first, and never bind wrongly.

        At the end of a slice the next one may have begun, and an arrow there would belong to that.
        """
        index = self.schedule.problem.op_index
        number = 0
        for edge in self.schedule.problem.precedences:
            source, target = self.last.get(index[edge.before]), self.first.get(index[edge.after])
            if source is None or target is None:
                continue
            number += 1
            for phase, (pid, tid, piece) in (("s", source), ("f", target)):
                event = {"ph": phase, "id": number, "name": "dependency", "cat": "dependency", "pid": pid, "tid": tid}
                event["ts"] = self.clock.at(piece.start)
                timed.append(event if phase == "s" else {**event, "bp": "e"})
