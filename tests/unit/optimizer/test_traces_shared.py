"""Real traces of other people, read where they lie beside the repository: counts, units and intervals by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.optimizer.traces.trace import Trace

pytestmark = pytest.mark.shared


def warnings(trace: Trace) -> list[str]:
    return [finding.code for finding in trace.findings.warnings]


def test_every_file_imports_and_is_summed_up(shared_traces: Path) -> None:
    found = {path.name: read_trace(path) for path in sorted(shared_traces.iterdir()) if path.suffix != ".md"}
    assert {name: (trace.form, trace.clock, len(trace)) for name, trace in found.items()} == {
        "ggml_hexagon_perop_table_lfm2_v79.txt": ("ggml-hexagon-table", "cycles", 0),
        "ggml_hexagon_timeline_summary.txt": ("ggml-hexagon-summary", "cycles", 8),
        "ggml_hexagon_v0_profile_8elite.log": ("ggml-hexagon", "cycles", 4),
        "ggml_hexagon_v2_lines.log": ("ggml-hexagon", "cycles", 1),
        "ggml_hexagon_v3_trace_evt_SYNTHETIC.log": ("ggml-hexagon", "cycles", 3),
        "lwp_FORMAT_SYNTHETIC.json": ("lwp", "cycles", 3),
        "qhas_resnet50_winml.json": ("qhas", "cycles", 5),
        "qnn_ep_optrace_resnet50.csv": ("qnn-csv", "cycles", 395),
        "qnn_optrace_chain8_v75_excerpt.json": ("qnn-optrace", "cycles", 13),
        "qnn_profile_events_chraac.log": ("qnn-events", "cycles", 1),
        "qnn_runtrace_v8c8_v75.json": ("qnn-runtrace", "ticks_19m2", 12),
    }
    for trace in found.values():
        assert summarize(trace).form == trace.form


def test_runtrace_has_three_executions_and_the_clock_of_each(shared_traces: Path) -> None:
    path = shared_traces / "qnn_runtrace_v8c8_v75.json"
    trace = read_trace(path)
    assert warnings(trace) == []
    assert [event.batch for event in trace] == [0] * 4 + [1] * 4 + [2] * 4
    rows = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    for event, row in zip(trace, rows, strict=True):
        args = row["args"]
        ticks = args["stat_end_ticks"] - args["stat_start_ticks"]
        cycles = args["stat_end_cycles"] - args["stat_start_cycles"]
        assert (event.start, event.ticks) == (row["ts"], ticks)
        assert event.khz == round(Fraction(cycles * 19200, ticks))
        assert abs(event.khz / 1e6 - args["summary_htp_frequency_ghz"]) < 1e-5
    clocks = [round(event.khz / 1e6, 2) for event in trace if event.name == "QNN DSP Execute"]
    assert clocks == [1.10, 1.93, 1.93]
    assert [e.key or trace[e.op].batch for e in trace if e.kind == "work"] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    cold = {row.name: row.cold for row in summarize(trace).classes}
    assert cold["QNN DSP Execute"] and cold["Graph Execute"]


def test_optrace_counts_each_op_once_in_cycles(shared_traces: Path) -> None:
    path = shared_traces / "qnn_optrace_chain8_v75_excerpt.json"
    trace = read_trace(path)
    assert warnings(trace) == []
    assert trace.findings.count("duplicate") == 13
    rows = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
    assert [(e.name, e.start, e.ticks, e.key) for e in trace] == [
        (row["name"], row["ts"], row["dur"], row["args"]["ID"]) for row in rows
    ]
    kinds = {"dma": ("dma", "issue"), "dma_set": ("dma", "sync")}
    assert [(e.engine, e.kind) for e in trace] == [kinds[row["args"]["Flags"][0]] for row in rows]
    assert {e.lane for e in trace} == {"256 hmx"}
    assert trace.meta["first_cycle"] == str(rows[0]["args"]["Start Cycle"] - rows[0]["ts"]) == "7997466066654"
    assert len(trace.counters["VTCM alloc"]) == 10
    assert summarize(trace).counters == {"VTCM alloc": 337920}
    assert not any(row.working for row in summarize(trace).engines), "issuing is no transfer"


def test_csv_and_analysis_summary_are_of_the_same_run(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "qnn_ep_optrace_resnet50.csv")
    assert warnings(trace) == []
    runs = [[e for e in trace if e.batch == b] for b in range(5)]
    assert [len(run) for run in runs] == [79] * 5
    assert all(event.start is None for event in trace)
    assert [(e.name, e.key, e.ticks) for e in runs[0][:2]] == [
        ("Input", "OpId_2", 15233),
        ("pixel_values_QuantizeLinear_3", "OpId_16", 73376),
    ]
    cycles = [t.ticks for t in trace.totals if t.name == "Accelerator (execute) time (cycles)"]
    assert cycles[:2] == [3755250, 3422548] and len(cycles) == 5
    threads = [t.count for t in trace.totals if t.name == "Number of HVX threads used"]
    assert threads == [4] * 5
    qhas = read_trace(shared_traces / "qhas_resnet50_winml.json")
    assert warnings(qhas) == []
    nodes = {t.name: t.ticks for t in qhas.totals if t.group == "qnn op"}
    measured = {e.name: e.ticks for e in runs[0]}
    assert len(nodes) == 10
    assert {name: measured[name] for name in nodes} == nodes


def test_analysis_summary_has_threads_with_their_busy_cycles(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "qhas_resnet50_winml.json")
    assert [(e.engine, e.key, e.start, e.end) for e in trace][:2] == [
        ("hmx", "256", 105561930447, 105563512973),
        ("hvx", "512", 105561956679, 105563447746),
    ]
    busy = {t.name: t.ticks for t in trace.totals if t.group == "thread busy"}
    assert busy == {"256 HMX": 1321265, "512 HVX": 661768, "513 HVX": 614050, "514 HVX": 570374, "515 HVX": 588741}
    assert trace.meta["timeline_cycles"] == "1582526"


def test_ggml_of_all_ages(shared_traces: Path) -> None:
    old = read_trace(shared_traces / "ggml_hexagon_v0_profile_8elite.log")
    assert [e.ticks for e in old] == [10672609, 10501780, 10477154, 10469201]
    assert all(e.name == "MUL_MAT" and e.start is None for e in old)
    assert old.khz == round(Fraction(10672609 + 10501780 + 10477154 + 10469201, 5053 + 4972 + 4960 + 4957) * 1000)
    parts = [(t.name, t.ns) for t in old.totals][:3]
    assert parts == [("quant", 56_000), ("compute", 4_925_000), ("vtcm", 68_000)]
    (op,) = read_trace(shared_traces / "ggml_hexagon_v2_lines.log")
    assert (op.name, op.key, op.start, op.ticks) == ("MUL_MAT", "blk.0.attn.weight x act -> out", 1, 845450)
    assert op.detail == "2048:6144 x 2048:30 -> 6144:30|q8_0 x f32 -> f32|hmx-tiled vtcm 8000000"
    assert op.khz == 1_943_600
    new = read_trace(shared_traces / "ggml_hexagon_v3_trace_evt_SYNTHETIC.log")
    assert [(e.kind, e.start, e.ticks) for e in new] == [("batch", 1000, 700), ("op", 1000, 100), ("op", 1500, 200)]
    assert new.findings.count("unpaired_start") == 2


def test_ggml_tables_hold_their_sums(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "ggml_hexagon_perop_table_lfm2_v79.txt")
    assert warnings(trace) == []
    ops = [t for t in trace.totals if t.group == "op"]
    assert (len(ops), sum(t.count for t in ops)) == (16, 7994)
    assert abs(sum(t.ns or 0 for t in ops) - 500_307_000) <= 16_000, "16 rounded rows"
    assert len([t for t in trace.totals if t.group == "role"]) == 7
    kernels = {t.name: (t.count, t.ns) for t in trace.totals if t.group == "kernel"}
    assert kernels["hvx-tiled"] == (2176, 405_561_000)
    assert sum(count for count, _ in kernels.values()) == 7994
    summary = read_trace(shared_traces / "ggml_hexagon_timeline_summary.txt")
    op, dma = summary[0], next(e for e in summary if e.engine == "dma")
    assert (op.ticks, dma.ticks, dma.exact) == (1883599, 3010017, False)
    assert f"{dma.ticks / op.ticks:.1%}" == "159.8%"
    row = summarize(summary).ops[0]
    assert [(r.engine, r.busy_ticks <= op.ticks) for r in row.engines] == [("dma", True), ("hvx", True)]


def test_light_weight_profile_nests(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "lwp_FORMAT_SYNTHETIC.json")
    assert [(e.key, e.start, e.ticks) for e in trace] == [("2", 1100, 400), ("2", 1510, 395), ("1", 1000, 1000)]


def test_event_callback_log_says_what_is_missing(shared_traces: Path) -> None:
    trace = read_trace(shared_traces / "qnn_profile_events_chraac.log")
    (event,) = trace
    assert (event.name, event.key, event.ticks) == ("Input", "OpId_2", 340526)
    assert [(f.code, f.count) for f in trace.findings.warnings] == [("incomplete", 2)]
    assert {t.name: t.ns for t in trace.totals if t.ns}["RPC (execute) time"] == 29_409_000
