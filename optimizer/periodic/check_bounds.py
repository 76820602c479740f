"""Bounds for all iterations of a periodic schedule, derived again: engine by engine, and along iterations that wait."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.optimizer.periodic.schedule import RECURRENCE, WRITTEN
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.windows import Measure, all_work, windows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.windows import Windows

    Label = tuple[str, str, int, int]
    Report = Callable[[str, tuple[str, ...], str], None]

ONCE = -1
"""The iteration of what runs once."""

MOST_SPAN = 4
"""Iterations from an op to the same one that are looked at."""


def check_whole_bounds(schedule: PeriodicSchedule, labels: dict[str, Label], report: Report) -> None:
    """Work of all iterations over units, after the least head and before the least tail: derived again."""
    problem = schedule.written.problem.under(schedule.contention)
    rule = acting_rule(problem, schedule.contention)
    have = dict.fromkeys(schedule.trips, 0)
    for task, _, _, iteration in labels.values():
        have[task] = max(have.get(task, 0), iteration + 1)
    measure = Measure(problem, rule)
    window = windows(problem, rule)
    best: dict[str, Fraction] = {}
    for work in all_work(problem, measure):
        total = int(work.amount.sum())
        for i, amount in zip(work.ops.tolist(), work.amount.tolist(), strict=True):
            task, _, _, iteration = labels[problem.ops[i].name]
            if iteration != ONCE and iteration == have[task] // 2:
                total += amount * (schedule.trips[task] - have[task])
        # Windows are in whole ticks here; rounded down they are still bounds.
        head = int((window.head[work.ops] * measure.fine + work.before).min())
        tail = int((window.tail[work.ops] * measure.fine + work.behind).min())
        best[work.engine] = Fraction(head + measure.quotient(total, work.units) + tail, measure.fine)
    complete = not any(stretch.left_out for stretch in schedule.stretches)
    for row in schedule.bounds:
        again = best.get(row.engine or "", Fraction(0))
        if row.name == RECURRENCE:
            again = _waiting(problem, measure, window, labels, schedule.trips)
        elif row.name == WRITTEN and complete:  # the written schedule has all iterations, and its bounds were checked
            again = Fraction(schedule.written.lower_bound)
        if row.ticks > again + 2:
            report("bound", (row.name,), f"bound {row.name!r} says {row.ticks} ticks, derived again it is {again}")
        if row.ticks > schedule.makespan:
            report("bound", (row.name,), f"bound {row.name!r} of {row.ticks} ticks is above the makespan")
    if schedule.lower_bound != max(row.ticks for row in schedule.bounds):
        report("bound", (), "the lower bound is not the best of the bounds")


def _waiting(
    problem: Problem, measure: Measure, window: Windows, labels: Mapping[str, Label], trips: Mapping[str, int]
) -> Fraction:
    """Return the best bound along ops that wait for themselves some iterations before, in ticks.

    From the target backwards: how long before its start each op must begin. What the ways take in the middle, they take
    between any iterations so far apart.
    """
    place = {labels[op.name]: i for i, op in enumerate(problem.ops)}
    shortest = [min(measure.shortest(mode) for mode in op.modes) for op in problem.ops]
    rank = {i: k for k, i in enumerate(problem.topological_order)}
    best = Fraction(0)
    for task, count in trips.items():
        have = 1 + max(at[3] for at in place if at[0] == task)
        if have == count:
            continue
        middle, last = have // 3, have - 2
        for label, start in place.items():
            if label[0] != task or label[3] != middle:
                continue
            for span in range(1, min(MOST_SPAN, last - middle) + 1):
                first = (last + count - have) % span
                ends = [place.get((*label[:3], at)) for at in (middle + span, first, last)]
                if any(i is None for i in ends):
                    continue
                target, begin, end = (i for i in ends if i is not None)
                step = _way(problem, shortest, rank, start, target)
                if step > 0:
                    rest = Fraction((last + count - have - first) // span * step + shortest[end], measure.fine)
                    best = max(best, int(window.head[begin]) + rest + int(window.tail[end]))
    return best


def _way(problem: Problem, shortest: list[int], rank: dict[int, int], start: int, target: int) -> int:
    """Return the longest way from the start of one op to that of another, -1 if there is none."""
    needed = {target: 0}
    waiting = [target]
    while waiting:
        i = max(waiting, key=rank.__getitem__)
        waiting.remove(i)
        for p in problem.predecessors[i]:
            if rank[p] < rank[start]:
                continue
            if p not in needed:
                waiting.append(p)
                needed[p] = -1
            needed[p] = max(needed[p], needed[i] + shortest[p])
    return needed.get(start, -1)
