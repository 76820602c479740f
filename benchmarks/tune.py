"""What does each parameter of the matmul bring alone, and all of them jointly, on ggml-hexagon's ten golden shapes?

Shapes: those for which its parameter solver's answers are known (type, m, k, n, VTCM), on hexagon-v81. Rows, in
microseconds at ``overhead_us`` a fork/join and hand-over: existing (its chunks in its loop), what is saved by chunks,
load_parts, slices and order alone, all (jointly) with lower_bound, and one_by_one: chunks first, then parts of loads
for these chunks, then slices, then the order: what tuning one parameter after the other ends with. choices, excluded,
solved and open are counts of joint choices. The last row is MUL_MAT_ID, four experts of 128 rows: existing is ggml's
push and pop, load_parts and slices are these in that loop, order is a pipeline of the same ops, all is all of it; its
chunks stay ggml's. ``--quick`` ends in under 50 s.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from fractions import Fraction
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from hexloom import Workload, load_hw, solve, tune
from hexloom.optimizer.tune.parameters import DEPTHS, Shape, grid_of
from hexloom.optimizer.tune.search import with_overhead
from hexloom.optimizer.tune.trials import Trials, us_of

if TYPE_CHECKING:
    from hexloom.optimizer.kernels.ggml_layout import WeightType
    from hexloom.optimizer.solve import Result

GOLDEN = (
    ("q4_0", 742, 2048, 6144, 8),
    ("q4_0", 742, 2048, 6144, 4),
    ("q4_0", 1024, 1024, 1024, 8),
    ("q4_0", 512, 4096, 4096, 8),
    ("q4_0", 128, 4096, 4096, 8),
    ("q8_0", 512, 4096, 4096, 8),
    ("q4_0", 512, 4096, 11008, 8),
    ("q4_0", 512, 11008, 4096, 8),
    ("f16", 1024, 1024, 1024, 8),
    ("q4_0", 35, 2048, 8192, 8),
)
QUICK = (2, 9)


def _one_by_one(trials: Trials, seconds: float) -> float:
    """Return what is left after the best chunks, then the best parts for these, then slices, then an order."""
    pairs = grid_of(trials.shape, trials.machine, trials.threads, DEPTHS[0]).chunks
    best = trials.best_loop({c: trials.floors(c) for pair in pairs for c in [trials.chosen(*pair)]}, seconds)
    assert best is not None
    for field, values in (("load_parts", (1, 2, 4, 8)), ("slices", (False, True))):
        tried = [best.model_copy(update={field: value}) for value in values]
        best = min(tried, key=lambda chosen: trials.loop_us(chosen) or float("inf"))
    return us_of(trials.solve(best, seconds).makespan_us)


def _row(kind: str, m: int, k: int, n: int, mib: int, seconds: float, overhead: Fraction) -> dict[str, Any]:
    machine = load_hw("hexagon-v81")
    if mib != 8:
        machine = machine.with_values({"vtcm.total_bytes": mib << 20})
    started = time.monotonic()
    weight_type = cast("WeightType", kind)
    found = tune("matmul_w4a16", m, k, n, weight_type, machine, time_limit_s=seconds, overhead_us=overhead).tuned
    assert found is not None
    trials = Trials(Shape(m, k, n, weight_type), with_overhead(machine, overhead), 8, "fluid", seconds, None)
    return {
        "shape": f"{kind} {m}x{k}x{n} {mib} MiB",
        "overhead_us": float(overhead),
        "existing": found.existing_us and round(found.existing_us, 1),
        **{
            row.lever: round(row.saved_us, 1)
            for row in found.rows
            if row.lever not in ("existing", "all") and row.saved_us is not None
        },
        "all": round(found.makespan_us, 1),
        "lower_bound": round(found.lower_bound_us, 1),
        "one_by_one": round(_one_by_one(trials, seconds / 4), 1),
        "bound_by": found.bound_by,
        **found.counts.model_dump(include={"choices", "excluded", "solved", "open"}),
        "seconds": round(time.monotonic() - started, 1),
    }


def _experts(seconds: float, overhead: Fraction) -> dict[str, Any]:
    """Return the row of MUL_MAT_ID."""
    machine = with_overhead(load_hw("hexagon-v81"), overhead)
    started = time.monotonic()

    def found(**changes: Any) -> tuple[float, Result]:
        task = {"name": "experts", "kernel": "matmul_id", "rows": [128] * 4, "k": 2048, "n": 2048, **changes}
        work = Workload.from_data({"name": "experts", "tasks": [task]})
        result = solve(work, machine, time_limit_s=seconds / 4, explained=False)
        assert result.schedule is not None
        existing = result.schedule.baselines["existing"]
        assert existing is not None
        return float(result.schedule.us(existing)), result

    today, plan = found(fixed_owner=True)
    joint = found(load_parts=8, slices=True)[1]
    best = min(plan, joint, key=lambda result: us_of(result.makespan_us))
    return {
        "shape": "matmul_id q4_0 4 x 128x2048x2048 8 MiB",
        "overhead_us": float(overhead),
        "existing": round(today, 1),
        "load_parts": round(today - found(load_parts=8)[0], 1),
        "slices": round(today - found(slices=True)[0], 1),
        "order": round(today - us_of(plan.makespan_us), 1),
        "all": round(us_of(best.makespan_us), 1),
        "lower_bound": round(us_of(best.lower_bound_us), 1),
        "bound_by": best.bottleneck,
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few shapes, little time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds per shape")
    parser.add_argument("--overhead-us", type=Fraction, default=Fraction(1), help="a fork/join and hand-over")
    args = parser.parse_args()
    shapes, limit = ([GOLDEN[i] for i in QUICK], 8.0) if args.quick else (list(GOLDEN), args.time_limit)
    rows = []
    for shape in shapes:
        rows.append(_row(*shape, limit, args.overhead_us))
        if not args.json:
            print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    rows.append(_experts(limit, args.overhead_us))
    if not args.json:
        print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
    levers = ("chunks", "load_parts", "slices", "order")
    summary = {
        "rows_where_zero": {lever: sum(row[lever] < 0.05 for row in rows if lever in row) for lever in levers},
        "joint_beats_one_by_one": sum(row["all"] < row["one_by_one"] - 0.05 for row in rows if "one_by_one" in row),
        "of": len(shapes),
    }
    found = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {name: version(name) for name in ("hexloom", "ortools", "numpy")},
        "rows": rows,
        "summary": summary,
    }
    print(json.dumps(found, indent=1) if args.json else f"summary: {summary}")


if __name__ == "__main__":
    main()
