"""The flat model where ops slow each other, against exact ways to find the best plan and the best start times."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from effort import examples
from free_start import TooManyOrders, free_start_optimum
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from in_process import InProcess
from shared_strategies import SHARING_RULES, sharing_problems
from unit.formulations.slowed_models import accepts, slowed_model

from hexloom import solve
from hexloom.formulations import shared_portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.flat.event_starts import only_ends_are_events
from hexloom.formulations.flat.overlap_terms import OverlapTerms
from hexloom.formulations.flat.slowed_extract import slowed_decision
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem, Rule

SCALES = st.sampled_from((Fraction(1), Fraction(4), Fraction(16), Fraction(1, 2)))


def best_plan(problem: Problem, rule: Rule) -> tuple[Decision, Simulated]:
    """Return the best plan there is."""
    heads_tails = lower_bounds(problem).heads_tails
    found = search_events(problem, heads_tails, evaluator(rule), None, 0, SearchLimits(30_000), rule)
    assume(found.proven and found.best is not None)
    assert found.best is not None
    return found.best


def proven(problem: Problem, rule: Rule, scale: Fraction, *, events: bool) -> tuple[Fraction, list[FlatSolution]]:
    """Return the bound that the model gives in little time, and its solutions."""
    solutions: list[FlatSolution] = []
    model = slowed_model(problem, rule=rule, scale=scale, events=events, seconds=0.5)
    status, bound = model.solve(solutions.append)
    event(status)
    assert status in ("OPTIMAL", "FEASIBLE", "UNKNOWN")
    return Fraction(bound) / scale, solutions


@settings(max_examples=examples(30))
@given(sharing_problems(max_ops=6), SHARING_RULES)
def test_no_set_contradicts_the_terms(problem: Problem, rule: Rule) -> None:
    terms = OverlapTerms(problem, rule)
    for kind in range(len(terms.kinds)):
        assert terms.admits(kind, terms.terms(kind))


@settings(max_examples=examples(30))
@given(sharing_problems(max_ops=5), SHARING_RULES, SCALES, st.booleans())
def test_no_plan_is_below_what_is_proven(problem: Problem, rule: Rule, scale: Fraction, events: bool) -> None:
    """Nor is the best plan cut off: with every variable hinted it is accepted as it stands."""
    events = events and only_ends_are_events(problem)
    decision, simulated = best_plan(problem, rule)
    bound, _ = proven(problem, rule, scale, events=events)
    assert bound <= Fraction(simulated.makespan) + Fraction(1, 10**6)
    assert accepts(problem, decision, simulated, rule=rule, scale=scale, events=events)


def simple(problem: Problem) -> bool:
    return all(
        len(op.modes) == 1 and op.modes[0].dma is None and all(e.units == 1 for e in problem.engines)
        for op in problem.ops
    )


@settings(max_examples=examples(20))
@given(sharing_problems(max_ops=4, transfers=False).filter(simple), SHARING_RULES, SCALES)
def test_no_start_times_are_below_what_is_proven(problem: Problem, rule: Rule, scale: Fraction) -> None:
    try:
        best = free_start_optimum(problem, rule, most=500)
    except TooManyOrders:
        assume(False)
        raise
    bound, _ = proven(problem, rule, scale, events=False)
    assert bound <= best


@settings(max_examples=examples(20))
@given(sharing_problems(max_ops=5), SHARING_RULES, st.booleans())
def test_every_solution_becomes_a_plan(problem: Problem, rule: Rule, events: bool) -> None:
    model = slowed_model(problem, rule=rule, events=events and only_ends_are_events(problem), seconds=0.5)
    solutions: list[FlatSolution] = []
    model.solve(solutions.append)
    for solution in solutions:
        decision = slowed_decision(problem, model.problem, solution)
        assert decision is not None
        simulate(problem, make_plan(problem, decision), rule)


@settings(max_examples=examples(12))
@given(sharing_problems(max_ops=5), SHARING_RULES, st.booleans())
def test_what_a_solve_proves_is_true(problem: Problem, rule: Rule, by_events: bool) -> None:
    """The checker accepts it, nobody was caught in error, a seed gives the same bytes twice, and no plan is shorter."""
    _, simulated = best_plan(problem, rule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_portfolio, "Guard", InProcess)
        patch.setattr(shared_portfolio, "EVENT_OPS", 12 if by_events else 0)
        result, again = (solve(problem, contention=rule, seed=0, time_limit_s=0.5) for _ in range(2))
    assert not any("internal error" in note for note in result.notes)
    assert result.schedule is not None and again.schedule is not None
    assert result.schedule.to_json() == again.schedule.to_json()
    assert check_schedule(result.schedule) == []
    event(f"{result.status} {result.certificate}")
    assert float(result.schedule.lower_bound) <= simulated.makespan * (1 + 1e-9)
    assert float(result.schedule.plan_bound) <= simulated.makespan * (1 + 1e-9)
