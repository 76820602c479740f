"""Thousands of equal tiles: a mix of bodies, its phases, and how long they take, exactly, whatever the trip counts.

What is simulated are the first runs of every phase, until each repeats itself exactly, and all that comes after: the
runs left out are whole periods of a repeat, each of which takes the same. That is verified, too: with one period more
of every phase the makespan grows by what these periods take.
"""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.decision import Simulated
from hexloom.formulations.periodic.corun import ENOUGH, best_mix
from hexloom.formulations.periodic.whole_bounds import whole_bounds
from hexloom.formulations.portfolio import Found
from hexloom.formulations.problem import slows
from hexloom.formulations.ticks import whole
from hexloom.optimizer.baselines import Baselines, baselines
from hexloom.optimizer.errors import CheckFailedError
from hexloom.optimizer.finish import all_bounds, finished
from hexloom.optimizer.periodic.check import UNSTEADY, check_periodic_schedule
from hexloom.optimizer.periodic.ends import ENDS_OPS, with_better_ends
from hexloom.optimizer.periodic.existing import baselines_of
from hexloom.optimizer.periodic.later import with_later_transfers
from hexloom.optimizer.periodic.phases import Phase, phases_of
from hexloom.optimizer.periodic.reduced import FEW, Reduced
from hexloom.optimizer.periodic.roll import FINER, ImpossibleLoopError, NotALoopError, as_loop
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.periodic.tails import tails_of
from hexloom.optimizer.periodic.today import Today
from hexloom.optimizer.periodic.trial import Ran, Source
from hexloom.optimizer.schedule import BoundRow
from hexloom.optimizer.solve import machine_of, rule_named

if TYPE_CHECKING:
    from collections.abc import Hashable

    from hexloom.formulations.periodic.corun import Body
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.workload import Workload

MEASURED = (FEW, 24, 40)
"""Runs of a body in which its repeat is looked for when it is compared with others."""

MIX_SHARE, LOOPS_SHARE = 0.7, 0.25
"""Part of the time for the mix of bodies; and for all of the loops, where a search over single ops comes after it."""


def solve_periodic(
    workload: Workload,
    hw: Machine | str | None = None,
    *,
    time_limit_s: float = 10.0,
    contention: str = "fluid",
    seed: int | None = None,
) -> PeriodicSchedule:
    """Return a checked schedule of ``workload``, whose tasks are loops of any trip counts.

    Parameters
    ----------
    time_limit_s
        Seconds for the choice of bodies; the first plan, its repeats and the check take what they take. With a ``seed``
        they are the solver's own.

    Raises
    ------
    NotALoopError
        Why it cannot be scheduled as loops.
    InvalidInputError
        The input is wrong.
    """
    machine = machine_of(workload, hw)
    started = time.monotonic()
    source = Source(workload, machine, rule_named(contention), FEW)
    few = source.ops() <= ENDS_OPS
    reduced, schedule = begun(source, time_limit_s * (LOOPS_SHARE if few else 1.0), seed)
    if few and schedule.makespan > schedule.lower_bound:
        left = time_limit_s - (time.monotonic() - started)
        least = time_limit_s * (1 - LOOPS_SHARE)
        schedule = with_better_ends(
            schedule, source, reduced, least if seed is not None else max(left, least / 2), seed
        )
    return passed(schedule)


def begun(source: Source, seconds: float, seed: int | None) -> tuple[Reduced, PeriodicSchedule]:
    """Return the schedule of bodies, or of today's loops where that is shorter or there are none.

    Raises
    ------
    NotALoopError
        Why there are no bodies, where today's loops are no plan either.
    """
    try:
        reduced = reduced_of(source, seconds, seed)
        schedule = schedule_of(source, reduced, seed)
    except ImpossibleLoopError:
        raise
    except NotALoopError:
        today = todays(source, seed)
        if today is None:
            raise
        return today
    existing = schedule.baselines["existing"]
    if existing is None or schedule.makespan <= existing:
        return reduced, schedule
    today = todays(source, seed)
    return (reduced, schedule) if today is None or today[1].makespan >= schedule.makespan else today


def todays(source: Source, seed: int | None) -> tuple[Reduced, PeriodicSchedule] | None:
    """Return the schedule of today's loops, one task after the other; None where they do not repeat themselves."""
    try:
        reduced = Today(source)
        schedule = schedule_of(source, reduced, seed)
    except NotALoopError:
        return None
    return None if check_periodic_schedule(schedule) else (reduced, schedule)


def passed(schedule: PeriodicSchedule) -> PeriodicSchedule:
    """Return ``schedule`` if the checker passes it.

    Raises
    ------
    NotALoopError
        It does not go on as it begins.
    CheckFailedError
        It is wrong.
    """
    violations = check_periodic_schedule(schedule)
    if violations and all(v.kind in UNSTEADY for v in violations):
        raise NotALoopError(f"no steady state can be shown: {violations[0].message}")
    if violations:
        raise CheckFailedError("; ".join(v.message for v in violations[:5]))
    return schedule


