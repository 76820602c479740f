"""Certificates on random small problems: never above the optimum, refused when raised, whatever the prices."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import assume, event, given
from hypothesis import strategies as st
from oracle import OracleLimit, optimum
from strategies import held_through, problems

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.configuration.bound import configuration_bound
from hexloom.formulations.configuration.certificate import Certificate, PricedClass
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.problem import Mode, Op, Problem, Use
from hexloom.optimizer.certificate import check_arithmetic, check_certificate
from hexloom.optimizer.certificate_parts import Units
from hexloom.optimizer.schedule import BoundRow
from hexloom.optimizer.windows import windows


def best(problem: Problem) -> int:
    """Ask the oracle; drop the example where it gives up or nothing fits."""
    try:
        found = optimum(problem)
    except OracleLimit:
        event("oracle gave up")
        assume(False)
        raise
    assume(found is not None)
    assert found is not None
    return found.ticks


def bound(problem: Problem, single_limit: int = 64) -> tuple[int, Certificate] | None:
    assume(first_shortfall(problem) is None)
    ht = lower_bounds(problem).heads_tails
    found = configuration_bound(problem, ht, time_limit_s=5, single_limit=single_limit)
    return None if found is None else (found[0].ticks, found[1])


@given(problems(), st.sampled_from((0, 64)))
def test_the_bound_is_below_the_optimum_and_its_certificate_holds(problem: Problem, single_limit: int) -> None:
    found = bound(problem, single_limit)
    if found is None:
        return
    ticks = best(problem)
    assert found[0] <= ticks
    assert check_certificate(problem, found[1]) == []
    event("closes the gap" if found[0] == ticks else "leaves a gap")


@given(problems())
def test_with_single_ops_it_is_no_worse_than_any_simple_bound(problem: Problem) -> None:
    found = bound(problem)
    if found is None:
        return
    assert found[0] >= lower_bounds(problem).best.ticks


@given(problems(max_ops=8), st.sampled_from((0, 64)))
def test_a_bound_raised_by_a_billionth_is_refused(problem: Problem, single_limit: int) -> None:
    found = bound(problem, single_limit)
    if found is None:
        return
    raised = Fraction(found[1].bound) * (1 + Fraction(1, 10**9))
    assert check_certificate(problem, found[1].model_copy(update={"bound": str(raised)}))


@given(st.data(), problems())
def test_a_price_raised_by_a_billionth_proves_nothing_false(data: st.DataObject, problem: Problem) -> None:
    found = bound(problem)
    if found is None:
        return
    ticks = best(problem)
    c = data.draw(st.integers(0, len(found[1].classes) - 1))
    one = found[1].classes[c]
    way = data.draw(st.integers(0, len(one.prices) - 1))
    assume(one.prices[way])
    part = data.draw(st.integers(0, len(one.prices[way]) - 1))
    row = list(one.prices[way])
    row[part] = str(Fraction(row[part]) * (1 + Fraction(1, 10**9)))
    prices = (*one.prices[:way], tuple(row), *one.prices[way + 1 :])
    classes = (*found[1].classes[:c], PricedClass(ops=one.ops, prices=prices), *found[1].classes[c + 1 :])
    changed = found[1].model_copy(update={"classes": classes, "bound": str(ticks + 1)})
    assert check_certificate(problem, changed)


@given(st.data(), problems())
def test_no_prices_at_all_prove_more_than_the_optimum(data: st.DataObject, problem: Problem) -> None:
    """The checker on prices that nobody computed, of classes drawn at random: whatever it believes is true."""
    merged = data.draw(st.sampled_from((None, (), tuple((e.name,) for e in problem.engines[:1]))))
    if merged == () and len(problem.engines) > 1 and data.draw(st.booleans()):
        merged = (tuple(e.name for e in problem.engines),)
    ticks = best(problem)
    units = Units(problem, merged)
    groups: list[list[str]] = []
    for op in data.draw(st.permutations(problem.ops)):
        ways = units.ways(op)
        home = next((g for g in groups if units.ways(problem.ops[problem.op_index[g[0]]]) == ways), None)
        if home is not None and data.draw(st.booleans()):
            home.append(op.name)
        elif data.draw(st.integers(0, 4)):
            groups.append([op.name])
    classes = []
    for names in groups:
        ways = units.ways(problem.ops[problem.op_index[names[0]]])
        price = st.sampled_from(("0", "1/4", "1/3", "1/2", "1", "1/7"))
        prices = tuple(tuple(data.draw(price) for _ in way) for way in ways)
        classes.append(PricedClass(ops=tuple(names), prices=prices))
    assert check_certificate(problem, Certificate(classes=tuple(classes), merged=merged, bound=str(ticks + 1)))


@given(problems() | held_through())
def test_arithmetic_bounds_hold_and_not_a_tick_more_than_the_optimum(problem: Problem) -> None:
    ticks = best(problem)
    found = lower_bounds(problem).found
    rows = [BoundRow(name=b.name, ticks=b.ticks, engine=b.engine, detail=b.detail) for b in found]
    assert check_arithmetic(problem, rows) == []
    false = [row.model_copy(update={"ticks": ticks + 1}) for row in rows]
    assert len(check_arithmetic(problem, false)) == len(false)


@given(problems(max_ops=12))
def test_both_sides_derive_the_same_heads_and_tails(problem: Problem) -> None:
    ours, theirs = windows(problem), lower_bounds(problem).heads_tails
    assert ours.head.tolist() == theirs.head.tolist()
    assert ours.tail.tolist() == theirs.tail.tolist()


@given(st.data(), problems(max_ops=5))
def test_a_longer_op_never_lowers_the_bound(data: st.DataObject, problem: Problem) -> None:
    found = bound(problem)
    k = data.draw(st.integers(0, len(problem.ops) - 1))
    ops = tuple(_longer(op) if i == k else op for i, op in enumerate(problem.ops))
    longer = bound(problem.changed(ops=ops))
    if found is not None and longer is not None:
        # Prices are rounded and columns may be missed: the bound is monotone but for a tick.
        assert longer[0] >= found[0] - 1


def _longer(op: Op) -> Op:
    modes = []
    for mode in op.modes:
        uses = tuple(Use(**{**use.model_dump(), "ticks": use.ticks + 1 if use.ticks else 0}) for use in mode.uses)
        modes.append(Mode(**{**mode.model_dump(), "uses": uses, "latency_ticks": mode.latency_ticks + 1}))
    return op.model_copy(update={"modes": tuple(modes)})
