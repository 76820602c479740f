"""The checker of certificates: one good certificate, and everything that can be wrong with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from unit.shared_channels import pulling, sharing

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.configuration.bound import configuration_bound
from hexloom.formulations.configuration.certificate import Certificate, PricedClass
from hexloom.formulations.problem import Buffer, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.certificate import check_arithmetic, check_certificate
from hexloom.optimizer.schedule import BoundRow


def run(engine: str, ticks: int, units: int = 1, ids: tuple[int, ...] | None = None) -> Mode:
    return Mode(uses=(Use(engine=engine, ticks=ticks, units=units, unit_ids=ids),), latency_ticks=ticks)


TURNS = Problem(
    engines=(Engine(name="v", units=3),), ops=tuple(Op(name=f"o{k}", modes=(run("v", 4, 2),)) for k in range(3))
)
"""Any two ops need four units of three: they take turns, 12 ticks."""

GOOD = Certificate(classes=(PricedClass(ops=("o0", "o1", "o2"), prices=(("1",),)),), bound="12")


def changed(**fields: Any) -> Certificate:
    return GOOD.model_copy(update=fields)


def priced(*ops: str, price: str = "1") -> PricedClass:
    return PricedClass(ops=ops, prices=((price,),))


def without(problem: Problem, **fields: Any) -> Problem:
    """Build a problem anew: a copy would keep what the first one has derived."""
    return problem.changed(**fields)


def test_a_good_certificate_is_believed() -> None:
    assert check_certificate(TURNS, GOOD) == []


@pytest.mark.parametrize("less", ["11.5", "23/2"])
def test_a_bound_is_a_fraction_and_counts_up_to_the_next_tick(less: str) -> None:
    assert bool(check_certificate(TURNS, changed(bound=less))) == ("." in less)


def test_a_bound_that_is_higher_by_a_billionth_is_refused() -> None:
    more = Fraction(12) * (1 + Fraction(1, 10**9))
    messages = check_certificate(TURNS, changed(bound=str(more)))
    assert len(messages) == 1
    assert "in 12 ticks as much as 12 can be paid" in messages[0]


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ((priced("o0", "o1"),), "its ops pay 8"),
        ((priced("o0", "o1", "o2", price="1000000001/1000000000"),), "more than 1"),
        ((priced("o0", "o1", "o2", price="999999999/1000000000"), priced("o0")), "priced twice"),
        ((priced("o0", "o1", "o1"),), "priced twice"),
        ((priced("o0", "o1", "o3"),), "not an op"),
        ((priced("o0", "o1", "o2", price="-1"),), "not a fraction"),
        ((priced("o0", "o1", "o2", price="1/0"),), "not a fraction"),
        ((priced("o0", "o1", "o2", price="nan"),), "not a fraction"),
        ((PricedClass(ops=("o0", "o1", "o2"), prices=(("1", "1"),)),), "numbers of prices"),
        ((PricedClass(ops=("o0", "o1", "o2"), prices=(("1",), ("1",))),), "numbers of prices"),
        ((), "its ops pay 0"),
    ],
)
def test_wrong_prices_are_refused(classes: tuple[PricedClass, ...], reason: str) -> None:
    messages = check_certificate(TURNS, changed(classes=classes))
    assert any(reason in message for message in messages)


def test_prices_scaled_down_prove_the_same() -> None:
    """What ops pay and what can be paid fall alike."""
    assert check_certificate(TURNS, changed(classes=(priced("o0", "o1", "o2", price="1/3"),))) == []


@pytest.mark.parametrize("merged", [(("w",),), (("v", "v"),), (("v",), ("v",)), ((),)])
def test_wrong_groups_of_engines_are_refused(merged: tuple[tuple[str, ...], ...]) -> None:
    assert check_certificate(TURNS, changed(merged=merged))


def test_a_class_must_run_in_one_way() -> None:
    problem = without(TURNS, ops=(*TURNS.ops[:2], Op(name="o2", modes=(run("v", 5, 2),))))
    assert any("different ways" in message for message in check_certificate(problem, GOOD))


def test_every_reason_to_take_turns_is_needed() -> None:
    """The same prices for problems in which more can run together prove less."""
    more_units = without(TURNS, engines=(Engine(name="v", units=4),))
    assert check_certificate(more_units, GOOD)

    ops = tuple(Op(name=f"o{k}", modes=(run("v", 4),)) for k in range(3))
    chain = (Precedence(before="o0", after="o1"), Precedence(before="o1", after="o2"))
    ordered = Problem(engines=(Engine(name="v", units=3),), ops=ops, precedences=chain)
    assert check_certificate(ordered, GOOD) == []
    assert check_certificate(without(ordered, precedences=chain[:1]), GOOD)

    buffers = tuple(Buffer(name=f"b{k}", size_bytes=2, ops=(f"o{k}",)) for k in range(3))
    tight = Problem(
        engines=(Engine(name="v", units=3),), ops=ops, buffers=buffers, scratchpad=Scratchpad(total_bytes=3)
    )
    assert check_certificate(tight, GOOD) == []
    assert check_certificate(without(tight, scratchpad=Scratchpad(total_bytes=4)), GOOD)

    fixed = tuple(Op(name=f"o{k}", modes=(run("v", 4, 1, (0,)),)) for k in range(3))
    named = Problem(engines=(Engine(name="v", units=3),), ops=fixed)
    assert check_certificate(named, GOOD) == []
    assert check_certificate(named, changed(merged=()))


def test_heads_and_tails_are_derived_anew() -> None:
    ops, edges = [], []
    for k in range(2):
        ops += [Op(name=f"l{k}", modes=(run("d", 2),)), Op(name=f"m{k}", modes=(run("m", 5),))]
        edges.append(Precedence(before=f"l{k}", after=f"m{k}"))
    problem = Problem(engines=(Engine(name="d"), Engine(name="m")), ops=tuple(ops), precedences=tuple(edges))
    certificate = Certificate(classes=(priced("m0", "m1"),), bound="12")
    assert check_certificate(problem, certificate) == []
    assert check_certificate(without(problem, precedences=tuple(edges[:1])), certificate)


def test_prices_of_any_size_and_sets_of_any_number_are_checked() -> None:
    """Two thousand ops in flight at once: a price of a two-thousandth each, with or without noise far behind."""
    ops = tuple(Op(name=f"o{k}", modes=(Mode(latency_ticks=3),)) for k in range(2000))
    problem = Problem(ops=ops)
    names = tuple(op.name for op in ops)
    assert check_certificate(problem, Certificate(classes=(priced(*names, price="1/2000"),), bound="3")) == []
    assert check_certificate(problem, Certificate(classes=(priced(*names, price="1/2000"),), bound="4"))
    odd = f"{5 * 10**346}/{10**350 + 1}"
    assert check_certificate(problem, Certificate(classes=(priced(*names, price=odd),), bound="3")) == []


# Arithmetic bounds


def rows(problem: Problem, more: int = 0) -> list[BoundRow]:
    return [
        BoundRow(name=b.name, ticks=b.ticks + more, engine=b.engine, detail=b.detail)
        for b in lower_bounds(problem).found
    ]


def pipeline() -> Problem:
    """Two stages of three tiles share an engine, a third lies between."""
    ops, edges = [], []
    for k in range(3):
        for stage, mode in (("first", run("v", 3)), ("middle", run("m", 4)), ("last", run("v", 2))):
            ops.append(Op(name=f"{stage}{k}", task="t", stage=stage, tile=k, modes=(mode,)))
        edges.append(Precedence(before=f"first{k}", after=f"middle{k}"))
        edges.append(Precedence(before=f"middle{k}", after=f"last{k}"))
    return Problem(
        engines=(Engine(name="v"), Engine(name="m")), ops=tuple(ops), precedences=tuple(edges), entry_ticks=1
    )


def test_all_arithmetic_bounds_are_derived_and_none_may_claim_a_tick_more() -> None:
    problem = pipeline()
    claimed = rows(problem)
    assert {row.name for row in claimed} == {"critical_path", "engine_work", "heads_tails", "steady_interval"}
    assert check_arithmetic(problem, claimed) == []
    assert len(check_arithmetic(problem, rows(problem, 1))) == len(claimed)
    assert check_arithmetic(problem, rows(problem, -1)) == []


def test_unknown_bounds_and_engines_are_refused() -> None:
    problem = pipeline()
    row = rows(problem)[0]
    assert check_arithmetic(problem, [row.model_copy(update={"name": "wish"})]) == ["bound 'wish' is not known"]
    row = BoundRow(name="engine_work", ticks=1, engine="w", detail="")
    assert "on which no op must work" in check_arithmetic(problem, [row])[0]
    assert check_arithmetic(problem, [BoundRow(name="configuration", ticks=99, engine=None, detail="")]) == []


@pytest.mark.parametrize(("price", "bound"), [(None, "10"), (None, "121/10"), ("0", "121/10")])
def test_who_lifts_others_counts_without_a_price(price: str | None, bound: str) -> None:
    """m slows v, and so d keeps its speed: all three end at 10. Without m, v and d would take 12.1."""
    of = sharing(
        pulling("v", 3, op_class="vector", ddr=100),
        pulling("d", 10, ddr=70),
        pulling("m", 10, op_class="matrix"),
        factors="vector<matrix=3/10",
    )
    prices = {"v": "7/10", "d": "1"} | ({} if price is None else {"m": price})
    classes = tuple(PricedClass(ops=(name,), prices=((p,),)) for name, p in prices.items())
    messages = check_certificate(of, Certificate(classes=classes, merged=None, bound=bound), "fluid")
    assert messages and ("'m' may lift" in messages[0]) == (price is None)
    told = configuration_bound(of, lower_bounds(of, "fluid").heads_tails, "fluid")
    assert told is not None and told[0].ticks == 10 and not check_certificate(of, told[1], "fluid")