def reduced_of(source: Source, seconds: float, seed: int | None) -> Reduced:
    """Return the phases of the best mix of bodies that ``seconds`` allow to find, in few runs.

    Raises
    ------
    NotALoopError
        Why there are none.
    """
    started = time.monotonic()
    base = source.small(dict.fromkeys(source.trips, FEW))
    loops = []
    for task in source.trips:
        loop = base.rolled.loops[task]
        pad = loop.scratchpad
        left_over = pad.model_copy(update={"reserved_bytes": pad.total_bytes - base.room})
        try:
            loops.append(as_loop(task, partial(loop.changed, scratchpad=left_over)))
        except ImpossibleLoopError as why:  # beside what is kept: another plan might keep less
            raise NotALoopError(str(why)) from None
    left = seconds - (time.monotonic() - started) if seed is None else seconds
    found = best_mix(loops, list(source.trips.values()), partial(_measure, source), left * MIX_SHARE, seed=seed)
    if found is None:
        raise NotALoopError("no body of these loops was found to have a plan that repeats itself")
    return Reduced(source, phases_of(found, tuple(source.trips), list(source.trips.values())))


def _measure(source: Source, body: Body) -> tuple[Body, Fraction] | None:
    """Return ``body`` as it is to run, and in parts of ticks what a run takes once it repeats itself; None: never.

    It is paced if need be. Where ops slow each other its transfers may begin later.
    """
    found = _steady(source, body)
    if found is None or found[1] <= body.schedule.ii_ticks * (1 + ENOUGH) or not slows(source.rule):
        return found
    later = with_later_transfers(found[0])
    again = None if later is None else _steady(source, later)
    return again if again is not None and again[1] < found[1] else found


def _steady(source: Source, body: Body) -> tuple[Body, Fraction] | None:
    """Return ``body``, paced if need be, and what a run takes in the long run; None if that is never seen."""
    tasks = tuple(source.trips)
    paced = replace(body, paced=True)
    for runs in MEASURED:
        count = tuple(times * runs for times in body.times)
        for way in (body,) if body.paced else (body, paced, replace(paced, tied=True)):
            ran = source.run((Phase(way, tasks, count),))
            repeat = None if ran is None else ran.repeats[0]
            if repeat is not None:
                return way, Fraction(repeat.ticks) * FINER / repeat.period
    return None


def schedule_of(source: Source, reduced: Reduced, seed: int | None) -> PeriodicSchedule:
    """Return the schedule of ``reduced``, with bounds and baselines for all iterations; not yet checked."""
    ran, stretches = reduced.ran, reduced.stretches()
    left_out = sum((s.periods_left_out * Fraction(s.period_ticks) for s in stretches), Fraction(0))
    rolled = ran.small.rolled
    tasks = []
    for task, trips in source.trips.items():
        iterations: list[dict[Hashable, int]] = [{} for _ in range(rolled.iterations[task])]
        for i, at in enumerate(rolled.place):
            if at is not None and at[0].task == task:
                iterations[at[1]][at[0]] = i
        tasks.append((iterations, trips - rolled.iterations[task]))
    rows = tuple(
        BoundRow(name=b.name, ticks=b.ticks, engine=b.engine, detail=b.detail)
        for b in whole_bounds(ran.small.problem, ran.small.rule, tasks)
    )
    if not rows:
        raise NotALoopError("no op takes time of an engine, so nothing bounds how soon iterations follow each other")
    return PeriodicSchedule(
        name=source.workload.name,
        tool=f"hexloom {version('hexloom')}",
        machine=source.machine.name,
        machine_digest=source.machine.digest(),
        workload_digest=source.workload.digest(),
        contention=source.rule,
        seed=seed,
        trips=source.trips,
        stretches=stretches,
        makespan=whole(Fraction(ran.timeline.makespan) + left_out),
        lower_bound=rows[0].ticks,
        bounds=rows,
        baselines=baselines_of(source),
        tails=tails_of(source),
        written=_written(source, ran, baselines(ran.small.problem, ran.small.lowered.loops, ran.small.rule), seed),
        grown=tuple(None if more is None else _written(source, more, Baselines(()), seed) for more in reduced.grown()),
    )


def _written(source: Source, ran: Ran, today: Baselines, seed: int | None) -> Schedule:
    """Return the schedule of a plan with few iterations, as any other schedule; what is grown needs no gain."""
    problem, rule = ran.small.problem, ran.small.rule
    bounds = lower_bounds(problem, rule)
    times = [ran.timeline.times[op.name] for op in problem.ops]
    start, transfer_start, done, ended = (
        tuple(float(getattr(t, name)) for t in times) for name in ("start", "transfer_start", "done", "observed")
    )
    simulated = Simulated(float(ran.timeline.makespan), start, transfer_start, done, ended)
    found = Found((ran.decision, simulated), 0, 0, proven_infeasible=False, interrupted=False)
    workload = source.cut(ran.small.rolled.iterations)
    return finished(
        ran.small.lowered, problem, source.rule, all_bounds(bounds, found), found, None,
        today, workload, source.machine, seed, explained=False, run_of=lambda *_: (ran.plan, ran.timeline),
    )  # fmt: skip
