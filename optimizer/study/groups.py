"""The same work in four ways, and one stage at a time beside them: what each takes, and why.

Every group is simulated under one rule for channels, and its distance to ``existing`` is split into the same five
parts: what entries, overlap inside and between tasks, contention and the tail bring or cost.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.decision import Decision
from hexloom.formulations.ticks import whole
from hexloom.optimizer.attribution import advise, attribute, last_work
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.bottleneck import limiting_engine
from hexloom.optimizer.errors import NoPlanError
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import Gain
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.simulate import simulate
from hexloom.optimizer.study.concurrent import concurrent
from hexloom.optimizer.study.report import Group, Study
from hexloom.optimizer.study.scaled import at_tick
from hexloom.optimizer.study.steps import with_barriers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.baselines import Baselines
    from hexloom.optimizer.lower import TaskLoop
    from hexloom.optimizer.solve import Result


def study_of(result: Result, name: str, actual: Problem | None = None) -> Study:
    """Return the four groups around a plan that was found.

    ``actual`` has the same ops with other times than those that the plan was made for: all groups take these, and the
    plan stays what it is.

    Raises
    ------
    NoPlanError
        There is no plan.
    """
    schedule, decision = result.schedule, result.decision
    if schedule is None or decision is None:
        why = result.infeasibility
        text = "no plan was found in the time; allow more" if why is None else why.message
        raise NoPlanError(f"{name}: there is no plan to compare with: {text}", proven=why is not None)
    source = schedule.problem if actual is None else actual
    problem = source.under(schedule.contention)
    rule = acting_rule(problem, schedule.contention)
    bounds = lower_bounds(problem, rule) if actual is not None else None
    loops = result.loops if actual is None else at_tick(result.loops, schedule.problem.tick, source.tick)
    found = baselines(problem, loops, rule)
    tick = source.tick or Fraction(1)
    bottleneck = limiting_engine(schedule.bounds if bounds is None else bounds.found)
    groups = (
        Group(name="serial", makespan=found.serial),
        Group(
            name="existing",
            makespan=found.existing,
            note="" if found.existing is not None else "a loop of today does not fit into the scratchpad",
        ),
        _concurrent(source, schedule.contention, loops, found, bottleneck),
        _plan("fused_serial", problem, with_barriers(problem, decision), found, bottleneck, rule),
        _plan("plan", problem, decision, found, bottleneck, rule),
    )
    groups = (*groups[:2], with_word(groups[2], groups[-1]), *groups[3:])
    unit: Literal["us", "ticks"] = "ticks" if schedule.problem.tick is None else "us"
    gain = groups[-1].gain
    advice = schedule.advice
    if bounds is not None:
        makespan = groups[-1].makespan or 0
        advice = None if gain is None else advise(gain, makespan, f"{bottleneck or 'nothing'} is the bottleneck")
    return Study(
        name=name,
        machine=schedule.machine,
        unit=unit,
        contention=schedule.contention,
        seed=schedule.seed,
        status=schedule.status if bounds is None else "FEASIBLE",
        lower_bound=(schedule.lower_bound if bounds is None else bounds.best.ticks) * tick,
        bottleneck=result.bottleneck if bounds is None else bottleneck,
        groups=tuple(in_unit(group, tick) for group in groups),
        advice=advice,
        notes=schedule.notes,
    )


def with_word(side: Group, plan: Group) -> Group:
    """Say why tasks without a plan may take less time than the plan."""
    if side.makespan is None or plan.makespan is None or side.makespan >= plan.makespan:
        return side
    said = "shorter than the plan: its threads wait for transfers without holding a context, the plan's owners hold one"
    return side.model_copy(update={"note": f"{side.note}; {said}" if side.note else said})


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


def _concurrent(
    source: Problem, contention: Rule, loops: Sequence[TaskLoop], found: Baselines, bottleneck: str | None
) -> Group:
    """Return today's loops side by side; no plan keeps demands within a channel there, so ``rigid`` is ``fluid``."""
    wanted: Rule = "fluid" if contention == "rigid" else contention
    problem = source.under(wanted)
    rule = acting_rule(problem, wanted)
    side = concurrent(problem, loops, rule)
    if side.timeline is None:
        return Group(name="concurrent", makespan=None, note=side.why)
    makespan = side.timeline.makespan
    note = f"{', '.join(side.waited)} waited for scratchpad" if side.waited else ""
    gain = None
    if found.existing is not None:
        several = len(found.tasks) > 1
        last, free = makespan, makespan
        if several:
            last, free = last_work(problem, fastest(problem), side.timeline, bottleneck, rule), side.free
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


def fastest(problem: Problem) -> Decision:
    """Return a decision of which only the modes count: those that today's loops take."""
    return Decision(problem.fastest_modes, (), (), ())


def in_unit(group: Group, tick: Fraction) -> Group:
    """Return a group whose times in ticks are in the unit of ``tick``."""

    def scaled(ticks: Moment) -> Moment:
        value: Moment = whole(ticks * tick)
        return value

    gain = group.gain
    if gain is not None:
        gain = Gain(**{name: scaled(getattr(gain, name)) for name in Gain.model_fields})
    makespan = None if group.makespan is None else scaled(group.makespan)
    return Group(name=group.name, makespan=makespan, gain=gain, note=group.note)
