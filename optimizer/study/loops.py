"""The four groups of a workload that is loops over many equal tiles: exact for all iterations, from few of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.ticks import whole
from hexloom.optimizer.attribution import advise, last_work
from hexloom.optimizer.bottleneck import limiting_engine
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.solve import passed, reduced_of, schedule_of
from hexloom.optimizer.periodic.trial import Source
from hexloom.optimizer.schedule import Gain
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.study.concurrent import NoneSideBySideError
from hexloom.optimizer.study.groups import fastest, in_unit, with_word
from hexloom.optimizer.study.report import Group, Study
from hexloom.optimizer.study.scaled import at_tick, factor_for, parts_of_a_tick, with_work, work_of
from hexloom.optimizer.study.side_by_side import SideBySideLoops
from hexloom.optimizer.study.steady import steady
from hexloom.optimizer.study.steps import with_barriers

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.lower import Lowered
    from hexloom.optimizer.periodic.reduced import Reduced
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.study.steady import Steady

UNSTEADY = "it does not repeat itself exactly in the iterations that were tried, so that all of them are not known"


def study_of_loops(source: Source, *, time_limit_s: float, seed: int | None) -> tuple[Study, int]:
    """Return the groups of the workload of ``source``, and how many ops its plan writes down.

    Raises
    ------
    NotALoopError
        It cannot be scheduled as loops.
    """
    schedule, reduced = planned(source, time_limit_s, seed)
    bottleneck = limiting_engine(schedule.bounds)
    times = _Times(source, schedule)
    plan = times.group("plan", steady(reduced, _as_it_is, bottleneck))
    if plan.makespan is None:  # what its parts are is not known, but how long it takes is
        plan = Group(name="plan", makespan=schedule.makespan, note=plan.note)
    groups = (
        Group(name="serial", makespan=schedule.baselines["serial"]),
        Group(
            name="existing",
            makespan=schedule.baselines["existing"],
            note="" if times.existing is not None else "a loop of today does not fit, or does not repeat itself",
        ),
        with_word(times.concurrent(bottleneck), plan),
        times.group("fused_serial", steady(reduced, with_barriers, bottleneck)),
        plan,
    )
    tick = schedule.us(1)
    limit = f"{bottleneck or 'nothing'} is the bottleneck"
    advice = None if plan.gain is None else advise(plan.gain, schedule.makespan, limit)
    bodies = (
        f"{stretch.runs:,} x {' + '.join(f'{n} x {task}' for task, n in stretch.times.items())}"
        for stretch in schedule.stretches
    )
    found = Study(
        name=source.workload.name,
        machine=schedule.machine,
        unit="us",
        contention=schedule.contention,
        seed=seed,
        status="OPTIMAL" if schedule.makespan == schedule.lower_bound else "FEASIBLE",
        lower_bound=whole(schedule.lower_bound * tick),
        bottleneck=bottleneck,
        groups=tuple(in_unit(group, tick) for group in groups),
        advice=advice,
        notes=(f"planned as loops: {', then '.join(bodies)}", *schedule.notes),
    )
    return found, len(schedule.written.rows)


def with_ratio(source: Source, ratio: Fraction) -> Source:
    """Return the source whose tasks after the first have ``ratio`` times its work, in all iterations.

    Raises
    ------
    InvalidInputError
        There is one task, or the others have no work.
    """
    few, more = (source.small(dict.fromkeys(source.trips, FEW + k)).lowered.problem for k in (0, 1))
    short, longer = work_of(few), work_of(more)
    work = {task: short[task] + (n - FEW) * (longer[task] - short[task]) for task, n in source.trips.items()}
    factor, first, finer = factor_for(work, ratio), next(iter(work)), parts_of_a_tick(few)

    def change(lowered: Lowered) -> Lowered:
        old = lowered.problem
        new = with_work(old, lambda op: Fraction(1) if op.task == first else factor, finer)
        return replace(lowered, problem=new, loops=at_tick(lowered.loops, old.tick, new.tick))

    return Source(source.workload, source.machine, source.rule, FEW, change)


def planned(source: Source, seconds: float, seed: int | None) -> tuple[PeriodicSchedule, Reduced]:
    """Return the checked schedule of ``source``, and the few runs of its phases that it is known by.

    Raises
    ------
    NotALoopError
        It cannot be scheduled as loops.
    """
    reduced = reduced_of(source, seconds, seed)
    return passed(schedule_of(source, reduced, seed)), reduced


def _as_it_is(_: Problem, decision: Decision) -> Decision:
    return decision


class _Times:
    """Gains against ``existing`` of what all iterations take."""

    def __init__(self, source: Source, schedule: PeriodicSchedule) -> None:
        self.source, self.schedule = source, schedule
        self.existing = schedule.baselines["existing"]
        small = source.small(dict.fromkeys(source.trips, FEW))
        self.entries = sum(loop.entry_ticks for loop in small.lowered.loops)
        self.entry = small.problem.entry_ticks

    def group(self, name: Literal["fused_serial", "plan"], found: Steady | None) -> Group:
        """Return a group whose ops are those of the plan."""
        if found is None:
            return Group(name=name, makespan=None, note=UNSTEADY)
        return Group(
            name=name,
            makespan=found.makespan,
            gain=self.gain(found.makespan, found.alone, found.free, found.last),
        )

    def gain(self, makespan: Moment, alone: Moment, free: Moment, last: Moment) -> Gain | None:
        """Return the five parts, as in `hexloom.optimizer.attribution.attribute`; None without today's time.

        ``alone`` is the sum of the tasks alone without entries, ``free`` the makespan if nothing slowed anything,
        ``last`` the end of the last work of the bottleneck.
        """
        if self.existing is None:
            return None
        tail = makespan - last
        return Gain(
            existing=self.existing,
            saved_entries=self.entries - self.entry,
            overlap_within_tasks=whole(Fraction(self.existing - self.entries - alone)),
            overlap_between_tasks=whole(Fraction(alone - (free - self.entry) + tail)),
            contention_cost=whole(Fraction(makespan - free)),
            tail=whole(Fraction(tail)),
        )

    def concurrent(self, bottleneck: str | None) -> Group:
        """Return today's loops side by side; ``rigid`` is ``fluid`` there, since nobody plans."""
        wanted: Rule = "fluid" if self.source.rule == "rigid" else self.source.rule
        try:
            loops = SideBySideLoops(self.source, wanted)
            found, alone = loops.run(self.source.trips, wanted), loops.alone()
            several = len(self.source.trips) > 1
            free = loops.run(self.source.trips, "none").makespan if several else found.makespan
        except NoneSideBySideError as why:
            return Group(name="concurrent", makespan=None, note=str(why))
        last = found.makespan
        if several:
            rule = acting_rule(found.problem, wanted)
            last = found.full(last_work(found.problem, fastest(found.problem), found.timeline, bottleneck, rule))
        return Group(name="concurrent", makespan=found.makespan, gain=self.gain(found.makespan, alone, free, last))
