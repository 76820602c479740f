"""Speeds under every rule, and the simulator against closed forms and published counterexamples."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from unit.shared_channels import DDR, fractions, free_plan, moving, pulling, sharing

from hexloom.formulations.problem import Channel, Problem
from hexloom.optimizer.sharing import UNTOUCHED, Sharing
from hexloom.optimizer.simulate import simulate, simulate_fast

if TYPE_CHECKING:
    from hexloom.formulations.problem import Rule

L2, TOTAL = Channel(name="l2", capacity=10), Channel(name="total", capacity=10)
READ, WRITE = Channel(name="read", capacity=100), Channel(name="write", capacity=60)


def speeds(of: Problem, who: str = "", rule: Rule = "fluid") -> tuple[Fraction, ...]:
    """Speeds of the ops named in ``who`` (all if none), side by side."""
    rules = Sharing(of, rule)
    names = who.split() or [op.name for op in of.ops]
    loads = [rules.load_of(of.ops[of.op_index[name]].modes[0]) for name in names]
    found = iter(rules.speeds(tuple(load for load in loads if load != UNTOUCHED)))
    return tuple(Fraction(1) if load == UNTOUCHED else Fraction(next(found)) for load in loads)


def test_two_halves() -> None:
    of = sharing(pulling("a", 1, ddr=100), pulling("b", 1, ddr=100))
    assert speeds(of) == fractions("1/2", "1/2")


def test_speeds_are_fair_not_bytes() -> None:
    """100 / (75 + 50): both at 4/5, whatever they move."""
    of = sharing(pulling("a", 1, ddr=75), pulling("b", 1, ddr=50), pulling("c", 1))
    assert speeds(of) == fractions("4/5", "4/5", "1")


def test_demand_above_capacity_alone() -> None:
    assert speeds(sharing(pulling("a", 1, ddr=250))) == fractions("2/5")


def test_who_is_stopped_elsewhere_leaves_room() -> None:
    """The l2 stops b and c at 10/40; of the total a then has all that b leaves: 10 - 10/4 over 10."""
    a, b, c = pulling("a", 1, total=10), pulling("b", 1, l2=10, total=10), pulling("c", 1, l2=30)
    of = sharing(a, b, c, channels=(L2, TOTAL))
    assert speeds(of, "a b") == fractions("1/2", "1/2")
    assert speeds(of, "a b c") == fractions("3/4", "1/4", "1/4")


def test_a_copy_and_both_directions() -> None:
    """mathematics A2 (b): a third op on the other channel sets the first one free."""
    of = sharing(
        *(pulling("a", 10, read=60), pulling("k", 20, read=60, write=60), pulling("s", 5, write=60)),
        channels=(READ, WRITE),
    )
    assert speeds(of, "a k") == fractions("5/6", "5/6")
    assert speeds(of, "a k s") == fractions("1", "1/2", "1/2")


def test_interference_scales_full_speed_and_demand() -> None:
    """M slows v to 3/10, so v asks for 30 of 100: both reach 100/130 of what they can."""
    of = sharing(
        pulling("v", 1, op_class="hvx", ddr=100),
        pulling("d", 1, ddr=100),
        pulling("m", 1, op_class="hmx"),
        factors="hvx<hmx=3/10",
    )
    assert speeds(of, "v d") == fractions("1/2", "1/2")
    assert speeds(of) == fractions("3/13", "10/13", "1")


def test_several_factors_multiply() -> None:
    of = sharing(
        pulling("v", 1, op_class="v"),
        pulling("m", 1, op_class="m"),
        pulling("n", 1, op_class="m"),
        factors="v<m=1/2 m<m=4/5",
    )
    assert speeds(of) == fractions("1/4", "4/5", "4/5")


def test_proportional_is_not_work_conserving() -> None:
    """b is stopped at 1/4 by the l2, yet a gets no more than its part of the total, 10 / 20."""
    of = sharing(
        pulling("a", 1, total=10),
        pulling("b", 1, l2=10, total=10),
        pulling("c", 1, l2=30),
        channels=(L2, TOTAL),
    )
    assert speeds(of, rule="proportional") == fractions("1/2", "1/4", "1/4")


def test_priority_serves_in_the_order_of_the_problem() -> None:
    of = sharing(pulling("a", 1, ddr=60), pulling("b", 1, ddr=80), pulling("c", 1, ddr=10))
    assert speeds(of, rule="priority") == fractions("1", "1/2", "0")


@pytest.mark.parametrize("rule", ["none", "rigid"])
def test_rules_that_slow_nobody(rule: Rule) -> None:
    of = sharing(pulling("a", 3, ddr=100), pulling("b", 5, ddr=100))
    assert Sharing(of, rule).load_of(of.ops[0].modes[0]) == UNTOUCHED
    assert simulate(of, free_plan(of), rule).makespan == 5


def ends(of: Problem, waits: str = "", rule: Rule = "fluid") -> dict[str, int | Fraction]:
    plan = free_plan(of, waits)
    exact = simulate(of, plan, rule)
    fast = simulate_fast(of, plan, Sharing(of, rule, exact=False))
    assert fast.makespan == pytest.approx(float(exact.makespan))
    for name, times in exact.times.items():
        assert fast.times[name].done == pytest.approx(float(times.done))
    return {name: times.done for name, times in exact.times.items()}


def test_together_then_alone() -> None:
    """10 and 20 at half speed: the first ends at 20, then 10 are left at full speed."""
    assert ends(sharing(pulling("a", 10, ddr=100), pulling("b", 20, ddr=100))) == {"a": 20, "b": 30}


def test_three_ops() -> None:
    """One third each until 3 * 4; then half until 12 + 2 * 4; then 4 alone."""
    of = sharing(pulling("a", 4, ddr=100), pulling("b", 8, ddr=100), pulling("c", 12, ddr=100))
    assert ends(of) == {"a": 12, "b": 20, "c": 24}


def test_an_op_without_demand_is_not_slowed() -> None:
    assert ends(sharing(pulling("a", 5, ddr=100), pulling("b", 7))) == {"a": 5, "b": 7}


def test_a_transfer_is_slowed_while_it_moves_only() -> None:
    """Issue 2 and poll 1 at full speed; 10 of transfer beside 4 of work at half speed until 8 + 2."""
    of = sharing(moving("load", 10, "v", issue=2, poll=1, ddr=100), pulling("b", 4, ddr=100), owners="v")
    times = simulate(of, free_plan(of), "fluid").times
    # b runs alone for 2, then 2 are left at half speed: 6. By then the load has 2 of 10, and 8 are left: 14.
    assert (times["b"].done, times["load"].transfer_start, times["load"].done) == (6, 2, 14)
    assert times["load"].observed == 15


def test_what_takes_no_work_ends_at_once_even_without_speed() -> None:
    """b gets nothing while a works, but has nothing to do either."""
    of = sharing(pulling("a", 5, ddr=100), pulling("b", 0, ddr=100))
    assert ends(of, rule="priority") == {"a": 5, "b": 0}


def test_speeds_that_no_tick_divides_stay_exact() -> None:
    of = sharing(pulling("a", 10, ddr=70), pulling("b", 10, ddr=50), pulling("c", 3, ddr=90))
    # 100/210 until c ends at 6.3; by then the others have 3, and 7 are left at 100/120: 8.4 more.
    assert ends(of) == {"a": Fraction(147, 10), "b": Fraction(147, 10), "c": Fraction(63, 10)}


LATE_START = (
    pulling("load", 12, "dma", ddr=75),
    pulling("z", 6, "hmx"),
    pulling("x", 12, "hvx", ddr=75),
)


@pytest.mark.parametrize(("waits", "makespan"), [("", 24), ("load>x", 24), ("z>x", 30)])
def test_event_driven_plans_of_the_first_counterexample(waits: str, makespan: int) -> None:
    """mathematics A1: with x at 0 both end at 18; after the load at 24; after z at 30."""
    of = sharing(*LATE_START, after="load>z")
    assert max(ends(of, waits).values()) == makespan


def test_cutting_the_load_in_two_pieces_pays() -> None:
    """mathematics A1: the second half of the load sets x free at its start: 21, the optimum of any start times."""
    of = sharing(
        pulling("load.0", 6, "dma", ddr=75),
        pulling("load.1", 6, "dma", ddr=75),
        pulling("z", 6, "hmx"),
        pulling("x", 12, "hvx", ddr=75),
        after="load.1>z",
    )
    assert max(ends(of, "load.0>x").values()) == 21


@pytest.mark.parametrize(("ticks", "guard", "makespan"), [(10, "", 30), (1, "", 39), (1, "b>x", 30), (10, "b>x", 30)])
def test_a_shorter_op_can_end_the_run_later(ticks: int, guard: str, makespan: int) -> None:
    """mathematics A5: a guard that the prediction satisfies keeps 30 for every duration of a."""
    of = sharing(
        pulling("a", ticks, "v"),
        pulling("x", 10, "v", ddr=100),
        pulling("b", 10, "d", ddr=100),
        pulling("z", 20, "m"),
        after="a>x b>z",
    )
    assert max(ends(of, guard).values()) == makespan


def test_long_fractions_are_rounded_up_to_a_fine_grid() -> None:
    """Two hundred ops whose speeds have ever longer fractions: no end is early, none late by more than the grid."""
    ops = [pulling(f"a{k}", 7 + k % 5, "v", ddr=70) for k in range(100)]
    ops += [pulling(f"b{k}", 11 + k % 3, "d", ddr=90) for k in range(100)]
    of = sharing(*ops)
    timeline = simulate(of, free_plan(of), "fluid")
    fast = simulate_fast(of, free_plan(of), Sharing(of, "fluid", exact=False))
    assert float(timeline.makespan) == pytest.approx(fast.makespan, rel=1e-9)
    assert max(Fraction(t.done).denominator.bit_length() for t in timeline.times.values()) <= 129


def test_work_and_bytes_are_conserved() -> None:
    """What the channel gives while it is full is its capacity, to the last byte."""
    of = sharing(pulling("a", 10, ddr=70), pulling("b", 10, ddr=50), pulling("c", 3, ddr=90), channels=(DDR,))
    times = simulate(of, free_plan(of), "fluid").times
    moved = sum(mode.pulls[0].rate * mode.latency_ticks for op in of.ops for mode in op.modes)
    assert moved == 100 * max(t.done for t in times.values())
