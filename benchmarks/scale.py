"""How far from proven is a plan of 32 to 800 ops after a fixed time, with a tight and a roomy scratchpad?

Instances: `generators.four_stage_and_vector`, seeds fixed. Rows: size (asked for), ops, factor, seed, status, gap,
plan_gap, certificate, seconds, peak_mb (of the whole process so far), and proof_s: seconds of a solve that ends with a
proof, an optimum or a gap of at most 0.1 %, None where there is none in time. The summary has, per size and factor, the
median gap and the median of proof_s (None when most instances have none). ``--quick`` ends in under 50 s.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import sys
import time
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from generators import four_stage_and_vector

from hexloom import solve

FACTORS = (1.1, 2.0)

PROVEN_GAP = Fraction(1, 1000)
"""A gap to the lower bound that counts as a proof."""


def _medians(rows: list[dict[str, Any]], ops: int, factor: float) -> dict[str, Any]:
    mine = [row for row in rows if row["size"] == ops and row["factor"] == factor]
    gaps = [row["gap"] for row in mine if row["gap"] is not None]
    proof = median(math.inf if row["proof_s"] is None else row["proof_s"] for row in mine)
    return {
        "size": ops,
        "factor": factor,
        "gap_median": median(gaps) if gaps else None,
        "proof_s_median": None if math.isinf(proof) else proof,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few instances, little time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per instance")
    args = parser.parse_args()
    sizes, seeds, limit = (
        ((32, 128, 400), (0,), 5.0) if args.quick else ((32, 64, 128, 400, 800), (0, 1, 2), args.time_limit)
    )
    rows: list[dict[str, Any]] = []
    for ops in sizes:
        for factor in FACTORS:
            for seed in seeds:
                problem = four_stage_and_vector(ops, seed, factor)
                started = time.monotonic()
                result = solve(problem, time_limit_s=limit, enough_gap=PROVEN_GAP)
                seconds = round(time.monotonic() - started, 2)
                proven = result.gap is not None and (result.gap <= PROVEN_GAP or result.plan_gap == 0)
                row = {
                    "size": ops,
                    "ops": len(problem.ops),
                    "factor": factor,
                    "seed": seed,
                    "status": result.status,
                    "gap": None if result.gap is None else round(float(result.gap), 5),
                    "plan_gap": None if result.plan_gap is None else round(float(result.plan_gap), 5),
                    "certificate": result.certificate,
                    "seconds": seconds,
                    "proof_s": seconds if proven else None,
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
        "summary": {
            "gap_median": median(gaps),
            "gap_max": max(gaps),
            "solved": len(gaps),
            "of": len(rows),
            "by_size": [_medians(rows, ops, factor) for ops in sizes for factor in FACTORS],
        },
    }
    print(json.dumps(found, indent=1) if args.json else f"summary: {found['summary']}")


if __name__ == "__main__":
    main()
