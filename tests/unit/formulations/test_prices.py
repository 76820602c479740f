"""Prices of work in states of a run: by hand at the entry, and what they say later is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from shared_strategies import SHARING_RULES, sharing_problems
from unit.shared_channels import moving, pulling, sharing

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events import prices
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.events.tables import Tables
from hexloom.formulations.events.working import Working
from hexloom.formulations.problem import Op
from hexloom.formulations.speeds import Speeds
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem, Rule


def moves(of: Problem, rule: Rule = "fluid") -> Working:
    return Working(Tables(of, lower_bounds(of, rule).heads_tails), Speeds(of, rule))


def at_entry(of: Problem, rule: Rule = "fluid") -> float:
    run = moves(of, rule)
    return run.sharpened(run.first(0))


def test_bytes_paths_and_engines() -> None:
    a, b, c = (pulling(name, 12, ddr=80) for name in "abc")
    assert at_entry(sharing(a, b, c)) == pytest.approx(28.8)
    assert at_entry(sharing(a, b, c, after="a>b b>c")) == pytest.approx(36)
    assert at_entry(sharing(pulling("a", 5, "v"), pulling("b", 7, "v"), pulling("c", 1, ddr=1))) == pytest.approx(12)


def test_who_cannot_go_beside_whom_counts() -> None:
    """a disturbs b and c at 3/10 each, which are on one engine: 10 + 5 + 5, neither beside a."""
    of = sharing(
        pulling("a", 10, op_class="loud"),
        pulling("b", 5, "v", op_class="loud"),
        pulling("c", 5, "v", op_class="loud"),
        factors="loud<loud=3/10",
    )
    assert at_entry(of) == pytest.approx(20)


def test_a_transfer_holds_its_owner_while_it_is_issued_and_polled() -> None:
    """Issue 2 and poll 1 of one thread that also works 10; the transfer itself passes beside: 13."""
    of = sharing(moving("load", 4, "v", issue=2, poll=1, ddr=10), pulling("x", 10, "v", ddr=10))
    assert at_entry(of) == pytest.approx(13)


def test_one_of_several_modes() -> None:
    """Either 8 at 100 of 100, or 10 at 50: side by side in the slow mode both are there after 10, better than 16."""
    fast, slow = pulling("a", 8, ddr=100).modes[0], pulling("a", 10, ddr=50).modes[0]
    modes = (fast.model_copy(update={"uses": ()}), slow.model_copy(update={"uses": ()}))
    assert at_entry(sharing(Op(name="a", modes=modes), Op(name="b", modes=modes))) == pytest.approx(10)


def test_too_many_sets_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "MOST_SETS", 3)
    assert at_entry(sharing(*(pulling(name, 5, ddr=100) for name in "abc"))) == 0


def test_a_basis_that_rounding_spoiled_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every inverse fails, so there are no prices but those of no pivot, and the answer is the same."""

    def singular(matrix: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(prices, "AFRESH", 1)
    monkeypatch.setattr(np.linalg, "inv", singular)
    of = sharing(*(pulling(name, 12, ddr=80) for name in "abc"))
    assert at_entry(of) == 0
    found = search_events(of, lower_bounds(of).heads_tails, evaluator("fluid"), None, 0, SearchLimits(), "fluid")
    assert found.proven and found.best is not None
    assert found.best[1].makespan == pytest.approx(28.8)


@settings(max_examples=max(10, settings().max_examples // 4))
@given(sharing_problems(min_ops=2, max_ops=6), SHARING_RULES)
def test_prices_are_below_the_optimum_and_change_no_answer(problem: Problem, rule: Rule) -> None:
    def found(most_sets: int) -> float:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prices, "MOST_SETS", most_sets)
            heads_tails = lower_bounds(problem, rule).heads_tails
            answer = search_events(problem, heads_tails, evaluator(rule), None, 0, SearchLimits(), rule)
        assert answer.proven and answer.best is not None
        return answer.best[1].makespan

    best = found(prices.MOST_SETS)
    assert best == pytest.approx(found(0))
    assert at_entry(problem, rule) <= best * (1 + 1e-9)
