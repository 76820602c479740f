"""``hexloom.trace/1``: what the runtime measured while it executed the tables of a schedule. Data only.

Times are whole nanoseconds of the clock of the machine that ran it, counted from its first record. A record is one
phase of one queue entry on one worker: ``wait`` from coming to the entry until the events of its task are there,
``run`` its kernel, ``start`` the issue of its transfer, ``observe`` from asking for that transfer until it was seen
done: the transfer itself lies between the end of ``start`` and that of ``observe``. ``task`` is the number in the
tables, ``op`` the name in the problem. Records of a worker are in the order in which it made them; it may have dropped
some where its ring was full.
"""

from __future__ import annotations

import json
from typing import Literal

from pydantic import ConfigDict, Field

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen

Phase = Literal["wait", "run", "start", "observe"]


class MeasuredWorker(Frozen):
    """Who executed a queue: the unit of an engine, or nobody's hardware thread where ``engine`` is None."""

    engine: str | None
    unit: int = Field(ge=0)
    kind: Literal["hmx", "hvx", "other", "detached"]
    dropped: int = Field(default=0, ge=0)


class MeasuredRecord(Frozen):
    """One phase of one entry: ``slice`` of ``task`` in execution ``run`` (from 0) on ``worker``."""

    worker: int = Field(ge=0)
    task: int = Field(ge=0)
    op: str
    slice: int = Field(default=0, ge=0)
    run: int = Field(default=0, ge=0)
    phase: Phase
    start_ns: int = Field(ge=0)
    end_ns: int = Field(ge=0)


class Measured(Frozen):
    """A trace. ``machine`` is what the schedule was made for, ``target`` what executed it.

    ``kernels`` says what they did: ``flow`` moved patterns that show every wrong order, ``numeric`` computed; of a
    host neither takes the time that it takes on the machine.
    """

    schema_: Literal["hexloom.trace/1"] = Field(default="hexloom.trace/1", alias="schema")
    name: Text
    tool: Text
    machine: Text | None = None
    target: Text = "host"
    schedule_hash: str = Field(pattern=r"^[0-9a-f]{16}$")
    kernels: Literal["flow", "numeric"]
    clock: Literal["ns"] = "ns"
    runs: int = Field(ge=1)
    workers: tuple[MeasuredWorker, ...]
    records: tuple[MeasuredRecord, ...]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    @property
    def span_ns(self) -> int:
        """From the first record of a run to the last, added up over the runs."""
        spans: dict[int, tuple[int, int]] = {}
        for record in self.records:
            start, end = spans.get(record.run, (record.start_ns, record.end_ns))
            spans[record.run] = min(start, record.start_ns), max(end, record.end_ns)
        return sum(end - start for start, end in spans.values())

    def to_json(self) -> str:
        """Return the file, one record a line."""
        head = self.model_copy(update={"records": ()}).model_dump_json(by_alias=True)
        lines = ",\n".join(record.model_dump_json() for record in self.records)
        return head.removesuffix('"records":[]}') + f'"records":[\n{lines}\n]}}\n'

    def to_chrome(self) -> str:
        """Return it as Chrome trace events, for ui.perfetto.dev."""
        names = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": k, "args": {"name": f"{w.engine or w.kind}[{w.unit}]"}}
            for k, w in enumerate(self.workers, start=1)
        ]
        events = [
            {
                "ph": "X",
                "name": r.op if r.phase == "run" else f"{r.phase} {r.op}",
                "cat": r.phase,
                "pid": 1,
                "tid": r.worker + 1,
                "ts": r.start_ns / 1000,
                "dur": (r.end_ns - r.start_ns) / 1000,
                "args": {"task": r.task, "slice": r.slice, "run": r.run},
            }
            for r in sorted(self.records, key=lambda r: r.start_ns)
        ]
        lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in [*names, *events])
        other = json.dumps({"schema": self.schema_, "name": self.name, "schedule_hash": self.schedule_hash})
        return f'{{"displayTimeUnit":"ns",\n"otherData":{other},\n"traceEvents":[\n{lines}\n]}}\n'
