"""The flat model where ops slow each other: counterexamples to what looks true, and no plan that it cuts off."""

from __future__ import annotations

from fractions import Fraction

import pytest
from unit.formulations.slowed_models import accepts, least_makespan, slowed_model
from unit.shared_channels import moving, pulling, sharing
from unit.small import buffer

from hexloom.formulations.flat.event_starts import only_ends_are_events
from hexloom.formulations.flat.slowing import in_parts
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.problem import Channel, Mode, Op, Precedence, Problem, Pull, Scratchpad, Use
from hexloom.optimizer.evaluate import evaluator

LATE_START = sharing(
    pulling("load", 12, "dma", ddr=75),
    pulling("z", 6, "hmx"),
    pulling("x", 12, "hvx", ddr=75),
    after="load>z",
)
"""A1: x should begin when half of the load is done, which no event tells: 21 against 24."""

COPY = sharing(
    pulling("a", 10, read=60),
    pulling("k", 20, read=60, write=60),
    pulling("s", 5, write=60),
    pulling("z", 15),
    after="a>z",
    channels=(Channel(name="read", capacity=100), Channel(name="write", capacity=60)),
)
"""A2 (b): everything at once takes 25; pairs that each are true say 25.75."""

THREE = sharing(*(pulling(name, 12, ddr=80) for name in "abc"))
"""A3: 36 ticks at 80 of 100 are 28.8; pairs without their triple say 31."""

ROUNDED = sharing(
    pulling("o0", 3, "m", ddr=100),
    pulling("o1", 1, "d", ddr=100),
    pulling("o2", 2, "m", ddr=60),
    pulling("o3", 1, "m", ddr=80),
    pulling("o4", 1, "m", ddr=60),
    after="o0>o2 o0>o4 o2>o4",
)
"""A4: where only coefficients are rounded down, whole times say 8; a real plan takes 7.6."""


def test_the_free_start_optimum_and_the_best_plan_differ() -> None:
    assert Fraction(21) - Fraction(1, 4) <= least_makespan(LATE_START, scale=16) <= 21
    assert Fraction(24) - Fraction(1, 4) <= least_makespan(LATE_START, scale=16, events=True) <= 24


@pytest.mark.parametrize(
    ("problem", "truth"), [(COPY, Fraction(25)), (THREE, Fraction(144, 5)), (ROUNDED, Fraction(38, 5))]
)
def test_counterexamples_prove_nothing_false(problem: Problem, truth: Fraction) -> None:
    for scale in (1, 3, 32):
        assert least_makespan(problem, scale=scale) <= truth
    assert least_makespan(problem, scale=32) >= truth - Fraction(1, 4)


def test_finer_parts_prove_more() -> None:
    found = [least_makespan(THREE, scale=scale) for scale in (1, 4, 32)]
    assert found == sorted(found) and found[0] < found[-1]


def test_parts_larger_than_a_tick() -> None:
    """Every time of the model may then be short by a part."""
    large = sharing(
        pulling("load", 12_007, "dma", ddr=75),
        pulling("z", 6_001, "hmx"),
        pulling("x", 12_007, "hvx", ddr=75),
        after="load>z",
    )
    found = least_makespan(large, scale=Fraction(1, 32))
    assert 20_500 <= found <= 21_020


def test_a_release_before_the_end_stays_one_in_large_parts() -> None:
    mode = Mode(uses=(Use(engine="e", ticks=9),), latency_ticks=11)
    p = sharing(Op(name="a", modes=(mode,)))
    (changed,) = in_parts(p, Fraction(1, 4)).ops[0].modes
    assert changed.latency_ticks == 2
    assert changed.uses[0].ticks == 1


