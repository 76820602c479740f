"""Does the loop close on this very host: calibrate, solve, run, compare, under a protocol that noise cannot fool?

A machine file of this host is fitted to runs of a few points (each class of work alone at three sizes, each pair of a
matrix and a vector class at Tacker's four load ratios), 20 seeded workloads are solved for it, and all of it is run
again and again in shuffled order: points, our plans, `serial` and `existing`. Where the cores lie (near, far) is probed
before and after every execution; only those count that nothing was taken from and during which they stayed. The
prediction of a workload is that of the machine fitted to the points of the same runs and the same placement, as fast as
each class of work was, alone, when its core had the pace that it had just before and after the workload: others on the
host share its cores, which slows them by half within milliseconds and is no time that anybody takes from them.

Prints PASS, FAIL or INCONCLUSIVE, and the numbers. An inconclusive run is repeated, at most 3 times; all are reported.
It wants the machine for itself. ``--quick`` takes 4 workloads and 3 rounds, to see that it works; it proves nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "host_closed_loop"))

import plans
from session import CLASSES, MATRIX, Job, Repetition, Session, middle, trace_of

from hexloom import load_hw
from hexloom.hwmodels.sections import BESIDE
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.calibrate import calibrate
from hexloom.optimizer.traces.first_values import first_values
from hexloom.optimizer.traces.observe import Observations
from hexloom.optimizer.traces.predict import predicted_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom import Machine
    from hexloom.optimizer.traces.pairs import PairRow

WORKLOADS = 20
REPETITIONS = 3
"""Of each job in each round, after one that is thrown away."""

LEAST_CLEAN, LEAST_ROUNDS, LEAST_S, MOST_S = 9, 5, 100.0, 180.0
POINT_RUNS = 40
"""Most clean repetitions of a point that are fitted to: those at the best pace, which scatter least."""

MEDIAN_ERROR, WORST_ERROR = 0.05, 0.15
"""What the predictions may be off, and what the halves of the measurements may."""

ALIKE = 5
"""Executions of a class alone that are asked for each execution of a workload: those at the most similar pace."""

CONTENDED = 0.05
"""A pair slows itself by at least this part where it counts as contended."""

ATTEMPTS = 4
SOLVE_S = 2.0
EXISTING_OF_20 = 18


@dataclass
class Runs:
    """All repetitions of the jobs, and how many were thrown away."""

    kept: dict[str, list[Repetition]] = field(default_factory=dict)
    """By job."""
    total: int = 0
    moved: int = 0
    rounds: int = 0

    def add(self, name: str, found: Sequence[Repetition]) -> None:
        """Keep what is clean and did not move."""
        self.total += len(found)
        self.moved += sum(one.near is None for one in found)
        self.kept.setdefault(name, []).extend(one for one in found if one.clean and one.near is not None)

    def at(self, name: str, near: bool) -> list[Repetition]:
        """Return the clean repetitions of a job in one placement."""
        return [one for one in self.kept.get(name, ()) if one.near == near]

    def quiet(self, name: str, near: bool) -> list[Repetition]:
        """Return the clean repetitions of a job in one placement that a fit sees: those at the best pace."""
        return sorted(self.at(name, near), key=lambda one: max(one.paces))[:POINT_RUNS]

    def at_paces(self, names: Sequence[str], near: bool, core: int, paces: Sequence[int]) -> float | None:
        """Return what jobs take where their core has some ``paces``, as a part of what each takes in a fit."""
        parts: list[tuple[int, float]] = []
        for name in names:
            of = self.quiet(name, near)
            fitted_ns = median(one.span_ns for one in of) if of else 1
            parts += [(one.paces[core], one.span_ns / fitted_ns) for one in self.at(name, near)]
        alike = [part for pace in paces for _, part in sorted(parts, key=lambda one: abs(one[0] - pace))[:ALIKE]]
        return median(alike) if alike else None

    @property
    def clean(self) -> int:
        """How many were kept."""
        return sum(len(of) for of in self.kept.values())


def rounds(
    names: Sequence[str],
    needed: Sequence[str],
    run: Callable[[str, int], list[Repetition]],
    least: int,
    seconds: tuple[float, float],
    seed: int,
) -> Runs:
    """Run all jobs in shuffled order until each of ``needed`` has ``least`` clean repetitions in one placement."""
    found, source, begun = Runs(), random.Random(seed), time.monotonic()
    while True:
        order = list(names)
        source.shuffle(order)
        for name in order:
            found.add(name, run(name, REPETITIONS + 1)[1:])
            if found.rounds and time.monotonic() - begun >= seconds[1]:
                return found
        found.rounds += 1
        spent = time.monotonic() - begun
        enough = all(max(len(found.at(name, near)) for near in (True, False)) >= least for name in needed)
        enough = enough and (found.rounds >= LEAST_ROUNDS or not seconds[0])
        if spent >= seconds[1] or (enough and spent >= seconds[0]):
            return found


def fitted(machine: Machine, points: Sequence[Job], runs: Runs, near: bool) -> tuple[Machine, Any] | None:
    """Return the machine fitted to the clean repetitions of the points in one placement, and what the fit says.

    What the fit refuses stays at the middle of the runs, not at the first look at this host; where these differ too
    much to say what a class leaves another, that is all.
    """
    seen = []
    for job in points:
        of = runs.quiet(job.name, near)
        if of:
            seen.append((job.workload, job.schedule, [trace_of(job, of)]))
    try:
        started, pairs = first_values(machine, [Observations(*one) for one in seen])
        report, better = calibrate(_without(started, [row for row in pairs if row.refused]), seen)
    except InvalidInputError:
        return None
    return better, report


def _without(machine: Machine, pairs: Sequence[PairRow]) -> Machine:
    data = machine.model_dump(mode="json", by_alias=True)
    for row in pairs:
        data["interference"].pop(f"{row.victim}{BESIDE}{row.cause}")
    return type(machine).model_validate(data)


def as_in(machine: Machine, points: Sequence[Job], runs: Runs, near: bool, name: str) -> Machine:
    """Return the machine as fast as each class was, alone, where its core had the pace it had around a job."""
    data = machine.model_dump(mode="json", by_alias=True)
    for of in CLASSES:
        core = int(of not in MATRIX)
        alone = [job.name for job in points if job.name.startswith(f"solo {of} ")]
        part = runs.at_paces(alone, near, core, [one.paces[core] for one in runs.at(name, near) if one.paces[core]])
        if part is not None:
            row = data["classes"][f"{of}.per_unit"]
            data["classes"][f"{of}.per_unit"] = {
                "value": row["value"] * part,
                **{key: row[key] for key in ("unit", "clock", "confidence", "source")},
            }
    return type(machine).model_validate(data)


def predicted_us(job: Job, machine: Machine, rule: Any = None) -> float:
    """Return what the plan of a job takes on a machine."""
    problem, timeline = predicted_on(job.workload, job.schedule, machine, rule)
    return float(timeline.makespan * (problem.tick or 1))


def first_machine(base: Machine) -> tuple[Machine, plans.Units]:
    """Return the machine with a first guess of every class, from a short look at each."""
    guess = plans.with_classes(base, dict.fromkeys(CLASSES, 10.0))
    like = plans.first_plan(guess)
    jobs = [plans.point_job(name, tasks, guess, like) for name, tasks in plans.first_look().items()]
    unit_us = {}
    with Session(jobs) as session:
        for job, name in zip(jobs, CLASSES, strict=True):
            spans = [row[5] - row[4] for one in session.run(job.name, 5)[1:] for row in one.rows if row[3] == 2]
            unit_us[name] = median(spans) / 1000 / 16
    return plans.with_classes(base, unit_us), plans.Units(unit_us)


def prepared(count: int) -> tuple[Machine, dict[str, list[Job]]]:
    """Return a machine for this host from a quick calibration, and all jobs: points, tests, and plans of workloads."""
    guess, units = first_machine(load_hw(ROOT / "examples" / "host_closed_loop" / "machine" / "host.yaml"))
    like = plans.first_plan(guess)
    shapes = {**plans.solo_points(units), **plans.pair_points(units, plans.RATIOS, "pair")}
    points = [plans.point_job(name, tasks, guess, like) for name, tasks in shapes.items()]
    shapes = plans.pair_points(units, plans.TESTED, "test")
    tests = [plans.point_job(name, tasks, guess, like) for name, tasks in shapes.items()]
    with Session(points) as session:
        names = [job.name for job in points]
        quick = rounds(names, names, session.run, 2, (0.0, 15.0), 0)
    near = sum(len(quick.at(name, True)) for name in names) * 2 >= quick.clean
    found = fitted(guess, points, quick, near)
    machine = guess if found is None else found[0]
    jobs: dict[str, list[Job]] = {"points": points, "tests": tests, "chosen": [], "serial": [], "existing": []}
    for seed in range(count):
        tasks = plans.seeded(seed, units)
        work = plans.workload(f"w{seed}", tasks)
        ours = plans.our_plan(work, machine, SOLVE_S, seed)
        shapes_of = {
            "chosen": ours,
            "serial": plans.plan_in_order(work, machine, ours, "op"),
            "existing": plans.plan_in_order(work, machine, ours, "task"),
        }
        for kind, plan in shapes_of.items():
            jobs[kind].append(Job(f"{kind} {seed}", work, plan, plans.work_of(tasks)))
    return guess, jobs


def workload_rows(jobs: dict[str, list[Job]], runs: Runs, machines: dict[bool, Machine]) -> list[dict[str, Any]]:
    """Return a row per workload: measured and predicted in its best-known placement, and the baselines there.

    ``clean`` counts the repetitions of that one of the three plans that has fewest.
    """
    rows = []
    for chosen, serial, existing in zip(jobs["chosen"], jobs["serial"], jobs["existing"], strict=True):
        near = max(machines, key=lambda near: len(runs.at(chosen.name, near)), default=None)
        of = [] if near is None else runs.at(chosen.name, near)
        row: dict[str, Any] = {"name": chosen.name, "ops": len(chosen.work), "near": near, "clean": len(of)}
        rows.append(row)
        if len(of) < 2 or near is None:
            continue
        row |= {"measured_us": middle(of), "halves": abs(middle(of[::2]) / middle(of[1::2]) - 1)}
        then = as_in(machines[near], jobs["points"], runs, near, chosen.name)
        row["predicted_us"] = predicted_us(chosen, then)
        row["error"] = row["predicted_us"] / row["measured_us"] - 1
        for name, job in (("serial", serial), ("existing", existing)):
            others = runs.at(job.name, near)
            same = job.schedule.plan == chosen.schedule.plan
            row["clean"] = row["clean"] if same else min(row["clean"], len(others))
            row[f"{name}_us"] = middle(others) if others else None
            row[f"no_slower_than_{name}"] = same or (bool(others) and row["measured_us"] <= middle(others))
    return rows


def pair_rows(jobs: dict[str, list[Job]], runs: Runs, machines: dict[bool, Machine]) -> list[dict[str, Any]]:
    """Return a row per tested pair in near placement: its error, and that of a model without contention."""
    rows = []
    for job in jobs["tests"]:
        of = runs.at(job.name, True)
        if True not in machines or len(of) < REPETITIONS:
            continue
        then = as_in(machines[True], jobs["points"], runs, True, job.name)
        measured, alone = middle(of), predicted_us(job, then, "none")
        rows.append(
            {
                "name": job.name,
                "measured_us": measured,
                "clean": len(of),
                "error": predicted_us(job, then) / measured - 1,
                "error_without_contention": alone / measured - 1,
                "contended": measured / alone - 1 >= CONTENDED,
            }
        )
    return rows


def verdict(rows: Sequence[dict[str, Any]], pairs: Sequence[dict[str, Any]], least: int) -> dict[str, Any]:
    """Return PASS, FAIL or INCONCLUSIVE, why, and the numbers it rests on."""
    short = [row["name"] for row in rows if row["clean"] < least]
    known = [row for row in rows if "error" in row]
    found: dict[str, Any] = {"workloads": len(rows), "short_of_clean": short}
    if short or not known:
        return {
            **found,
            "verdict": "INCONCLUSIVE",
            "why": f"fewer than {least} clean repetitions: {len(short)} workloads",
        }
    errors, halves = [abs(row["error"]) for row in known], [row["halves"] for row in known]
    found |= {"median_error": median(errors), "worst_error": max(errors)}
    found |= {"median_halves": median(halves), "worst_halves": max(halves)}
    for name in ("serial", "existing"):
        found[f"no_slower_than_{name}"] = sum(row[f"no_slower_than_{name}"] for row in known)
    contended = [row for row in pairs if row["contended"]]
    found["contended_pairs"] = len(contended)
    faults = []
    if contended:
        model = median(abs(row["error"]) for row in contended)
        without = median(abs(row["error_without_contention"]) for row in contended)
        found |= {"pairs_median_error": model, "pairs_median_error_without_contention": without}
        if model > without / 2:
            faults.append(f"contended pairs are off by {model:.1%}, without contention by {without:.1%}")
    else:
        found["pairs"] = "not tested: no contended pair ran in near placement"
    if found["median_halves"] > MEDIAN_ERROR or found["worst_halves"] > WORST_ERROR:
        return {**found, "verdict": "INCONCLUSIVE", "why": "the halves of the measurements differ too much"}
    if found["median_error"] > MEDIAN_ERROR or found["worst_error"] > WORST_ERROR:
        faults.append(f"predictions are off by {found['median_error']:.1%}, at worst by {found['worst_error']:.1%}")
    if found["no_slower_than_serial"] < len(known):
        faults.append(f"faster than serial in {found['no_slower_than_serial']} of {len(known)}")
    if found["no_slower_than_existing"] * 20 < EXISTING_OF_20 * len(known):
        faults.append(f"no slower than existing in {found['no_slower_than_existing']} of {len(known)}")
    return {**found, "verdict": "FAIL" if faults else "PASS", "why": "; ".join(faults)}


def attempt(machine: Machine, jobs: dict[str, list[Job]], least: int, seconds: tuple[float, float]) -> dict[str, Any]:
    """Run everything once by the protocol, and judge it."""
    flat = [job for of in jobs.values() for job in of]
    needed = [job.name for kind in ("chosen", "serial", "existing") for job in jobs[kind]]
    begun = time.monotonic()
    with Session(flat) as session:
        runs = rounds([job.name for job in flat], needed, session.run, least, seconds, 1)
    ran_s = time.monotonic() - begun
    fits = {near: fitted(machine, jobs["points"], runs, near) for near in (True, False)}
    machines = {near: fit[0] for near, fit in fits.items() if fit is not None}
    rows, pairs = workload_rows(jobs, runs, machines), pair_rows(jobs, runs, machines)
    probes = sorted(one.probe_ps / 1000 for of in runs.kept.values() for one in of)
    return {
        **verdict(rows, pairs, least),
        "seconds": round(ran_s, 1),
        "rounds": runs.rounds,
        "repetitions": runs.total,
        "clean_share": runs.clean / runs.total,
        "moved_share": runs.moved / runs.total,
        "near_share": sum(one.near is True for of in runs.kept.values() for one in of) / max(1, runs.clean),
        "hand_over_ns": [round(probes[int(k * (len(probes) - 1))], 1) for k in (0, 0.5, 1)] if probes else [],
        "fits": {
            "near" if near else "far": {
                "fitted": {row.name: [row.value, row.low, row.high] for row in fit[1].fitted},
                "left": {row.name: row.reason for row in fit[1].open if row.matters},
                "pairs": [row.model_dump() for row in fit[1].pairs],
            }
            for near, fit in fits.items()
            if fit is not None
        },
        "rows": rows,
        "pairs_tested": pairs,
    }


def told(found: dict[str, Any]) -> str:
    """Return one attempt for people."""
    lines = [
        f"{found['verdict']}{': ' + found['why'] if found['why'] else ''}",
        f"  {found['rounds']} rounds, {found['repetitions']:,} repetitions in {found['seconds']:.0f} s, "
        f"{found['clean_share']:.0%} clean, "
        f"{found['near_share']:.0%} of those near, {found['moved_share']:.0%} moved; hand-over "
        f"{' / '.join(map(str, found['hand_over_ns']))} ns (least, median, most)",
    ]
    if "median_error" in found:
        lines += [
            f"  predictions: median error {found['median_error']:.2%}, worst {found['worst_error']:.2%}; halves of the "
            f"measurements: {found['median_halves']:.2%}, worst {found['worst_halves']:.2%}",
            f"  no slower than serial {found['no_slower_than_serial']}, than existing "
            f"{found['no_slower_than_existing']} of {found['workloads']}",
        ]
    if "pairs_median_error" in found:
        lines.append(
            f"  {found['contended_pairs']} contended pairs near: median error {found['pairs_median_error']:.2%}, "
            f"without contention {found['pairs_median_error_without_contention']:.2%}"
        )
    else:
        lines.append(f"  contended pairs: {found.get('pairs', 'not judged')}")
    for row in found["rows"]:
        if "error" in row:
            lines.append(
                f"  {row['name']:10} {row['ops']:3} ops {'near' if row['near'] else 'far ':4} {row['clean']:3} clean  "
                f"measured {row['measured_us']:10,.1f} us  predicted {row['predicted_us']:10,.1f} {row['error']:+7.2%}"
                f"  serial {row['serial_us'] or 0:10,.1f}  existing {row['existing_us'] or 0:10,.1f}"
            )
        else:
            lines.append(f"  {row['name']:10} {row['ops']:3} ops: {row['clean']} clean repetitions")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="4 workloads, few rounds: it works, no more")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("this needs two processors")
    machine, jobs = prepared(4 if args.quick else WORKLOADS)
    least, seconds = (2, (0.0, 12.0)) if args.quick else (LEAST_CLEAN, (LEAST_S, MOST_S))
    attempts: list[dict[str, Any]] = []
    while not attempts or (attempts[-1]["verdict"] == "INCONCLUSIVE" and len(attempts) < ATTEMPTS and not args.quick):
        attempts.append(attempt(machine, jobs, least, seconds))
        if not args.json:
            print(told(attempts[-1]), flush=True)
    answer = {
        "machine": f"{platform.machine()}, {platform.system()}, {os.cpu_count()} processors",
        "versions": {"hexloom": version("hexloom")},
        "rows": attempts,
        "summary": {"verdict": attempts[-1]["verdict"], "why": attempts[-1]["why"], "attempts": len(attempts)},
    }
    print(json.dumps(answer, indent=1) if args.json else f"verdict: {answer['summary']['verdict']}")


if __name__ == "__main__":
    main()
