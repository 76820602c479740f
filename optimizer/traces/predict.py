"""The plan of a schedule on another machine than it was made for: what it would take there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.lower import lower
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.simulate import ExactTimeline
    from hexloom.optimizer.workload import Workload


def on_machine(workload: Workload, schedule: Schedule, machine: Machine, rule: Rule) -> Problem:
    """Return the problem of ``workload`` on ``machine``, each op with the mode that the schedule chose and no other.

    Raises
    ------
    InvalidInputError
        If the workload does not expand to the ops of the schedule.
    """
    problem = lower(workload, machine, rule).problem
    chosen = {a.op: a.mode for a in schedule.plan.assignments}
    strange = next((name for name in chosen if name not in problem.op_index), None)
    if strange is not None:
        raise InvalidInputError(
            f"op {strange!r} of the schedule is none of workload {workload.name!r} on {machine.name}; "
            "give the workload that was solved"
        )
    left_out = next((op.name for op in problem.ops if op.name not in chosen), None)
    if left_out is not None:
        raise InvalidInputError(
            f"op {left_out!r} of workload {workload.name!r} is none of the schedule; give the workload that was solved"
        )
    ops = tuple(op.model_copy(update={"modes": (op.modes[chosen[op.name]],)}) for op in problem.ops)
    return problem.model_copy(update={"ops": ops})


def predicted_on(
    workload: Workload, schedule: Schedule, machine: Machine, rule: Rule | None = None
) -> tuple[Problem, ExactTimeline]:
    """Return what the plan of ``schedule`` takes on ``machine`` under ``rule``, and the problem that says its ticks."""
    problem = on_machine(workload, schedule, machine, rule or schedule.contention)
    assignments = tuple(a.model_copy(update={"mode": 0}) for a in schedule.plan.assignments)
    plan = schedule.plan.model_copy(update={"assignments": assignments})
    return problem, simulate(problem, plan, rule or schedule.contention, exact=False)
