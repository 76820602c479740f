"""What hexloom's own runtime records: `hexloom.trace/1`, one record per phase of a queue entry.

``{"schema": "hexloom.trace/1", …, "clock": "ns", "workers": [{"engine", "unit", "kind", "dropped"}], "records": […]}``

A record is ``{"worker", "task", "op", "slice", "run", "phase", "start_ns", "end_ns"}``: ``worker`` is a position in
``workers``, ``run`` counts executions, and ``phase`` is wait (for events), run, start (issuing a transfer) or observe
(until it was seen done: the transfer itself lies between, so its end is a bound). Recorders that know more say so:
phase transfer is a flight; ``clock`` may be ``{"unit": "cycles", "khz": 1943600}``, with ``start`` and ``end`` in it. A
worker may have a ``clock`` of its own: ``{"domain": "hmx", "khz": 1000000, "zero": 4711}``, where zero is what it read
when the others were 0; without it the plan says how they lie to each other. All is then turned into nanoseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.domains import Domain, domain_of
from hexloom.optimizer.traces.json_stream import Records
from hexloom.optimizer.traces.numbers import label, scaled, whole
from hexloom.optimizer.traces.trace import Trace

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source
    from hexloom.optimizer.traces.trace import Kind

SCHEMA = "hexloom.trace/1"
PHASES: dict[str, Kind] = {
    "run": "work",
    "wait": "sync",
    "start": "issue",
    "observe": "wait",
    "transfer": "transfer",
    "overhead": "overhead",
}
MOST_RUNS = 1_000_000
MOST_WORKERS = 10_000


def read_records(source: Source, findings: Findings, *, partial: bool = False) -> Trace:
    """Return the trace of the runtime's records.

    Raises
    ------
    InvalidInputError
        If the file is none, its clock has no unit, or it ends in the middle.
    """
    return _Reader(source, findings, partial=partial).read()


class _Reader:
    def __init__(self, source: Source, findings: Findings, *, partial: bool) -> None:
        self.source, self.findings, self.partial = source, findings, partial
        self.trace = Trace(SCHEMA, "ns", findings)
        self.workers: list[tuple[str, str]] = []
        self.clocks: list[Domain | None] = []
        self.common: Domain | None = None
        self.seen = False

    def read(self) -> Trace:
        for record in Records(self.source, ("records",), self.findings, partial=self.partial):
            if record.whole:
                self._header(record.key, record.value)
            else:
                self.seen = True
                self._record(record.value)
        if not self.seen:
            self.findings.add("incomplete", "no record in the file")
        return self.trace

    def _header(self, key: str, value: Any) -> None:
        if key == "schema":
            if value != SCHEMA:
                raise self._error(f"schema {label(value, 60)!r}; this reads {SCHEMA}")
        elif key == "records":
            raise self._error("records is no array; give a trace of the runtime")
        elif key == "clock":
            self._clock(value)
        elif key == "workers":
            for worker in value[:MOST_WORKERS] if isinstance(value, list) else ():
                self._worker(worker if isinstance(worker, dict) else {})
            self._in_common()
        else:
            self.trace.meta[key[:100]] = label(value, 400)

    def _clock(self, value: Any) -> None:
        unit = value.get("unit") if isinstance(value, dict) else value
        if unit not in ("ns", "cycles"):
            raise self._error(f"clock {label(unit, 40)!r}; write ns or cycles")
        if self.seen and unit != self.trace.clock:
            raise self._error("the clock comes after the records; write it before them")
        if any(self.clocks):
            raise self._error("the clock comes after workers with clocks of their own; write it before them")
        self.trace.clock = unit
        khz = whole(value.get("khz")) if isinstance(value, dict) else None
        if khz is None and isinstance(value, dict):
            khz = scaled(value.get("mhz"), 1000)
        self.trace.khz = khz if unit == "cycles" and khz is not None and 0 < khz < 10**8 else None

    def _worker(self, worker: dict[str, Any]) -> None:
        engine = label(worker.get("engine"), 60) or "thread"
        unit = label(worker.get("unit"), 20)
        lost = whole(worker.get("dropped", 0))
        if lost:
            self.findings.add("dropped", f"the ring of {engine}[{unit}] was full", max(lost, 0))
        self.workers.append((engine, f"{engine}[{unit}]"))
        self.clocks.append(domain_of(worker.get("clock"), engine, self.source.name))

    def _in_common(self) -> None:
        """Count in nanoseconds where a worker has a clock of its own."""
        if not any(self.clocks):
            return
        if self.seen:
            raise self._error("workers with clocks of their own come after the records; write them before")
        if self.trace.clock == "cycles":
            if self.trace.khz is None:
                raise self._error(
                    "a worker has a clock of its own, and the one of the others has no rate; state its khz"
                )
            self.common = Domain("core", self.trace.khz, 0, True)
        self.trace.clock, self.trace.khz = "ns", None

    def _record(self, value: Any) -> None:
        record = value if isinstance(value, dict) else {}
        start = whole(record.get("start_ns", record.get("start")))
        end = whole(record.get("end_ns", record.get("end")))
        run = whole(record.get("run", 0))
        kind = PHASES.get(label(record.get("phase", "run"), 40))
        name = label(record.get("op"))
        if start is None or end is None or kind is None or run is None or not 0 <= run < MOST_RUNS:
            self.findings.add("malformed", f"{name or label(value, 60)}: start, end, phase or run is none")
            return
        number = whole(record.get("worker"))
        engine, unit = "thread", label(record.get("worker"), 60)
        if number is not None and 0 <= number < len(self.workers):
            engine, unit = self.workers[number]
        if kind == "transfer":
            engine = "dma"
        lane = self.trace.lane((unit, engine), engine, unit)
        domain = self.common
        if number is not None and 0 <= number < len(self.clocks) and self.clocks[number] is not None:
            domain = self.clocks[number]
        if domain is not None:
            start, end = domain.to_ns(start), domain.to_ns(end)
            self.trace.domains[lane] = domain
        exact = record.get("exact", True) is not False
        key = name or f"task {label(record.get('task'), 20)}"
        self.trace.add(key, kind, lane, start, end - start, exact=exact, batch=run, key=key)

    def _error(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"{self.source.name}: {what}")
