"""Today's loops, one task after the other, as a plan for all iterations: no plan of bodies should be longer."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.corun import Body, side_by_side
from hexloom.formulations.periodic.schedule import ModuloSchedule
from hexloom.optimizer.baselines import back_to_back, baselines
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.periodic.phases import Phase
from hexloom.optimizer.periodic.reduced import FIRST_RUNS, Reduced
from hexloom.optimizer.periodic.roll import FINER, NotALoopError
from hexloom.optimizer.periodic.trial import Ran, repeat_of
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.decision import Decision
    from hexloom.optimizer.periodic.trial import Small, Source

MOST_DEEP = 8
"""Places of a buffer at most: all take turns, so the plan repeats itself after as many iterations."""


class Today(Reduced):
    """Few iterations of today's loops, by which all are known; a phase is one task.

    Raises
    ------
    NotALoopError
        A loop does not fit, or does not repeat itself.
    """

    def __init__(self, source: Source) -> None:
        few = source.small({task: min(FIRST_RUNS, trips) for task, trips in source.trips.items()})
        self._deep = {task: _depth(few, task) for task in source.trips}
        tasks = tuple(source.trips)
        phases = []
        for t, (task, trips) in enumerate(source.trips.items()):
            times = tuple(int(k == t) for k in range(len(tasks)))
            loop = side_by_side([few.rolled.loops[name] for name in tasks], times)
            # How long its iterations are, and how far apart, is what the simulator says of them.
            longest = max(1, *(op.latency_ticks for op in loop.ops))
            rings = {task: tuple(range(self._deep[task]))}
            schedule = ModuloSchedule(ii_ticks=longest, starts={op.name: 0 for op in loop.ops}, addresses=rings)
            phases.append(Phase(Body(times, loop, schedule), tasks, tuple(trips * n for n in times)))
        super().__init__(source, phases)
        found = []
        for phase, repeat in zip(self.phases, self.ran.repeats, strict=True):
            ii = phase.body.schedule.ii_ticks if repeat is None else max(1, ceil(repeat.ticks * FINER / repeat.period))
            schedule = phase.body.schedule.model_copy(update={"ii_ticks": ii})
            found.append(replace(phase, body=replace(phase.body, schedule=schedule)))
        self.phases = tuple(found)

    def _ran(self, phases: Sequence[Phase]) -> Ran:
        counts = {task: sum(phase.count[t] for phase in phases) for t, task in enumerate(self.source.trips)}
        few = self.source.small(counts)
        decision = self._decision(few)
        try:
            plan = make_plan(few.problem, decision)
            timeline = simulate(few.problem, plan, few.rule)
        except PlanError as why:
            raise NotALoopError(f"today's loops have no plan: {why}") from None
        repeats = tuple(repeat_of(few, phases, p, timeline.times) for p in range(len(phases)))
        return Ran(few, tuple(phases), decision, plan, timeline, repeats)

    def whole(self) -> Decision | None:
        """Return the decision for all iterations."""
        return self._decision(self.source.small(self.source.trips))

    def _decision(self, few: Small) -> Decision:
        """Return the loops back to back; the iterations of a task take turns at as many places as it has room for.

        Whoever simulates a loop alone gives it addresses that depend on its trip count.
        """
        found = back_to_back(few.problem, baselines(few.problem, few.lowered.loops, few.rule, serial=False))
        if found is None:
            raise NotALoopError("today's loops do not fit into the scratchpad one after the other")
        offsets = list(found.offsets)
        for b, at in few.kept.items():
            offsets[b] = at
        first = {task: _places(few, task, deep) for task, deep in self._deep.items()}
        for b, (name, j) in few.rolled.rings.items():
            offsets[b] = first[name.split("/", 1)[0]][name][j % self._deep[name.split("/", 1)[0]]]
        return replace(found, offsets=tuple(offsets))


def _places(few: Small, task: str, deep: int) -> dict[str, list[int]]:
    """Return ``deep`` addresses of every buffer of an iteration, the lowest that are free."""
    top = 0
    found: dict[str, list[int]] = {}
    for ring in few.rolled.loops[task].buffers:
        found[ring.name] = []
        for _ in range(deep):
            top = -(-top // ring.align_bytes) * ring.align_bytes
            found[ring.name].append(top)
            top += ring.occupied_bytes
    if top > few.room:
        raise NotALoopError(f"{deep} iterations of task {task!r} do not fit into the scratchpad together")
    return found


def _depth(few: Small, task: str) -> int:
    """Return for how many iterations of ``task`` there is room."""
    for deep in range(MOST_DEEP, 1, -1):
        with contextlib.suppress(NotALoopError):
            _places(few, task, deep)
            return deep
    return 1
