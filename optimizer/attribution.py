"""Where a gain comes from, and whether to co-schedule at all."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.problem import slows
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.progress import Progress
from hexloom.optimizer.restrict import restrict
from hexloom.optimizer.schedule import Advice, Gain
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.baselines import Baselines
    from hexloom.optimizer.simulate import ExactTimeline

Span = tuple["Moment", "Moment", int]
"""(start, end, units)."""


def attribute(
    problem: Problem,
    decision: Decision,
    timeline: ExactTimeline,
    found: Baselines,
    bottleneck: str | None,
    rule: Rule = "none",
) -> Gain | None:
    """Split ``existing - makespan`` into its five parts; None when there is no existing time.

    With E the entries and L the loops of today, A the tasks of this plan each alone, M this plan after its own entry,
    and F the same plan if ops did not slow each other: ``saved_entries = sum E - entry``, ``overlap_within_tasks =
    sum L - sum A``, ``contention_cost = M - F``, ``tail`` is the time after the bottleneck engine's last work,
    ``overlap_between_tasks = sum A - F + tail``; one task alone has none of these three. Less than nothing is a
    contention cost when a slowed op lets others through that matter more.
    """
    existing = found.existing
    if existing is None:
        return None
    alone: Moment = 0
    for task in found.tasks:
        if len(task.ops) == len(problem.ops):
            alone += timeline.makespan - problem.entry_ticks
            continue
        names = frozenset(problem.ops[i].name for i in task.ops)
        part, partial = restrict(problem, decision, names, task.task)
        alone += simulate(part, make_plan(part, partial), rule).makespan
    loops = sum(task.loop_ticks or 0 for task in found.tasks)
    free, last = timeline.makespan, timeline.makespan
    if len(found.tasks) > 1:
        last = last_work(problem, decision, timeline, bottleneck, rule)
        if slows(rule):
            free = simulate(problem, make_plan(problem, decision), "none").makespan
    tail = timeline.makespan - last
    return Gain(
        existing=existing,
        saved_entries=sum(task.entry for task in found.tasks) - problem.entry_ticks,
        overlap_within_tasks=loops - alone,
        overlap_between_tasks=alone - (free - problem.entry_ticks) + tail,
        contention_cost=timeline.makespan - free,
        tail=tail,
    )


def busy_spans(
    problem: Problem, decision: Decision, timeline: ExactTimeline, engine: str, rule: Rule = "none"
) -> list[Span]:
    """Return (start, end, units) of everything that holds ``engine``, overheads included, by start."""
    spans: list[Span] = []
    modes = {op.name: op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)}
    progress: Progress | None = None
    for name, mode in modes.items():
        times = timeline.times[name]
        longest = max((use.ticks for use in mode.uses if use.engine not in problem.shares), default=0)
        for use in mode.uses:
            if use.engine != engine or use.ticks == 0:
                continue
            start = times.start if mode.dma is None else times.transfer_start
            if mode.dma is None and use.ticks == longest:
                spans.append((start, times.end, use.units))
                continue
            progress = progress or Progress(problem, rule, modes, timeline.times)
            spans.append((start, progress.reached(name, use.ticks), use.units))
    return sorted(spans)


def last_work(
    problem: Problem, decision: Decision, timeline: ExactTimeline, engine: str | None, rule: Rule = "none"
) -> Moment:
    """Return when ``engine`` ends its last work; the makespan when no engine is named."""
    if engine is None:
        return timeline.makespan
    return max((end for _, end, _ in busy_spans(problem, decision, timeline, engine, rule)), default=timeline.makespan)


def advise(gain: Gain, makespan: Moment, limit: str) -> Advice:
    """Say whether to co-schedule, to pipeline each task, or to keep what exists, and why; ``limit`` is why no more."""
    answer = gain.answer
    together, within = _part(gain.together, gain), _part(gain.overlap_within_tasks, gain)
    if answer == "co_schedule":
        reason = f"running the tasks together saves {together:.1%} of the existing time; {limit}"
    elif answer == "pipeline":
        reason = f"pipelining inside the tasks gains {within:.1%}, running them together only {together:.1%}; {limit}"
    else:
        saved = _part(gain.existing - makespan, gain)
        reason = f"the plan saves {saved:.1%} of the existing time, less than runs vary; {limit}"
    return Advice(answer=answer, reason=reason)


def _part(ticks: Moment, gain: Gain) -> float:
    return float(ticks / Fraction(gain.existing)) if gain.existing else 0.0
