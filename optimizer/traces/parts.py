"""The five parts of a gain for a measured run: the words of a prediction, summing to what was measured."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.problem import slows
from hexloom.formulations.ticks import whole
from hexloom.optimizer.attribution import last_work
from hexloom.optimizer.bottleneck import limiting_engine
from hexloom.optimizer.schedule import Gain
from hexloom.optimizer.simulate import Timeline
from hexloom.optimizer.traces.replay import Lengths, alone, lengths_of, replayed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.problem import Mode
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.simulate import OpTimes


def measured_gain(
    schedule: Schedule,
    modes: Mapping[str, Mode],
    times: Mapping[str, OpTimes[Moment]],
    makespan: Moment,
    explained: Fraction,
    slower: Mapping[str, Moment],
) -> Gain | None:
    """Return the five parts of ``existing - makespan`` for a run; None where the schedule has no existing time.

    Today's loops were not measured, so entries and loops are those of the prediction. With R the plan replayed with the
    measured durations (``explained``) and F with the part taken out by which ops were ``slower`` than alone:
    ``contention_cost = R - F``, ``tail`` is what follows the last work of the bottleneck engine in the run, what tasks
    take longer alone with the measured durations is taken from ``overlap_within_tasks``, and what then remains of the
    run belongs to ``overlap_between_tasks``. With one task alone all of it is overlap within it.
    """
    gain = schedule.gain
    if gain is None:
        return None
    several = len({op.task for op in schedule.problem.ops}) > 1
    made = Fraction(makespan)
    lost = made - Fraction(schedule.makespan)
    if not several:
        within = gain.overlap_within_tasks - lost
        return gain.model_copy(update={"overlap_within_tasks": whole(within)})
    contention = Fraction(0)
    if slows(schedule.contention):
        free = {name: _freed(modes[name], at, slower.get(name, 0)) for name, at in times.items()}
        contention = explained - replayed(schedule, modes, free)
    tail = made - Fraction(_last_work(schedule, times, makespan))
    measured = {name: lengths_of(modes[name], at) for name, at in times.items()}
    rows = {row.op: row for row in schedule.rows}
    predicted = {name: lengths_of(modes[name], rows[name]) for name in times}
    longer = alone(schedule, modes, measured) - alone(schedule, modes, predicted)
    between = (
        Fraction(gain.overlap_between_tasks)
        - lost
        + longer
        + (contention - Fraction(gain.contention_cost))
        + (tail - Fraction(gain.tail))
    )
    return Gain(
        existing=gain.existing,
        saved_entries=gain.saved_entries,
        overlap_within_tasks=whole(gain.overlap_within_tasks - longer),
        overlap_between_tasks=whole(between),
        contention_cost=whole(contention),
        tail=whole(tail),
    )


def _freed(mode: Mode, at: OpTimes[Moment], slower: Moment) -> Lengths:
    was = lengths_of(mode, at)
    return Lengths(max(0, was.work - slower), was.issue, was.poll)


def _last_work(schedule: Schedule, times: Mapping[str, OpTimes[Moment]], makespan: Moment) -> Moment:
    """Return when the bottleneck engine ends its last work in the run."""
    chosen = tuple(a.mode for a in schedule.plan.assignments)
    decision = Decision(chosen, ((),) * len(chosen), (), (), (), ())
    timeline = Timeline(dict(times), makespan)
    last = last_work(schedule.problem, decision, timeline, limiting_engine(schedule.bounds), schedule.contention)
    return min(last, makespan)
