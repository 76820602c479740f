"""The search over events where channels are shared, against two plain ways to find the best plan."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from oracle_shared import TooMany, best_plan, best_run, replay
from shared_strategies import SHARING_RULES, decisions, sharing_problems

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import EventFound, SearchLimits, search_events
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.formulations.problem import Problem, Rule

CI = os.environ.get("HYPOTHESIS_PROFILE") == "ci"


def searched(problem: Problem, rule: Rule, states: int = 100_000) -> EventFound:
    bounds = lower_bounds(problem, rule)
    return search_events(problem, bounds.heads_tails, evaluator(rule), None, 0, SearchLimits(states), rule)


def check_found(problem: Problem, rule: Rule, expected: Fraction | None, found: EventFound) -> None:
    """The search has the time expected, and the simulator and the oracle say so of its plan, to the last fraction."""
    if not (found.proven or found.infeasible):
        event("not proven")
        return
    assert found.best is not None and expected is not None
    assert found.best[1].makespan == pytest.approx(float(expected), rel=1e-8)
    plan = make_plan(problem, found.best[0])
    timeline = simulate(problem, plan, rule)
    run = replay(problem, plan, rule)
    assert run is not None
    assert timeline.makespan == expected == run.now
    for op, mine in zip(problem.ops, run.times, strict=True):
        theirs = timeline.times[op.name]
        assert {key: getattr(theirs, key) for key in mine} == mine


@given(sharing_problems(min_ops=2, max_ops=8), SHARING_RULES, st.data())
def test_any_plan_takes_the_time_that_the_oracle_says(problem: Problem, rule: Rule, data: st.DataObject) -> None:
    plan = make_plan(problem, data.draw(decisions(problem)))
    run = replay(problem, plan, rule)
    assert run is not None
    timeline = simulate(problem, plan, rule)
    assert timeline.makespan == run.now
    for op, mine in zip(problem.ops, run.times, strict=True):
        theirs = timeline.times[op.name]
        assert {key: getattr(theirs, key) for key in mine} == mine


@settings(max_examples=100 if CI else 20)
@given(sharing_problems(max_ops=4), SHARING_RULES)
def test_the_best_of_all_plans_is_found(problem: Problem, rule: Rule) -> None:
    try:
        expected = best_plan(problem, rule, 20_000)
    except TooMany:
        assume(False)
        raise
    check_found(problem, rule, expected, searched(problem, rule))


def against_the_plain_search(problem: Problem, rule: Rule) -> None:
    try:
        expected = best_run(problem, rule)
    except TooMany:
        event("too many states for the oracle")
        return
    check_found(problem, rule, expected, searched(problem, rule))


@settings(max_examples=100 if CI else 25)
@given(sharing_problems(min_ops=3, max_ops=6), SHARING_RULES)
def test_the_best_run_of_up_to_six_ops_is_found(problem: Problem, rule: Rule) -> None:
    against_the_plain_search(problem, rule)


@pytest.mark.slow
@settings(max_examples=400)
@given(sharing_problems(min_ops=4, max_ops=7), SHARING_RULES)
def test_the_best_run_of_up_to_seven_ops_is_found(problem: Problem, rule: Rule) -> None:
    against_the_plain_search(problem, rule)


@settings(max_examples=60 if CI else 15)
@given(sharing_problems(max_ops=3), SHARING_RULES)
def test_the_two_plain_ways_agree(problem: Problem, rule: Rule) -> None:
    try:
        assert best_plan(problem, rule, 20_000) == best_run(problem, rule)
    except TooMany:
        assume(False)
