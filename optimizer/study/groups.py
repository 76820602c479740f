"""The same work in four ways, and one stage at a time beside them: what each takes, and why.

Every group is simulated under one rule for channels, and its distance to ``existing`` is split into the same five
parts: what entries, overlap inside and between tasks, contention and the tail bring or cost.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.decision import Decision
from hexloom.formulations.problem import Problem
from hexloom.formulations.ticks import whole
from hexloom.optimizer.attribution import attribute, last_work
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import Gain
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.simulate import simulate
from hexloom.optimizer.solve import machine_of, solve
from hexloom.optimizer.study.ablations import ablate
from hexloom.optimizer.study.concurrent import concurrent
from hexloom.optimizer.study.report import Group, Study
from hexloom.optimizer.study.steps import with_barriers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.baselines import Baselines
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.solve import Progress, Result
    from hexloom.optimizer.workload import Workload

ABLATION_SHARE = 0.5
"""Part of the time limit that each ablation gets."""


def study(
    work: Workload | Problem,
    hw: Machine | str | None = None,
    *,
    time_limit_s: float = 10.0,
    contention: str = "fluid",
    seed: int | None = None,
    ablations: Sequence[str] = (),
    on_progress: Progress | None = None,
) -> Study:
    """Solve ``work`` and put the plan beside what people run today, with and without concurrency.

    Parameters
    ----------
    work, hw, time_limit_s, contention, seed, on_progress
        As for `hexloom.optimizer.solve.solve`.
    ablations
        Names of what to leave out, one at a time, of `hexloom.optimizer.study.ablations.ABLATIONS`.

    Raises
    ------
    InvalidInputError
        The input is wrong, or there is no plan to compare.
    """
    result = solve(work, hw, time_limit_s=time_limit_s, contention=contention, seed=seed, on_progress=on_progress)
    found = study_of(result, work.name)
    if not ablations:
        return found
    machine = None if isinstance(work, Problem) else machine_of(work, hw)
    plan = found.makespan("plan")
    assert plan is not None
    rows = tuple(
        ablate(name, work, machine, plan, time_limit_s * ABLATION_SHARE, contention, seed) for name in ablations
    )
    return found.model_copy(update={"ablations": rows})


def study_of(result: Result, name: str) -> Study:
    """Return the four groups around a plan that was found.

    Raises
    ------
    InvalidInputError
        There is none.
    """
    schedule, decision = result.schedule, result.decision
    if schedule is None or decision is None:
        why = result.infeasibility
        text = "no plan was found in the time; allow more" if why is None else why.message
        raise InvalidInputError(f"{name}: there is no plan to compare with: {text}")
    problem = schedule.problem.under(schedule.contention)
    rule = acting_rule(problem, schedule.contention)
    found = baselines(problem, result.loops, rule)
    tick = schedule.problem.tick or Fraction(1)
    bottleneck = schedule.bounds[0].engine
    groups = (
        Group(name="serial", makespan=found.serial),
        Group(
            name="existing",
            makespan=found.existing,
            note="" if found.existing is not None else "a loop of today does not fit into the scratchpad",
        ),
        _concurrent(schedule, result, found),
        _plan("fused_serial", problem, with_barriers(problem, decision), found, bottleneck, rule),
        _plan("plan", problem, decision, found, bottleneck, rule),
    )
    unit: Literal["us", "ticks"] = "ticks" if schedule.problem.tick is None else "us"
    return Study(
        name=name,
        machine=schedule.machine,
        unit=unit,
        contention=schedule.contention,
        seed=schedule.seed,
        status=schedule.status,
        lower_bound=schedule.lower_bound * tick,
        bottleneck=result.bottleneck,
        groups=tuple(_in_unit(group, tick) for group in groups),
        advice=schedule.advice,
        notes=schedule.notes,
    )


def _plan(
    name: Literal["fused_serial", "plan"],
    problem: Problem,
    decision: Decision,
    found: Baselines,
    bottleneck: str | None,
    rule: Rule,
) -> Group:
    timeline = simulate(problem, make_plan(problem, decision), rule)
    gain = attribute(problem, decision, timeline, found, bottleneck, rule)
    return Group(name=name, makespan=timeline.makespan, gain=gain)


def _concurrent(schedule: Schedule, result: Result, found: Baselines) -> Group:
    """Return today's loops side by side; no plan keeps demands within a channel there, so ``rigid`` is ``fluid``."""
    wanted: Rule = "fluid" if schedule.contention == "rigid" else schedule.contention
    problem = schedule.problem.under(wanted)
    rule = acting_rule(problem, wanted)
    side = concurrent(problem, result.loops, rule)
    if side.timeline is None:
        return Group(name="concurrent", makespan=None, note=side.why)
    makespan = side.timeline.makespan
    note = f"{', '.join(side.waited)} waited for scratchpad" if side.waited else ""
    gain = None
    if found.existing is not None:
        several = len(found.tasks) > 1
        bottleneck = schedule.bounds[0].engine
        last, free = makespan, makespan
        if several:
            last, free = last_work(problem, _fastest(problem), side.timeline, bottleneck, rule), side.free
        entries = sum(task.entry for task in found.tasks)
        gain = Gain(
            existing=found.existing,
            saved_entries=entries - problem.entry_ticks,
            overlap_within_tasks=whole(found.existing - entries - side.alone),
            overlap_between_tasks=whole(side.alone - (free - problem.entry_ticks) + makespan - last),
            contention_cost=whole(makespan - free),
            tail=whole(makespan - last),
        )
    return Group(name="concurrent", makespan=makespan, gain=gain, note=note)


def _fastest(problem: Problem) -> Decision:
    """Return a decision of which only the modes count: those that today's loops take."""
    return Decision(problem.fastest_modes, (), (), ())


def _in_unit(group: Group, tick: Fraction) -> Group:
    def scaled(ticks: Moment) -> Moment:
        value: Moment = whole(ticks * tick)
        return value

    gain = group.gain
    if gain is not None:
        gain = Gain(**{name: scaled(getattr(gain, name)) for name in Gain.model_fields})
    makespan = None if group.makespan is None else scaled(group.makespan)
    return Group(name=group.name, makespan=makespan, gain=gain, note=group.note)
