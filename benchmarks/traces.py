"""How long does a large trace take to import, and how much memory?

Writes traces of ``--size`` megabytes in the formats that grow (ggml-hexagon op trace, Chrome trace, optrace, our own
records), reads each in a process of its own, and sums it up. Rows: form, mb, events, seconds (processor time),
wall_s, peak_mb (of the process), mb_per_event_million. ``--quick`` takes 8 MB each.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READER = """
import json, resource, sys, time
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.summary import summarize
begun, told = time.monotonic(), []
trace = read_trace(sys.argv[1], on_progress=lambda done, total: told.append(done))
read = time.process_time()
rows = len(summarize(trace).engines) if sys.argv[2] == "summary" else 0
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"form": trace.form, "events": len(trace), "read_s": round(read, 1), "engines": rows,
                  "seconds": round(time.process_time(), 1), "wall_s": round(time.monotonic() - begun, 1),
                  "peak_mb": usage.ru_maxrss // 1024, "progress": len(told),
                  "warnings": [f.text for f in trace.findings.warnings][:3]}))
"""


def ggml() -> Iterator[str]:
    """Return batches of matmuls with events of four threads and the HMX."""
    at, batch = 10**9, 0
    while True:
        batch += 1
        yield (
            "ggml-hex: HTP0 profile-op OPBATCH|----|n-ops 8|evt-cnt 32,32,32,32,0,0,0,0,0,0,16|----|----|"
            f"usec 400 cycles 800000 start {at} mhz 2000.0\n"
        )
        for op in range(8):
            start = at + op * 100_000
            yield (
                f"ggml-hex: HTP0 profile-op MUL_MAT|blk.{op}.w x a -> o|2048:512 x 2048:32 -> 512:32|q4_0 x f32 -> f32|"
                f"36:2304|hmx-tiled vtcm 4096|usec 50 cycles 100000 start {start % 2**32} mhz 2000.0\n"
            )
            for thread in (0, 1, 2, 3, 10):
                name = "HMX_COMP" if thread == 10 else "HVX_W_DEQUANT"
                for k in range(4):
                    begin = start + k * 20_000 + thread * 7
                    edge = f"ggml-hex: HTP0 trace-evt {name}: thread {thread} info {k}"
                    yield f"{edge} start {begin % 2**32}\n{edge} stop {(begin + 15_000) % 2**32}\n"
        at += 900_000


def chrome() -> Iterator[str]:
    """Return complete events on six threads."""
    yield '{"traceEvents":[\n{"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}}'
    k = 0
    while True:
        k += 1
        yield (
            f',\n{{"name":"op{k % 97}","ph":"X","ts":{k * 10}.125,"dur":8.5,"pid":1,"tid":{k % 6},'
            f'"args":{{"tile":{k % 31}}}}}'
        )


def optrace() -> Iterator[str]:
    """Return ops of an optrace with their arguments."""
    yield '{"header":{"header_version":1,"artifact_type":"OP_TRACE"},"traceEvents":[\n'
    yield '{"ph":"M","name":"thread_name","pid":0,"tid":256,"args":{"name":"Type: HMX"}}'
    k = 0
    while True:
        k += 1
        at = k * 400
        yield (
            f',\n{{"name":"ConvLayer","ph":"X","tid":256,"pid":0,"ts":{at},"dur":390,"args":{{"ID":"0x{k:x}",'
            f'"HTP Op Type":"ConvLayer","Flags":["uses_hmx"],"Start Cycle":{7 * 10**12 + at},"Duration (cycles)":390,'
            '"Cycles per Packet":1.5,"QNN Op Type":"Conv2d","QNN Op Name":"conv"}}'
        )


def records() -> Iterator[str]:
    """Return records of our own runtime, several executions."""
    yield '{"schema":"hexloom.trace/1","name":"n","tool":"t","schedule_hash":"0000000000000000","kernels":"flow",'
    yield '"clock":"ns","runs":1,"workers":[{"engine":"hvx","unit":0,"kind":"hvx","dropped":0}],"records":[\n'
    k = 0
    while True:
        k += 1
        yield (
            f'{"," if k > 1 else ""}{{"worker":0,"task":{k % 500},"op":"op{k % 500}","slice":0,"run":{k // 500},'
            f'"phase":"run","start_ns":{k * 100},"end_ns":{k * 100 + 90}}}\n'
        )


FORMS: dict[str, tuple[Callable[[], Iterator[str]], str]] = {
    "ggml": (ggml, ""),
    "chrome": (chrome, "\n]}\n"),
    "optrace": (optrace, "\n]}\n"),
    "records": (records, "]}\n"),
}


def write(path: Path, form: str, size_mb: float) -> None:
    """Write a trace of about that size."""
    make, tail = FORMS[form]
    left = int(size_mb * 1e6)
    with path.open("w", encoding="utf-8") as file:
        for piece in make():
            file.write(piece)
            left -= len(piece)
            if left <= 0:
                break
        file.write(tail)


def measured(path: Path, what: str) -> dict[str, Any]:
    """Return what reading (and summing up) a file took, in a process of its own."""
    command = [sys.executable, "-c", READER, str(path), what]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        return {"failed": ran.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=100, help="megabytes of each trace")
    parser.add_argument("--form", choices=sorted(FORMS), action="append", help="only these")
    parser.add_argument("--quick", action="store_true", help="8 MB each")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    size = 8.0 if args.quick else args.size
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for form in args.form or FORMS:
            path = Path(scratch) / f"{form}.trace"
            write(path, form, size)
            mb = path.stat().st_size / 1e6
            row = {"form": form, "mb": round(mb, 1), **measured(path, "summary")}
            row["bytes_per_event"] = round(row["peak_mb"] * 1e6 / max(1, row["events"]), 1) if "events" in row else None
            rows.append(row)
            if not args.json:
                print(*(f"{key}={value}" for key, value in row.items()), flush=True)
            path.unlink()
    summary = {
        "largest_peak_mb": max((row.get("peak_mb", 0) for row in rows), default=0),
        "failed": sum("failed" in row for row in rows),
    }
    answer = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {"hexloom": version("hexloom")},
        "rows": rows,
        "summary": summary,
    }
    print(json.dumps(answer, indent=1) if args.json else f"summary: {summary}")


if __name__ == "__main__":
    main()
