"""How close to the best is a plan of ops that slow each other, and what do plans cost that ignore or avoid it?

Instances: `contended.instances`, 10 to 80 ops. Rows: name, ops, status, gap (to the bound for any start times),
plan_gap, certificate, seconds, and three makespans in ticks, simulated under rule ``fluid``: ``fluid_us`` of the search
for that rule alone, before other plans are given to it, ``rigid_us`` and ``none_us`` of the plans for those rules.
``--quick`` ends in under 50 s.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from contended import demand_exceeds, instances

from hexloom import solve
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.local_search import Limit
from hexloom.formulations.shared_search import SharedSearch
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem

SMALL_OPS = 40
OTHER_RULES_SHARE = 0.2
"""Share of the time for the plans of rules ``none`` and ``rigid``: most are proven optimal long before."""

STRICTLY = 0.99


def unseeded(problem: Problem, seconds: float) -> float:
    """Return the makespan that the search under ``fluid`` finds from a plain list schedule alone."""
    bounds = lower_bounds(problem, "fluid")
    ht = bounds.heads_tails
    urgency = tuple(float(t) for t in ht.tail + ht.duration)
    start = list_schedule(problem, Policy(urgency, (0,) * len(problem.ops)))
    assert start is not None
    local = SharedSearch(problem, "fluid", bounds, evaluator("fluid"), Limit(seconds), 0)
    local.run([start])
    assert local.best is not None
    return local.best[1].makespan


def run(problem: Problem, seconds: float) -> dict[str, Any]:
    """Solve one instance under all three rules."""
    row: dict[str, Any] = {"name": problem.name, "ops": len(problem.ops)}
    started = time.monotonic()
    result = solve(problem, contention="fluid", time_limit_s=seconds)
    assert result.gap is not None and result.plan_gap is not None
    row["status"] = result.status
    row["gap"] = round(float(result.gap), 5)
    row["plan_gap"] = round(float(result.plan_gap), 5)
    row["certificate"] = result.certificate
    row["seconds"] = round(time.monotonic() - started, 2)
    row["fluid_us"] = round(unseeded(problem, seconds), 3)
    for rule in ("rigid", "none"):
        other = solve(problem, contention=rule, time_limit_s=seconds * OTHER_RULES_SHARE)
        assert other.schedule is not None
        row[f"{rule}_us"] = round(float(simulate(problem, other.schedule.plan, "fluid").makespan), 3)
    row["exceeds"] = demand_exceeds(problem)
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of gaps by size, and how often living with contention pays."""
    contended = [row for row in rows if row["exceeds"]]
    better = [row for row in contended if row["fluid_us"] <= STRICTLY * min(row["rigid_us"], row["none_us"])]
    found: dict[str, Any] = {"contended": len(contended), "fluid_better_by_1_percent": len(better)}
    for name, some in (
        ("to_40_ops", [row for row in rows if row["ops"] <= SMALL_OPS]),
        ("above_40_ops", [row for row in rows if row["ops"] > SMALL_OPS]),
    ):
        if some:
            found[f"gap_median_{name}"] = median(row["gap"] for row in some)
            found[f"gap_max_{name}"] = max(row["gap"] for row in some)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one instance of each family, little time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for problem in instances(args.quick):
        seconds = 2.0 if args.quick else 10.0 if len(problem.ops) <= SMALL_OPS else 60.0
        row = run(problem, seconds)
        rows.append(row)
        if not args.json:
            print(*(f"{key}={value}" for key, value in row.items()), flush=True)
    found = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {name: version(name) for name in ("hexloom", "ortools", "numpy")},
        "rows": rows,
        "summary": summary(rows),
    }
    print(json.dumps(found, indent=1) if args.json else f"summary: {found['summary']}")


if __name__ == "__main__":
    main()
