"""QNN HTP analysis summary: totals per thread and op, and where its authors left them in, all op instances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.json_stream import document
from hexloom.optimizer.traces.numbers import label, whole
from hexloom.optimizer.traces.trace import ClassTotal, Edge, Trace
from hexloom.optimizer.traces.units import engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source
    from hexloom.optimizer.traces.trace import Kind

    Needs = list[tuple[int, tuple[str, ...]]]

GROUPS = (
    ("qnn_op_types", "op", "num_htp_ops", "qnn op type"),
    ("qnn_op_instances_nodes", "qnn_op", "", "qnn op"),
    ("htp_op_types", "op", "instances", "htp op type"),
)
STEPS: tuple[tuple[str, Kind, str], ...] = (
    ("dma_wait", "wait", "dma"),
    ("dma_set", "sync", "dma"),
    ("dma", "issue", "dma"),
    ("sync", "sync", "sync"),
    ("hmx", "work", "hmx"),
    ("hvx", "work", "hvx"),
)
MOST_INPUTS = 64
OVERALL = ("time_us", "graph_execute_us", "timeline_cycles", "htp_nodes", "qnn_nodes", "peak_vtcm_alloc")


def read_qhas(source: Source, findings: Findings) -> Trace:
    """Return the trace of an analysis summary; threads whose instances are missing are one event each.

    Raises
    ------
    InvalidInputError
        If the file is none.
    """
    trace = Trace("qhas", "cycles", findings)
    whole_file = document(source, findings)
    data = whole_file.get("data") if isinstance(whole_file, dict) else None
    if not isinstance(data, dict):
        raise InvalidInputError(f"{source.name}: no object 'data'; give an analysis summary of QNN")
    overall = next(_rows(data, "htp_overall_summary", findings), {})
    trace.meta |= {key: label(overall[key], 60) for key in OVERALL if key in overall}
    _clock(trace, overall)
    seen: dict[str, int] = {}
    needs: Needs = []
    for row in _rows(data, "htp_op_instances", findings):
        _instance(trace, row, seen, needs)
    for i, nodes in needs:
        trace.edges += [Edge(seen[node], i, "inputs") for node in nodes if seen.get(node, i) != i]
    full = len(trace) > 0
    for row in _rows(overall, "htp_resources", findings):
        _resource(trace, row, full=full)
    for section, name, count, group in GROUPS:
        for row in _rows(data, section, findings):
            cycles = whole(row.get("cycles"))
            if cycles is None:
                findings.add("malformed", f"{section}: {label(row.get(name), 60)} has no cycles")
                continue
            trace.totals.append(ClassTotal(label(row.get(name)), group, whole(row.get(count)) or 1, cycles, None))
    if not len(trace) and not trace.totals:
        raise InvalidInputError(f"{source.name}: neither threads nor ops; give an analysis summary of QNN")
    return trace


def _rows(parent: Any, section: str, findings: Findings) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``section``: a table is an object with ``data``."""
    table = parent.get(section) if isinstance(parent, dict) else None
    rows = table.get("data") if isinstance(table, dict) else table
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict):
            yield row
        else:
            findings.add("malformed", f"a row of {section}")


def _clock(trace: Trace, overall: dict[str, Any]) -> None:
    """Cycles over the time of the graph: rough, since the time counts whole microseconds."""
    cycles, us = whole(overall.get("timeline_cycles")), whole(overall.get("graph_execute_us"))
    if cycles and us and cycles > 0 and us > 0:
        trace.meta["mhz_of_graph"] = f"{cycles / us:.1f}"


def _resource(trace: Trace, row: dict[str, Any], *, full: bool) -> None:
    start, end, used = (whole(row.get(key)) for key in ("start_cycle", "end_cycle", "cycles_used"))
    kind, tid = label(row.get("type"), 40), label(row.get("tid"), 40)
    if start is None or end is None or used is None:
        trace.findings.add("malformed", f"thread {tid} has no cycles")
        return
    trace.totals.append(ClassTotal(f"{tid} {kind}", "thread busy", 1, used, None))
    if not full:
        lane = trace.lane(("thread", tid, kind, ""), engine_of(kind), f"{tid} {kind}")
        trace.add(f"thread {tid}", "op", lane, start, end - start, key=tid, detail=f"busy {used}")


def _instance(trace: Trace, row: dict[str, Any], seen: dict[str, int], needs: Needs) -> None:
    start, cycles = whole(row.get("start_cycle")), whole(row.get("cycles"))
    name, tid = label(row.get("htp_op")), label(row.get("tid"), 40)
    if start is None or cycles is None:
        trace.findings.add("rejected", f"{name}: start {label(row.get('start_cycle'), 40)}")
        return
    kind: Kind
    kind, engine = next(((kind, engine) for flag, kind, engine in STEPS if row.get(flag) is True), ("work", "other"))
    lane = trace.lane(("thread", tid, engine, ""), engine, tid)
    qnn = f"{label(row.get('qnn_op_type'), 100)}|{label(row.get('qnn_op'), 300)}"
    i = trace.add(name, kind, lane, start, cycles, key=label(row.get("op_id"), 60), detail=qnn)
    inputs = row.get("input_nodes")
    if i >= 0:
        seen.setdefault(label(row.get("op_id"), 60), i)
        if isinstance(inputs, list):
            needs.append((i, tuple(dict.fromkeys(label(node, 60) for node in inputs[:MOST_INPUTS]))))
