"""Cases about input and traces: what a file may say, and what is made of it."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import (
    run_cli,
    schedule_of,
)
from cases.neutral import to_problem

from hexloom import InvalidInputError
from hexloom.emit.timeline import timeline_json
from hexloom.optimizer.traces.clock import odd_ones, ratio_khz
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.nesting import parents
from hexloom.optimizer.traces.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexloom.optimizer.traces.summary import EngineRow, TraceSummary
    from hexloom.optimizer.traces.trace import Trace

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


def trace_of(folder: Path, text: str | bytes, name: str = "trace.json") -> Trace:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_trace(path)


def row(summary: TraceSummary, engine: str) -> EngineRow:
    (found,) = [row for row in summary.engines if row.engine == engine]
    return found


def words(trace: Trace) -> list[str]:
    return [finding.text for finding in trace.findings.warnings]


def test_trc_01_busy_is_a_union_and_in_flight_an_average(case: Case, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, case("TRC-01")["text"], "op.log")
    summary = summarize(trace)
    dma, hmx = row(summary, "dma"), row(summary, "hmx")
    assert (dma.total_ticks, dma.busy_ticks, summary.span_ticks, dma.most_at_once) == (1600, 1000, 1000, 2)
    assert dma.in_flight(summary.span_ticks) == 1.6
    assert hmx.busy_ticks == 500
    assert [(o.engines, o.ticks) for o in summary.overlaps] == [(("dma", "hmx"), 500)]
    assert not dma.exact, "a DMA span ends when its ring entry was popped"
    (op,) = summary.ops
    assert (op.start_ticks, op.span_ticks, op.bound_by) == (5000, 1000, "engine")
    assert words(trace) == []


def test_trc_03_queues_pair_in_order_and_what_is_left_is_reported(case: Case, tmp_path: Path) -> None:
    head = "ggml-hex: HTP0 profile-op MUL_MAT: a : 1:1 : f32 : 1:1 : usec 1 cycles 100 start 0 mhz 100.0\n"
    names = {"HVX": "HVX_COMP"}
    lines = [
        f"ggml-hex: HTP0 trace-evt {names.get(event, event)}: thread 0 info {info} {edge} {at}\n"
        for event, info, edge, at in case("TRC-03")["events"]
    ]
    trace = trace_of(tmp_path, head + "".join(lines), "op.log")
    dma = row(summarize(trace), "dma")
    assert (dma.total_ticks, dma.busy_ticks, dma.events) == (40, 30, 2)
    assert trace.findings.count("unpaired_start") == trace.findings.count("unpaired_stop") == 1
    assert words(trace) == [
        "1 start without a stop, not counted (HVX_COMP info 1 of thread 0 at 50)",
        "1 stop without a start, not counted (HVX_COMP info 2 of thread 0 at 60)",
    ]
    assert not [row for row in summarize(trace).engines if row.engine == "hvx"], "HVX was measured 0"


def test_trc_04_a_clock_is_a_ratio_of_sums(case: Case, tmp_path: Path) -> None:
    ops = [(op["cycles"], op["usec"]) for op in case("TRC-04")["ops"]]
    khz = ratio_khz(ops)
    assert khz == 2_000_999  # 2,003,000 cycles in 1,001 us
    assert odd_ones(ops, khz) == [], "an op of one microsecond says too little to disagree"
    lines = [
        f"ggml-hex: HTP0 profile-op ADD|a|1|f32|1|----|usec {us} cycles {cycles} start {at * 10**6} mhz 0.0\n"
        for at, (cycles, us) in enumerate(ops)
    ]
    trace = trace_of(tmp_path, "".join(lines), "op.log")
    assert trace.khz == khz
    assert any("0 us" in note.text for note in trace.findings.notes)
    assert ratio_khz([(900, 0)]) is None
    lines.append("ggml-hex: HTP0 profile-op ADD|a|1|f32|1|----|usec 1000 cycles 1500000 start 9000000 mhz 1500.0\n")
    slow = trace_of(tmp_path, "".join(lines), "slow.log")
    assert slow.findings.count("clock") > 0


def test_trc_06_overlapping_events_of_one_track_are_kept_and_flagged(case: Case, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, json.dumps(case("TRC-06")))
    (engine,) = summarize(trace).engines
    assert (engine.events, engine.total_ticks, engine.busy_ticks, engine.most_at_once) == (2, 20_000, 15_000, 2)
    assert [(f.code, f.count) for f in trace.findings.warnings] == [("overlap", 1)]


def test_trc_06_our_own_trace_never_overlaps_on_a_track(case: Case) -> None:
    events = json.loads(timeline_json(schedule_of(case("ORD-04")["reuse"])))["traceEvents"]
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    assert tracks
    for spans in tracks.values():
        ordered = sorted(spans)
        assert all(end <= start for (_, end), (start, _) in pairwise(ordered))


def test_trc_07_mixed_complete_and_begin_end_events_nest(case: Case, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, json.dumps(case("TRC-07")))
    assert words(trace) == []
    spans = {e.name: (e.start, e.end) for e in trace}
    assert spans == {
        "b0": (0, 8000),
        "b1": (8000, 12_000),
        "x0": (0, 8000),
        "x1": (8000, 16_000),
        "out": (20_000, 29_000),
        "in": (20_000, 24_000),
    }
    (engine,) = summarize(trace).engines
    assert engine.busy_ticks == 25_000
    tree = parents(trace)
    names = [e.name for e in trace]
    assert names[tree[names.index("in")]] == "out"
    assert tree[names.index("out")] == -1
    assert names[tree[names.index("b1")]] == "x1"


def test_trc_09_an_array_may_be_cut_an_object_may_not(case: Case, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, case("TRC-09")["text"])
    (event,) = trace
    assert (event.start, event.end) == (10_000, 14_000)
    assert words(trace) == ["1 incomplete record dropped"]
    whole = '{"traceEvents": [{"name":"t","ph":"X","ts":10,"dur":4,"pid":1,"tid":1}, {"name":"u","ph":'
    with pytest.raises(InvalidInputError, match="the object ends in the middle, after 1 records"):
        trace_of(tmp_path, whole, "object.json")
    path = tmp_path / "object.json"
    assert len(read_trace(path, partial=True)) == 1


def test_trc_10_gzip_in_several_members_and_by_any_name(tmp_path: Path) -> None:
    first = b'[{"name":"a","ph":"X","ts":0,"dur":1,"pid":1,"tid":1},'
    second = b'{"name":"b","ph":"X","ts":2,"dur":1,"pid":1,"tid":1}]'
    packed = gzip.compress(first) + gzip.compress(second)
    for name, data in (("t.json.gz", packed), ("t.json", packed), ("plain.json.gz", first + second)):
        trace = trace_of(tmp_path, data, name)
        assert [e.name for e in trace] == ["a", "b"], name
        assert words(trace) == []


def test_trc_12_records_without_a_time_set_no_origin(case: Case, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, json.dumps(case("TRC-12")))
    summary = summarize(trace)
    assert (summary.span_ticks, summary.engines[0].busy_ticks) == (24_000, 10_000)
    assert trace.findings.count("rejected") == 2


def test_trc_13_stamps_are_decimals(case: Case, tmp_path: Path) -> None:
    p, q = trace_of(tmp_path, case("TRC-13")["file_text"])
    assert p.start == 1615207264505000100
    assert p.end == q.start
    (engine,) = summarize(trace_of(tmp_path, case("TRC-13")["file_text"])).engines
    assert (engine.busy_ticks, engine.most_at_once) == (400, 1)


def test_trc_15_unknown_keys_are_errors(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        to_problem(case("TRC-15"))
    assert "unknown key 'buf' (did you mean 'bufs'?)" in str(raised.value)
    assert "unknown key 'byte' (did you mean 'bytes'?)" in str(raised.value)
    path = tmp_path / "work.yaml"
    path.write_text(
        "name: misspelled\nhw: hexagon-v79\ntasks:\n- name: t\n"
        "  ops: [{name: k, engine: hvx, duration_us: 1, buffer: [b]}]\n"
        "  buffers: [{name: b, size_byte: 16777216}]\n",
        encoding="utf-8",
    )
    code, out, said = run_cli(capsys, "solve", path)
    assert (code, out) == (2, "")
    assert "unknown key 'buffer' (did you mean 'buffers'?)" in said
    assert "unknown key 'size_byte' (did you mean 'size_bytes'?)" in said
    assert said.count("\n") == 1
