"""What the same work takes without hexloom: simulated under the same rule, with one entry per task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.flows import moments_of, share_flows
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.restrict import decision_of_loop
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Op, Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.lower import TaskLoop
    from hexloom.optimizer.simulate import ExactTimeline


@dataclass(frozen=True, slots=True)
class TaskAlone:
    """One task alone, ``part`` of the problem without its entry: with today's loop, and one stage at a time.

    None where the loop does not fit, or was not asked for. ``timeline`` is that of the loop.
    """

    task: str
    entry: int
    loop_ticks: Moment | None
    staged_ticks: Moment
    decision: Decision | None
    ops: tuple[int, ...]
    part: Problem
    timeline: ExactTimeline | None = None


@dataclass(frozen=True, slots=True)
class Baselines:
    """``serial``: one stage at a time. ``existing``: tasks back to back, each with the loop people run today."""

    tasks: tuple[TaskAlone, ...]

    @property
    def serial(self) -> Moment:
        """Ticks of all stages one after the other, with one entry per task."""
        return sum(task.entry + task.staged_ticks for task in self.tasks)

    @property
    def existing(self) -> Moment | None:
        """Ticks of all tasks back to back, or None when a loop does not fit into the scratchpad."""
        total: Moment = 0
        for task in self.tasks:
            if task.loop_ticks is None:
                return None
            total += task.entry + task.loop_ticks
        return total


def baselines(
    problem: Problem,
    loops: tuple[TaskLoop, ...],
    rule: Rule = "none",
    *,
    serial: bool = True,
    existing: bool = True,
    exact: bool = True,
) -> Baselines:
    """Return the baselines of ``problem`` for the loops of its tasks: ``serial``, ``existing`` or both."""
    alone: list[TaskAlone] = []
    for loop in loops:
        ops = tuple(problem.op_index[name] for name in loop.loop)
        part = problem.restricted(frozenset(loop.loop), loop.task)
        staged = _one_stage_at_a_time(part, loop, rule) if serial or loop.one_stage_at_a_time else 0
        decision = decision_of_loop(part, [part.op_index[name] for name in loop.loop]) if existing else None
        timeline: ExactTimeline | None = None
        if decision is not None:
            try:
                timeline = simulate(part, make_plan(part, decision), rule, exact=exact)
            except PlanError:
                decision = None
        ticks = None if timeline is None else timeline.makespan
        if loop.one_stage_at_a_time:
            ticks = staged
        alone.append(TaskAlone(loop.task, loop.entry_ticks, ticks, staged, decision, ops, part, timeline))
    return Baselines(tuple(alone))


def _one_stage_at_a_time(problem: Problem, loop: TaskLoop, rule: Rule) -> Moment:
    """Sum over the stages of all tiles of the time that one stage takes alone; its slices run side by side."""
    groups: dict[tuple[str, int], list[str]] = {}
    for name in loop.loop:
        op = problem.ops[problem.op_index[name]]
        groups.setdefault((op.stage or op.name, op.tile), []).append(name)
    total: Moment = 0
    known: dict[str, Moment] = {}
    for names in groups.values():
        if len(names) == 1:
            alone = problem.ops[problem.op_index[names[0]]]
            if rule == "none" or not _hungry(problem, alone):
                total += min(mode.duration_ticks for mode in alone.modes)
                continue
        part = problem.restricted(frozenset(names), buffers=False)
        shape = str([(op.modes, part.predecessors[i]) for i, op in enumerate(part.ops)])
        if shape not in known:
            decision = decision_of_loop(part, part.topological_order)
            assert decision is not None
            known[shape] = simulate(part, make_plan(part, decision), rule).makespan
        total += known[shape]
    return total


def _hungry(problem: Problem, op: Op) -> bool:
    """Whether a mode of ``op`` demands more of a channel than it has: such an op is slow even alone."""
    capacity = {channel.name: channel.capacity for channel in problem.channels}
    return any(pull.rate > capacity[pull.channel] for mode in op.modes for pull in mode.pulls)


def back_to_back(problem: Problem, found: Baselines) -> Decision | None:
    """Return the existing loops as one plan in one entry, with a barrier between tasks: the first incumbent.

    None when a loop does not fit, or when a buffer lives beyond its task: no task alone leaves it its place.
    """
    task_of = {problem.ops[i].name: k for k, task in enumerate(found.tasks) for i in task.ops}
    if any(b.resident or len({task_of[name] for name in b.ops}) > 1 for b in problem.buffers if not b.always):
        return None
    only = found.tasks[0]
    if len(only.ops) == len(problem.ops) and [b.name for b in only.part.buffers] == [b.name for b in problem.buffers]:
        return only.decision
    modes = [0] * len(problem.ops)
    units: list[tuple[tuple[int, ...], ...]] = [()] * len(problem.ops)
    actions: list[int] = []
    guards: list[tuple[int, int]] = []
    offsets: dict[str, int] = {}
    last_sinks: list[int] = []
    for task in found.tasks:
        if task.decision is None:
            return None
        kept = sorted(task.ops)
        for buffer, at in zip(task.part.buffers, task.decision.offsets, strict=True):
            if offsets.setdefault(buffer.name, at) != at:
                return None
        for new, old in enumerate(kept):
            modes[old] = task.decision.modes[new]
            units[old] = task.decision.units[new]
        actions += [kept[a] if a >= 0 else ~kept[~a] for a in task.decision.actions]
        sources = [i for i in kept if not problem.predecessors[i]]
        guards += [(sink, source) for sink in last_sinks for source in sources]
        last_sinks = [i for i in kept if not problem.successors[i]]
    if len(offsets) != len(problem.buffers) or not _in_order(problem, actions):
        return None
    placed = tuple(offsets[buffer.name] for buffer in problem.buffers)
    flows = share_flows(problem, modes, units, moments_of(problem, modes, actions))
    return Decision(tuple(modes), tuple(units), tuple(actions), placed, tuple(guards), flows)


def _in_order(problem: Problem, actions: list[int]) -> bool:
    """Whether no op comes before one it depends on; tasks of a bare problem may depend on each other."""
    started = {action: k for k, action in enumerate(actions)}
    return all(started[p] < started[i] for i, of in enumerate(problem.predecessors) for p in of)
