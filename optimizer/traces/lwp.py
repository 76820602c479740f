"""Light-weight profile of hexagon-mlir and TVM: pairs of records with one identifier, nested, of one thread.

One thread only, so it tells how long loops take and never what overlaps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.json_stream import Records
from hexloom.optimizer.traces.numbers import label, whole
from hexloom.optimizer.traces.trace import Trace

if TYPE_CHECKING:
    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source

MOST_NESTED = 10_000


def read_lwp(source: Source, findings: Findings, *, partial: bool = False) -> Trace:
    """Return the trace of ``{"entries": [{"id": n, "cyc": cycles}, ...]}``.

    Raises
    ------
    InvalidInputError
        If the file is none.
    """
    trace = Trace("lwp", "cycles", findings)
    lane = trace.lane("thread", "thread", "thread")
    opened: list[tuple[str, int]] = []
    depths: dict[str, int] = {}
    seen = False
    for record in Records(source, ("entries",), findings, partial=partial):
        if record.whole:
            if record.key == "entries":
                raise InvalidInputError(f"{source.name}: entries is no array; give a light-weight profile")
            trace.meta[record.key[:100]] = label(record.value, 200)
            continue
        seen = True
        entry = record.value if isinstance(record.value, dict) else {}
        name, at = label(entry.get("id"), 60), whole(entry.get("cyc"))
        if not name or at is None:
            findings.add("malformed", f"{label(record.value, 60)} has no id and cyc")
            continue
        if not depths.get(name):
            if len(opened) >= MOST_NESTED:
                raise InvalidInputError(f"{source.name}: more than {MOST_NESTED} loops are open at once")
            opened.append((name, at))
            depths[name] = 1
            continue
        while opened[-1][0] != name:
            left, since = opened.pop()
            depths[left] = 0
            findings.add("unpaired_start", f"id {left} at {since}")
        _, since = opened.pop()
        depths[name] = 0
        trace.add(f"id {name}", "work", lane, since, at - since, key=name)
    for name, since in opened:
        findings.add("unpaired_start", f"id {name} at {since}")
    if not seen:
        raise InvalidInputError(f"{source.name}: no entries; give a light-weight profile")
    return trace
