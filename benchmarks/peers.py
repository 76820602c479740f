"""Is the flat formulation ahead of general schedulers on what these know: engines and order, without addresses?

Instances: PSPLIB's j30 and j60 and job shops (``--instances FOLDER`` with psplib/ and jobshop/), and our own pairs of
tasks (`generators.four_stage_and_vector`, 32 to 128 ops) without addresses, owners and contention. Three solve each for
``--time-limit`` seconds on two workers: hexloom (`hexloom.solve`, its check included), PyJobShop (extra ``peers``), and
plain CP-SAT with intervals and cumulatives. Rows: name, ops, per solver seconds, makespan and whether it is proven. The
summary has, per group: how many each has proven, median seconds, and the geometric mean of our seconds over
PyJobShop's. ``--quick`` ends in under 50 s.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from generators import four_stage_and_vector
from ortools.sat.python import cp_model
from rcpsp import Rcpsp, job_shop, psplib, relaxed

from hexloom import solve

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS = 2

Answer = tuple[int | None, bool]
"""The makespan, None where there is none, and whether it is proven."""


def by_hexloom(instance: Rcpsp, seconds: float) -> Answer:
    result = solve(instance.as_problem(), time_limit_s=seconds)
    if result.schedule is None:
        return None, False
    return int(result.schedule.makespan), result.status == "OPTIMAL"


def by_pyjobshop(instance: Rcpsp, seconds: float) -> Answer:
    from pyjobshop import Model

    model = Model()
    resources = [model.add_machine() if c == 1 else model.add_renewable(c) for c in instance.capacities]
    tasks = [model.add_task() for _ in instance.durations]
    for task, ticks, wanted in zip(tasks, instance.durations, instance.demands, strict=True):
        held = [k for k, units in enumerate(wanted) if units]
        amounts = [0 if instance.capacities[k] == 1 else wanted[k] for k in held]  # of a machine there is no amount
        model.add_mode(task, [resources[k] for k in held], ticks, amounts)
    for a, b in instance.edges:
        model.add_end_before_start(tasks[a], tasks[b])
    result = model.solve(time_limit=seconds, display=False, num_workers=WORKERS)
    found = math.isfinite(result.objective)
    return (round(result.objective) if found else None), result.status.value == "Optimal"


def by_cp_sat(instance: Rcpsp, seconds: float) -> Answer:
    model = cp_model.CpModel()
    horizon = sum(instance.durations)
    starts = [model.new_int_var(0, horizon, "") for _ in instance.durations]
    held = [model.new_fixed_size_interval_var(s, d, "") for s, d in zip(starts, instance.durations, strict=True)]
    for k, capacity in enumerate(instance.capacities):
        mine = [(held[i], wanted[k]) for i, wanted in enumerate(instance.demands) if wanted[k]]
        model.add_cumulative([one for one, _ in mine], [units for _, units in mine], capacity)
    for a, b in instance.edges:
        model.add(starts[a] + instance.durations[a] <= starts[b])
    makespan = model.new_int_var(0, horizon, "")
    for s, d in zip(starts, instance.durations, strict=True):
        model.add(s + d <= makespan)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = WORKERS
    solver.parameters.max_time_in_seconds = seconds
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, False
    return round(solver.objective_value), status == cp_model.OPTIMAL


SOLVERS: dict[str, Callable[[Rcpsp, float], Answer]] = {
    "hexloom": by_hexloom,
    "pyjobshop": by_pyjobshop,
    "cp_sat": by_cp_sat,
}


def _row(group: str, instance: Rcpsp, seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = {"group": group, "name": instance.name, "ops": len(instance.durations)}
    proven: dict[str, int] = {}
    for name, by in SOLVERS.items():
        started = time.monotonic()
        makespan, optimal = by(instance, seconds)
        row[name] = {"seconds": round(time.monotonic() - started, 3), "makespan": makespan, "proven": optimal}
        if optimal and makespan is not None:
            proven[name] = makespan
    if instance.optimum is not None:
        proven["published"] = instance.optimum
    if len(set(proven.values())) > 1:
        sys.exit(f"peers: {instance.name}: proven optima differ: {proven}")
    return row


def _summary(group: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    mine = [row for row in rows if row["group"] == group]
    both = [row for row in mine if row["hexloom"]["proven"] and row["pyjobshop"]["proven"]]
    logs = [math.log(row["hexloom"]["seconds"] / row["pyjobshop"]["seconds"]) for row in both]
    return {
        "group": group,
        "of": len(mine),
        "proven": {name: sum(row[name]["proven"] for row in mine) for name in SOLVERS},
        "median_s": {name: median(row[name]["seconds"] for row in mine) for name in SOLVERS},
        "ratio_to_pyjobshop": round(math.exp(sum(logs) / len(logs)), 3) if logs else None,
    }


def _instances(folder: Path | None, *, quick: bool) -> list[tuple[str, Rcpsp]]:
    sizes, seeds = ((32, 64), (0,)) if quick else ((32, 64, 128), (0, 1, 2))
    found = [
        ("own", relaxed(four_stage_and_vector(ops, seed, 2.0), f"pairs_{ops}_{seed}"))
        for ops in sizes
        for seed in seeds
    ]
    if folder is None:
        return found
    for group in ("j30", "j60"):
        with (folder / "psplib" / "optimum" / f"{group}.csv").open(encoding="utf-8") as table:
            known = {row["problem"]: row["optimum"] for row in csv.DictReader(table)}
        for path in sorted((folder / "psplib" / group).glob("*.sm"))[: 3 if quick else None]:
            optimum = known.get(path.name, "")
            found.append((group, psplib(path, int(optimum) if optimum.isdigit() else None)))
    found += [
        ("job shop", job_shop(path)) for path in sorted((folder / "jobshop").glob("*.json"))[: 1 if quick else None]
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few instances, little time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per instance and solver")
    parser.add_argument("--instances", type=Path, help="folder with psplib/ and jobshop/")
    args = parser.parse_args()
    try:
        peer = version("pyjobshop")
    except ModuleNotFoundError:
        sys.exit("peers: PyJobShop is missing; install the extra: pip install 'hexloom[peers]'")
    by_pyjobshop(Rcpsp("first", (1,), ((1,),), (1,), ()), 1.0)  # what is loaded at first is no one's time
    rows = []
    for group, instance in _instances(args.instances, quick=args.quick):
        rows.append(_row(group, instance, min(args.time_limit, 5.0) if args.quick else args.time_limit))
        if not args.json:
            print(json.dumps(rows[-1]))
    machine = {
        "python": platform.python_version(),
        "ortools": version("ortools"),
        "pyjobshop": peer,
        "machine": platform.machine(),
    }
    summary = [_summary(group, rows) for group in dict.fromkeys(row["group"] for row in rows)]
    print(json.dumps({"rows": rows, "summary": summary, **machine} if args.json else {"summary": summary, **machine}))


if __name__ == "__main__":
    main()
