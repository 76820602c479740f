"""Small traces in every format that is imported, written for these tests."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

GGML = """\
build: 6123 (abcdef) with clang
ggml-hex: HTP0 hwinfo: threads 6, hvx 6, hmx 1, vtcm 8 MB
ggml-hex: Profiling mode 2 : pmu-evt [ 0x3,0x111 ]
0.01.002.003 D ggml-hex: HTP0 profile-op OPBATCH|----|n-ops 2|evt-cnt 4,2,0,0,0,0,0,0,0,0,2|----|----|usec 3 cycles 6000 start 8589934000 mhz 2000.0
0.01.002.004 D ggml-hex: HTP0 profile-op MUL_MAT+ADD|w (q) x a -> o|64:64 x 64:8 -> 64:8|q4_0 x f32 -> f32|36:2304 x 256:2048|hmx-tiled vtcm 4096|usec 2 cycles 4000 start 4294966800 mhz 2000.0 pmu [1,2,3,4,5,6,7,8]
D ggml-hex: HTP0 profile-op ADD|a x b -> c|64:8|f32|256:2048|usec 1 cycles 1000 start 3704 mhz 1000.0
ggml-hex: HTP0 trace-evt DMA: thread 0 info 0 start 4294966900
ggml-hex: HTP0 trace-evt DMA: thread 0 info 1 start 4294967000
ggml-hex: HTP0 trace-evt DMA: thread 0 info 0 stop 200
ggml-hex: HTP0 trace-evt DMA: thread 0 info 1 stop 300
ggml-hex: HTP0 trace-evt HVX_A_PREP: thread 1 info 3 start 100
ggml-hex: HTP0 trace-evt HVX_A_PREP: thread 1 info 3 stop 1100
ggml-hex: HTP0 trace-evt HMX_COMP: thread 10 info 0 start 250
ggml-hex: HTP0 trace-evt HMX_COMP: thread 10 info 0 stop 3000
"""
"""One batch whose clock wraps inside its first op: 8589934000 is 592 below 2 * 2^32."""

GGML_V1 = """\
ggml-hex: HTP0 profile-op MUL_MAT: w x a -> o : 64:64 x 64:8 -> 64:8 : q4_0 x f32 -> f32 : 36:2304 : usec 1 cycles 1000 start 5000 evt [3,0]
ggml-hex: HTP0 trace-op MUL_MAT: thread 0 event DMA info 0 start 5000
ggml-hex: HTP0 trace-op MUL_MAT: thread 10 event 40 info 0 start 5200
ggml-hex: HTP0 trace-op MUL_MAT: thread 0 event DMA info 0 stop 5600
ggml-hex: HTP0 trace-op MUL_MAT: thread 10 event 40 info 0 stop 5700
ggml-hex: HTP0 profile-op ADD: x : 64:8 : f32 : 256 : op-usec 1 op-cycles 500 start 6000 mhz 500.0
"""

GGML_V0 = """\
ggml-hex: HTP0 MUL_MAT leaf_0 64:64:1:1 x leaf_1 64:8:1:1 -> q 64:8:1:1 : total 50 us (quant 5 us, compute 44 us, vtcm 1 us) cycles 100000 pkts 50000 (2.00) call 11 us
ggml-hex: HTP0 ADD a 64:8 -> b 64:8 : total 10 us (quant 0 us, compute 10 us, vtcm 0 us) cycles 20000 pkts 9000 (2.22) call 3 us
"""

TABLE = """\
# Tiny per-op profile  (3 op instances, total 60 usec = 0.1 ms HTP compute)

op                total_us     %  count  avg_us   avg_cyc
---------------------------------------------------------
MUL_MAT+ADD             50 83.3%      2    25.0     50000
ADD                     10 16.7%      1    10.0     20000

# MUL_MAT by weight tensor role
role                    total_us   %MM  count  avg_us  dims(w x act)
attn_q                      50 99.0%      2    25.0  64:64 x 64:8

# kernel implementation used (kparams field)
  hvx-tiled                   60 us   99.0%   x3
"""

SUMMARY = """\
MUL_MAT (64:64 x 64:8 -> 64:8 : q4_0 x f32 -> f32) - 10 usec 20000 cycles
  Thread 0 (HVX)  : A-PREP 5000 (25.0%) | DMA 30000 (150.0%)
  Thread 10 (HMX) : M-COMP 12000 (60.0%)
