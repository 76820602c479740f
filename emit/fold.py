"""What of a periodic schedule repeats itself: for every stretch that leaves runs out, equal windows of time.

The written schedule shows every steady state for several periods. A window is as long as a period; what stands in it
on every queue, and what that waits for, is in the next one the same, so many iterations later. Of all these windows
a table needs one. The checker has seen that one more is one more of the same (`optimizer.periodic.check`), so all that
is proven of the plan is proven for as many windows as are written down, and for every number above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit.orders import Orders
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.check import ONCE, labels_of, parts_of

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
    """A step as it stands in a window: its queue, and what it waits for, by labels."""

    queue: int
    label: Label
    action: Action
    slice: int
    waits: tuple[tuple[Label, int], ...]

    def later(self, stretch: Stretch) -> Shown:
        """Return the step that is the same one a period later."""
        waits = tuple((_later(label, stretch), piece) for label, piece in self.waits)
        return self._replace(label=_later(self.label, stretch), waits=waits)


def _later(label: Label, stretch: Stretch) -> Label:
    task, stage, part, iteration = label
    return (task, stage, part, iteration if iteration == ONCE else iteration + stretch.advance.get(task, 0))


@dataclass(frozen=True, slots=True)
class Window:
    """Where a stretch repeats itself: ``count`` windows of ``ticks`` from ``start`` on, each a lap of its loop."""

    stretch: int
    start: Moment
    ticks: Moment
    count: int
    advance: dict[str, int]

    @property
    def end(self) -> Moment:
        """When the last window is over."""
        return self.start + self.count * self.ticks


class Folded:
    """A periodic schedule with its windows; ops are told by their position in the written schedule.

    Raises
    ------
    InvalidInputError
        A steady state has no two equal windows, or an op in it is late.
    """

    def __init__(self, periodic: PeriodicSchedule) -> None:
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
        self.windows = [self._window(k, periodic.stretches[k]) for k in looped]
        for before, window in zip(self.windows, self.windows[1:], strict=False):
            if before.end > window.start:
                raise InvalidInputError(f"schedule {periodic.name!r}: two stretches repeat themselves at the same time")

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
        task, _, _, iteration = self.labels[op]
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
        start, ticks = begins[stretch.first], stretch.period_ticks
        most = int((self.schedule.makespan - start) // ticks) + 1
        shown = [self._shown(start + i * ticks, ticks) for i in range(most)]
        first, count, at = 0, 0, 0
        for i, window in enumerate(shown):
            if i == first or window != [one.later(stretch) for one in shown[i - 1]]:
                first = i
            if window and i - first + 1 > count:
                count, at = i - first + 1, first
        # What comes behind the windows waits for ops in them, or a little before: those are not to be folded.
        reach = max((self._reach(start + i * ticks, ticks) for i in range(at, at + count)), default=0)
        kept = min(max(0, count - 2), reach)
        if count - kept < 2:
            raise InvalidInputError(
                f"schedule {self.periodic.name!r}: stretch {number} shows no two equal periods, so no loop can be made "
                "of it; solve it with --formulation flat"
            )
        return Window(number, start + (at + kept) * ticks, ticks, count - kept, stretch.advance)

    def _in(self, start: Moment, ticks: Moment) -> Iterator[tuple[int, Step]]:
        for q, lane in enumerate(self.orders.lanes):
            for step in lane.steps:
                if start <= self.moment(step) < start + ticks:
                    yield q, step

    def _shown(self, start: Moment, ticks: Moment) -> list[Shown]:
        """Return what stands on every queue in a window, and what each op that begins there waits for."""
        found = []
        for q, step in self._in(start, ticks):
            waits = [] if step.action == "wait" else self.waits[step.op]
            named = tuple((self.labels[op], piece) for op, piece in waits)
            found.append(Shown(q, self.labels[step.op], step.action, step.slice, named))
        return found

    def _reach(self, start: Moment, ticks: Moment) -> int:
        """Return how many windows back the begin of an op lies for which one of this window waits."""
        back = 0
        for _, step in self._in(start, ticks):
            for op, _ in [] if step.action == "wait" else self.waits[step.op]:
                if self.key(op) is not None:
                    back = max(back, -int((self.rows[op].start - start) // ticks))
        return back
