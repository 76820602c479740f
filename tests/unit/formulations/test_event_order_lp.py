"""The best times in an order of events, by hand; the free-start optimum of the first counterexample."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from free_start import free_start_optimum
from unit.shared_channels import moving, pulling, sharing

from hexloom.formulations.decision import Decision
from hexloom.formulations.event_order_lp import Cut, Moment, Pressure, best_times, moments_of, polished
from hexloom.formulations.exact_lp import minimise
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from hexloom.formulations.event_order_lp import OrderTimes
    from hexloom.formulations.problem import Problem, Rule

LATE_START = sharing(
    pulling("load", 12, "dma", ddr=75),
    pulling("z", 6, "hmx"),
    pulling("x", 12, "hvx", ddr=75),
    after="load>z",
)


def in_file_order(of: Problem, *guards: tuple[int, int]) -> Decision:
    """Ops in the order of the file; transfers are awaited at the end."""
    dma = [i for i, op in enumerate(of.ops) if op.modes[0].dma is not None]
    units = tuple(tuple((0,) for _ in op.modes[0].uses) for op in of.ops)
    actions = (*range(len(of.ops)), *(~i for i in dma))
    return Decision((0,) * len(of.ops), units, actions, (), guards)


def polish(of: Problem, *guards: tuple[int, int], rule: Rule = "fluid") -> OrderTimes:
    decision = in_file_order(of, *guards)
    simulated = evaluator(rule)(of, decision)
    found = polished(of, decision, simulated, rule)
    assert float(found.makespan) <= simulated.makespan * (1 + 1e-9)
    return found


def test_the_first_counterexample_has_its_optimum_where_nothing_ends() -> None:
    """mathematics A1: x at 6, the load ends at 15, z and x end at 21; half the load is done when x begins."""
    found = polish(LATE_START)
    assert found.makespan == 21
    assert found.start == (0, 15, 6)
    assert found.ended == (15, 21, 21)
    assert found.cuts == (Cut(op=0, amount=Fraction(6), begins=2),)
    # A tick of lag d between the load and z: load alone 6 + d, both 9 - 3/2 d, x alone 6 + d; 21 + d/2 together.
    assert Pressure("dependency", 0, 1, Fraction(1, 2)) in found.pressures


@pytest.mark.parametrize(("guards", "makespan"), [(((0, 2),), 24), (((1, 2),), 30)], ids=["after the load", "after z"])
def test_other_orders_of_the_first_counterexample(guards: tuple[tuple[int, int], ...], makespan: int) -> None:
    """x begins after the load, and so do they all in this order: z shares nothing and has no place in it."""
    decision = in_file_order(LATE_START, *guards)
    simulated = evaluator("fluid")(LATE_START, decision)
    assert simulated.makespan == pytest.approx(makespan)
    assert polished(LATE_START, decision, simulated, "fluid").makespan == 24


def test_moments_of_a_schedule() -> None:
    decision = in_file_order(LATE_START)
    moments = moments_of(LATE_START, decision, evaluator("fluid")(LATE_START, decision), "fluid")
    assert moments == (Moment(0, 0), Moment(2, 0), Moment(0, 12), Moment(2, 12))


def test_an_order_that_contradicts_a_dependency() -> None:
    of = sharing(pulling("a", 3, ddr=60), pulling("b", 3, ddr=60), after="a>b")
    decision = in_file_order(of)
    assert best_times(of, decision, "fluid", [Moment(1, 0), Moment(1, 3), Moment(0, 0), Moment(0, 3)]) is None


def test_a_transfer_and_a_deadline() -> None:
    """Issue 2, then 10 of transfer at half speed beside 4 of b, poll 1: 15; b by 4 only if it is left alone."""
    b = pulling("b", 4, ddr=100)
    of = sharing(moving("load", 10, "v", issue=2, poll=1, ddr=100), b, owners="v")
    assert polish(of).makespan == 15
    tight = sharing(
        moving("load", 10, "v", issue=2, poll=1, ddr=100), b.model_copy(update={"deadline_ticks": 4}), owners="v"
    )
    moments = [Moment(1, 0), Moment(0, 0), Moment(1, 4), Moment(0, 10)]
    found = best_times(tight, in_file_order(tight), "fluid", moments)
    assert found is not None
    assert found.ended == (15, 4)


def test_the_entry_and_overheads_count() -> None:
    a = pulling("a", 4, ddr=100)
    late = a.modes[0].model_copy(update={"overhead_ticks": 3})
    of = sharing(a.model_copy(update={"modes": (late,)}), pulling("b", 3, ddr=100)).model_copy(
        update={"entry_ticks": 5}
    )
    found = polish(of)
    assert (found.start, found.ended) == ((5, 5), (12, 8))


def test_the_free_start_optimum_of_the_first_counterexample() -> None:
    assert free_start_optimum(LATE_START, "fluid") == 21
    assert free_start_optimum(LATE_START, "priority") == 20


def test_small_programs() -> None:
    """min 2x + 3y, x + y >= 4, x <= 3: x = 3, y = 1; a tick more on the first row costs 3, on the second -1."""
    found = minimise([2, 3], [({0: 1, 1: 1}, 4), ({0: -1}, -3)])
    assert found is not None
    assert (found.value, found.variables, found.prices) == (9, (3, 1), (3, 1))
    assert minimise([1], [({0: 1}, 2), ({0: -1}, -1)]) is None
    thirds = minimise([1], [({0: Fraction(3, 7)}, Fraction(1, 2))])
    assert thirds is not None
    assert (thirds.value, thirds.prices) == (Fraction(7, 6), (Fraction(7, 3),))
    with pytest.raises(ValueError, match="cost -1 is negative"):
        minimise([-1], [])
