"""Bounds, the best of any start times, and the best event-driven plan, in this order; times that can be run."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from effort import examples
from free_start import TooManyOrders, free_start_optimum
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle_shared import TooMany, best_run, shares, speeds_of
from shared_strategies import SHARING_RULES, decisions, sharing_problems

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.configuration import sets
from hexloom.formulations.configuration.bound import configuration_bound
from hexloom.formulations.configuration.budget import Budget
from hexloom.formulations.configuration.certificate import Certificate, PricedClass
from hexloom.formulations.configuration.classes import configurations
from hexloom.formulations.configuration.order import Order
from hexloom.formulations.event_order_lp import polished
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.speeds import Speeds
from hexloom.optimizer.certificate import check_certificate
from hexloom.optimizer.certificate_parts import Units
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem, Rule


def ends(problem: Problem, rule: str, modes: list[Mode], begins: list[Fraction]) -> list[Fraction]:
    """When each op has done its work, if they begin to work at these times and nothing else orders them."""
    found = [begins[i] + mode.latency_ticks for i, mode in enumerate(modes)]
    left = {i: Fraction(mode.latency_ticks) for i, mode in enumerate(modes) if shares(problem, mode)}
    now = min(begins)
    while left:
        working = [i for i in left if begins[i] <= now]
        pace = dict(zip(working, speeds_of(problem, rule, [modes[i] for i in working]), strict=True))
        steps = [left[i] / x for i, x in pace.items() if x] + [Fraction(0) for i in pace if not left[i]]
        step = min(steps + [begins[i] - now for i in left if begins[i] > now])
        now += step
        for i, x in pace.items():
            left[i] -= x * step
            if left[i] == 0:
                found[i] = now
                del left[i]
    return found


@given(sharing_problems(min_ops=2, max_ops=7), SHARING_RULES, st.data())
def test_polished_times_can_be_run_and_are_no_later(problem: Problem, rule: Rule, data: st.DataObject) -> None:
    decision = data.draw(decisions(problem))
    simulated = evaluator(rule)(problem, decision)
    found = polished(problem, decision, simulated, rule)
    assert float(found.makespan) <= simulated.makespan * (1 + 1e-9)
    modes = [op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)]
    assert found.makespan == max(*found.ended, Fraction(problem.entry_ticks))
    for after, befores in enumerate(problem.predecessors):
        assert all(found.ended[p] <= found.start[after] for p in befores)
    if any(mode.dma is not None for mode in modes):
        return
    begins = [at + mode.overhead_ticks for at, mode in zip(found.start, modes, strict=True)]
    assert list(found.ended) == ends(problem, rule, modes, begins)


def check_order_of_optima(problem: Problem, rule: Rule) -> None:
    assume(all(len(op.modes) == 1 for op in problem.ops) and all(e.units == 1 for e in problem.engines))
    try:
        best = free_start_optimum(problem, rule)
    except TooManyOrders:
        assume(False)
        raise
    bounds = lower_bounds(problem, rule)
    assert bounds.best.ticks <= best, bounds.best
    priced = configuration_bound(problem, bounds.heads_tails, rule, deterministic=True)
    assert priced is None or priced[0].ticks <= best, priced
    assert priced is None or not check_certificate(problem, priced[1], rule)
    found = search_events(problem, bounds.heads_tails, evaluator(rule), None, 0, SearchLimits(), rule)
    assert found.proven and found.best is not None
    assert float(best) <= found.best[1].makespan * (1 + 1e-9)


@settings(max_examples=examples(15))
@given(sharing_problems(max_ops=3, transfers=False), SHARING_RULES)
def test_bound_free_start_and_event_driven_of_three_ops(problem: Problem, rule: Rule) -> None:
    check_order_of_optima(problem, rule)


@pytest.mark.slow
@settings(max_examples=examples(50))
@given(sharing_problems(min_ops=3, max_ops=4, transfers=False), SHARING_RULES)
def test_bound_free_start_and_event_driven_of_four_ops(problem: Problem, rule: Rule) -> None:
    check_order_of_optima(problem, rule)


@settings(max_examples=examples(40))
@given(st.data(), sharing_problems(min_ops=2, max_ops=4), SHARING_RULES)
def test_no_prices_prove_more_than_the_best_plan(data: st.DataObject, problem: Problem, rule: Rule) -> None:
    """Prices that nobody computed, of some ops or all: whatever the checker believes is true."""
    try:
        best = best_run(problem, rule)
    except TooMany:
        assume(False)
        raise
    assume(best is not None)
    assert best is not None
    units = Units(problem, None, rule)
    price = st.sampled_from(("0", "1/4", "1/2", "7/10", "1"))
    classes = tuple(
        PricedClass(ops=(op.name,), prices=tuple(tuple(data.draw(price) for _ in way) for way in units.ways(op)))
        for op in problem.ops
        if data.draw(st.integers(0, 4))
    )
    claimed = Certificate(classes=classes, merged=None, bound=str(Fraction(best) * (1 + Fraction(1, 10**9))))
    assert check_certificate(problem, claimed, rule)


@given(st.data(), sharing_problems(min_ops=2, max_ops=6), SHARING_RULES)
def test_listed_and_searched_sets_have_one_dearest(data: st.DataObject, problem: Problem, rule: Rule) -> None:
    """For any prices, zero included: who pays nothing may still lift the others."""
    order, ht = Order(problem), lower_bounds(problem, rule).heads_tails
    given_sets = configurations(
        problem, order, ht, [(i,) for i in range(len(problem.ops))], None, Speeds(problem, rule, exact=True)
    )
    items = range(len(given_sets.items))
    prices = [data.draw(st.sampled_from((0, 0, 1, 2, 5, 10))) for _ in items]
    allowed = [k for k in items if data.draw(st.integers(0, 4))]
    found = []
    for most in (10**6, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sets, "MOST_SETS", most)
            search = sets.SetSearch(given_sets, Budget(10.0, True), 10**6, exact=True)
            found.append(search.dearest(prices, allowed).cost)
    assert found[0] == found[1]
