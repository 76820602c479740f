"""Guards that the prediction satisfies, and that help when ops are faster than told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.shared_channels import pulling, sharing

from hexloom.formulations.decision import Decision
from hexloom.formulations.steady import steadied
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from hexloom.formulations.problem import Op, Problem


def haste(a: int) -> Problem:
    """a, then x on one engine; b, then the long z: x and b never meet as long as a takes 10."""
    ops: tuple[Op, ...] = (
        pulling("a", a, "hvx"),
        pulling("x", 10, "hvx", ddr=100),
        pulling("b", 10, "dma", ddr=100),
        pulling("z", 20, "hmx"),
    )
    return sharing(*ops, after="a>x b>z")


PLAN = Decision((0,) * 4, tuple(((0,),) for _ in range(4)), (0, 2, 1, 3), ())


def test_a_guard_keeps_apart_what_was_predicted_apart() -> None:
    evaluate = evaluator("fluid")
    of = haste(10)
    best = PLAN, evaluate(of, PLAN)
    assert best[1].makespan == pytest.approx(30)
    assert evaluate(haste(1), PLAN).makespan == pytest.approx(39)
    guarded, simulated = steadied(of, best, evaluate)
    assert guarded.guards == ((2, 1),)
    assert simulated.makespan == pytest.approx(30)
    assert [evaluate(haste(a), guarded).makespan for a in range(1, 11)] == [pytest.approx(30)] * 10


def test_no_guard_where_nobody_would_be_slowed_or_nothing_is_gained() -> None:
    evaluate = evaluator("fluid")
    apart = sharing(pulling("a", 4, "hvx"), pulling("x", 4, "hvx", ddr=40), pulling("b", 4, "dma", ddr=40), after="a>x")
    plan = Decision((0,) * 3, tuple(((0,),) for _ in range(3)), (0, 2, 1), ())
    assert steadied(apart, (plan, evaluate(apart, plan)), evaluate)[0] is plan
    even = sharing(
        pulling("a", 10, "hvx"), pulling("x", 10, "hvx", ddr=100), pulling("b", 10, "dma", ddr=100), after="a>x"
    )
    assert steadied(even, (plan, evaluate(even, plan)), evaluate)[0] is plan
