"""QNN HTP optrace: a Chrome trace whose ``ts`` and ``dur`` are cycles, with every op twice.

Process 0 holds each op once; further processes hold copies, one per QNN op. The unit follows from an op's flags and
from the name of its thread, never from the thread's number: the main thread is called HMX and also starts transfers.
A ``dma`` op takes as long as issuing it, so it says nothing of how long bytes take. Arrows are the measured
dependencies; without them the identifiers of inputs are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.traces.chrome import MOST_OPEN, ChromeReader, Json
from hexloom.optimizer.traces.numbers import label, whole
from hexloom.optimizer.traces.trace import Edge
from hexloom.optimizer.traces.units import Unit, engine_of

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source
    from hexloom.optimizer.traces.trace import Kind

CYCLES = Unit("cycles", 1, None)
CORE_VIEW = "0"
NOT_EXECUTED = "non executed"
VIEWS = "1"
"""Thread of views and constants: nothing of it is executed, unless it bears the name of a unit."""

STEPS: tuple[tuple[str, Kind], ...] = (("dma_wait", "wait"), ("dma_set", "sync"), ("dma", "issue"), ("sync", "sync"))
MOST_INPUTS = 64


class OptraceReader(ChromeReader):
    """Reads ``chrometrace.json`` of qnn-profile-viewer, with or without its header."""

    form = "qnn-optrace"

    def __init__(self, source: Source, findings: Findings, unit: Unit = CYCLES, *, partial: bool = False) -> None:
        super().__init__(source, findings, unit, partial=partial)
        self._inputs: list[tuple[int, tuple[str, ...]]] = []
        self._by_id: dict[str, int] = {}
        self._bases: set[int] = set()
        self._held: list[Json] = []

    def complete(self, record: Json) -> None:
        """Take an op of the core view."""
        pid, tid = self._track_of(record)
        if pid != CORE_VIEW:
            self.findings.add("duplicate", "each op also stands under its QNN op")
            return
        args = record.get("args")
        args = args if isinstance(args, dict) else {}
        thread = self.threads.get((pid, tid), "")
        if tid == VIEWS and not thread and len(self._held) < MOST_OPEN:
            self._held.append(record)  # the name of the thread may come after its events
            return
        if NOT_EXECUTED in thread.lower() or (tid == VIEWS and not thread):
            self.findings.add("ignored", "tensors that are not executed")
            return
        name = label(record.get("name"))
        times = self.times(record)
        if times is None:
            return
        start, end = times
        given = args.get("Flags")
        flags = {label(f, 40) for f in given[:MOST_INPUTS]} if isinstance(given, list) else set()
        kind: Kind = next((kind for flag, kind in STEPS if flag in flags), "work")
        lane = self.trace.lane((pid, tid, self._unit(flags, kind)), self._unit(flags, kind), tid)
        qnn = f"{label(args.get('QNN Op Type'), 100)}|{label(args.get('QNN Op Name'), 300)}"
        i = self.trace.add(name, kind, lane, start, end - start, key=label(args.get("ID"), 60), detail=qnn)
        if i >= 0:
            self._keep(i, args, start)

    def _unit(self, flags: set[str], kind: Kind) -> str:
        """Return the unit of an op by its flags; "thread" where only the name of the thread can tell."""
        if kind != "work":
            return "sync" if kind == "sync" and "dma_set" not in flags else "dma"
        if "uses_hmx" in flags:
            return "hmx"
        return "hvx" if "uses_hvx" in flags else "thread"

    def _keep(self, i: int, args: Json, start: int) -> None:
        at = whole(args.get("Start Cycle"))
        if at is not None and len(self._bases) < 1000:
            self._bases.add(at - start)
        if len(self._by_id) < MOST_OPEN:
            self._by_id.setdefault(label(args.get("ID"), 60), i)
            inputs = args.get("Inputs Ops")
            if isinstance(inputs, list) and inputs:
                self._inputs.append((i, tuple(dict.fromkeys(label(x, 60) for x in inputs[:MOST_INPUTS]))))

    def name_lanes(self) -> None:
        """Give threads their names, and ops without flags the engine of their thread."""
        for number, (engine, tid) in enumerate(self.trace.lanes):
            name = self.threads.get((CORE_VIEW, tid), "")
            if engine == "thread":
                engine = engine_of(name)
            kind = engine_of(name)
            text = f"{tid} {kind}" if kind != "other" else tid
            self.trace.name_lane(number, engine, text)

    def finish(self) -> None:
        """Name the lanes and find the dependencies."""
        if self.threads.get((CORE_VIEW, VIEWS)):
            for record in self._held:
                self.complete(record)
        elif self._held:
            self.findings.add("ignored", "tensors that are not executed", len(self._held))
        super().finish()
        if len(self._bases) == 1:
            self.trace.meta["first_cycle"] = str(next(iter(self._bases)))
        elif len(self._bases) > 1:
            self.findings.add("clock", "ts and Start Cycle are not the same distance apart everywhere")
        if not self.trace.edges:
            for i, inputs in self._inputs:
                for name in inputs:
                    before = self._by_id.get(name)
                    if before is not None and before != i:
                        self.trace.edges.append(Edge(before, i, "inputs"))

    def flow_track(self, track: tuple[str, str]) -> tuple[str, str]:
        """Return the thread alone: arrows may stand in any of the processes."""
        return CORE_VIEW, track[1]
