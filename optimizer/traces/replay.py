"""The plan once more on the simulator, with durations that were measured: what they explain, and what they do not."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Problem
from hexloom.optimizer.plan import Wait
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.problem import Mode
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import OpRow, Schedule
    from hexloom.optimizer.simulate import OpTimes

PARTS = 1 << 10
"""Parts of a tick in which a replay counts: durations that were measured are not whole ticks."""


class Lengths:
    """How long the phases of an op took, in ticks: its work, and of a transfer its issue and its poll."""

    __slots__ = ("issue", "poll", "work")

    def __init__(self, work: Moment, issue: Moment = 0, poll: Moment = 0) -> None:
        self.work, self.issue, self.poll = work, issue, poll


def lengths_of(mode: Mode, times: OpTimes[Moment] | OpRow) -> Lengths:
    """Return the phases of an op that has these times; work includes the overhead before it."""
    if mode.dma is None:
        return Lengths(times.done - times.start)
    poll = times.observed - max(times.done, times.wait_start)
    return Lengths(times.done - times.transfer_start, times.end - times.start, max(poll, 0))


def replayed(schedule: Schedule, modes: Mapping[str, Mode], lengths: Mapping[str, Lengths]) -> Fraction:
    """Return the makespan of the plan in ticks, where ops take these lengths and nothing slows them further."""
    problem = schedule.problem
    ops = []
    for op in problem.ops:
        mode = _stretched(modes[op.name], lengths[op.name])
        ops.append(op.model_copy(update={"modes": (mode,)}))
    plan = schedule.plan.model_copy(
        update={"assignments": tuple(a.model_copy(update={"mode": 0}) for a in schedule.plan.assignments)}
    )
    fine = problem.model_copy(update={"ops": tuple(ops), "entry_ticks": problem.entry_ticks * PARTS})
    return Fraction(simulate(fine, plan, "none").makespan) / PARTS


def alone(schedule: Schedule, modes: Mapping[str, Mode], lengths: Mapping[str, Lengths]) -> Fraction:
    """Return the sum over tasks of the plan's makespan with the ops of that task only, without the entry."""
    tasks: dict[str, list[str]] = {}
    for op in schedule.problem.ops:
        tasks.setdefault(op.task, []).append(op.name)
    return sum((replayed(_only(schedule, frozenset(names)), modes, lengths) for names in tasks.values()), Fraction(0))


def _only(schedule: Schedule, names: frozenset[str]) -> Schedule:
    """Return the part of a schedule that is of these ops: their queue entries, and the waits among them.

    Orders that went by way of other ops are gone, as they are when the task runs alone.
    """
    problem, plan = schedule.problem, schedule.plan
    queues = (q.model_copy(update={"entries": tuple(e for e in q.entries if e.op in names)}) for q in plan.queues)
    orders = {(w.before, w.after) for w in plan.waits} | {(e.before, e.after) for e in problem.precedences}
    ops = tuple(op for op in problem.ops if op.name in names)
    part = Problem.model_construct(**{**dict(problem), "ops": ops, "buffers": (), "accesses": (), "entry_ticks": 0})
    kept = plan.model_copy(
        update={
            "assignments": tuple(a for a in plan.assignments if a.op in names),
            "queues": tuple(q for q in queues if q.entries),
            "waits": tuple(Wait(before=a, after=b) for a, b in sorted(orders) if a in names and b in names),
        }
    )
    return schedule.model_copy(update={"problem": part, "plan": kept})


def _stretched(mode: Mode, to: Lengths) -> Mode:
    """Return ``mode`` with other lengths: what it holds it holds for the same part of its work."""
    work = _parts(to.work)
    whole = mode.overhead_ticks + mode.latency_ticks if mode.dma is None else mode.latency_ticks
    before = 0 if mode.dma is not None else mode.overhead_ticks

    def held(ticks: int) -> int:
        return _parts(to.work * Fraction(before + ticks, whole)) if ticks and whole else 0

    uses = tuple(use.model_copy(update={"ticks": min(work, held(use.ticks))}) for use in mode.uses)
    dma = mode.dma
    if dma is not None:
        dma = dma.model_copy(update={"issue_ticks": _parts(to.issue), "poll_ticks": _parts(to.poll)})
    return mode.model_copy(update={"uses": uses, "latency_ticks": work, "overhead_ticks": 0, "dma": dma})


def _parts(ticks: Moment) -> int:
    return max(0, round(Fraction(ticks) * PARTS))
