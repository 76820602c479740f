"""A workload with few iterations of every task, in place of many: lowered, rolled, planned, simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.modulo import length_of
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.lower import Lowered, lower
from hexloom.optimizer.periodic.phases import Phase, Unrolled, handovers, run_of
from hexloom.optimizer.periodic.repeat import Repeat, find_repeat
from hexloom.optimizer.periodic.roll import NotALoopError, Rolled, parts_of_stages, roll
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.simulate import ExactTimeline, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.simulate import OpTimes
    from hexloom.optimizer.workload import Workload


@dataclass(frozen=True)
class Small:
    """A workload with so many iterations of its tasks: as ops one by one, and as loops.

    ``kept`` are the addresses of all buffers that are no ring of a body, ``room`` the bytes below them.
    """

    lowered: Lowered
    rolled: Rolled
    problem: Problem
    rule: Rule
    kept: dict[int, int]
    room: int
    strictly: bool


def iterations_of(workload: Workload, machine: Machine) -> dict[str, int]:
    """Return the iterations of every task, by the names of its copies.

    Raises
    ------
    NotALoopError
        Some task is not one loop.
    """
    found = {}
    for task in workload.tasks:
        count = task.iterations(machine)
        if count is None:
            raise NotALoopError(f"task {task.name!r} is not one loop over equal tiles")
        names = [task.name] if task.copies == 1 else [f"{task.name}.{copy}" for copy in range(task.copies)]
        found.update(dict.fromkeys(names, count))
    return found


class Source:
    """What the small workloads are made of: all with one tick, that of all tasks with ``few`` iterations.

    ``change`` is done to each of them once it is lowered, and must do the same to every iteration.

    Raises
    ------
    NotALoopError
        Some task is not one loop.
    """

    def __init__(
        self,
        workload: Workload,
        machine: Machine,
        rule: Rule,
        few: int,
        change: Callable[[Lowered], Lowered] | None = None,
    ) -> None:
        self.workload, self.machine, self.rule, self.change = workload, machine, rule, change
        self.trips = iterations_of(workload, machine)
        if workload.reserved:
            raise NotALoopError("bytes are reserved until or from one op, which is none of a body")
        self.tick = workload.tick_us
        first, second = dict.fromkeys(self.trips, few), dict.fromkeys(self.trips, few + 1)
        lowered = lower(self.cut(first), machine, rule)
        self.tick = lowered.problem.tick
        longer = self._lowered(second)
        self._parts = parts_of_stages(lowered.problem, longer.problem)
        self._begun = ((first, lowered if change is None else change(lowered)), (second, longer))
        self._known: dict[tuple[tuple[str, int], ...], Small] = {}
        self._ran: dict[tuple[tuple[int, tuple[int, ...]], ...], tuple[Sequence[Phase], Ran | None]] = {}

    @property
    def parts(self) -> dict[tuple[str, str], int]:
        """How many ops of each (task, stage) an iteration has."""
        return self._parts

    def ops(self) -> int:
        """Return about how many ops all iterations have."""
        return sum(parts * self.trips[task] for (task, _), parts in self._parts.items())

    def small(self, iterations: Mapping[str, int]) -> Small:
        """Return the tasks named in ``iterations``, with so many iterations of each.

        Raises
        ------
        NotALoopError
            They are no loops, or what runs before them does not fit beside them.
        """
        key = tuple(iterations.items())
        if key not in self._known:
            self._known[key] = self._small(iterations)
        return self._known[key]

    def _small(self, iterations: Mapping[str, int]) -> Small:
        known = next((lowered for counts, lowered in self._begun if counts == iterations), None)
        lowered = known or self._lowered(iterations)
        rolled = roll(lowered.problem, self._parts, dict(iterations), self.rule)
        kept, room, strictly = _keep(rolled)
        problem = lowered.problem.under(self.rule)
        return Small(lowered, rolled, problem, acting_rule(problem, self.rule), kept, room, strictly)

    def run(self, phases: Sequence[Phase]) -> Ran | None:
        """Return the plan of ``phases``, each begun as early as can be, for as many iterations as they have."""
        key = tuple((id(phase.body), phase.count) for phase in phases)
        if key not in self._ran:
            counts = {task: sum(phase.count[t] for phase in phases) for t, task in enumerate(self.trips)}
            ran = run(self.small({task: n for task, n in counts.items() if n}), phases)
            self._ran[key] = phases, ran  # while phases are kept no other body has the id of one of theirs
        return self._ran[key][1]

    def problem(self, iterations: Mapping[str, int]) -> Problem:
        """Return the tasks named in ``iterations``, with so many iterations of each, as ops one by one."""
        return self._lowered(iterations).problem

    def cut(self, iterations: Mapping[str, int]) -> Workload:
        """Return the workload with the tasks named in ``iterations`` alone, so many iterations of each."""
        tasks = []
        for task in self.workload.tasks:
            for copy in range(task.copies):
                name = task.name if task.copies == 1 else f"{task.name}.{copy}"
                if name in iterations:
                    one = task.model_copy(update={"name": name, "copies": 1})
                    tasks.append(one.shortened(self.machine, iterations[name]))
        return self.workload.model_copy(update={"tasks": tuple(tasks), "tick_us": self.tick})

    def _lowered(self, iterations: Mapping[str, int]) -> Lowered:
        lowered = lower(self.cut(iterations), self.machine, self.rule)
        return lowered if self.change is None else self.change(lowered)


def _keep(rolled: Rolled) -> tuple[dict[int, int], int, bool]:
    """Give addresses from the top down to what is no ring of a body; what only comes before it may share its bytes."""
    problem = rolled.problem
    once = set(rolled.once)
    buffers = [(b, buffer) for b, buffer in enumerate(problem.buffers) if b not in rolled.rings]
    users = {b: {problem.op_index[name] for name in buffer.ops} for b, buffer in buffers}
    passing = {b for b, buffer in buffers if users[b] and users[b] <= once and not buffer.resident}
    kept: dict[int, int] = {}

    def down(order: Sequence[int], top: int) -> int:
        for b in order:
            buffer = problem.buffers[b]
            top = (top - buffer.occupied_bytes) // buffer.align_bytes * buffer.align_bytes
            kept[b] = top
        return top

    top = problem.scratchpad.available_bytes
    lasting = sorted((b for b, _ in buffers if b not in passing), key=lambda b: users[b].isdisjoint(once))
    room = down(lasting, top)
    beside = down(sorted(passing), room)
    if beside >= 0 and not rolled.rings:
        return kept, beside, False
    if beside >= top // 2:
        return kept, beside, False
    shared = [b for b in lasting if users[b].isdisjoint(once)]
    lowest = min((kept[b] for b in lasting if b not in shared), default=top)
    if room < 0 or down(sorted(passing), lowest) < 0:
        raise NotALoopError("what the loops keep does not fit into the scratchpad")
    return kept, room, True


@dataclass(frozen=True)
class Ran:
    """A plan of phases for a small workload, its exact times, and the repeat of every phase that has one."""

    small: Small
    phases: tuple[Phase, ...]
    decision: Decision
    plan: Plan
    timeline: ExactTimeline
    repeats: tuple[Repeat | None, ...]


def run(few: Small, phases: Sequence[Phase], *, moved: bool = False) -> Ran | None:
    """Return the plan of ``phases``, each begun as early as hand-overs of bytes allow; None if there is none.

    With ``moved`` they begin when they say.
    """
    for begun in [tuple(phases)] if moved else handovers(phases):
        unrolled = Unrolled(few.rolled, few.problem, begun, few.kept, strictly=few.strictly)
        decision = unrolled.decision()
        try:
            plan = make_plan(few.problem, decision)
            timeline = simulate(few.problem, plan, few.rule)
        except PlanError:
            continue
        repeats = tuple(repeat_of(few, begun, p, timeline.times) for p in range(len(begun)))
        return Ran(few, begun, decision, plan, timeline, repeats)
    return None


def repeat_of(
    few: Small, phases: Sequence[Phase], p: int, times_of: Mapping[str, OpTimes[int | Fraction]]
) -> Repeat | None:
    """Return the exact repeat of phase ``p`` in times by the names of ops; those that are not there are left out."""
    names = [op.name for op in few.problem.ops]
    runs = {i: at for i, at in run_of(few.rolled, phases, p).items() if names[i] in times_of}
    times = {i: times_of[names[i]] for i in runs}
    body = phases[p].body
    distance = max((edge.distance for edge in body.loop.dependencies), default=0)
    rings = max((len(ring) for ring in body.schedule.addresses.values()), default=0)
    under_way = -(-length_of(body.loop, body.schedule) // body.schedule.ii_ticks)
    mine = {names[i] for i in runs}
    others = [(t.start, t.observed) for name, t in times_of.items() if name not in mine]
    reach = max(distance, rings, under_way)
    return find_repeat(times, runs, phases[p].whole_runs, body.schedule.unroll, reach, others)
