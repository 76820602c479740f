"""ggml-hexagon logs: the wrap of 32 bits, batches, pairs, full buffers, and all forms of lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from traces import GGML, GGML_V0, GGML_V1, SUMMARY

from hexloom import InvalidInputError
from hexloom.optimizer.traces.findings import Findings
from hexloom.optimizer.traces.ggml_lines import BadLine, OpLine, parse_line
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.pairing import Edge, paired
from hexloom.optimizer.traces.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.optimizer.traces.trace import Trace

WRAP = 1 << 32


def trace_of(folder: Path, text: str) -> Trace:
    path = folder / "op.log"
    path.write_bytes(text.encode())
    return read_trace(path)


def warnings(trace: Trace) -> dict[str, int]:
    return {finding.code: finding.count for finding in trace.findings.warnings if finding.code != "clock"}


def batch(start: int, ops: int = 1, counts: str = "----", cycles: int = 1000) -> str:
    head = f"ggml-hex: HTP0 profile-op OPBATCH|----|n-ops {ops}|{counts}|----|----"
    return f"{head}|usec 1 cycles {cycles} start {start} mhz 1.0\n"


def op(start: int, cycles: int = 1000, name: str = "ADD", device: str = "HTP0") -> str:
    return f"ggml-hex: {device} profile-op {name}|a|1|f32|1|----|usec 1 cycles {cycles} start {start % WRAP} mhz 1.0\n"


def event(name: str, edge: str, at: int, thread: int = 0, info: int = 0, device: str = "HTP0") -> str:
    return f"ggml-hex: {device} trace-evt {name}: thread {thread} info {info} {edge} {at % WRAP}\n"


def test_cycles_go_on_where_the_counter_wraps(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, GGML)
    base = 2 * WRAP
    spans = [(e.name, e.lane, e.start, e.end, e.op) for e in trace]
    assert spans == [
        ("OPBATCH", "HTP0 batches", base - 592, base + 5408, -1),
        ("MUL_MAT+ADD", "HTP0", base - 496, base + 3504, -1),
        ("ADD", "HTP0", base + 3704, base + 4704, -1),
        ("DMA", "HTP0 T0", base - 396, base + 200, 1),
        ("DMA", "HTP0 T0", base - 296, base + 300, 1),
        ("HVX_A_PREP", "HTP0 T1", base + 100, base + 1100, 1),
        ("HMX_COMP", "HTP0 HMX", base + 250, base + 3000, 1),
    ]
    assert warnings(trace) == {}
    assert trace.values[1] == (1, 2, 3, 4, 5, 6, 7, 8)
    assert trace.meta["Profiling mode 2"].startswith("pmu-evt")
    assert [trace[i].exact for i in (3, 5)] == [False, True]


@pytest.mark.parametrize("gap", [WRAP // 2 - 2000, 3, 10**9])
def test_a_batch_of_many_wraps_follows_its_ops(tmp_path: Path, gap: int) -> None:
    start = 5 * WRAP + 17
    lines, at, starts = [batch(start, 8)], start, []
    for _ in range(8):
        at += gap
        starts.append(at)
        lines.append(op(at))
        at += 1000
    trace = trace_of(tmp_path, "".join(lines))
    assert [e.start for e in trace if e.kind == "op"] == starts


def test_nothing_is_paired_across_batches(tmp_path: Path) -> None:
    lines = [batch(1000), op(1000), event("DMA", "start", 1100), batch(5000), op(5000), event("DMA", "stop", 5100)]
    trace = trace_of(tmp_path, "".join(lines))
    assert warnings(trace) == {"unpaired_start": 1, "unpaired_stop": 1}
    assert [e.batch for e in trace if e.kind == "op"] == [0, 1]
    assert not [e for e in trace if e.name == "DMA"]


def test_devices_are_kept_apart(tmp_path: Path) -> None:
    lines = [
        op(1000),
        op(1000, device="HTP0:1"),
        event("DMA", "start", 1100),
        event("DMA", "stop", 1200, device="HTP0:1"),
    ]
    trace = trace_of(tmp_path, "".join(lines))
    assert warnings(trace) == {"unpaired_start": 1, "unpaired_stop": 1}
    assert {e.lane for e in trace} == {"HTP0", "HTP0:1"}


def test_a_span_belongs_to_the_op_that_had_begun(tmp_path: Path) -> None:
    lines = [batch(1000, 2), op(1000, 100), op(1500, 200)]
    for start, stop in ((900, 950), (1300, 1310), (1499, 1501), (1500, 1501), (1900, 1910)):
        lines += [event("HVX_COMP", "start", start), event("HVX_COMP", "stop", stop)]
    trace = trace_of(tmp_path, "".join(lines))
    assert [e.op for e in trace if e.name == "HVX_COMP"] == [-1, 1, 1, 2, 2]
    assert warnings(trace) == {"outside": 1}


def test_full_buffers_and_lost_records_are_reported(tmp_path: Path) -> None:
    counts = "evt-cnt 300,2,256,0,0,0,0,0,0,0,0"
    lines = [batch(1000, 1, counts), op(1000), event("DMA", "start", 1100), event("DMA", "stop", 1200)]
    trace = trace_of(tmp_path, "".join(lines))
    # Thread 0 states 300 and prints 2, thread 1 states 2 and prints none, thread 2 256 and none.
    assert warnings(trace) == {"saturated": 2, "dropped": 298 + 2 + 256}
    state = "ggml-hex: HTP0 trace-state capacity 512 saturated-mask 0x401\n"
    trace = trace_of(tmp_path, batch(1000) + op(1000) + state)
    assert warnings(trace) == {"saturated": 2}


def test_queues_are_first_in_first_out_and_other_work_nests() -> None:
    key = (0, "x", 0)
    edges = [(False, 10), (False, 20), (True, 30), (True, 40)]
    for fifo, expected in ((True, [(10, 30), (20, 40)]), (False, [(20, 30), (10, 40)])):
        found = paired([Edge(key, stops, at, fifo) for stops, at in edges], Findings())
        assert [(start, end) for _, start, end in found] == expected
    findings = Findings()
    lost = [Edge(key, False, 10, False), Edge(key, False, 90, False), Edge(key, True, 95, False)]
    assert [(start, end) for _, start, end in paired(lost, findings)] == [(90, 95)], "the older start lost its stop"
    assert findings.count("unpaired_start") == 1


def test_the_forms_of_2026_and_2025(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, GGML_V1)
    assert [(e.name, e.engine, e.start, e.ticks, e.batch) for e in trace] == [
        ("MUL_MAT", "op", 5000, 1000, 0),
        ("DMA", "dma", 5000, 600, 0),
        ("HMX_COMP", "hmx", 5200, 500, 0),
        ("ADD", "op", 6000, 500, 1),
    ]
    assert warnings(trace) == {}
    old = trace_of(tmp_path, GGML_V0)
    assert [(e.name, e.ticks, e.khz) for e in old] == [("MUL_MAT", 100000, 2_000_000), ("ADD", 20000, 2_000_000)]
    assert [t.ns for t in old.totals] == [5000, 44_000, 1000, 0, 10_000, 0]


@pytest.mark.parametrize(
    ("line", "params", "khz"),
    [
        ("HTP0 profile-op ADD|a|1|f32|1|hvx vtcm 64|usec 2 cycles 4 start 1 mhz 2.5", "hvx vtcm 64", 2500),
        ("HTP0:3 profile-op ADD|a|1|f32|1|usec 2 cycles 4 start 1 mhz 2.5", "", 2500),
        ("HTP0 profile-op ADD|a|1|f32|1|----|op-usec 2 op-cycles 4 start 1", "", 0),
        ("HTP0 profile-op ADD: a -> b (x) : 1 : f32 : 1 : usec 2 cycles 4 start 1 mhz 2.5 pmu [1, 2]", "", 2500),
    ],
)
def test_six_and_seven_fields(line: str, params: str, khz: int) -> None:
    for before in ("", "0.01.2.3 D ", "12-01 10:00:00.1 I/ggml ( 77): ", "\ufeff"):
        found = parse_line(f"{before}ggml-hex: {line}\r".rstrip("\r"))
        assert isinstance(found, OpLine)
        assert (found.op, found.usec, found.cycles, found.start) == ("ADD", 2, 4, 1)
        assert (found.params, found.khz) == (params, khz)


def test_lines_of_the_profile_that_are_damaged_are_counted(tmp_path: Path) -> None:
    assert isinstance(parse_line("ggml-hex: HTP0 profile-op ADD|a|1|f32|1|----|usec x"), BadLine)
    assert parse_line("ggml-hex: HTP0 loaded something") is None
    assert parse_line("profile-op of somebody else") is None
    trace = trace_of(
        tmp_path, op(1000) + "ggml-hex: HTP0 trace-evt DMA: thread 0 info 0 start 12\x00\n" + op(9000)[:50]
    )
    assert warnings(trace) == {"malformed": 2}
    assert len(trace) == 1


def test_line_ends_and_wide_text_of_windows(tmp_path: Path) -> None:
    for data in (GGML.replace("\n", "\r\n").encode(), GGML.encode("utf-16")):
        path = tmp_path / "log"
        path.write_bytes(data)
        assert len(read_trace(path)) == 7


def test_sums_longer_than_their_op_are_in_flight_not_busy(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, SUMMARY)
    row = summarize(trace).ops[0]
    dma, hmx, hvx = row.engines
    assert (dma.engine, dma.total_ticks, dma.busy_ticks, dma.exact) == ("dma", 30000, 20000, False)
    assert (hmx.busy_ticks, hvx.busy_ticks) == (12000, 5000)
    assert row.bound_by == "unknown"
    assert warnings(trace) == {}


def test_a_log_without_a_profile_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no known trace format"):
        trace_of(tmp_path, "hello\nworld\n")
    trace = trace_of(tmp_path, "ggml-hex: HTP0 hwinfo: threads 6\n")
    assert warnings(trace) == {"incomplete": 1}
