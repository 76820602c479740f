"""A plan that is replayed with other durations takes what the simulator says of ops that have those durations."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shared_strategies import SHARING_RULES, decisions, sharing_problems

from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.robust.replay import Replay
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem, Rule
    from hexloom.optimizer.plan import Plan

GRID = 4
"""Factors are quarters: problems are in ticks of a quarter, so that all their durations stay whole."""


def stretched(mode: Mode, by: int) -> Mode:
    """Return ``mode`` with its work ``by`` quarters as long, in quarters of its ticks."""
    uses = tuple(use.model_copy(update={"ticks": use.ticks * by}) for use in mode.uses)
    dma = mode.dma
    if dma is not None:
        dma = dma.model_copy(update={"issue_ticks": dma.issue_ticks * GRID, "poll_ticks": dma.poll_ticks * GRID})
    new = {"uses": uses, "latency_ticks": mode.latency_ticks * by, "overhead_ticks": mode.overhead_ticks * GRID}
    return mode.model_copy(update={**new, "dma": dma})


def with_quarters(problem: Problem, plan: Plan, by: list[int]) -> Problem:
    """Return the problem whose ops have only the chosen mode, that much longer."""
    ops = tuple(
        op.model_copy(update={"modes": tuple(stretched(m, k) if i == a.mode else m for i, m in enumerate(op.modes))})
        for op, a, k in zip(problem.ops, plan.assignments, by, strict=True)
    )
    return problem.model_copy(update={"ops": ops, "entry_ticks": problem.entry_ticks * GRID})


@settings(max_examples=25)
@given(data=st.data(), rule=SHARING_RULES)
def test_a_replay_is_the_simulator(data: Any, rule: Rule) -> None:
    problem = data.draw(sharing_problems(max_ops=7))
    decision = data.draw(decisions(problem))
    try:
        plan = make_plan(problem, decision)
        simulate(problem, plan, rule)
    except PlanError:
        assume(False)
    replay = Replay(problem, plan, rule)
    for _ in range(3):
        by = data.draw(st.lists(st.integers(1, 9), min_size=len(problem.ops), max_size=len(problem.ops)))
        expected = Fraction(simulate(with_quarters(problem, plan, by), plan, rule).makespan, GRID)
        assert replay.makespan([k / GRID for k in by]) == pytest.approx(float(expected), rel=1e-6)
        critical = replay.critical()
        assert critical or not any(float(expected) > problem.entry_ticks for _ in problem.ops)
        assert len(set(critical)) == len(critical)
        # What comes before on the chain began no later.
        begins = [replay.start[i] for i in critical]
        assert begins == sorted(begins, reverse=True)  # type: ignore[type-var]


@settings(max_examples=15)
@given(data=st.data())
def test_a_longer_critical_op_makes_a_longer_run_where_nothing_is_shared(data: Any) -> None:
    """Under rule none a plan without transfers is a longest path: what ends it is on it."""
    problem = data.draw(sharing_problems(max_ops=7))
    assume(all(m.dma is None for op in problem.ops for m in op.modes))
    try:
        plan = make_plan(problem, data.draw(decisions(problem)))
        replay = Replay(problem, plan, "none")
    except PlanError:
        assume(False)
    ones = [1.0] * len(problem.ops)
    before = replay.makespan(ones)
    critical = replay.critical()
    for i in critical:
        work = plan.assignments[i].mode
        if problem.ops[i].modes[work].latency_ticks:
            assert replay.makespan([2.0 if k == i else 1.0 for k in range(len(ones))]) > before
    for i in set(range(len(ones))) - set(critical):
        assert replay.makespan([0.5 if k == i else 1.0 for k in range(len(ones))]) <= before + 1e-9
