"""Chrome trace events, as any tool writes them: object or array form, complete or begin/end, async, counters, flows.

Times are microseconds unless the user says otherwise (``displayTimeUnit`` only tells viewers what to show). They are
read as decimals and kept as whole nanoseconds; all ends are rounded alike, so that neighbours still touch.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.chrome_slices import BEGIN, DEEPEST, END, Track, partial_overlaps
from hexloom.optimizer.traces.intervals import groups
from hexloom.optimizer.traces.json_stream import Records
from hexloom.optimizer.traces.numbers import label, scaled, total, whole
from hexloom.optimizer.traces.trace import Edge, Trace
from hexloom.optimizer.traces.units import MICROSECONDS, Unit, engine_of

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source

MOST_OPEN = 1_000_000
"""Async events, flows and counter values that are held while their other ends are looked for."""

Json = dict[str, Any]


class ChromeReader:
    """Reads one file; formats that are Chrome traces of a known maker change what one event says."""

    form = "chrome"

    def __init__(self, source: Source, findings: Findings, unit: Unit = MICROSECONDS, *, partial: bool = False) -> None:
        self.source = source
        self.findings = findings
        self.unit = unit
        self.partial = partial
        self.trace = Trace(self.form, unit.clock, findings)
        self.trace.khz = unit.khz if unit.khz is not None else self.trace.khz
        self.processes: dict[str, str] = {}
        self.threads: dict[tuple[str, str], str] = {}
        self._base = 0
        self._tracks: dict[tuple[str, str], Track] = {}
        self._texts: list[str] = []
        self._text_number: dict[str, int] = {}
        self._open: dict[tuple[str, str, str], list[tuple[str, int, int]]] = {}
        self._early_ends: list[tuple[tuple[str, str, str], str, int]] = []
        self._flows: dict[tuple[str, str], list[tuple[int, tuple[str, str], str]]] = {}

    def read(self) -> Trace:
        """Return the trace.

        Raises
        ------
        InvalidInputError
            If the file is no Chrome trace.
        """
        seen = False
        for record in Records(self.source, ("traceEvents",), self.findings, partial=self.partial):
            if record.whole:
                seen = seen or record.key == "traceEvents"
                self.header(record.key, record.value)
                continue
            seen = True
            if isinstance(record.value, dict):
                self.event(record.value)
            else:
                self.findings.add("malformed", f"{label(record.value, 40)!r} is no event")
        if not seen and self.trace.meta:
            raise InvalidInputError(f"{self.source.name}: an object without traceEvents is no Chrome trace")
        self.finish()
        return self.trace

    def header(self, key: str, value: Any) -> None:
        """Take a key beside the events."""
        if key == "traceEvents":
            raise InvalidInputError(f"{self.source.name}: traceEvents is no array; give a Chrome trace")
        if key == "baseTimeNanoseconds" and self.unit.clock == "ns":
            base = whole(value)
            if base is None:
                self.findings.add("rejected", f"base time {label(value, 40)}")
            self._base = base or 0
        elif isinstance(value, dict):
            self.trace.meta |= {f"{key}.{k}"[:100]: label(v, 200) for k, v in list(value.items())[:100]}
        else:
            self.trace.meta[key[:100]] = label(value, 200)

    def event(self, record: Json) -> None:
        """Take one event."""
        phase = record.get("ph")
        if phase == "X":
            self.complete(record)
        elif phase in ("B", "E"):
            self._half(record, BEGIN if phase == "B" else END)
        elif phase in ("b", "e", "S", "F"):
            self._async(record, begins=phase in ("b", "S"))
        elif phase == "C":
            self.counter(record)
        elif phase == "M":
            self._name(record)
        elif phase in ("s", "t", "f"):
            self._flow(record, phase)
        elif isinstance(phase, str):
            self.findings.add("ignored", f"an event of phase {phase[:8]!r}")
        else:
            self.findings.add("malformed", "an event without a phase")

    def times(self, record: Json) -> tuple[int, int] | None:
        """Return start and end of a complete event in units of the trace; None, and counted, when they are none."""
        start = scaled(record.get("ts"), self.unit.factor)
        end = scaled(total(record.get("ts"), record.get("dur", 0)), self.unit.factor)
        if start is None or end is None or end < start or start == end == 0:
            what = f"{label(record.get('name'), 60)}: ts {label(record.get('ts'), 40)}"
            self.findings.add("rejected", f"{what}, dur {label(record.get('dur'), 40)}")
            return None
        return start, end

    def complete(self, record: Json) -> None:
        """Take a complete event."""
        times = self.times(record)
        if times is not None:
            start, end = times
            lane = self.lane(record)
            self.trace.add(label(record.get("name")), "work", lane, start, end - start, key=self.key(record))

    def key(self, record: Json) -> str:
        """Return what identifies the op of an event: the argument ``op`` where there is one."""
        args = record.get("args")
        return label(args["op"]) if isinstance(args, dict) and "op" in args else ""

    def lane(self, record: Json) -> int:
        """Return the lane of an event; its name may come later."""
        return self.trace.lane(self._track_of(record), "other", "")

    def counter(self, record: Json) -> None:
        """Take the values of a counter; a name of nothing is the counter's own."""
        at = scaled(record.get("ts"), self.unit.factor)
        args = record.get("args")
        if at is None or not isinstance(args, dict):
            self.findings.add("rejected", f"counter {label(record.get('name'), 60)}")
            return
        for series, value in args.items():
            number = whole(value) if whole(value) is not None else scaled(value, 1)
            if number is None:
                self.findings.add("rejected", f"counter {label(record.get('name'), 60)}: {label(value, 40)}")
                continue
            name = label(record.get("name")) + (f" {series[:100]}" if series else "")
            values = self.trace.counters.setdefault(name, []) if len(self.trace.counters) < 10_000 else []
            if len(values) < MOST_OPEN:
                values.append((at, number))
            else:
                self.findings.add("limit", f"values of counter {name}")

    def _track_of(self, record: Json) -> tuple[str, str]:
        return label(record.get("pid"), 60), label(record.get("tid"), 60)

    def _text(self, value: Any) -> int:
        if value is None:
            return -1
        text = label(value)
        found = self._text_number.get(text)
        if found is None:
            found = self._text_number[text] = len(self._texts)
            self._texts.append(text)
        return found

    def _half(self, record: Json, phase: int) -> None:
        at = scaled(record.get("ts"), self.unit.factor)
        if at is None:
            self.findings.add("rejected", f"{label(record.get('name'), 60)}: ts {label(record.get('ts'), 40)}")
            return
        track = self._tracks.setdefault(self._track_of(record), Track())
        track.add(phase, at, self._text(record.get("name")))

    def _async(self, record: Json, *, begins: bool) -> None:
        at = scaled(record.get("ts"), self.unit.factor)
        if at is None:
            self.findings.add("rejected", f"{label(record.get('name'), 60)}: ts {label(record.get('ts'), 40)}")
            return
        identity = record.get("id", record.get("id2"))
        local = isinstance(identity, dict) and "local" in identity
        key = label(record.get("cat"), 100), label(identity, 100), label(record.get("pid"), 60) if local else ""
        name = label(record.get("name"))
        if begins:
            lane = self.async_lane(record)
            opened = self._open.setdefault(key, [])
            if len(self._open) > MOST_OPEN:
                self.findings.add("limit", "async events that are open at once")
                del self._open[key]
                return
            if len(opened) >= DEEPEST:
                first, since, _ = opened.pop(0)
                self.findings.add("unpaired_start", f"{first} at {since}")
            opened.append((name, at, lane))
        elif not self._close(key, name, at):
            if len(self._early_ends) < MOST_OPEN:
                self._early_ends.append((key, name, at))
            else:
                self.findings.add("unpaired_stop", f"{name} at {at}")

    def _close(self, key: tuple[str, str, str], name: str, at: int) -> bool:
        opened = self._open.get(key, [])
        for depth in range(len(opened) - 1, -1, -1):
            begun, since, lane = opened[depth]
            if begun == name or not name:
                del opened[depth]
                if not opened:
                    del self._open[key]
                if at < since:
                    self.findings.add("rejected", f"{begun}: ends {since - at} before it begins")
                else:
                    self.async_event(begun, lane, since, at)
                return True
        return False

    def async_lane(self, record: Json) -> int:
        """Return the lane of async events of one category."""
        category = label(record.get("cat"), 100)
        pid = label(record.get("pid"), 60)
        return self.trace.lane(("async", pid, category, ""), engine_of(category), category or "async")

    def async_event(self, name: str, lane: int, start: int, end: int) -> None:
        """Take an async event that has ended."""
        self.trace.add(name, "work", lane, start, end - start)

    def _name(self, record: Json) -> None:
        args = record.get("args")
        name = label(args.get("name"), 200) if isinstance(args, dict) else ""
        pid, tid = self._track_of(record)
        if record.get("name") == "process_name" and len(self.processes) < MOST_OPEN:
            self.processes[pid] = name
        elif record.get("name") == "thread_name" and len(self.threads) < MOST_OPEN:
            self.threads[pid, tid] = name

    def _flow(self, record: Json, phase: str) -> None:
        at = scaled(record.get("ts"), self.unit.factor)
        key = label(record.get("cat"), 100), label(record.get("id"), 100)
        if at is None:
            self.findings.add("rejected", f"flow {key[1][:60]}")
        elif len(self._flows) < MOST_OPEN or key in self._flows:
            self._flows.setdefault(key, []).append((at, self._track_of(record), phase))
        else:
            self.findings.add("limit", "flows")

    def finish(self) -> None:
        """Pair what is open, name the lanes, and look at each track."""
        for track, halves in self._tracks.items():
            lane = self.trace.lane(track, "other", "")
            for name, start, end in halves.slices(self.findings, self._texts):
                text = self._texts[name] if name >= 0 else ""
                self.trace.add(text, "work", lane, start, end - start)
        for key, ended, at in self._early_ends:
            if not self._close(key, ended, at):
                self.findings.add("unpaired_stop", f"{ended} at {at}")
        for opened in self._open.values():
            for begun, since, _ in opened:
                self.findings.add("unpaired_start", f"{begun} at {since}")
        self._base = self.trace.shift(self._base)
        self.name_lanes()
        self._overlaps()
        self._edges()

    def name_lanes(self) -> None:
        """Give every track its name and engine."""
        for number in range(len(self.trace.lanes)):
            track = self.trace.track_of(number)
            if track is not None:
                process, thread = self.processes.get(track[0], ""), self.threads.get(track, "")
                text = thread or f"{track[0]}/{track[1]}"
                engine = engine_of(thread)
                self.trace.name_lane(number, engine if engine != "other" else engine_of(process), text)

    def _overlaps(self) -> None:
        """Count events that overlap on one track without nesting: no viewer shows them all."""
        of = self.trace.columns
        order = self.trace.in_time()
        for lane, places in groups(of.lane[order]):
            if self.trace.track_of(lane) is not None:
                mine = order[places]
                found = partial_overlaps(of.start[mine].tolist(), of.ticks[mine].tolist())
                if found:
                    self.findings.add("overlap", f"track {self.trace.lanes[lane][1]}", found)

    def _edges(self) -> None:
        """Make arrows between slices the dependencies that they mean."""
        if not self._flows:
            return
        index: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for i in self.trace.in_time().tolist():
            track = self.trace.track_of(self.trace.lane_of(i))
            if track is not None:
                start = self.trace[i].start
                assert start is not None
                index.setdefault(self.flow_track(track), []).append((start, i))
        for (category, name), steps in self._flows.items():
            ends = sorted(
                ((at + self._base, track, phase) for at, track, phase in steps),
                key=lambda step: (step[0], "stf".index(step[2])),
            )
            if len(ends) < 2 or ends[0][2] != "s":
                self.findings.add("unpaired_start", f"flow {name} of {category}")
                continue
            for (a, from_track, _), (b, to_track, _) in pairwise(ends):
                before = self._slice_at(index.get(self.flow_track(from_track), []), a)
                after = self._slice_at(index.get(self.flow_track(to_track), []), b)
                if before is None or after is None:
                    self.findings.add("outside", f"flow {name} of {category}")
                elif before != after:
                    self.trace.edges.append(Edge(before, after, category))

    def flow_track(self, track: tuple[str, str]) -> tuple[str, str]:
        """Return the track whose slices a flow on ``track`` means."""
        return track

    def _slice_at(self, starts: list[tuple[int, int]], at: int) -> int | None:
        """Return the innermost slice at ``at``: the last that began and has not ended, its last moment included."""
        k = bisect_right(starts, (at, len(self.trace)))
        for start, i in reversed(starts[max(0, k - 64) : k]):
            if start <= at <= start + self.trace[i].ticks:
                return i
        return None
