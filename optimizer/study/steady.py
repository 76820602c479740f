"""What a plan of loops, changed in some way, takes for all iterations: simulated until every phase repeats itself.

A changed plan (its tasks alone, a barrier after every step, channels that are never full) repeats itself as the plan
does, though maybe later and in longer periods. What is left out are whole periods of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from hexloom.formulations.problem import slows
from hexloom.formulations.ticks import whole
from hexloom.optimizer.attribution import last_work
from hexloom.optimizer.periodic.phases import run_of
from hexloom.optimizer.periodic.repeat import Repeat
from hexloom.optimizer.periodic.trial import repeat_of
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.restrict import restrict
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.reduced import Reduced
    from hexloom.optimizer.periodic.trial import Ran
    from hexloom.optimizer.simulate import ExactTimeline

    Change = Callable[[Problem, Decision], Decision]

MOST_RUNS = 192
"""Runs of a phase in which its repeats are looked for."""

_NOTHING = Repeat(0, 1, 0)


@dataclass(frozen=True)
class Steady:
    """Ticks of all iterations: of the plan, of its tasks each alone, without contention, and up to the last work.

    That is the last work of the bottleneck engine.
    """

    makespan: Moment
    alone: Moment
    free: Moment
    last: Moment


def steady(reduced: Reduced, change: Change, bottleneck: str | None) -> Steady | None:
    """Return what the changed plan takes; None where a part of it does not repeat itself exactly in `MOST_RUNS` runs.

    Parameters
    ----------
    reduced
        The plan, in few runs of every phase.
    change
        From its problem and decision to another decision for the same ops.
    bottleneck
        Engine whose last work ends what is no tail.
    """
    keep, whole_runs = list(reduced.keep), [phase.whole_runs for phase in reduced.phases]
    while True:
        ran = reduced.run(keep)
        problem, rule = ran.small.problem, ran.small.rule
        decision = change(problem, ran.decision)
        tasks = tuple(reduced.source.trips)
        timeline = simulate(problem, make_plan(problem, decision), rule)
        alone = [_alone(ran, decision, task) for task in tasks]
        several = len(tasks) > 1
        free = simulate(problem, make_plan(problem, decision), "none") if several and slows(rule) else timeline
        every = [timeline, free, *alone]
        left_out = [n > k for n, k in zip(whole_runs, keep, strict=True)]
        repeats = [[_repeat(ran, p, of) if out else _NOTHING for p, out in enumerate(left_out)] for of in every]
        more = list(keep)
        for p, out in enumerate(left_out):
            if not out:
                continue
            known = [row[p] for row in repeats]
            if any(repeat is None for repeat in known):
                more[p] = keep[p] * 3 // 2
                if more[p] > MOST_RUNS:
                    return None
            unit = lcm(ran.phases[p].body.schedule.unroll, *(repeat.period for repeat in known if repeat is not None))
            more[p] = whole_runs[p] - max(0, whole_runs[p] - more[p]) // unit * unit
        if more == keep:
            break
        keep = more

    def total(k: int, until: Moment | None = None) -> Moment:
        """Return when timeline ``k`` ends; with ``until``, when that moment of it is."""
        found = Fraction(every[k].makespan if until is None else until)
        for p, repeat in enumerate(repeats[k]):
            if left_out[p] and repeat is not None and (until is None or until > _last_run(ran, p, every[k])):
                found += Fraction(whole_runs[p] - keep[p], repeat.period) * Fraction(repeat.ticks)
        done: Moment = whole(found)
        return done

    last: Moment = total(0)
    if several:
        last = total(0, last_work(problem, decision, timeline, bottleneck, rule))
    return Steady(total(0), sum(total(2 + k) for k in range(len(tasks))), total(1), last)


def _alone(ran: Ran, decision: Decision, task: str) -> ExactTimeline:
    names = frozenset(op.name for op in ran.small.problem.ops if op.task == task)
    part, partial = restrict(ran.small.problem, decision, names, task)
    return simulate(part, make_plan(part, partial), ran.small.rule)


def _repeat(ran: Ran, p: int, timeline: ExactTimeline) -> Repeat | None:
    """Return the repeat of phase ``p``; where none of its ops is there, it takes nothing."""
    names = [op.name for op in ran.small.problem.ops]
    if all(names[i] not in timeline.times for i in run_of(ran.small.rolled, ran.phases, p)):
        return _NOTHING
    return repeat_of(ran.small, ran.phases, p, timeline.times)


def _last_run(ran: Ran, p: int, timeline: ExactTimeline) -> Moment:
    """Return when the last whole run of phase ``p`` begins."""
    names = [op.name for op in ran.small.problem.ops]
    runs = run_of(ran.small.rolled, ran.phases, p)
    last = ran.phases[p].whole_runs - 1
    return min(timeline.times[names[i]].start for i, at in runs.items() if at[2] == last)
