"""A workload with few iterations of every task, in place of many: lowered, rolled, planned, simulated."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.modulo import length_of
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.lower import Lowered, lower
from hexloom.optimizer.periodic.phases import Phase, Unrolled, handovers, run_of
from hexloom.optimizer.periodic.repeat import Repeat, find_repeat
from hexloom.optimizer.periodic.roll import NotALoopError, Rolled, roll
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.simulate import ExactTimeline, simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.plan import Plan
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


def small(workload: Workload, machine: Machine, rule: Rule, iterations: Mapping[str, int]) -> Small:
    """Return the tasks named in ``iterations``, with so many iterations of each.

    Raises
    ------
    NotALoopError
        They are no loops, or what runs before them does not fit beside them.
    """
    lowered = lower(_cut(workload, machine, iterations, 0), machine, rule)
    longer = lower(_cut(workload, machine, iterations, 1), machine, rule).problem
    rolled = roll(lowered.problem, longer, dict(iterations), rule)
    kept, room, strictly = _keep(rolled)
    problem = lowered.problem.under(rule)
    return Small(lowered, rolled, problem, acting_rule(problem, rule), kept, room, strictly)


def _cut(workload: Workload, machine: Machine, iterations: Mapping[str, int], more: int) -> Workload:
    tasks = []
    for task in workload.tasks:
        for copy in range(task.copies):
            name = task.name if task.copies == 1 else f"{task.name}.{copy}"
            if name in iterations:
                one = task.model_copy(update={"name": name, "copies": 1})
                tasks.append(one.shortened(machine, iterations[name] + more))
    return workload.model_copy(update={"tasks": tuple(tasks)})


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


def run(small_: Small, phases: Sequence[Phase], *, exact: bool = True) -> Ran | None:
    """Return the plan of ``phases``, begun one after the other as early as hand-overs of bytes allow; None if none does."""
    best: tuple[int | Fraction, tuple[Phase, ...], Decision, Plan] | None = None
    for moved in handovers(phases):
        unrolled = Unrolled(small_.rolled, small_.problem, moved, small_.kept, strictly=small_.strictly)
        decision = unrolled.decision()
        try:
            plan = make_plan(small_.problem, decision)
            makespan = simulate(small_.problem, plan, small_.rule, exact=False).makespan
        except PlanError:
            continue
        if best is None or makespan < best[0]:
            best = makespan, moved, decision, plan
    if best is None:
        return None
    return again(small_, best[1], best[2], best[3], exact=exact)


def again(small_: Small, phases: tuple[Phase, ...], decision: Decision, plan: Plan, *, exact: bool = True) -> Ran:
    """Simulate a plan of phases that is known, and look for its repeats."""
    timeline = simulate(small_.problem, plan, small_.rule, exact=exact)
    repeats = tuple(_repeat(small_, phases, p, timeline) for p in range(len(phases))) if exact else ()
    return Ran(small_, phases, decision, plan, timeline, repeats)


def _repeat(small_: Small, phases: Sequence[Phase], p: int, timeline: ExactTimeline) -> Repeat | None:
    runs = run_of(small_.rolled, phases, p)
    times = {i: timeline.times[small_.problem.ops[i].name] for i in runs}
    body = phases[p].body
    distance = max((edge.distance for edge in body.loop.dependencies), default=0)
    rings = max((len(ring) for ring in body.schedule.addresses.values()), default=0)
    under_way = -(-length_of(body.loop, body.schedule) // body.schedule.ii_ticks)
    return find_repeat(times, runs, phases[p].whole_runs, body.schedule.unroll, max(distance, rings, under_way))
