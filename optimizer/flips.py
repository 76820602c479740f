"""Whether an overhead at the other end of its published range changes the advice: the same plans, other costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.lower import lower
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.restrict import restrict
from hexloom.optimizer.schedule import answer_for
from hexloom.optimizer.sharing import Sharing
from hexloom.optimizer.simulate import simulate_fast

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.baselines import Baselines
    from hexloom.optimizer.lower import Lowered
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.schedule import Advice
    from hexloom.optimizer.workload import Workload

MOST_OPS_ASKED_AGAIN = 40_000
"""Ops, times overheads varied, up to which it is asked whether an overhead changes the advice: a few seconds."""


class _Alone(NamedTuple):
    """The ops of one task, its loop of today (None: stage by stage) and its part of the plan."""

    names: frozenset[str]
    loop: Plan | None
    part: Plan


def with_flips(
    advice: Advice,
    work: Workload,
    machine: Machine,
    problem: Problem,
    decision: Decision,
    plan: Plan,
    found: Baselines,
    rule: Rule,
) -> Advice:
    """Ask again with every overhead at the other end of its range.

    Not for plans so large that this takes longer than the search.
    """
    ends = [
        (name.removeprefix("overheads."), end, changed)
        for name in machine.ranged()
        if name.startswith("overheads.")
        for end in ("low", "high")
        if (changed := machine.with_values({name: end})) != machine
    ]
    if len(ends) * len(decision.modes) > MOST_OPS_ASKED_AGAIN:
        return advice
    flips: list[str] = []
    tasks = _tasks(problem, decision, found)
    for name, end, changed in ends:
        lowered = lower(work, changed, rule)
        if lowered.problem.op_index.keys() != problem.op_index.keys():
            return advice  # ops were cut: the plan is one of other ops than the workload's
        answer = _answer_at(lowered, plan, tasks, rule)
        if answer is not None and answer != advice.answer:
            flips.append(f"{name} {end}: {answer}")
    return advice.model_copy(update={"flips": tuple(flips)})


def _tasks(problem: Problem, decision: Decision, found: Baselines) -> list[_Alone]:
    tasks = []
    for task in found.tasks:
        names = frozenset(problem.ops[i].name for i in task.ops)
        part, partial = restrict(problem, decision, names, task.task)
        loop = None if task.decision is None else make_plan(part, task.decision)
        tasks.append(_Alone(names, loop, make_plan(part, partial)))
    return tasks


def _answer_at(lowered: Lowered, plan: Plan, tasks: list[_Alone], rule: Rule) -> str | None:
    """Return the advice at other costs, None where a loop of today does not fit."""
    problem = lowered.problem.under(rule)

    def ticks(part: Problem, of: Plan) -> float:
        return simulate_fast(part, of, Sharing(part, rule, exact=False)).makespan

    existing, alone = 0.0, 0.0
    for task, loop in zip(tasks, lowered.loops, strict=True):
        part = problem.restricted(task.names, loop.task)
        alone += ticks(part, task.part)
        if loop.one_stage_at_a_time:
            existing += float(baselines(problem, (loop,), rule, serial=False, exact=False).existing or 0)
        elif task.loop is None:
            return None
        else:
            existing += loop.entry_ticks + ticks(part, task.loop)
    makespan = ticks(problem, plan)
    return answer_for(existing, existing - makespan, alone + problem.entry_ticks - makespan)
