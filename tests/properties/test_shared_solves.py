"""Whole solves under rules by which ops slow each other, against the independent oracle."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from effort import examples
from hypothesis import event, given, settings
from in_process import InProcess
from oracle_shared import TooMany, best_run
from shared_strategies import SHARING_RULES, sharing_problems

from hexloom import solve
from hexloom.formulations import shared_portfolio
from hexloom.optimizer.check import check_schedule

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem, Rule


def check_whole(problem: Problem, rule: Rule) -> None:
    """The schedule passes the checker, and what is said to be proven is so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_portfolio, "Guard", InProcess)
        result = solve(problem, contention=rule, seed=0, time_limit_s=0.5)
    event(f"{result.status} {result.certificate}")
    schedule = result.schedule
    assert schedule is not None
    assert not check_schedule(schedule)
    assert schedule.lower_bound <= schedule.plan_bound <= schedule.makespan
    try:
        best = best_run(problem, rule)
    except TooMany:
        event("oracle gave up")
        return
    assert best is not None
    assert schedule.lower_bound <= best <= schedule.makespan
    if result.status == "OPTIMAL":
        # Plans whose times differ by a billionth are one to the search, which counts in floats.
        assert schedule.makespan - best <= Fraction(best, 10**9)


@settings(max_examples=examples(15))
@given(sharing_problems(max_ops=5), SHARING_RULES)
def test_what_a_solve_proves_is_true(problem: Problem, rule: Rule) -> None:
    check_whole(problem, rule)


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(sharing_problems(max_ops=6), SHARING_RULES)
def test_what_many_solves_prove_is_true(problem: Problem, rule: Rule) -> None:
    check_whole(problem, rule)
