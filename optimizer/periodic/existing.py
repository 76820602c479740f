"""What all iterations take today: every task alone with its loop, simulated until that repeats itself exactly."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.ticks import whole
from hexloom.optimizer.baselines import TaskAlone, baselines
from hexloom.optimizer.periodic.repeat import find_repeat

if TYPE_CHECKING:
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.trial import Source

RUNS = (12, 24, 48, 96, 192, 384)
"""Iterations in which the repeat of a loop is looked for."""

MOST_OPS = 4000
"""Of these, above which nothing is simulated: what comes before the repeat can be long."""


def baselines_of(source: Source) -> dict[str, Moment | None]:
    """Return ``serial`` and ``existing`` in ticks; None where a loop does not fit, or does not repeat itself."""
    serial, existing = Fraction(0), Fraction(0)
    known = True
    for task, trips in source.trips.items():
        one, more = _alone(source, {task: RUNS[0]}), _alone(source, {task: RUNS[0] + 1}, existing=False)
        each = Fraction(more.staged_ticks) - Fraction(one.staged_ticks)
        serial += one.entry + one.staged_ticks + (trips - RUNS[0]) * each
        loop = _loop_ticks(source, task, trips, one, more)
        known = known and loop is not None
        existing += one.entry + (loop or 0)
    return {"serial": whole(serial), "existing": whole(existing) if known else None}


def _alone(source: Source, trips: dict[str, int], *, serial: bool = True, existing: bool = True) -> TaskAlone:
    small = source.small(trips)
    return baselines(small.problem, small.lowered.loops, small.rule, serial=serial, existing=existing).tasks[0]


def _loop_ticks(source: Source, task: str, trips: int, one: TaskAlone, more: TaskAlone) -> Moment | None:
    """Return what today's loop of ``task`` alone takes; ``one`` is of the fewest `RUNS`, ``more`` of one more."""
    if source.small({task: RUNS[0]}).lowered.loops[0].one_stage_at_a_time:
        return one.staged_ticks + (trips - RUNS[0]) * (more.staged_ticks - one.staged_ticks)
    for runs in (min(runs, trips) for runs in RUNS):
        small = source.small({task: runs})
        if len(small.problem.ops) > MOST_OPS and runs > RUNS[1]:
            return None
        alone = one if runs == RUNS[0] else _alone(source, {task: runs}, serial=False)
        timeline = alone.timeline
        if timeline is None:
            return None
        if runs == trips:
            return timeline.makespan
        places = {i: (at[0], 0, at[1]) for i, at in enumerate(small.rolled.place) if at is not None}
        times = {i: timeline.times[small.problem.ops[i].name] for i in places}
        reach = max((edge.distance for edge in small.rolled.loops[task].dependencies), default=0) + 1
        repeat = find_repeat(times, places, runs - 1, 1, reach)
        if repeat is None:
            continue
        periods, rest = divmod(trips - runs, repeat.period)
        last = timeline.makespan if rest == 0 else _alone(source, {task: runs + rest}, serial=False).loop_ticks
        return None if last is None else last + periods * repeat.ticks
    return None