@pytest.mark.parametrize("rule", ["fluid", "proportional", "priority"])
@pytest.mark.parametrize("scale", [1, 4, Fraction(1, 2)])
def test_an_incumbent_solves_the_model_as_it_stands(rule: str, scale: int | Fraction) -> None:
    """Transfers, modes, overheads, buffers, a copy: every variable is hinted and nothing is contradicted."""
    slow, fast = (
        Mode(name=n, uses=(Use(engine="hvx", ticks=t),), latency_ticks=t, pulls=(Pull(channel="read", rate=r),))
        for n, t, r in (("slow", 8, 30), ("fast", 5, 90))
    )
    late = Mode(uses=(Use(engine="hmx", ticks=3),), latency_ticks=6, overhead_ticks=2, pulls=slow.pulls)
    p = sharing(
        moving("d", 6, "own", issue=1, poll=1, read=70),
        Op(name="v", modes=(slow, fast)),
        Op(name="late", modes=(late,)),
        pulling("k", 7, read=60, write=60),
        pulling("s", 4, write=50),
        pulling("n", 3),
        after="d>v late>n",
        owners="own",
        channels=(Channel(name="read", capacity=100), Channel(name="write", capacity=60)),
    )
    buffers = (buffer("x", 4, "d", "v"), buffer("y", 4, "k"))
    p = p.model_copy(update={"buffers": buffers, "scratchpad": Scratchpad(total_bytes=8)})
    for modes in ((0,) * 6, (0, 1, 0, 0, 0, 0)):
        decision = list_schedule(p, Policy((5.0, 4.0, 3.0, 2.0, 1.0, 0.0), modes))
        assert decision is not None
        simulated = evaluator(rule)(p, decision)  # type: ignore[arg-type]
        assert accepts(p, decision, simulated, rule=rule, scale=Fraction(scale), events=False)  # type: ignore[arg-type]


def test_a_plan_starts_at_events() -> None:
    decision = list_schedule(LATE_START, Policy((2.0, 1.0, 0.0), (0, 0, 0), guards=((0, 2),)))
    assert decision is not None
    simulated = evaluator("fluid")(LATE_START, decision)
    assert accepts(LATE_START, decision, simulated, rule="fluid", scale=Fraction(4), events=True)


def test_what_is_no_end_can_be_an_event_too() -> None:
    assert only_ends_are_events(LATE_START)
    assert not only_ends_are_events(sharing(moving("d", 3, "own"), owners="own"))
    early = Mode(uses=(Use(engine="e", ticks=2),), latency_ticks=5)
    assert not only_ends_are_events(sharing(Op(name="a", modes=(early,))))


def test_a_chosen_mode_brings_its_own_terms() -> None:
    """The mode that pulls nothing takes 14: beside b at 80 the other takes 10 and loses less than 4."""
    quiet, loud = (
        Mode(name=n, uses=(Use(engine="e", ticks=t),), latency_ticks=t, pulls=(Pull(channel="ddr", rate=r),))
        for n, t, r in (("quiet", 14, 0), ("loud", 10, 80))
    )
    b = pulling("b", 10, ddr=80)
    p = sharing(Op(name="a", modes=(quiet, loud)), b)
    assert Fraction(14) - Fraction(1, 4) <= least_makespan(p, scale=32) <= 14
    alone = sharing(Op(name="a", modes=(loud,)), b)
    assert Fraction(16) - Fraction(1, 4) <= least_makespan(alone, scale=32) <= 16


def test_a_starving_op_has_no_longest_time() -> None:
    """Under priority the first takes all of the channel: the second stands still beside it."""
    p = sharing(pulling("a", 10, ddr=100), pulling("b", 10, ddr=100))
    found = least_makespan(p, rule="priority", scale=16)
    assert Fraction(20) - Fraction(1, 4) <= found <= 20


def test_a_model_has_terms_for_every_group_that_can_overlap() -> None:
    assert slowed_model(THREE).terms_count == 3 * (2 + 1)
    chained = THREE.model_copy(update={"precedences": (Precedence(before="a", after="b"),)})
    assert slowed_model(chained).terms_count == 4
