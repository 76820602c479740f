"""The program with free rates: known answers, and that it is below what any rule can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from free_start import TooManyOrders, free_start_optimum
from hypothesis import assume, given, settings
from shared_strategies import SHARING_RULES, sharing_problems
from unit.shared_channels import moving, pulling, sharing

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.milp_events import free_rates, takes
from hexloom.formulations.problem import Mode, Op, Problem
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from hexloom.formulations.problem import Rule

CLOSE = 1e-5


def proven(of: Problem) -> float:
    found = free_rates(of, solver="cbc")
    assert found.proven
    assert found.value == pytest.approx(found.bound, abs=CLOSE)
    return found.bound


def test_the_first_counterexample() -> None:
    """mathematics A1: by 13.5 the channel can pass all the load and half of x; z and the other half take 6 more."""
    load, z, x = pulling("load", 12, "dma", ddr=75), pulling("z", 6, "hmx"), pulling("x", 12, "hvx", ddr=75)
    assert proven(sharing(load, z, x, after="load>z")) == pytest.approx(19.5, abs=CLOSE)


def test_bytes_engines_and_paths() -> None:
    a, b = pulling("a", 10, ddr=100), pulling("b", 10, ddr=60)
    assert proven(sharing(a, b)) == pytest.approx(16, abs=CLOSE)
    assert proven(sharing(pulling("a", 10, "v", ddr=10), pulling("b", 10, "v"))) == pytest.approx(20, abs=CLOSE)
    assert proven(sharing(pulling("a", 10, ddr=250))) == pytest.approx(25, abs=CLOSE)
    marker = Op(name="m", modes=(Mode(latency_ticks=0),))
    through = sharing(pulling("a", 4), marker, pulling("b", 5), after="a>m m>b")
    assert proven(through.model_copy(update={"entry_ticks": 2})) == pytest.approx(11, abs=CLOSE)


def test_an_op_is_not_taken_apart() -> None:
    """a, c, b, d take 24 in a row; in the gap of 8 between a and b on its engine, x (10) has no place: 26."""
    of = sharing(
        pulling("a", 4, "v"),
        pulling("c", 8, "m"),
        pulling("b", 4, "v"),
        pulling("d", 8, "m"),
        pulling("x", 10, "v"),
        after="a>c c>b b>d",
    )
    assert proven(of) == pytest.approx(26, abs=CLOSE)


def test_what_it_does_not_take() -> None:
    transfer = sharing(moving("load", 3, "v", ddr=10), owners="v")
    assert takes(transfer) == "op 'load', mode 'default' is a transfer"
    with pytest.raises(ValueError, match="is a transfer"):
        free_rates(transfer)
    op = pulling("a", 3)
    late = op.model_copy(update={"modes": (op.modes[0].model_copy(update={"latency_ticks": 5}),)})
    assert "releases an engine" in (takes(sharing(late)) or "")
    assert "above the limit" in (takes(sharing(*(pulling(f"o{k}", 1) for k in range(7)))) or "")


def held_to_the_end(problem: Problem) -> Problem:
    ops = []
    for op in problem.ops:
        mode = op.modes[0]
        uses = tuple(use.model_copy(update={"ticks": mode.latency_ticks}) for use in mode.uses)
        ops.append(op.model_copy(update={"modes": (mode.model_copy(update={"uses": uses}),)}))
    engines = tuple(engine.model_copy(update={"units": 1}) for engine in problem.engines)
    changed = problem.model_copy(update={"ops": tuple(ops), "engines": engines})
    return Problem.model_validate_json(changed.model_dump_json())


@settings(max_examples=max(5, settings().max_examples // 10))
@given(sharing_problems(max_ops=3, transfers=False), SHARING_RULES)
def test_it_is_below_free_start_and_event_driven_optima(problem: Problem, rule: Rule) -> None:
    of = held_to_the_end(problem)
    bound = proven(of)
    try:
        best = float(free_start_optimum(of, rule))
    except TooManyOrders:
        assume(False)
        raise
    bounds = lower_bounds(of, rule)
    found = search_events(of, bounds.heads_tails, evaluator(rule), None, 0, SearchLimits(), rule)
    assert found.proven and found.best is not None
    assert bound <= best * (1 + CLOSE) <= found.best[1].makespan * (1 + 2 * CLOSE)
