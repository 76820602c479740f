"""Chrome traces that hexloom writes: the timeline of a schedule, and what its runtime recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.traces.chrome import ChromeReader, Json
from hexloom.optimizer.traces.numbers import label, whole
from hexloom.optimizer.traces.records import MOST_RUNS, PHASES

if TYPE_CHECKING:
    from hexloom.optimizer.traces.trace import Kind

ENGINES, THREADS = "1", "2"
STEPS: dict[str, Kind] = {"dma_start": "issue", "dma_wait": "wait"}
IN_FLIGHT = "in flight"


class TimelineReader(ChromeReader):
    """Reads `timeline.json`: what engines do, transfers in flight, and what threads do for transfers."""

    form = "hexloom.timeline/1"

    def complete(self, record: Json) -> None:
        """Take an event of an engine; of threads only what they do for transfers."""
        category, name = label(record.get("cat"), 40), label(record.get("name"))
        kind: Kind = "work"
        if label(record.get("pid"), 60) == THREADS:
            if category not in STEPS:
                self.findings.add("duplicate", "hardware threads show what the engines show")
                return
            kind, name = STEPS[category], name.removeprefix(f"{category} ")
        elif category == "transfer":
            kind = "transfer"
        elif category == "overhead":
            kind, name = "overhead", name.removeprefix("overhead ")
        times = self.times(record)
        if times is not None:
            start, end = times
            self.trace.add(name, kind, self.lane(record), start, end - start, key=name, detail=self._class(record))

    def _class(self, record: Json) -> str:
        args = record.get("args")
        if not isinstance(args, dict):
            return ""
        return f"{label(args.get('task'), 100)}/{label(args.get('stage'), 100)}"

    def async_event(self, name: str, lane: int, start: int, end: int) -> None:
        """Take the flight of a transfer; its other phases are those of its owner's thread."""
        phase, colon, op = name.partition(": ")
        if colon and phase == IN_FLIGHT:
            flight = self.trace.lane(IN_FLIGHT, IN_FLIGHT, IN_FLIGHT)
            self.trace.add(op, "transfer", flight, start, end - start, key=op)
        else:
            self.findings.add("duplicate", "phases of transfers that threads show, too")

    def name_lanes(self) -> None:
        """Engines have the names of the problem, with a unit in brackets."""
        super().name_lanes()
        for number, (_, text) in enumerate(self.trace.lanes):
            track = self.trace.track_of(number)
            if track is not None and track[0] in (ENGINES, THREADS):
                engine = text.partition("[")[0]
                self.trace.name_lane(number, engine if track[0] == ENGINES else f"{engine} thread", text)


class RunReader(ChromeReader):
    """Reads the records of the runtime where they were written as Chrome events: the phase is the category."""

    form = "hexloom.trace/1"

    def complete(self, record: Json) -> None:
        """Take a phase of a queue entry; all but runs bear it before the name of the op."""
        phase, name = label(record.get("cat"), 40), label(record.get("name"))
        kind, times = PHASES.get(phase), self.times(record)
        args = record.get("args")
        run = whole(args.get("run", 0)) if isinstance(args, dict) else 0
        if kind is None or run is None or not 0 <= run < MOST_RUNS:
            self.findings.add("malformed", f"{name}: phase {phase!r}")
        elif times is not None:
            start, end = times
            name = name.removeprefix(f"{phase} ") if kind != "work" else name
            self.trace.add(name, kind, self.lane(record), start, end - start, batch=run, key=name)

    def name_lanes(self) -> None:
        """Threads are called by the unit whose queue they execute."""
        super().name_lanes()
        for number, (_, text) in enumerate(self.trace.lanes):
            self.trace.name_lane(number, text.partition("[")[0], text)
