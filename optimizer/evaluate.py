"""The simulator as formulations see it: from a decision to its times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision, Simulated
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def evaluate(problem: Problem, decision: Decision) -> Simulated:
    """Plan ``decision`` and simulate the plan."""
    timeline = simulate(problem, make_plan(problem, decision))
    times = [timeline.times[op.name] for op in problem.ops]
    late = any(
        op.deadline_ticks is not None and t.observed > op.deadline_ticks
        for op, t in zip(problem.ops, times, strict=True)
    )
    return Simulated(
        timeline.makespan,
        tuple(t.start for t in times),
        tuple(t.transfer_start for t in times),
        tuple(t.observed for t in times),
        late,
    )
