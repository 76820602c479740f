"""The search over events where channels are shared, against two plain ways to find the best plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from effort import examples
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from oracle_shared import TooMany, best_plan, best_run, replay
from plan_rules import plan_faults
from shared_strategies import SHARING_RULES, decisions, sharing_problems
from strategies import in_ranges, scratchpad_buffers

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import EventFound, SearchLimits, search_events
from hexloom.formulations.problem import Engine, Problem, Use
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.formulations.problem import Rule


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


@settings(max_examples=examples(20))
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


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(sharing_problems(min_ops=3, max_ops=6), SHARING_RULES)
def test_the_best_run_of_up_to_six_ops_is_found(problem: Problem, rule: Rule) -> None:
    against_the_plain_search(problem, rule)


@pytest.mark.slow
@settings(max_examples=examples(12))
@given(sharing_problems(min_ops=4, max_ops=7), SHARING_RULES)
def test_the_best_run_of_up_to_seven_ops_is_found(problem: Problem, rule: Rule) -> None:
    against_the_plain_search(problem, rule)


@settings(max_examples=examples(15))
@given(sharing_problems(max_ops=3), SHARING_RULES)
def test_the_two_plain_ways_agree(problem: Problem, rule: Rule) -> None:
    try:
        assert best_plan(problem, rule, 20_000) == best_run(problem, rule)
    except TooMany:
        assume(False)


@st.composite
def roomy_or_tight(draw: st.DrawFn) -> Problem:
    """Ops that share channels, buffers in a scratchpad, and amounts that ops hold to their end."""
    problem = draw(sharing_problems(min_ops=2, max_ops=5))
    buffers, scratchpad = draw(scratchpad_buffers([op.name for op in problem.ops], 3))
    buffers = draw(in_ranges(buffers))
    engines, ops = problem.engines, list(problem.ops)
    if draw(st.booleans()):
        engines = (*engines, Engine(name="amount", units=10, kind="share"))
        for i, op in enumerate(ops):
            amount = draw(st.sampled_from((0, 3, 5, 8)))
            mode = op.modes[0]
            if amount and mode.latency_ticks:
                uses = (*mode.uses, Use(engine="amount", ticks=mode.latency_ticks, units=amount))
                ops[i] = op.model_copy(update={"modes": (mode.model_copy(update={"uses": uses}), *op.modes[1:])})
    changed = {"engines": engines, "ops": tuple(ops), "buffers": buffers, "scratchpad": scratchpad}
    return problem.changed(**changed)


@settings(max_examples=examples(25))
@given(roomy_or_tight(), SHARING_RULES)
def test_plans_with_buffers_and_amounts_are_sound_and_take_the_time_found(problem: Problem, rule: Rule) -> None:
    found = searched(problem, rule, 20_000)
    event("infeasible" if found.infeasible else "proven" if found.proven else "limit")
    open_ = found.states >= 20_000 or problem.wholes or (problem.takeovers and not found.states)
    assert found.proven or found.infeasible or open_
    if found.best is not None:
        plan = make_plan(problem, found.best[0])
        assert plan_faults(problem, plan) == []
        assert float(simulate(problem, plan, rule).makespan) == pytest.approx(found.best[1].makespan)
