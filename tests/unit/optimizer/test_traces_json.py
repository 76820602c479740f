"""JSON traces: Chrome's in all its forms, those of QNN, ours, and the stream they are read through."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from traces import LWP, chrome, optrace, qhas, qnn_csv, records, run_chrome, runtrace
from unit.small import move, on, problem

from hexloom import InvalidInputError, solve
from hexloom.emit.timeline import timeline_json
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.optimizer.traces.trace import Trace


def trace_of(folder: Path, data: Any, **more: Any) -> Trace:
    path = folder / "trace.json"
    path.write_bytes(
        data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode()
    )
    return read_trace(path, **more)


def warnings(trace: Trace) -> dict[str, int]:
    return {finding.code: finding.count for finding in trace.findings.warnings}


def x(name: str, ts: Any, dur: Any, tid: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": tid, **more}


def half(phase: str, name: str | None, ts: int, tid: int = 1) -> dict[str, Any]:
    return {"ph": phase, "ts": ts, "pid": 1, "tid": tid} | ({} if name is None else {"name": name})


def test_all_phases_of_a_chrome_trace(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, chrome())
    assert warnings(trace) == {}
    found = {(e.name, e.engine, e.lane, e.start, e.end) for e in trace}
    assert found == {
        ("late", "hmx", "HMX", 30_500, 31_750),
        ("early", "hmx", "HMX", 0, 10_000),
        ("b", "hvx", "HVX[0]", 12_000, 20_000),
        ("move", "dma", "dma", 1000, 9000),
        ("move", "dma", "dma", 2000, 5000),
    }
    assert trace.counters == {"bytes live": [(4000, 12)], "bytes free": [(4000, 3)]}
    names = [e.name for e in trace]
    assert [(names[e.before], names[e.after], e.kind) for e in trace.edges] == [("early", "b", "d")]
    assert trace[names.index("late")].key == "mm.3"


def test_the_innermost_slice_of_its_name_ends(tmp_path: Path) -> None:
    events = [half("B", "out", 0), half("B", "in", 5), half("E", "out", 10), half("E", None, 12), half("B", "last", 20)]
    trace = trace_of(tmp_path, events)
    assert [(e.name, e.start, e.end) for e in trace] == [("out", 0, 10_000)]
    assert warnings(trace) == {"unpaired_start": 2, "unpaired_stop": 1}


def test_begin_and_end_out_of_order_and_of_no_length(tmp_path: Path) -> None:
    mixed = [half("E", "a", 8), half("B", "b", 8), half("B", "a", 0), half("E", "b", 9)]
    trace = trace_of(tmp_path, mixed)
    assert sorted((e.name, e.start, e.end) for e in trace) == [("a", 0, 8000), ("b", 8000, 9000)]
    assert warnings(trace) == {}
    empty = trace_of(tmp_path, [half("B", "z", 5), half("E", "z", 5), half("B", "y", 5), half("E", "y", 6)])
    assert [(e.name, e.ticks) for e in empty] == [("z", 0), ("y", 1000)]
    early = [{"ph": p, "cat": "c", "id": 1, "name": "a", "ts": ts, "pid": 1} for p, ts in (("e", 9), ("b", 4))]
    (event,) = trace_of(tmp_path, early)
    assert (event.start, event.end) == (4000, 9000)


def test_times_are_decimals_in_any_unit(tmp_path: Path) -> None:
    event = [x("a", 10, "2.5")]
    for unit, expected in (
        ("us", ("ns", 10_000, 2500)),
        ("ns", ("ns", 10, 2)),
        ("cycles@1943.6", ("cycles", 10, 2)),
        ("ticks19.2", ("ticks_19m2", 10, 2)),
    ):
        trace = trace_of(tmp_path, event, unit=unit)
        assert (trace.clock, trace[0].start, trace[0].ticks) == expected
    assert trace_of(tmp_path, event, unit="cycles@1943.6").khz == 1_943_600
    for wrong in ("s", "cycles@", "cycles@x", "cycles@0", ""):
        with pytest.raises(InvalidInputError, match="--unit" if wrong else "no"):
            trace_of(tmp_path, event if wrong else {}, unit=wrong or None)
    with pytest.raises(InvalidInputError, match="says its units"):
        trace_of(tmp_path, optrace(), unit="us")


def test_neighbours_still_touch_after_rounding(tmp_path: Path) -> None:
    """Thirds of a nanosecond: every end is rounded like the start that follows it."""
    text = ",".join(
        f'{{"name":"e{k}","ph":"X","ts":{k}.000{k % 10}33,"dur":1.0001,"pid":1,"tid":1}}' for k in range(1, 9)
    )
    trace = trace_of(tmp_path, f"[{text}]")
    ends = [(a.end, b.start) for a, b in pairwise(trace)]
    assert all(end == start for end, start in ends), ends
    assert "overlap" not in warnings(trace)


@pytest.mark.parametrize(
    ("ts", "dur"),
    [("x", 1), (1, "x"), (None, 1), (1, None), (1, -1), (0, 0), (10**30, 1), (1, 10**30), ([], 1), (True, 1), (1, {})],
)
def test_records_without_a_time_are_rejected(tmp_path: Path, ts: Any, dur: Any) -> None:
    trace = trace_of(tmp_path, [x("bad", ts, dur), x("good", 5, 1)])
    assert [e.name for e in trace] == ["good"]
    assert warnings(trace) == {"rejected": 1}


def test_constants_that_are_no_numbers(tmp_path: Path) -> None:
    times = ('"ts":NaN,"dur":1', '"ts":1,"dur":Infinity', '"ts":1e3,"dur":1e400')
    text = "[" + ",".join(f'{{"name":"a","ph":"X",{of}}}' for of in times) + "]"
    assert warnings(trace_of(tmp_path, text)) == {"rejected": 3, "incomplete": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("{}", "no known format"),
        ('{"traceEvents": 7}', "traceEvents is no array"),
        ('{"traceEvents": [}', "expecting value"),
        ('{"traceEvents": [{}} ]}', "comma is missing"),
        ('{"traceEvents": [1 2]}', "comma is missing"),
        ('{"traceEvents": [], "x" 7}', "colon is missing"),
        ('{"traceEvents": [], x: 7}', "name in quotes"),
        ('{"traceEvents": [] "x": 7}', "comma is missing"),
        ('{"traceEvents": [{"a":', "ends in the middle"),
        ('{"traceEvents": []', "ends in the middle"),
        ('[{"a": 1 "b": 2, "c": 3, "d": 4, "e": 5}]', "delimiter"),
        ("[" + "[" * 100_000, "nested too deep|no known"),
        ('{"entries": 7}', "entries is no array"),
        ('{"entries": []}', "no entries"),
        ('{"schema": "hexloom.trace/1", "records": 1}', "records is no array"),
        ('{"schema": "hexloom.trace/1", "clock": "days"}', "clock 'days'"),
        ('{"header": {"artifact_type": "QHAS"}}', "no object 'data'"),
        ('{"header": {"artifact_type": "QHAS"}, "data": {}}', "neither threads nor ops"),
        ("PK\x03\x04zip", "zip archive"),
        ("Msg Timestamp,Message\n", "no column 'Time'"),
        ("no trace at all", "no known trace format"),
        ('{"schema": "hexloom.tra\nce/1", "records": []}', "a JSON object of no known format"),
        ('{"schema": "hexloom.schedule/1"}', "this is a file of hexloom.schedule/1"),
    ],
)
def test_what_is_no_trace_is_told_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as raised:
        trace_of(tmp_path, text)
    assert "\n" not in str(raised.value)
    assert "trace.json" in str(raised.value)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidInputError, match=r"No such file|directory"):
            read_trace(path)


@pytest.mark.parametrize("end", ["", "]", ",", ",]", "]\n\n", " , "])
def test_an_array_may_end_as_it_likes(tmp_path: Path, end: str) -> None:
    trace = trace_of(tmp_path, json.dumps([x("a", 1, 1), x("b", 3, 1)])[:-1] + end)
    assert [e.name for e in trace] == ["a", "b"]
    assert warnings(trace) == {}


def test_what_follows_the_end_is_said(tmp_path: Path) -> None:
    assert warnings(trace_of(tmp_path, json.dumps([x("a", 1, 1)]) + json.dumps([x("b", 3, 1)]))) == {"trailing": 1}


def test_a_packed_file_that_is_cut(tmp_path: Path) -> None:
    events = json.dumps([x(f"e{k}", k * 7919 % 1000 + 1, k % 13 + 1) for k in range(5000)])
    whole = gzip.compress(events.encode())
    trace = trace_of(tmp_path, whole[: len(whole) // 2])
    assert 1000 < len(trace) < 4000
    assert warnings(trace)["incomplete"] >= 1
    assert len(trace_of(tmp_path, whole + b"\0" * 512)) == 5000, "padding of tar and disks"
    assert len(trace_of(tmp_path, whole + b"garbage")) == 5000


def test_records_across_pieces_of_the_file(tmp_path: Path) -> None:
    """Names of many lengths move every token over the border between two pieces that are read."""
    events = [x("n" * (k % 3000), k + 1, 1) for k in range(400)]
    trace = trace_of(tmp_path, {"traceEvents": events, "otherData": {"a": 1}})
    assert [e.start for e in trace] == [(k + 1) * 1000 for k in range(400)]
    assert trace.meta["otherData.a"] == "1"


def test_optrace_units_copies_and_edges(tmp_path: Path) -> None:
    for header in (True, False):
        trace = trace_of(tmp_path, optrace(header=header))
        assert trace.form == "qnn-optrace"
        assert warnings(trace) == {}
        assert [(e.name, e.engine, e.kind, e.start, e.end) for e in trace] == [
            ("weights_to_vtcm", "dma", "issue", 20, 120),
            ("wait", "dma", "wait", 120, 420),
            ("Quantize", "hvx", "work", 0, 400),
            ("Conv", "hmx", "work", 420, 920),
        ]
        assert trace.findings.count("duplicate") == 4
        assert trace.findings.count("ignored") == 2
        assert [tuple(edge) for edge in trace.edges] == [(2, 3, "sequencer")]
        assert trace.counters == {"VTCM alloc": [(20, 65536)]}
        assert trace.meta["first_cycle"] == "5000000"
    late = json.loads(optrace())
    named = {"ph": "M", "pid": 0, "tid": 1, "name": "thread_name", "args": {"name": "Non Executed Tensors"}}
    late["traceEvents"].append(named)
    assert len(trace_of(tmp_path, late)) == 4
    named["args"] = {"name": "Type: HVX"}
    assert [e.engine for e in trace_of(tmp_path, late)][4:] == ["hvx", "hvx"]
    bare = json.loads(optrace())
    bare["traceEvents"] = [e for e in bare["traceEvents"] if e["ph"] not in "sf"]
    edges = [tuple(edge) for edge in trace_of(tmp_path, bare).edges]
    assert edges == [(0, 1, "inputs"), (1, 3, "inputs"), (2, 3, "inputs")]


def test_runtrace_clock_is_cycles_over_ticks(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, runtrace())
    assert [(e.name, e.batch, e.op, e.khz) for e in trace] == [
        ("QNN DSP Execute", 0, -1, 960_000),
        ("Graph Execute", 0, 0, 960_000),
        ("QNN DSP Execute", 1, -1, 1_920_000),
        ("Graph Execute", 1, 2, 1_920_000),
    ]
    summary = summarize(trace)
    assert [op.ns for op in summary.ops] == [52_083, 26_042]
    assert summary.span_ticks == 900 + 400, "executions are never compared with each other"


def test_qhas_instances_are_a_timeline(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, qhas())
    assert [(e.name, e.engine, e.lane, e.start, e.end) for e in trace] == [
        ("Quantize", "hvx", "512", 1000, 1800),
        ("Conv", "hmx", "256", 1300, 2000),
    ]
    assert [tuple(edge) for edge in trace.edges] == [(0, 1, "inputs")]
    assert {t.name: t.ticks for t in trace.totals} == {"256 HMX": 700, "512 HVX": 800, "Conv2d": 1500}
    assert summarize(trace).overlaps[0].ticks == 500


def test_csv_with_a_column_more_and_several_executions(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, qnn_csv())
    assert [(e.name, e.key, e.ticks, e.batch) for e in trace] == [
        ("Input", "OpId_2", 100, 0),
        ("/a/Conv, 1", "OpId_24", 4900, 0),
        ("Input", "OpId_2", 101, 1),
        ("/a/Conv, 1", "OpId_24", 4900, 1),
    ]
    assert [(t.group, t.ns) for t in trace.totals if t.name == "RPC (execute) time"] == [
        ("execution 0", 900_000),
        ("execution 1", 900_000),
    ]


def test_lwp_closes_what_was_left_open(tmp_path: Path) -> None:
    assert [(e.key, e.start, e.ticks) for e in trace_of(tmp_path, LWP)] == [("2", 1100, 400), ("1", 1000, 1000)]
    entries = [{"id": 1, "cyc": 10}, {"id": 2, "cyc": 20}, {"id": 1, "cyc": 30}, {"id": 3, "cyc": 40}, {"cyc": 1}]
    trace = trace_of(tmp_path, {"entries": entries})
    assert [(e.key, e.ticks) for e in trace] == [("1", 20)]
    assert warnings(trace) == {"unpaired_start": 2, "malformed": 1}


def test_records_of_the_runtime(tmp_path: Path) -> None:
    for text in (records(), run_chrome()):
        trace = trace_of(tmp_path, text)
        assert (trace.form, trace.clock, warnings(trace)) == ("hexloom.trace/1", "ns", {})
        assert [(e.name, e.kind, e.engine, e.lane, e.start, e.end, e.batch) for e in trace][2:] == [
            ("mm.0", "work", "hmx", "hmx[0]", 950, 2000, 0),
            ("load.0", "issue", "hvx", "hvx[0]", 5000, 5010, 1),
            ("load.0", "wait", "hvx", "hvx[0]", 5010, 5900, 1),
            ("mm.0", "work", "hmx", "hmx[0]", 5950, 7000, 1),
        ]
    data = json.loads(records())
    assert trace_of(tmp_path, data).meta["schedule_hash"] == "0" * 16
    data["workers"][0]["dropped"] = 7
    data["records"] += [{"op": "x", "start_ns": 1}, 7, {"op": "y", "start_ns": 9, "end_ns": 8}]
    data["records"] += [
        {"op": "z", "start_ns": 1.5, "end_ns": 2},
        {"op": "w", "start_ns": 1, "end_ns": 2, "phase": "?"},
    ]
    assert warnings(trace_of(tmp_path, data)) == {"malformed": 4, "rejected": 1, "dropped": 7}
    data = json.loads(records()) | {"clock": {"unit": "cycles", "mhz": 1943.6}}
    data["records"] = [{"op": "a", "worker": 9, "start": 5, "end": 7}]
    trace = trace_of(tmp_path, {key: data[key] for key in ("schema", "clock", "workers", "records")})
    assert (trace.clock, trace.khz, trace[0].engine, trace[0].ticks) == ("cycles", 1_943_600, "thread", 2)


def test_our_own_timeline_is_read_back(tmp_path: Path) -> None:
    ops = move("load", 40, issue=3, poll=2), on("hvx", "a", 20), on("hmx", "mm", 31), on("hvx", "b", 7)
    plan = solve(problem(*ops, after="load>mm a>mm mm>b", tick_us="1/8"), seed=1, time_limit_s=1).schedule
    assert plan is not None
    trace = trace_of(tmp_path, timeline_json(plan))
    assert trace.form == "hexloom.timeline/1"
    assert warnings(trace) == {}
    tick = plan.problem.tick or 1
    work = {e.key: (e.start, e.end) for e in trace if e.kind == "work"}
    rows = {row.op: row for row in plan.rows}
    assert work
    for name, (start, end) in work.items():
        mode = next(
            op.modes[a.mode] for op, a in zip(plan.problem.ops, plan.plan.assignments, strict=True) if op.name == name
        )
        begun = rows[name].start + mode.overhead_ticks
        assert (start, end) == (round(begun * tick * 1000), round(rows[name].end * tick * 1000))
    flights = {e.key: (e.start, e.end) for e in trace if e.engine == "in flight"}
    assert flights == {
        name: (round(row.transfer_start * tick * 1000), round(row.done * tick * 1000))
        for name, row in rows.items()
        if plan.problem.ops[plan.problem.op_index[name]].modes[0].dma is not None
    }


def test_a_base_time_moves_all_stamps(tmp_path: Path) -> None:
    data = json.loads(json.dumps({"traceEvents": json.loads(chrome())}))
    plain = trace_of(tmp_path, data)
    for place in ("before", "after"):
        base = {"baseTimeNanoseconds": 1_700_000_000_000_000_000}
        moved = trace_of(tmp_path, base | data if place == "before" else data | base)
        by = base["baseTimeNanoseconds"]
        assert [(e.name, e.start, e.ticks) for e in moved] == [(e.name, (e.start or 0) + by, e.ticks) for e in plain]
        assert moved.edges == plain.edges
        assert moved.counters["bytes live"] == [(4000 + by, 12)]
    assert warnings(trace_of(tmp_path, data | {"baseTimeNanoseconds": 2**61})) == {"rejected": 1}
    assert warnings(trace_of(tmp_path, data | {"baseTimeNanoseconds": 2**61 - 1})) == {"rejected": 1}


@pytest.mark.parametrize("kind", ["sync", "async", "same key"])
def test_what_never_ends_costs_no_more_than_what_does(tmp_path: Path, kind: str) -> None:
    """Each open slice could be looked through for each end: here that would be billions of steps."""
    count = 8000
    if kind == "same key":
        line = "ggml-hex: HTP0 trace-evt DMA: thread 0 info 0"
        rows = [f"{line} start {k}" for k in range(count)] + [f"{line} stop {count + k}" for k in range(count)]
        path = tmp_path / "op.log"
        path.write_text(
            "ggml-hex: HTP0 profile-op ADD|a|1|f32|1|----|usec 1 cycles 9 start 0 mhz 1.0\n" + "\n".join(rows)
        )
        trace = read_trace(path)
        assert len(trace) == count + 1
        return
    begin, end = ("B", "E") if kind == "sync" else ("b", "e")
    more = {"pid": 1, "tid": 1, "cat": "c", "id": 1}
    events = [{"ph": begin, "name": f"open {k}", "ts": k, **more} for k in range(count)]
    events += [{"ph": end, "name": f"no {k}", "ts": count + k, **more} for k in range(count)]
    trace = trace_of(tmp_path, events)
    assert warnings(trace) == {"unpaired_start": count, "unpaired_stop": count, "incomplete": 1}