ADD (64:8 : f32) - 2 usec 4000 cycles
"""

EVENTS = """\
[profiler][g]event[0]: Number of HVX threads used, count: 4
[profiler][g]event[1]: RPC (execute) time, duration: 29.409 ms
[profiler][g]event[6]: Accelerator (execute) time (cycles), sub_count: 2, start
[profiler][g]sub_event[0]: Input OpId_2 (cycles), cycles: 340526
[profiler][g]sub_event[1]: mul:OpId_3 (cycles), cycles: 12
[profiler][g]event[0]: Number of HVX threads used, count: 4
[profiler][g]event[6]: Accelerator (execute) time (cycles), sub_count: 1, start
[profiler][g]sub_event[0]: Input OpId_2 (cycles), cycles: 340000
"""

LWP = '{"entries":[{"id":1,"cyc":1000,"ret":7},{"id":2,"cyc":1100},{"id":2,"cyc":1500},{"id":1,"cyc":2000}]}'


def optrace(*, header: bool = True) -> str:
    """Three ops twice, a constant, a flow, repeated names, an empty counter key."""

    def op(name: str, pid: int, tid: int, ts: int, dur: int, ident: str, flags: list[str], inputs: list[str]) -> Any:
        args = {"ID": ident, "HTP Op Type": name, "Inputs Ops": inputs, "Flags": flags, "QNN Op Type": "Conv2d"}
        args |= {"QNN Op Name": f"conv.{pid and 0}", "Start Cycle": 5_000_000 + ts, "Duration (cycles)": dur}
        return {"name": name, "ph": "X", "tid": tid, "pid": pid, "ts": ts, "dur": dur, "args": args}

    def named(pid: int, tid: int, name: str) -> Any:
        return {"cat": "__metadata", "pid": pid, "tid": tid, "ph": "M", "name": "thread_name", "args": {"name": name}}

    events: list[Any] = []
    for pid in (0, 2):
        events += [
            named(pid, 256, "Type: HMX" if pid == 0 else "Core:0 Type: HMX Tid: 256"),
            op("weights_to_vtcm", pid, 256, 20, 100, "0x1", ["dma"], ["0xff"]),
            op("wait", pid, 256, 120, 300, "0x2", ["dma_wait"], ["0x1"]),
            named(pid, 512, "Type: HVX"),
            op("Quantize", pid, 512, 0, 400, "0x3", [], []),
            op("Conv", pid, 256, 420, 500, "0x4", ["uses_hmx"], ["0x2", "0x3", "0x3"]),
            named(pid, 256, "Type: HMX"),
        ]
    events += [
        op("$Const", 0, 1, 0, 5, "0xff", [], []),
        op("q::Reshape", 0, 1, 5, 5, "0xfe", [], []),
        {"name": "VTCM alloc", "ph": "C", "tid": 0, "pid": 0, "ts": 20, "args": {"": 65536}},
        {"ph": "s", "id": 1, "cat": "sequencer", "name": "e", "pid": 0, "tid": 512, "ts": 400, "pb": "e"},
        {"ph": "f", "id": 1, "cat": "sequencer", "name": "e", "pid": 2, "tid": 256, "ts": 420, "pb": "e"},
    ]
    found = {"header": {"artifact_type": "OP_TRACE"}, "traceEvents": events}
    return json.dumps(found if header else {"traceEvents": events}, indent=0)


def runtrace() -> str:
    """Two executions; the second twice as fast in cycles per tick."""
    events = []
    for at, ticks, cycles in ((0, 1000, 50_000), (5000, 500, 50_000)):
        for name, lead in (("QNN DSP Execute", 0), ("Graph Execute", 100)):
            args = {"graph_name": "g", "stat_start_ticks": 7 * 10**12 + at + lead}
            args |= {"stat_end_ticks": 7 * 10**12 + at + ticks, "stat_start_cycles": 10**12}
            args["stat_end_cycles"] = 10**12 + cycles * (ticks - lead) // ticks
            events.append(
                {"name": name, "ph": "X", "tid": 0, "pid": 0, "ts": at + lead, "dur": ticks - lead, "args": args}
            )
    return json.dumps({"header": {"artifact_type": "RUN_TRACE"}, "traceEvents": events})


def qhas() -> str:
    """Two threads with two instances."""
    resources = [
        {"type": "HMX", "tid": 256, "start_cycle": 1000, "end_cycle": 2000, "cycles_used": 700},
        {"type": "HVX", "tid": 512, "start_cycle": 1000, "end_cycle": 1900, "cycles_used": 800},
    ]
    instances = [
        {
            "htp_op": "Quantize",
            "tid": 512,
            "op_id": "0x3",
            "start_cycle": 1000,
            "cycles": 800,
            "hmx": False,
            "hvx": True,
        },
        {
            "htp_op": "Conv",
            "tid": 256,
            "op_id": "0x4",
            "start_cycle": 1300,
            "cycles": 700,
            "hmx": True,
            "hvx": False,
            "input_nodes": ["0x3", "0x9"],
        },
    ]
    overall = {"htp_resources": {"data": resources}, "timeline_cycles": 1000, "graph_execute_us": 1, "htp_nodes": 2}
    data = {
        "htp_overall_summary": {"data": [overall]},
        "qnn_op_types": {"data": [{"op": "Conv2d", "cycles": 1500, "num_htp_ops": 2}]},
        "htp_op_instances": {"data": instances},
    }
    return json.dumps({"header": {"artifact_type": "QHAS"}, "data": data})


def qnn_csv() -> str:
    """Preparation, then two executions of two nodes, with a column more than of old."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    names = "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier,ONNX ops"
    writer.writerow(names.split(","))
    writer.writerow([0, "FINALIZE", 561285, "US", "BACKEND", "ROOT", "QNN (finalize) time", ""])
    for run in range(2):
        writer.writerow([0, "BACKEND", 4, "COUNT", "BACKEND", "ROOT", "Number of HVX threads used", ""])
        writer.writerow([0, "BACKEND", 900, "US", "BACKEND", "ROOT", "RPC (execute) time", ""])
        writer.writerow([0, "BACKEND", 5000, "CYCLES", "BACKEND", "ROOT", "Accelerator (execute) time (cycles)", ""])
        writer.writerow([0, "NODE", 100 + run, "CYCLES", "BACKEND", "SUB-EVENT", "Input OpId_2 (cycles)", ""])
        writer.writerow([0, "NODE", 4900, "CYCLES", "BACKEND", "SUB-EVENT", "/a/Conv, 1:OpId_24 (cycles)", "Conv"])
    return out.getvalue()


