"""Is hexloom ahead of its peers? One table: a row per instance and measure, a summary with geometric means of ratios.

Flat schedules, without addresses, owners and contention, which the peers do not know: PSPLIB's j30 and j60 and job
shops (``--instances FOLDER`` with psplib/ and jobshop/), and our own pairs and triples of tasks
(`generators.four_stage_and_vector`, 32 to 128 ops). Three solve each for ``--time-limit`` seconds on two workers:
hexloom (`hexloom.solve`, its second proof and its check included), PyJobShop (extra ``peers``), and plain CP-SAT with
intervals and cumulatives. What each loads at first is no one's time. Further groups (`peer_groups.py`): packing against
minimalloc, intervals of loops against a list and an integer program, and today's fixed pipelines of ggml-hexagon and
htp-ops-lib by our simulator.

Rows: group, name, size, measure (seconds, us, ticks), ours, proven, peers (by name), makespan where there is one, and
ratios, ours over theirs: below 1 is ahead. The summary has per group and peer: how many are proven by each, the
medians, the geometric mean of the ratios where one of the two has a proof (the other counts with what it took), and
which rows are behind. ``--groups`` picks some, ``--quick`` ends in under 50 s.

Once on two cores with other work on them, so only ratios count, 20 s a row, against PyJobShop: j30 11 of 13 proven
against 7, ratio 0.61; j60 5 of 10 against 4, 1.16; both together 0.75; job shops 4 of 4 against 3, 0.82. All of these
are from before the beam search left its 30 % of the time of bare problems to the solver; since then j60 once, 4 s a
row, loaded: 3 of 10 each, 1.03. Own, idle, twice: 18 of 18 each, 0.24, medians 36.5 ms against 155, and 34 against 173;
all rows together 0.83 s against 4.6; behind is pairs_64_1, 2.4.

Why rows are behind, and what was tried (by CPU time):

- Small instances, with which PyJobShop is done in 50 ms and less (own of 32 ops, the easy half of j30 and j60, ft06):
  our time is not the search, but bounds, list schedules, a plan with its waits, two simulators, attribution and the
  check in Python, 10 to 33 ms, and 10 ms to send a problem to the process that solves. Tried with gain: heads and tails
  by columns, nothing planned twice (1.7 times together, at 32 and at 128 ops), that process is kept warm, the list
  schedule that is right most often comes first, few others are tried, overtaken solutions are not looked at, no graph
  library. Solving in this process would save the 10 ms, but CP-SAT can hang or crash.
- pairs_64_1: its optimum lies 3 ticks above the bound of arithmetic, so two searches must prove it; a peer asks once.
- j6037_1 (2.2 s against 1.2), j6042_2 (0.18 against 0.12): seen once. Why was not looked for; a guess is that our two
  searches have one worker each, and a peer's only search two.
- j6042_4, j309_6: some 0.3 s of plain search; after a quarter of a second a stronger one begins anew.
- Tried with gain on j30 and j60: ops that exclude each other as sequences (j309_2 takes a twentieth of the time),
  strong propagation and dynamic precedences on sequences (j6037_7 a third; ft10 is proven), one worker and a second
  proof beside it instead of two workers and a second proof afterwards.
- Tried without gain: objective lower-bound search and quick restarts (1.5 to 6 times as long, five instances), no
  linear relaxation (1 to 2 times), two workers for one search (1 to 2.4 times the CPU time of one), only the heaviest
  exclusive sets instead of a cover of all pairs (two instances); on j3045_1 alone time-table edge finding (twice), the
  overload checker, hard precedences or no disjunctive part in cumulatives, ``linearization_level`` 2, cores, and no
  probing and symmetries. No presolve takes 2 to 4 times as long, and is the second proof. On easy instances strong
  propagation doubles the time: hence the plain one first. With a tight scratchpad own problems gain from neither.
- minimalloc C: first fit fails, and the exact search needs several views; see `packing.py`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
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
from peer_groups import modulo_rows, packing_rows, pipeline_rows
from rcpsp import Rcpsp, job_shop, psplib, relaxed

from hexloom import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from peer_groups import Row

WORKERS = 2

GROUPS = ("own", "j30", "j60", "job shop", "packing", "modulo", "pipeline")

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


def _row(group: str, instance: Rcpsp, seconds: float) -> Row:
    took: dict[str, float] = {}
    answers: dict[str, Answer] = {}
    for name, by in SOLVERS.items():
        started = time.monotonic()
        answers[name] = by(instance, seconds)
        took[name] = time.monotonic() - started
    proven = {name: makespan for name, (makespan, optimal) in answers.items() if optimal}
    if instance.optimum is not None:
        proven["published"] = instance.optimum
    if len(set(proven.values())) > 1:
        sys.exit(f"peers: {instance.name}: proven optima differ: {proven}")
    return {
        "group": group,
        "name": instance.name,
        "size": len(instance.durations),
        "measure": "seconds",
        "ours": took.pop("hexloom"),
        "proven": answers["hexloom"][1],
        "peers": took,
        "makespan": {name: makespan for name, (makespan, _) in answers.items()},
        "proven_by": [name for name, (_, optimal) in answers.items() if optimal],
    }


def _finished(row: Row) -> Row:
    """Add the ratios, and round."""
    ours = row["ours"]
    row["ratios"] = {peer: round(ours / theirs, 3) for peer, theirs in row["peers"].items() if ours and theirs}
    row["ours"] = None if ours is None else round(ours, 3)
    row["peers"] = {peer: None if theirs is None else round(theirs, 3) for peer, theirs in row["peers"].items()}
    return row


def _summary(group: str, peer: str, rows: list[Row]) -> dict[str, Any]:
    mine = [row for row in rows if row["group"] == group and peer in row["peers"]]

    def theirs_counts(row: Row) -> bool:
        return peer in row["proven_by"] if "proven_by" in row else row["peers"][peer] is not None

    both = [row for row in mine if peer in row["ratios"]]
    both = [row for row in both if row["measure"] != "seconds" or row["proven"] or theirs_counts(row)]
    logs = [math.log(row["ratios"][peer]) for row in both]
    return {
        "group": group,
        "peer": peer,
        "measure": mine[0]["measure"],
        "of": len(mine),
        "proven": sum(row["proven"] for row in mine),
        "proven_by_peer": sum(theirs_counts(row) for row in mine) if mine[0]["measure"] == "seconds" else None,
        "median": _median([row["ours"] for row in mine]),
        "median_peer": _median([row["peers"][peer] for row in mine]),
        "ratio_geomean": round(math.exp(sum(logs) / len(logs)), 3) if logs else None,
        "behind": [row["name"] for row in both if row["ratios"][peer] > 1],
    }


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _own(*, quick: bool) -> list[tuple[str, Rcpsp]]:
    """Return two matmuls with two row tasks, and with one."""
    sizes, seeds = ((32, 64), (0,)) if quick else ((32, 64, 128), (0, 1, 2))
    pairs = [
        ("own", relaxed(four_stage_and_vector(ops, seed, 2.0), f"pairs_{ops}_{seed}"))
        for ops in sizes
        for seed in seeds
    ]
    triples = [
        ("own", relaxed(four_stage_and_vector(ops * 5 // 4, seed, 2.0), f"triples_{ops}_{seed}", "rows1"))
        for ops in sizes
        for seed in seeds
    ]
    return [*pairs, *triples]


def _instances(folder: Path | None, *, quick: bool) -> list[tuple[str, Rcpsp]]:
    found = _own(quick=quick)
    if folder is None:
        return found
    for group in ("j30", "j60"):
        with (folder / "psplib" / "optimum" / f"{group}.csv").open(encoding="utf-8") as table:
            known = {row["problem"]: row["optimum"] for row in csv.DictReader(table)}
        for path in sorted((folder / "psplib" / group).glob("*.sm"))[: 2 if quick else None]:
            optimum = known.get(path.name, "")
            found.append((group, psplib(path, int(optimum) if optimum.isdigit() else None)))
    found += [
        ("job shop", job_shop(path)) for path in sorted((folder / "jobshop").glob("*.json"))[: 1 if quick else None]
    ]
    return found


def _rows(args: argparse.Namespace) -> Iterator[Row]:
    flat, other = (min(args.time_limit, 3.0), 4.0) if args.quick else (args.time_limit, 10.0)
    wanted = args.groups.split(",") if args.groups else list(GROUPS)
    for group, instance in _instances(args.instances, quick=args.quick):
        if group in wanted:
            yield _row(group, instance, flat)
    for name, rows in (("packing", packing_rows), ("modulo", modulo_rows), ("pipeline", pipeline_rows)):
        if name in wanted:
            yield from rows(min(other, args.time_limit), quick=args.quick)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few instances, little time")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per instance and solver")
    parser.add_argument("--instances", type=Path, help="folder with psplib/ and jobshop/")
    parser.add_argument("--groups", default="", help=f"some of {','.join(GROUPS)}")
    args = parser.parse_args()
    try:
        peer = version("pyjobshop")
    except ModuleNotFoundError:
        sys.exit("peers: PyJobShop is missing; install the extra: pip install 'hexloom[peers]'")
    first = Rcpsp("first", (2,) * 12, ((2,),) * 12, (3,), ((0, 1),))  # not proven by arithmetic: all is loaded
    for by in SOLVERS.values():
        by(first, 10.0)  # what is loaded at first is no one's time
    rows: list[Row] = []
    for row in _rows(args):
        rows.append(_finished(row))
        if not args.json:
            print(json.dumps(rows[-1]), flush=True)
    found = {
        "machine": f"{platform.machine()}, {platform.system()}, {os.cpu_count()} cores",
        "versions": {"python": platform.python_version(), "hexloom": version("hexloom"), "pyjobshop": peer,
                     **{name: version(name) for name in ("ortools", "pulp")}, "minimalloc": "9f5cf81"},
        "summary": [
            _summary(group, peer, rows)
            for group, peer in dict.fromkeys((row["group"], peer) for row in rows for peer in row["peers"])
        ],
    }  # fmt: skip
    if args.json:
        print(json.dumps({**found, "rows": rows}))
        return
    for line in found.pop("summary"):
        print(*(f"{key}={value}" for key, value in line.items()))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
