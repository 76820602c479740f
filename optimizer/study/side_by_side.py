"""Baseline ``concurrent`` of loops of any trip counts: simulated until the tasks together repeat themselves exactly.

Tasks that run side by side go on alike from some moment on: a time later every one of them has made so many iterations
more, and all is as it was. That lasts until the first of them ends; then the others find a repeat of theirs. What is
left out are whole repeats, so all that is simulated is a few iterations around the beginning and every end.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from hexloom.formulations.ticks import whole
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.study.concurrent import NoneSideBySideError, caps_of, parts_of
from hexloom.optimizer.study.first_come import first_come

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.trial import Small, Source
    from hexloom.optimizer.simulate import ExactTimeline
    from hexloom.optimizer.study.concurrent import Part

    Rows = dict[str, list[list[Moment]]]

FIRST = 24
"""Iterations of every task at first."""

MOST_OPS = 6000
"""Ops that are simulated at most."""

MOST_ADVANCE = 48
"""Iterations of a task in one repeat, at most."""

SPARE = 4
"""Iterations before the one that is the last in a simulation, which may know that it is."""


@dataclass(frozen=True)
class Shift:
    """From here on ``ticks`` later every task has made ``advance`` iterations more, and so on for ``times`` times."""

    at: Moment
    ticks: Fraction
    advance: dict[str, int]
    times: int


@dataclass(frozen=True)
class SideBySide:
    """A simulation of few iterations, and what it leaves out."""

    problem: Problem
    timeline: ExactTimeline
    shifts: tuple[Shift, ...]

    def full(self, moment: Moment) -> Moment:
        """Return when a moment of the simulation is with all iterations."""
        found: Moment = whole(moment + sum((s.ticks * s.times for s in self.shifts if moment > s.at), Fraction(0)))
        return found

    @property
    def makespan(self) -> Moment:
        """Ticks of all iterations."""
        return self.full(self.timeline.makespan)


class SideBySideLoops:
    """Today's loops of all tasks of a source, started together, within shares of the scratchpad that do not change.

    Raises
    ------
    NoneSideBySideError
        Only a plan knows how they share it.
    """

    def __init__(self, source: Source, rule: Rule) -> None:
        self.source, self.rule = source, rule
        found = []
        for more in (0, 1):
            small = source.small({task: min(FIRST + more, n) for task, n in source.trips.items()})
            problem = small.lowered.problem.under(rule)
            found.append((caps_of(problem, small.lowered.loops), problem.scratchpad.available_bytes))
        (self.caps, room), (caps, _) = found
        if caps != self.caps:
            raise NoneSideBySideError("the loops of today take the more scratchpad the more iterations they have")
        if sum(caps) > room:
            raise NoneSideBySideError("their buffers do not fit at once, and a loop of a task that waits was not tried")

    def alone(self) -> Moment:
        """Return the sum over the tasks of what each takes alone in its queues, without its entry."""
        total: Moment = 0
        for task, trips in self.source.trips.items():
            found = self.run({task: trips}, self.rule)
            total += found.makespan - found.problem.entry_ticks
        return total

    def run(self, trips: Mapping[str, int], rule: Rule) -> SideBySide:
        """Return what the tasks in ``trips`` take together when channels are shared by ``rule``.

        Raises
        ------
        NoneSideBySideError
            They do not repeat themselves in so few iterations that they can be simulated.
        """
        left = dict(trips)
        shifts: list[Shift] = []
        runs = FIRST
        counts = {task: min(n, runs) for task, n in left.items()}
        while True:
            small = self.source.small(counts)
            problem = small.lowered.problem.under(self.rule)
            if len(problem.ops) > MOST_OPS and len(trips) * FIRST < sum(counts.values()):
                raise NoneSideBySideError(f"they do not repeat themselves exactly within {MOST_OPS:,} ops")
            timeline = first_come(problem, self._parts(problem, small), (), acting_rule(problem, rule))
            if counts == left:
                return SideBySide(problem, timeline, tuple(shifts))
            rows = _rows(small, timeline)
            until = min(_begins(rows[task])[max(0, n - 1 - SPARE)] for task, n in counts.items() if n < left[task])
            found = _shift(rows, left, until, _ends(small, timeline))
            wanted = dict(counts)
            if found is not None:
                if found.times:
                    shifts.append(found)
                    left = {task: n - found.advance.get(task, 0) * found.times for task, n in left.items()}
                wanted = _enough(rows, left, found, runs)
            if found is None or (not found.times and wanted == counts):
                runs *= 2
                wanted = {task: max(runs, 2 * n) for task, n in counts.items()}
            counts = {task: min(n, wanted[task]) for task, n in left.items()}

    def _parts(self, problem: Problem, small: Small) -> list[Part]:
        cap_of = dict(zip(self.source.trips, self.caps, strict=True))
        return parts_of(problem, small.lowered.loops, [cap_of[loop.task] for loop in small.lowered.loops])


def _rows(small: Small, timeline: ExactTimeline) -> Rows:
    """Return for every iteration of every task all times of its ops, in one order."""
    by: dict[str, dict[int, list[tuple[object, list[Moment]]]]] = defaultdict(lambda: defaultdict(list))
    for op, at in zip(small.rolled.problem.ops, small.rolled.place, strict=True):
        if at is not None:
            t = timeline.times[op.name]
            moments = [t.start, t.end, t.transfer_start, t.done, t.wait_start, t.observed]
            by[op.task][at[1]].append((at[0], moments))
    return {
        task: [[m for _, moments in sorted(rows[j]) for m in moments] for j in sorted(rows)]
        for task, rows in by.items()
    }


def _ends(small: Small, timeline: ExactTimeline) -> dict[str, Moment]:
    """Return when the last op of every task is known to be over."""
    found: dict[str, Moment] = {}
    for op in small.rolled.problem.ops:
        found[op.task] = max(found.get(op.task, 0), timeline.times[op.name].observed)
    return found


def _begins(rows: Sequence[Sequence[Moment]]) -> list[Moment]:
    return [min(row) for row in rows]


def _shift(rows: Rows, left: Mapping[str, int], until: Moment, ends: Mapping[str, Moment]) -> Shift | None:
    """Return the repeat of all tasks that still run when it is ``until``, which nothing later can have changed.

    Of each of them so many iterations are compared as two advances and all that are under way at a time, and none of
    them beside a task that has ended by then.
    """
    seen = {task: sum(1 for row in of if max(row) <= until) for task, of in rows.items()}
    running = {task: n for task, n in seen.items() if n < left[task]}
    alone_since = max((ends[task] for task in seen if task not in running), default=Fraction(0))
    leader = max(running, key=lambda task: running[task])
    for advance in range(1, min(MOST_ADVANCE, running[leader] - 1) + 1):
        last = running[leader] - 1
        ticks = rows[leader][last][0] - rows[leader][last - advance][0]
        found = {task: _advance(rows[task], n, ticks, alone_since) for task, n in running.items()}
        if all(found.values()):
            times = min(
                (left[task] - running[task] - steps - SPARE - _under_way(rows[task])) // steps
                for task, steps in found.items()
            )
            return Shift(until, Fraction(ticks), found, max(0, times))
    return None


def _advance(rows: Sequence[Sequence[Moment]], seen: int, ticks: Moment, since: Moment) -> int:
    """Return the iterations of a task in ``ticks``, where the last ones seen did what earlier ones did; else 0."""
    for steps in range(1, min(MOST_ADVANCE, seen - 1) + 1):
        ahead = rows[seen - 1][0] - rows[seen - 1 - steps][0]
        if ahead < ticks:
            continue
        first = seen - 2 * steps - _under_way(rows)
        if ahead > ticks or first < steps or min(rows[first - steps]) < since:
            return 0
        same = all([moment + ticks for moment in rows[k - steps]] == rows[k] for k in range(first, seen))
        return steps if same else 0
    return 0


def _under_way(rows: Sequence[Sequence[Moment]]) -> int:
    """Return how many iterations have begun at most before an earlier one is over."""
    begins = sorted(_begins(rows))
    return max(bisect_left(begins, max(row)) - k for k, row in enumerate(rows))


def _enough(rows: Rows, left: Mapping[str, int], shift: Shift, runs: int) -> dict[str, int]:
    """Return iterations that show the next end of a task and what comes after it: of all others so many more."""
    seen = {task: sum(1 for row in rows[task] if max(row) <= shift.at) for task in shift.advance}
    rounds = min(Fraction(left[task] - seen[task], steps) for task, steps in shift.advance.items())
    return {
        task: seen[task] + ceil(rounds * shift.advance[task]) + runs if task in shift.advance else n
        for task, n in left.items()
    }