def chrome() -> str:
    """All phases, unsorted, with names after the events."""
    events = [
        {"name": "late", "ph": "X", "ts": 30.5, "dur": 1.25, "pid": 1, "tid": 1, "args": {"op": "mm.3"}},
        {"name": "early", "ph": "X", "ts": 0, "dur": "10", "pid": 1, "tid": 1},
        {"name": "b", "ph": "B", "ts": 12, "pid": 1, "tid": 2},
        {"name": "b", "ph": "E", "ts": 20, "pid": 1, "tid": 2},
        {"name": "move", "ph": "b", "cat": "dma", "id": 1, "ts": 1, "pid": 1, "tid": 0},
        {"name": "move", "ph": "b", "cat": "dma", "id": "0x2", "ts": 2, "pid": 1, "tid": 0},
        {"name": "move", "ph": "e", "cat": "dma", "id": 1, "ts": 9, "pid": 1, "tid": 0},
        {"name": "move", "ph": "e", "cat": "dma", "id": "0x2", "ts": 5, "pid": 1, "tid": 0},
        {"name": "bytes", "ph": "C", "ts": 4, "pid": 1, "args": {"live": 12, "free": 3.0}},
        {"name": "mark", "ph": "i", "ts": 4, "pid": 1, "tid": 1, "s": "t"},
        {"name": "arrow", "ph": "s", "cat": "d", "id": 9, "ts": 0, "pid": 1, "tid": 1},
        {"name": "arrow", "ph": "f", "cat": "d", "id": 9, "ts": 12, "pid": 1, "tid": 2, "bp": "e"},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "HMX"}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": {"name": "HVX[0]"}},
    ]
    return "[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n"


def records() -> str:
    """What the runtime writes: two workers, one transfer, two executions."""
    rows = []
    for run, at in ((0, 0), (1, 5000)):
        rows += [
            {"worker": 0, "task": 0, "op": "load.0", "slice": 0, "run": run, "phase": "start"},
            {"worker": 0, "task": 0, "op": "load.0", "slice": 0, "run": run, "phase": "observe"},
            {"worker": 1, "task": 1, "op": "mm.0", "slice": 0, "run": run, "phase": "run"},
        ]
        times = ((at, at + 10), (at + 10, at + 900), (at + 950, at + 2000))
        for row, (start, end) in zip(rows[-3:], times, strict=True):
            row |= {"start_ns": start, "end_ns": end}
    head = {"schema": "hexloom.trace/1", "name": "n", "tool": "hexloom", "machine": None, "target": "host"}
    head |= {"schedule_hash": "0" * 16, "kernels": "flow", "clock": "ns", "runs": 2}
    workers = [
        {"engine": "hvx", "unit": 0, "kind": "hvx", "dropped": 0},
        {"engine": "hmx", "unit": 0, "kind": "hmx", "dropped": 0},
    ]
    return json.dumps({**head, "workers": workers, "records": rows})


def run_chrome() -> str:
    """The same as Chrome events."""
    names = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": k, "args": {"name": name}}
        for k, name in ((1, "hvx[0]"), (2, "hmx[0]"))
    ]
    events = [
        {
            "ph": "X",
            "name": r["op"] if r["phase"] == "run" else f"{r['phase']} {r['op']}",
            "cat": r["phase"],
            "pid": 1,
            "tid": r["worker"] + 1,
            "ts": r["start_ns"] / 1000,
            "dur": (r["end_ns"] - r["start_ns"]) / 1000,
            "args": {"task": r["task"], "slice": 0, "run": r["run"]},
        }
        for r in json.loads(records())["records"]
    ]
    other = {"schema": "hexloom.trace/1", "name": "n", "schedule_hash": "0" * 16}
    return json.dumps({"displayTimeUnit": "ns", "otherData": other, "traceEvents": [*names, *events]})


TEXTS: dict[str, str] = {
    "ggml": GGML + GGML_V1 + GGML_V0,
    "ggml-table": TABLE,
    "ggml-summary": SUMMARY,
    "qnn-optrace": optrace(),
    "qnn-runtrace": runtrace(),
    "qhas": qhas(),
    "qnn-csv": qnn_csv(),
    "qnn-events": EVENTS,
    "lwp": LWP,
    "chrome": chrome(),
    "records": records(),
    "run-chrome": run_chrome(),
}
