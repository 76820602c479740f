"""The search over events against the independent oracle."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import event, given, settings
from oracle import OracleLimit, optimum
from plan_rules import faults
from strategies import problems

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem

EXAMPLES = 400 if os.environ.get("HYPOTHESIS_PROFILE") == "ci" else 150


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(problems())
def test_the_best_plan_is_that_of_the_oracle(problem: Problem) -> None:
    bounds = lower_bounds(problem)
    found = search_events(problem, bounds.heads_tails, evaluate, None, bounds.best.ticks, SearchLimits(20_000))
    if found.best is not None:
        plan = make_plan(problem, found.best[0])
        assert not faults(problem, plan, simulate(problem, plan).times)
    if not (found.proven or found.infeasible):
        event("not proven")
        return
    try:
        expected = optimum(problem)
    except OracleLimit:
        event("oracle gave up")
        return
    event("infeasible" if expected is None else "one class" if found.free_start else "contended pipes")
    if expected is None:
        assert found.infeasible
    else:
        assert found.best is not None
        assert found.best[1].makespan == expected.ticks
