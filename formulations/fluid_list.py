"""List schedules on a clock that knows how ops slow each other: fast, for problems without transfers or tight memory.

An op begins as soon as its inputs and guards are known and its units are free, the larger priority first. What comes
out is what the simulator says of the same decision; who improves plans by the thousand asks this, and the simulator
about the best.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.decision import Decision
from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Mode, Problem
    from hexloom.formulations.speeds import Speeds

BLUR = 1e-9
"""Times that differ by less than this part are one instant, as in the simulator."""

END = -1
"""The step at which the result exists; another step is the position of a use."""


class Course(NamedTuple):
    """How a mode goes: units per (engine, how many, which), ticks before it works, its load, its (amount, step)."""

    asks: tuple[tuple[int, int, tuple[int, ...] | None], ...]
    prepare: float
    load: int
    steps: tuple[tuple[float, int], ...]


class Timed(NamedTuple):
    """A list schedule: per op its start, its end and its units; the order of starts; the makespan."""

    start: list[float]
    ended: list[float]
    units: list[tuple[tuple[int, ...], ...]]
    order: list[int]
    makespan: float


class FluidList:
    """The list scheduler of one problem; `usable` says whether it is one of those without transfers or tight memory."""

    def __init__(self, problem: Problem, speeds: Speeds) -> None:
        self.problem = problem
        self.speeds = speeds
        self.offsets = pack(problem, [(0, 1)] * len(problem.buffers))
        kinds = {engine.kind for engine in problem.engines}
        modes = [mode for op in problem.ops for mode in op.modes]
        self.usable = (
            self.offsets is not None
            and kinds <= {"worker", "resource"}
            and all(mode.dma is None for mode in modes)
            and speeds.rule != "priority"
            and all(op.deadline_ticks is None for op in problem.ops)
        )
        if not self.usable:
            return
        self._engine = {engine.name: e for e, engine in enumerate(problem.engines)}
        self._units = [engine.units for engine in problem.engines]
        self._thread = [engine.kind == "worker" for engine in problem.engines]
        self._courses = [[self._course(mode) for mode in op.modes] for op in problem.ops]
        self._known: dict[tuple[int, ...], dict[int, float]] = {}

    def _course(self, mode: Mode) -> Course:
        load = self.speeds.load_of(mode)
        prepare = float(mode.overhead_ticks) if load != NOT_SHARING else 0.0
        extra = 0 if load != NOT_SHARING else mode.overhead_ticks
        asks: list[tuple[int, int, tuple[int, ...] | None]] = []
        steps: list[tuple[float, int]] = []
        for use in mode.uses:
            if use.ticks == 0:
                asks.append((-1, 0, None))
                continue
            e = self._engine[use.engine]
            asks.append((e, use.units, use.unit_ids))
            held = use.ticks if self._thread[e] else mode.latency_ticks
            steps.append((float(held + extra), len(asks) - 1))
        # At one instant units come back before the result does, so that whoever waits for both begins.
        return Course(tuple(asks), prepare, load, (*sorted(steps), (float(mode.latency_ticks + extra), END)))

    def run(self, priority: Sequence[float], modes: Sequence[int], guards: Sequence[tuple[int, int]]) -> Timed:
        """Return the list schedule of these priorities; guards must not close a circle."""
        problem = self.problem
        n = len(problem.ops)
        courses = [of[m] for of, m in zip(self._courses, modes, strict=True)]
        missing = [len(p) for p in problem.predecessors]
        followers: list[list[int]] | list[tuple[int, ...]] = list(problem.successors)
        if guards:
            followers = [list(s) for s in followers]
            for before, after in guards:
                followers[before].append(after)
                missing[after] += 1
        free = [list(range(units)) for units in self._units]
        start, ended = [0.0] * n, [0.0] * n
        units: list[tuple[tuple[int, ...], ...]] = [()] * n
        order: list[int] = []
        ready = sorted([(-priority[i], i) for i in range(n) if missing[i] == 0])
        # Per op under way: what it has done, its next step, whether it only prepares.
        done, step = [0.0] * n, [0] * n
        running: list[int] = []
        preparing: set[int] = set()
        now = float(problem.entry_ticks)
        last = now
        while ready or running:
            k = 0
            while k < len(ready):
                i = ready[k][1]
                course = courses[i]
                taken = _take(free, course.asks)
                if taken is None:
                    k += 1
                    continue
                del ready[k]
                order.append(i)
                start[i], units[i] = now, taken
                done[i], step[i] = 0.0, 0
                running.append(i)
                if course.prepare:
                    preparing.add(i)
            pace = self._pace(running, courses, preparing)
            least = -1.0
            for i, speed in zip(running, pace, strict=True):
                goal = courses[i].prepare if i in preparing else courses[i].steps[step[i]][0]
                wait = (goal - done[i]) / speed if speed > 0 else float("inf")
                if least < 0 or wait < least:
                    least = wait
            least = max(least, 0.0)
            now += least
            blur = BLUR * (1 + now)
            over: list[int] = []
            for i, speed in zip(running, pace, strict=True):
                course = courses[i]
                done[i] += speed * least
                reached = done[i] + speed * blur
                if i in preparing:
                    if course.prepare <= reached:
                        preparing.discard(i)
                        done[i] = 0.0
                    continue
                while course.steps[step[i]][0] <= reached:
                    which = course.steps[step[i]][1]
                    step[i] += 1
                    if which == END:
                        over.append(i)
                        break
                    back = free[course.asks[which][0]]
                    for u in units[i][which]:
                        insort(back, u)
            for i in over:
                ended[i] = last = now
                running.remove(i)
                for s in followers[i]:
                    missing[s] -= 1
                    if missing[s] == 0:
                        insort(ready, (-priority[s], s))
        return Timed(start, ended, units, order, last)

    def _pace(self, running: list[int], courses: list[Course], preparing: set[int]) -> list[float]:
        loads = [NOT_SHARING if preparing and i in preparing else courses[i].load for i in running]
        working = sorted([load for load in loads if load != NOT_SHARING])
        if not working:
            return [1.0] * len(loads)
        key = tuple(working)
        known = self._known.get(key)
        if known is None:
            known = {load: float(speed) for load, speed in zip(key, self.speeds.speeds(key), strict=True)}
            known[NOT_SHARING] = 1.0
            self._known[key] = known
        return [known[load] for load in loads]

    def decision(self, timed: Timed, modes: Sequence[int], guards: Sequence[tuple[int, int]]) -> Decision:
        """Return the decision whose run is ``timed``."""
        assert self.offsets is not None
        return Decision(tuple(modes), tuple(timed.units), tuple(timed.order), self.offsets, tuple(guards))


def _take(
    free: list[list[int]], asks: tuple[tuple[int, int, tuple[int, ...] | None], ...]
) -> tuple[tuple[int, ...], ...] | None:
    """Take the lowest free units that ``asks`` need; None, and nothing taken, if some are not free."""
    for engine, count, ids in asks:
        if engine >= 0 and (len(free[engine]) < count or (ids is not None and not all(u in free[engine] for u in ids))):
            return None
    taken: list[tuple[int, ...]] = []
    for engine, count, ids in asks:
        if engine < 0:
            taken.append(())
            continue
        mine = tuple(free[engine][:count]) if ids is None else ids
        taken.append(mine)
        for u in mine:
            free[engine].remove(u)
    return tuple(taken)
