"""How far from proven is a plan of 32 to 800 ops after a fixed time, with a tight and a roomy scratchpad?

Instances: `generators.four_stage_and_vector`, seeds fixed. Rows: ops, factor, seed, status, gap, plan_gap, certificate,
seconds, peak_mb (of the whole process so far). ``--quick`` ends in under 50 s.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from generators import four_stage_and_vector

from hexloom import solve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few instances, little time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per instance")
    args = parser.parse_args()
    sizes, seeds, limit = (
        ((32, 128), (0,), 5.0) if args.quick else ((32, 64, 128, 400, 800), (0, 1, 2), args.time_limit)
    )
    rows: list[dict[str, Any]] = []
    for ops in sizes:
        for factor in (1.1, 2.0):
            for seed in seeds:
                problem = four_stage_and_vector(ops, seed, factor)
                started = time.monotonic()
                result = solve(problem, time_limit_s=limit)
                row = {
                    "ops": len(problem.ops),
                    "factor": factor,
                    "seed": seed,
                    "status": result.status,
                    "gap": None if result.gap is None else round(float(result.gap), 5),
                    "plan_gap": None if result.plan_gap is None else round(float(result.plan_gap), 5),
                    "certificate": result.certificate,
                    "seconds": round(time.monotonic() - started, 2),
                    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                }
                rows.append(row)
                if not args.json:
                    print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    gaps = [row["gap"] for row in rows if row["gap"] is not None]
    found = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {name: version(name) for name in ("hexloom", "ortools", "numpy")},
        "rows": rows,
        "summary": {"gap_median": median(gaps), "gap_max": max(gaps), "solved": len(gaps), "of": len(rows)},
    }
    print(json.dumps(found, indent=1) if args.json else f"summary: {found['summary']}")


if __name__ == "__main__":
    main()
