"""What hexloom's own runtime records: `hexloom.trace/1`, the identity of the plan and one record per step.

``{"schema": "hexloom.trace/1", "schedule": HASH, "clock": {"unit": "ns" | "cycles", "khz": N}, "records": [...]}``

A record is ``{"op", "task", "worker", "engine", "kind", "start", "end"}`` in whole units of the clock. ``iteration``
counts runs; ``kind`` is run (default), wait, dma_start, dma_wait, transfer or overhead; ``dropped`` beside the records
counts what the rings lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.json_stream import Records
from hexloom.optimizer.traces.numbers import label, scaled, whole
from hexloom.optimizer.traces.trace import Trace
from hexloom.optimizer.traces.units import engine_of

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source
    from hexloom.optimizer.traces.trace import Kind

SCHEMA = "hexloom.trace/1"
KINDS: dict[str, Kind] = {
    "run": "work",
    "compute": "work",
    "work": "work",
    "wait": "sync",
    "trigger": "sync",
    "dma_start": "issue",
    "dma_issue": "issue",
    "issue": "issue",
    "dma_wait": "wait",
    "transfer": "transfer",
    "overhead": "overhead",
}
MOST_BATCHES = 1_000_000


def read_records(source: Source, findings: Findings, *, partial: bool = False) -> Trace:
    """Return the trace of the runtime's records.

    Raises
    ------
    InvalidInputError
        If the file is none, its clock has no unit, or it ends in the middle.
    """
    trace = Trace(SCHEMA, "ns", findings)
    seen = False
    for record in Records(source, ("records",), findings, partial=partial):
        if not record.whole:
            seen = True
            _record(trace, record.value)
        elif record.key == "schema":
            if record.value != SCHEMA:
                raise InvalidInputError(f"{source.name}: schema {label(record.value, 60)!r}; this reads {SCHEMA}")
        elif record.key == "records":
            raise InvalidInputError(f"{source.name}: records is no array; give a trace of the runtime")
        else:
            _header(trace, source, record.key, record.value, seen=seen)
    if not seen:
        findings.add("incomplete", "no record in the file")
    return trace


def _header(trace: Trace, source: Source, key: str, value: Any, *, seen: bool) -> None:
    if key == "clock":
        unit = value.get("unit") if isinstance(value, dict) else value
        if unit not in ("ns", "cycles"):
            raise InvalidInputError(f"{source.name}: clock unit {label(unit, 40)!r}; write ns or cycles")
        if seen and unit != trace.clock:
            raise InvalidInputError(f"{source.name}: the clock comes after the records; write it before them")
        trace.clock = unit
        khz = whole(value.get("khz")) if isinstance(value, dict) else None
        if khz is None and isinstance(value, dict):
            khz = scaled(value.get("mhz"), 1000)
        trace.khz = khz if unit == "cycles" and khz is not None and khz > 0 else None
    elif key == "dropped":
        lost = value if isinstance(value, list) else [value]
        count = sum(n for n in (whole(one) for one in lost) if n is not None and n > 0)
        if count:
            trace.findings.add("dropped", "the rings of the runtime were full", count)
    else:
        trace.meta[key[:100]] = label(value, 400)


def _record(trace: Trace, value: Any) -> None:
    record = value if isinstance(value, dict) else {}
    start, end = whole(record.get("start")), whole(record.get("end"))
    name = label(record.get("op", record.get("name")))
    kind = KINDS.get(label(record.get("kind", "run"), 40))
    if start is None or end is None or kind is None:
        trace.findings.add("malformed", f"{name or label(value, 60)}: start, end or kind is none")
        return
    batch = whole(record.get("iteration", 0))
    if batch is None or not 0 <= batch < MOST_BATCHES:
        trace.findings.add("malformed", f"{name}: iteration {label(record.get('iteration'), 40)}")
        return
    worker = label(record.get("worker", record.get("queue", "")), 100)
    engine = label(record.get("engine"), 60)
    if not engine:
        engine = worker.partition("[")[0] if "[" in worker else engine_of(worker)
    lane = trace.lane((worker, engine), engine, worker or engine)
    exact = record.get("exact", kind != "transfer") is not False
    trace.add(name, kind, lane, start, end - start, exact=exact, batch=batch, key=name or label(record.get("task"), 60))
