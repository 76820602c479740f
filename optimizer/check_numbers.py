"""The part of the checker that reads the claims of a schedule file: bounds, and numbers among each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.arithmetic import check_arithmetic
from hexloom.optimizer.certificate import check_certificate
from hexloom.optimizer.sharing import acting_rule

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.check_memory import Report
    from hexloom.optimizer.schedule import Schedule

PROOFS = {"configuration": "dual", "search": "search"}
"""What proves a bound, by its name; all others are arithmetic."""


def check_bounds(problem: Problem, schedule: Schedule, report: Report) -> None:
    """Every bound is derived again, without a solver; only what rests on search is taken on its word."""
    for message in check_arithmetic(problem, schedule.bounds, acting_rule(problem, schedule.contention)):
        report("bound", ("bounds",), message)
    priced = [row.ticks for row in schedule.bounds if row.name == "configuration"]
    if schedule.dual is not None:
        for message in check_certificate(problem, schedule.dual, acting_rule(problem, schedule.contention)):
            report("certificate", ("dual",), message)
    for ticks in priced:
        proven = 0 if schedule.dual is None else schedule.dual.ticks
        if ticks > proven:
            report(
                "certificate", ("bounds", "dual"), f"bound 'configuration' claims {ticks}, the prices prove {proven}"
            )
    if not schedule.bounds:
        report("bounds", ("bounds",), "bounds is empty, but a schedule has at least one; solve again")
        return
    first, best = schedule.bounds[0], max(schedule.bounds, key=lambda bound: bound.ticks)
    if first.ticks < best.ticks:
        text = f"bounds begins with {first.name!r} of {first.ticks}, but {best.name!r} is the best, {best.ticks} ticks"
        report("bounds", ("bounds",), text)
    elif schedule.certificate != PROOFS.get(first.name, "arithmetic"):
        text = f"certificate is {schedule.certificate}, but the best bound is {first.name}"
        report("certificate", ("certificate", "bounds"), text)


def check_numbers(schedule: Schedule, report: Report) -> None:
    """Makespan, bounds, baselines, gain and status agree with the rows and with each other."""
    makespan, lower, plan_bound = schedule.makespan, schedule.lower_bound, schedule.plan_bound
    last = max((max(row.observed, row.end) for row in schedule.rows), default=0)
    last = max(last, schedule.problem.entry_ticks)
    best = max((bound.ticks for bound in schedule.bounds), default=0)
    rules = [
        ("makespan", ("makespan",), makespan == last, f"makespan is {makespan}, but the last op ends at {last} ticks"),
        ("lower_bound", ("lower_bound",), lower == best, f"lower_bound is {lower}, but the best bound {best} ticks"),
        (
            "lower_bound_above_makespan",
            ("lower_bound", "makespan"),
            lower <= makespan,
            f"lower_bound {lower} is above the makespan of {makespan} ticks",
        ),
        (
            "plan_bound_below_lower_bound",
            ("plan_bound", "lower_bound"),
            plan_bound >= lower,
            f"plan_bound {plan_bound} is below the lower_bound of {lower} ticks",
        ),
        (
            "plan_bound_above_makespan",
            ("plan_bound", "makespan"),
            plan_bound <= makespan,
            f"plan_bound {plan_bound} is above the makespan of {makespan} ticks",
        ),
    ]
    for name, ticks in schedule.baselines.items():
        text = f"baseline {name!r} takes {ticks}, less than the makespan of {makespan} ticks"
        rules.append(("baseline_below_makespan", (name,), ticks is None or ticks >= makespan, text))
    if schedule.gain is not None:
        gain, existing = schedule.gain, schedule.baselines.get("existing")
        text = (
            f"the parts of the gain add up to {gain.total}, but existing - makespan is {gain.existing - makespan} ticks"
        )
        rules.append(("gain_sum", ("gain",), gain.total == gain.existing - makespan, text))
        text = f"the gain counts from existing {gain.existing}, but that baseline takes {existing} ticks"
        rules.append(("gain_existing", ("gain",), existing == gain.existing, text))
    for kind, parties, holds, text in rules:
        if not holds:
            report(kind, parties, text)
    _check_proven(schedule, report)
    _check_advice(schedule, report)


def _check_proven(schedule: Schedule, report: Report) -> None:
    """Status, and among which plans it is optimal, follow from the bounds: no more, and no less."""
    makespan, lower, plan_bound = schedule.makespan, schedule.lower_bound, schedule.plan_bound
    status = "OPTIMAL" if plan_bound == makespan else "FEASIBLE"
    numbers = f"lower_bound is {lower}, plan_bound {plan_bound} and the makespan {makespan} ticks"
    among = "free_start" if lower == makespan else "event_driven" if plan_bound == makespan else None
    if schedule.status != status:
        report("status", ("status", "plan_bound"), f"status is {schedule.status}, but {numbers}: {status}")
    elif schedule.optimal_in != among:
        text = f"optimal_in is {schedule.optimal_in}, but {numbers}: {among}"
        report("optimal_in", ("optimal_in", "lower_bound"), text)


def _check_advice(schedule: Schedule, report: Report) -> None:
    """Gain and advice are there where an existing time is, and the advice is what the gain says."""
    gain, advice = schedule.gain, schedule.advice
    if gain is None and schedule.baselines.get("existing") is not None:
        report("gain_missing", ("gain",), "baseline 'existing' takes a time, but there is no gain over it")
    if (gain is None) != (advice is None):
        text = "there is a gain but no advice" if advice is None else "there is an advice but no gain that it rests on"
        report("advice", ("advice", "gain"), text)
    if gain is not None and advice is not None and advice.answer != gain.answer:
        report("advice", ("advice", "gain"), f"the advice is {advice.answer!r}, but by its gain {gain.answer!r}")
