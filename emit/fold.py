"""What of a periodic schedule repeats itself: for every stretch that leaves runs out, equal windows of time.

The written schedule shows every steady state for several periods. A window is as long as a period; what stands in it
on every queue, and what that waits for, is in the next one the same, so many iterations later. Of all these windows
a table needs one. The checker has seen that one more is one more of the same (`optimizer.periodic.check`), so all that
is proven of the plan is proven for as many windows as are written down, and for every number above it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit.orders import Orders
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.check import labels_of, parts_of
from hexloom.optimizer.periodic.check_bounds import ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.emit.orders import Action, Step
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.check import Label
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule, Stretch


class Key(NamedTuple):
    """Ops that are the same one in different iterations: the ``part``-th of a stage of a task, in a stretch."""

    stretch: int
    task: str
    stage: str
    part: int


class Shown(NamedTuple):
    """A step as it stands in a window: its queue, and what it waits for, by labels and the stretch that has each.

    Where a stretch begins, what a step waits for may be of the stretch before, and counted there: no later one does.
    """

    queue: int
    label: Label
    stretch: int
    action: Action
    slice: int
    waits: tuple[tuple[Label, int, int], ...]

    def later(self, advance: dict[str, int]) -> Shown:
        """Return the step that is the same one so many iterations later."""
        waits = tuple((_later(label, advance), stretch, piece) for label, stretch, piece in self.waits)
        return self._replace(label=_later(self.label, advance), waits=waits)


def _later(label: Label, advance: dict[str, int]) -> Label:
    task, stage, part, iteration = label
    return (task, stage, part, iteration if iteration == ONCE else iteration + advance.get(task, 0))


@dataclass(frozen=True, slots=True)
class Window:
    """Where a stretch repeats itself: ``count`` windows of ``ticks`` from ``start`` on, each a lap of its loop.

    Each has ``runs`` of the stretch, and ``advance`` iterations of its tasks; a period has ``per_period`` windows.
    """

    stretch: int
    start: Moment
    ticks: Moment
    count: int
    runs: int
    per_period: int
    advance: dict[str, int]

    @property
    def end(self) -> Moment:
        """When the last window is over."""
        return self.start + self.count * self.ticks


class Folded:
    """A periodic schedule with its windows; ops are told by their position in the written schedule.

    Where the runs of a period are alike but for places in rings, a window is one run, unless it is to be a ``whole``
    period; whole periods more are proven either way. The last windows may be taken ``without`` so many: transfers that
    they begin, and that are awaited in another order behind them, are then ops of their own.

    Raises
    ------
    InvalidInputError
        A steady state has no two equal windows, or an op in it is late.
    """

    def __init__(self, periodic: PeriodicSchedule, *, whole: bool = False, without: int = 0) -> None:
        self.whole = whole
        self.periodic = periodic
        self.schedule = periodic.written
        self.problem = self.schedule.problem
        self.orders = Orders(self.schedule)
        self.parts = parts_of(periodic) or {}
        names = labels_of(self.problem, self.parts)
        self.labels: list[Label] = [names[op.name] for op in self.problem.ops]
        self.waits = self.orders.slice_waits()
        self.rows = {self.problem.op_index[row.op]: row for row in self.schedule.rows}
        self._before = self._iterations_before()
        looped = [k for k, stretch in enumerate(periodic.stretches) if stretch.left_out]
        self.loop_of = {stretch: k for k, stretch in enumerate(looped)}
        found = [self._window(k, periodic.stretches[k]) for k in looped]
        self.windows = [replace(window, count=max(2, window.count - without)) for window in found]
        for k in range(1, len(self.windows)):
            self.windows[k - 1], self.windows[k] = self._apart(self.windows[k - 1], self.windows[k])

    def _apart(self, one: Window, after: Window) -> tuple[Window, Window]:
        """Return the windows of two stretches without those in which both repeat themselves; two of each must stay."""
        while one.end > after.start:
            if one.count > 2:
                one = replace(one, count=one.count - 1)
            elif after.count > 2:
                after = replace(after, start=after.start + after.ticks, count=after.count - 1)
            else:
                raise InvalidInputError(
                    f"schedule {self.periodic.name!r}: two stretches repeat themselves at the same time, so there are "
                    "no loops one after the other; solve it with --formulation flat"
                )
        return one, after

    def moment(self, step: Step) -> Moment:
        """Return when a step begins."""
        row = self.rows[step.op]
        return row.wait_start if step.action == "wait" else row.start

    def segment(self, moment: Moment) -> tuple[int, int]:
        """Return where a moment is: 2k before window k, 2k + 1 in its windows, and which one of these."""
        for k, window in enumerate(self.windows):
            if moment < window.start:
                return 2 * k, 0
            if moment < window.end:
                return 2 * k + 1, int((moment - window.start) // window.ticks)
        return 2 * len(self.windows), 0

    def key(self, op: int) -> Key | None:
        """Return which ops are the same one in other iterations; None for an op that runs once, or in no loop."""
        task, stage, part, iteration = self.labels[op]
        if iteration == ONCE:
            return None
        stretch = self.stretch_of(op)
        return Key(stretch, task, stage, part) if stretch in self.loop_of else None

    def stretch_of(self, op: int) -> int:
        """Return the stretch that has the iteration of an op."""
        return self._owner(self.labels[op])

    def _owner(self, label: Label) -> int:
        task, _, _, iteration = label
        owners = [k for k, before in enumerate(self._before) if task in before and before[task] <= iteration]
        return owners[-1] if owners else 0

    def _iterations_before(self) -> list[dict[str, int]]:
        """Return, for every stretch and each of its tasks, how many iterations are written down before it."""
        sums: dict[str, int] = {}
        found = []
        for stretch in self.periodic.stretches:
            found.append({task: sums.get(task, 0) for task in stretch.count})
            for task, count in stretch.count.items():
                sums[task] = sums.get(task, 0) + count - stretch.left_out * stretch.times.get(task, 0)
        return found

    def _window(self, number: int, stretch: Stretch) -> Window:
        begins: dict[int, Moment] = {}
        for i, (task, _, _, iteration) in enumerate(self.labels):
            if task in stretch.times and iteration != ONCE and self.stretch_of(i) == number:
                run = (iteration - self._before[number][task]) // stretch.times[task]
                start = self.rows[i].start
                begins[run] = min(begins.get(run, start), start)
        period = stretch.period
        for runs in (q for q in range(period if self.whole else 1, period + 1) if period % q == 0):
            ticks = Fraction(stretch.period_ticks) * runs / period
            advance = {task: n * runs for task, n in stretch.times.items()}
            count, at = self._longest(number, begins[stretch.first], ticks, advance)
            start = begins[stretch.first] + at * ticks
            # What comes behind the windows waits for ops in them, or a little before: those are not to be folded.
            reach = max((self._reach(start + i * ticks, ticks) for i in range(count)), default=0)
            kept = min(max(0, count - 2), reach)
            if count - kept >= 2:
                return Window(number, start + kept * ticks, ticks, count - kept, runs, period // runs, advance)
        raise InvalidInputError(
            f"schedule {self.periodic.name!r}: stretch {number} shows no two equal periods, so no loop can be made "
            "of it; solve it with --formulation flat"
        )

    def _longest(self, number: int, start: Moment, ticks: Moment, advance: dict[str, int]) -> tuple[int, int]:
        """Return how many windows after ``start`` are alike, the most that follow each other, and the first of them.

        In each there is an op of every task of the stretch: where a later one has the same interval, its windows are
        alike, too. And a period more comes there and nowhere else: among the ends of another task may be windows, too.
        """
        most = int((self.schedule.makespan - start) // ticks) + 1
        shown = [self._shown(start + i * ticks, ticks) for i in range(most)]
        stays, comes = self._cut(number)
        first, count, at = 0, 0, 0
        for i, window in enumerate(shown):
            if i == first or window != [one.later(advance) for one in shown[i - 1]]:
                first = i
            here = {one.label[0] for one in window if one.label[3] != ONCE and self._owner(one.label) == number}
            around = start + first * ticks <= comes and stays < start + (i + 1) * ticks
            if around and advance.keys() <= here and i - first + 1 > count:
                count, at = i - first + 1, first
        return count, at

    def _cut(self, number: int) -> tuple[Moment, Moment]:
        """Return the last begin of what stays where it is with a period more of a stretch, and the first of what moves.

        Between these is the place for laps. Ops of the stretch say nothing: they are there before and after it.
        """
        stretch, grown = self.periodic.stretches[number], self.periodic.grown[number]
        stays: Moment = -1
        comes: Moment = self.schedule.makespan
        for row in () if grown is None else grown.rows:
            i = self.problem.op_index.get(row.op)
            if i is None or (self.labels[i][0] in stretch.times and self.labels[i][3] != ONCE):
                continue
            if row.start == self.rows[i].start:
                stays = max(stays, row.start)
            else:
                comes = min(comes, self.rows[i].start)
        return stays, comes

    def _in(self, start: Moment, ticks: Moment) -> Iterator[tuple[int, Step]]:
        for q, lane in enumerate(self.orders.lanes):
            for step in lane.steps:
                if start <= self.moment(step) < start + ticks:
                    yield q, step

    def _shown(self, start: Moment, ticks: Moment) -> list[Shown]:
        """Return what stands on every queue in a window, and what each op that begins there waits for, in any order."""
        found = []
        for q, step in self._in(start, ticks):
            waits = {} if step.action == "wait" else self.waits[step.op]
            named = sorted(
                (self.labels[op], self.stretch_of(op), piece) for (op, piece), lanes in waits.items() if q in lanes
            )
            own = self.stretch_of(step.op)
            found.append(Shown(q, self.labels[step.op], own, step.action, step.slice, tuple(named)))
        return found

    def _reach(self, start: Moment, ticks: Moment) -> int:
        """Return how many windows back the begin of an op lies for which one of this window waits."""
        back = 0
        for _, step in self._in(start, ticks):
            for op, _ in () if step.action == "wait" else self.waits[step.op]:
                if self.key(op) is not None:
                    back = max(back, -int((self.rows[op].start - start) // ticks))
        return back
