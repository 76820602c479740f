"""How long does a plan for millions of tiles take to make, and how far is it from a bound for all of them?

Instances: a W4A16 matmul beside a vector task, 10^3 to 10^7 tiles each, ``none`` and ``fluid``; the vector task is as
long as a fifth of a tile's matrix job, or most of it. Rows: tiles, ops_in_body, seconds (a whole `solve_periodic`, with
its check), gap, makespan_us, existing_us, schedule_kb, peak_mb (of the whole process so far).

With ``--flat``: random bodies with 8 to 24 trips, solved as loops and op by op; rows: body, trips, proven (whether the
optimum is), counted (whether the search over tile counters of `counters.py`, which needs gcc, came to its end; else it
has the largest limit below which it could show that there is nothing), above (how far the plan of loops is above the
optimum, else above the best bound that either, or that search, knows), above_plan (above the plan of ops, which need
not be the best), below_bound (whether it is below a bound: a fault). With ``--seed`` searches are counted in work, so
that a busy machine finds the same. The summary has median and worst of ``above`` over all bodies, over those that were
counted to the end, over those whose optimum is proven, and of ``above_plan``.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from counters import build, counted

from hexloom import load_hw, solve, solve_periodic
from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.workload import Workload

HW = "hexagon-v81"

VECTOR_ROWS = {"light": 8, "heavy": 32}
"""Rows of 2048 in one iteration of the vector task."""


def pair(tiles: int, rows: int) -> Workload:
    """Return a matmul of ``tiles`` chunks of columns beside as many blocks of rows of an RMS norm."""
    matmul = {"kernel": "matmul_w4a16", "weight_type": "q4_0", "m": 1024, "k": 2048, "m_chunk": 1024, "n_chunk": 64}
    norm = {"kernel": "rmsnorm", "cols": 2048, "mode": "direct", "rows_per_block": rows}
    tasks = [{"name": "matmul", "n": 64 * tiles, **matmul}, {"name": "norm", "rows": rows * tiles, **norm}]
    return Workload.from_data({"schema": "hexloom.workload/1", "name": "pair", "hw": HW, "tasks": tasks})


def big_rows(sizes: tuple[int, ...], limit: float) -> list[dict[str, Any]]:
    """Return a row for every number of tiles, vector task and rule."""
    rows = []
    for kind, block in VECTOR_ROWS.items():
        for contention in ("none", "fluid"):
            for tiles in sizes:
                started = time.monotonic()
                schedule = solve_periodic(pair(tiles, block), time_limit_s=limit, contention=contention)
                seconds = time.monotonic() - started
                existing = schedule.baselines["existing"]
                rows.append(
                    {
                        "tiles": tiles,
                        "vector": kind,
                        "contention": contention,
                        "ops_in_body": sum(OPS[task] * n for task, n in schedule.stretches[0].times.items()),
                        "seconds": round(seconds, 2),
                        "gap": round(float(schedule.gap), 5),
                        "makespan_us": float(schedule.us(schedule.makespan)),
                        "existing_us": None if existing is None else float(schedule.us(existing)),
                        "schedule_kb": len(schedule.to_json()) // 1024,
                        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                    }
                )
    return rows


OPS = {"matmul": 4, "norm": 1}
"""Ops of one iteration."""


def body(seed: int) -> Workload:
    """Return one or two loops of two to five stages with random times, distances and buffers, 8 to 24 trips."""
    rng = random.Random(f"body/{seed}")
    tasks = []
    for name in ("a", "b")[: rng.randint(1, 2)]:
        stages = rng.randint(2, 5)
        ops: list[dict[str, Any]] = []
        for s in range(stages):
            engine = rng.choice(["hmx", "hvx", "hvx", "dma"])
            op: dict[str, Any] = {"name": f"s{s}_{{i}}", "stage": f"s{s}", "engine": engine}
            op |= {"duration_us": rng.randint(2, 12), "after": [f"s{s - 1}_{{i}}"] if s else [], "buffers": []}
            if engine == "hvx" and rng.random() < 0.5:
                op["units"] = "all"
            if rng.random() < 0.2:
                op["after"].append(f"s{rng.randint(s, stages - 1)}_{{i-{rng.randint(1, 3)}}}")
            ops.append(op)
        buffers = []
        for s in range(stages - 1):
            if rng.random() < 0.6:
                buffers.append({"name": f"b{s}_{{i}}", "size_bytes": rng.randint(1, 4) * 2**19})
                ops[s]["buffers"].append(f"b{s}_{{i}}")
                ops[s + 1]["buffers"].append(f"b{s}_{{i}}")
        tasks.append({"name": name, "ops": [{"for": "i", "count": rng.randint(8, 24), "ops": ops, "buffers": buffers}]})
    data = {"schema": "hexloom.workload/1", "name": f"body_{seed}", "hw": "hexagon-v79", "tasks": tasks}
    return Workload.from_data(data)


def flat_rows(
    numbers: range, limit: float, seed: int | None, states: int, program: Path, show: bool
) -> list[dict[str, Any]]:
    """Return how far plans of loops are above plans of ops, for random bodies."""
    rows = []
    for number in numbers:
        work = body(number)
        trips = [task.iterations(load_hw("hexagon-v79")) for task in work.tasks]
        flat = solve(work, time_limit_s=limit, contention="none", explained=False, seed=seed)
        assert flat.makespan_us is not None
        assert flat.lower_bound_us is not None
        row: dict[str, Any] = {"body": number, "trips": trips, "proven": flat.status == "OPTIMAL", "above": None}
        try:
            loops = solve_periodic(work, time_limit_s=limit, contention="none", seed=seed)
        except NotALoopError as why:
            row["why"] = str(why)
        else:
            makespan = loops.us(loops.makespan)
            best = min(flat.makespan_us, makespan)
            counts = counted(program, work, best, states)
            bound = max(flat.lower_bound_us, loops.us(loops.lower_bound), counts.bound)
            row |= {
                "loops_us": float(makespan),
                "bound_us": float(bound),
                "counted": counts.exact,
                "above": round(float(makespan / bound - 1), 4),
                "above_plan": round(float(makespan / flat.makespan_us - 1), 4),
                "proven": row["proven"] or best == bound,
                "below_bound": makespan < bound,
            }
        rows.append(row)
        if show:
            print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
    return rows


def flat_summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of `flat_rows`."""
    found = [row for row in rows if row["above"] is not None]
    proven = [row["above"] for row in found if row["proven"]]
    to_the_end = [row["above"] for row in found if row["counted"]]
    summary: dict[str, Any] = {"bodies": len(rows), "loops": len(found), "proven": len(proven)}
    summary |= {"counted": len(to_the_end), "within_10_percent": sum(row["above"] <= 0.1 for row in found)}
    for name, values in (
        ("", [row["above"] for row in found]),
        ("_counted", to_the_end),
        ("_proven", proven),
        ("_plan", [row["above_plan"] for row in found]),
    ):
        summary |= {f"median{name}": median(values), f"worst{name}": max(values)} if values else {}
    return summary | {"below_bound": sum(row["below_bound"] for row in found)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few instances, little time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--flat", action="store_true", help="small bodies against plans of ops")
    parser.add_argument("--bodies", type=int, help="how many with --flat; default 200")
    parser.add_argument("--first", type=int, default=0, help="number of the first body with --flat")
    parser.add_argument("--states", type=int, default=2_000_000, help="most states of the search over tile counters")
    parser.add_argument("--seed", type=int, help="count the searches of --flat in work")
    parser.add_argument("--time-limit", type=float, help="seconds per instance; default 2, with --flat 10")
    args = parser.parse_args()
    if args.flat:
        numbers = range(args.first, args.first + (args.bodies or (6 if args.quick else 200)))
        with tempfile.TemporaryDirectory() as folder:
            program = build(Path(folder))
            rows = flat_rows(numbers, args.time_limit or 10.0, args.seed, args.states, program, not args.json)
        summary = flat_summary(rows)
    else:
        rows = big_rows((10**3, 10**6) if args.quick else tuple(10**k for k in range(3, 8)), args.time_limit or 2.0)
        summary = {"gap_most": max(r["gap"] for r in rows), "seconds_most": max(r["seconds"] for r in rows)}
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    versions = {name: version(name) for name in ("hexloom", "ortools")}
    if args.json:
        print(json.dumps({"machine": machine, "versions": versions, "rows": rows, "summary": summary}, indent=1))
        return
    print(machine, versions)
    for row in rows if not args.flat else ():
        print(" ".join(f"{key}={value}" for key, value in row.items()))
    print("summary:", summary)


if __name__ == "__main__":
    main()
