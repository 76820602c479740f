"""How much faster is a sweep with two workers than with one, on this machine, and are both cores busy?

A pair of tasks with a matrix and a vector side is studied at 1,000 points (work ratio, tile-time jitter, scratchpad,
bandwidth) on Dask clusters of one worker and of two. Rows: workers, points, seconds, points_per_s, and the processor
time that the workers (cpu_s) and this process with the scheduler (own_cpu_s) spent. Summary: speedup (target 1.8);
busy, the cores that two workers kept busy; by_cpu, the speedup that these processor times allow where nobody else runs,
2 w / (w + o), which a busy machine does not change. ``same_rows`` says whether both gave the same results. The points
are cut into rounds in which one and two workers take turns, so that what else runs on the machine disturbs them alike;
workers have loaded what they need before they are timed. ``--quick`` ends in under 50 s.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from distributed import Client

from hexloom import Workload
from hexloom.optimizer.study.sweep import sweep
from hexloom.optimizer.study.workers import local_cluster

PAIR: dict[str, Any] = {
    "schema": "hexloom.workload/1",
    "name": "pair",
    "hw": "hexagon-v79",
    "tasks": [
        {
            "name": "mm",
            "ops": [
                {
                    "for": "i",
                    "count": 4,
                    "buffers": [{"name": "w.{i}", "size_bytes": "256KiB"}, {"name": "acc.{i}", "size_bytes": "512KiB"}],
                    "ops": [
                        {"name": "load.{i}", "engine": "dma", "duration_us": 12, "bytes": {"ddr": "256KiB"},
                         "buffers": ["w.{i}"]},
                        {"name": "mm.{i}", "engine": "hmx", "duration_us": 30, "after": ["load.{i}"],
                         "buffers": ["w.{i}", "acc.{i}"]},
                        {"name": "out.{i}", "engine": "hvx", "units": "all", "duration_us": 10, "after": ["mm.{i}"],
                         "buffers": ["acc.{i}"]},
                    ],
                }
            ],
        },
        {
            "name": "norm",
            "ops": [
                {
                    "for": "i",
                    "count": 4,
                    "ops": [{"name": "row.{i}", "engine": "hvx", "units": "all", "duration_us": 15,
                             "bytes": {"ddr": "256KiB"}}],
                }
            ],
        },
    ],
}  # fmt: skip

TARGET = 1.8
ROUNDS = 5
"""Turns of each number of workers; a cluster is started anew for each."""


def specs(points: int, turn: int) -> list[str]:
    """Return a grid of ``points`` points, other ones in every turn."""
    ratios = points // 20
    low, high = 0.1 + turn / 1000, 10 + turn / 1000
    return [
        f"work_ratio={low}..{high}:log{ratios}",
        "jitter=0,0.1,0.2,0.3,0.4",
        "vtcm.total_bytes=4MiB,8MiB",
        "ddr.total_gb_s=40,60",
    ]


def spent() -> float:
    """Return the seconds of processor time of this process."""
    return time.process_time()


def run(points: int, workers: int, turn: int) -> tuple[dict[str, Any], list[Any]]:
    """Sweep one turn's points on a cluster of its own and return the row and the results."""
    work = Workload.from_data(PAIR)
    with (
        tempfile.TemporaryDirectory() as folder,
        local_cluster(workers) as cluster,
        Client(cluster) as client,
    ):
        warm = {"time_limit_s": 0.0, "seed": 1, "scheduler": cluster.scheduler_address}
        sweep(work, None, ["work_ratio=0.11,0.22,0.33,0.44,0.55,0.66,0.77,0.88"], Path(folder) / "warm", **warm)
        before, own, began = sum(client.run(spent).values()), spent(), time.perf_counter()
        found = sweep(work, None, specs(points, turn), Path(folder) / "timed", **warm)
        seconds = time.perf_counter() - began
        own = spent() - own
        cpu = sum(client.run(spent).values()) - before
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in found.rows]
    return {"workers": workers, "points": len(rows), "seconds": seconds, "cpu_s": cpu, "own_cpu_s": own}, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds, points = (1, 80) if options.quick else (ROUNDS, 1000 // ROUNDS)
    total = {
        workers: {"workers": workers, "points": 0, "seconds": 0.0, "cpu_s": 0.0, "own_cpu_s": 0.0} for workers in (1, 2)
    }
    same = True
    for turn in range(rounds):
        results = []
        for workers in (1, 2) if turn % 2 == 0 else (2, 1):
            row, found = run(points, workers, turn)
            results.append(found)
            for key in ("points", "seconds", "cpu_s", "own_cpu_s"):
                total[workers][key] += row[key]
        same = same and results[0] == results[1]
    rows = [
        {**row, "seconds": round(row["seconds"], 2), "cpu_s": round(row["cpu_s"], 2),
         "points_per_s": round(row["points"] / row["seconds"], 2)}
        for row in total.values()
    ]  # fmt: skip
    summary = {
        "speedup": round(total[1]["seconds"] / total[2]["seconds"], 3),
        "target": TARGET,
        "by_cpu": round(2 * total[2]["cpu_s"] / (total[2]["cpu_s"] + total[2]["own_cpu_s"]), 3),
        "busy": round(total[2]["cpu_s"] / total[2]["seconds"], 3),
        "same_rows": same,
        "load_average": round(os.getloadavg()[0], 2),
    }
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    versions = {name: version(name) for name in ("hexloom", "distributed", "ortools")}
    if options.json:
        print(json.dumps({"machine": machine, "versions": versions, "rows": rows, "summary": summary}))
        return
    for row in rows:
        print(
            f"{row['workers']} worker(s): {row['points']} points in {row['seconds']} s, {row['points_per_s']} a second"
        )
    print(f"speedup {summary['speedup']} (target {TARGET}; by processor time {summary['by_cpu']})")
    print(f"{summary['busy']} cores busy with two workers; same rows: {same}")
    print(f"load average of the machine: {summary['load_average']}")


if __name__ == "__main__":
    main()
