"""QNN RUN_TRACE: what an execution does around its graph, in ticks of 19.2 MHz, with the core cycles beside them.

Several executions stand in one file, the first often at a lower clock; cycles over ticks give the clock of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.traces.chrome import ChromeReader, Json
from hexloom.optimizer.traces.numbers import label, whole
from hexloom.optimizer.traces.trace import TICK_KHZ
from hexloom.optimizer.traces.units import Unit

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source
    from hexloom.optimizer.traces.trace import Kind

TICKS = Unit("ticks_19m2", 1, TICK_KHZ)
EXECUTION = "QNN DSP Execute"


class RuntraceReader(ChromeReader):
    """Reads ``*_runtrace.json`` of qnn-profile-viewer."""

    form = "qnn-runtrace"

    def __init__(self, source: Source, findings: Findings, unit: Unit = TICKS, *, partial: bool = False) -> None:
        super().__init__(source, findings, unit, partial=partial)
        self._batch = -1
        self._execution = -1

    def complete(self, record: Json) -> None:
        """Take one step of an execution."""
        times = self.times(record)
        if times is None:
            return
        args = record.get("args")
        args = args if isinstance(args, dict) else {}
        name = label(record.get("name"))
        if name == EXECUTION or self._batch < 0:
            self._batch += 1
        start, end = times
        ticks = [whole(args.get(f"stat_{side}_ticks")) for side in ("start", "end")]
        cycles = [whole(args.get(f"stat_{side}_cycles")) for side in ("start", "end")]
        khz = 0
        known = [number for number in (*ticks, *cycles) if number is not None]
        if len(known) == len(ticks) + len(cycles):
            passed, worked = known[1] - known[0], known[3] - known[2]
            if passed > 0 and worked > 0:
                khz = (worked * TICK_KHZ * 2 + passed) // (passed * 2)
            if passed != end - start:
                self.findings.add("clock", f"{name}: dur {end - start}, but {passed} ticks passed")
        kind: Kind = "op" if name == EXECUTION else "work"
        detail = label(args.get("graph_name"), 200)
        lane = self.trace.lane((*self._track_of(record), name), name, "")
        i = self.trace.add(
            name,
            kind,
            lane,
            start,
            end - start,
            batch=self._batch,
            op=-1 if kind == "op" else self._execution,
            khz=min(khz, 10**8),
            detail=detail,
        )
        if kind == "op":
            self._execution = i

    def name_lanes(self) -> None:
        """Each step is an engine of its own: they follow one another."""
        for number, (step, _) in enumerate(self.trace.lanes):
            track = self.trace.track_of(number)
            if track is not None:
                self.trace.name_lane(number, step, self.threads.get(track, ""))
