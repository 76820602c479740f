"""Flows: who hands what part of a share to whom, by hand; and their contraction."""

from __future__ import annotations

from itertools import combinations

import pytest
from unit.small import held, move, on, problem

from hexloom.formulations.flows import contracted, moments_of, share_flows
from hexloom.formulations.problem import Channel, Engine, Mode, Op, Problem, Pull, Use

SHARE = Engine(name="ddr", units=10, kind="share")
HUGE = Engine(name="ddr", units=10**12, kind="share")


def user(name: str, amount: int, engine: str = "hvx", ticks: int = 4) -> Op:
    uses = (held(engine, ticks), held("ddr", ticks, amount))
    return Op(name=name, modes=(Mode(uses=uses, latency_ticks=ticks),))


def of(*ops: Op, after: str = "", share: Engine = SHARE) -> Problem:
    engines = (Engine(name="hvx", units=8), Engine(name="hmx"), share)
    return problem(*ops, after=after, engines=engines)


def flows(p: Problem, *moments: int) -> set[tuple[int, int]]:
    """Return the flows of ops that each have a thread of their own."""
    units = tuple(tuple((i,) if use.engine == "hvx" else () for use in op.modes[0].uses) for i, op in enumerate(p.ops))
    return set(share_flows(p, [0] * len(p.ops), units, moments))


def test_what_nobody_has_held_costs_no_order() -> None:
    p = of(user("a", 4), user("b", 3), user("c", 3))
    assert flows(p, 0, ~0, 1, ~1, 2, ~2) == set()


def test_one_giver_that_is_enough_is_taken_before_two() -> None:
    p = of(user("a", 3), user("b", 3), user("c", 4), user("d", 4))
    assert flows(p, 0, 1, 2, ~0, ~1, ~2, 3, ~3) == {(2, 3)}


def test_those_who_come_before_anyway_give_first() -> None:
    p = of(user("a", 5), user("b", 5), user("c", 5), after="a>c")
    assert flows(p, 0, 1, ~1, ~0, 2, ~2) == {(0, 2)}


def test_who_had_the_thread_before_gives_first() -> None:
    p = of(user("a", 5), user("b", 5), user("c", 5))
    units = (((0,), ()), ((1,), ()), ((1,), ()))
    assert share_flows(p, (0, 0, 0), units, (0, 1, ~0, ~1, 2, ~2)) == ((1, 2),)


def test_amounts_too_large_to_be_counted_one_by_one() -> None:
    p = of(*(user(name, 6 * 10**11) for name in "abc"), share=HUGE)
    assert flows(p, 0, ~0, 1, ~1, 2, ~2) == {(0, 1), (1, 2)}


def test_no_two_that_nothing_orders_hold_more_than_there_is() -> None:
    amounts = (6, 4, 3, 7, 2, 5, 8)
    p = of(*(user(f"o{i}", amount) for i, amount in enumerate(amounts)))
    moments = (0, 1, ~1, 2, ~0, ~2, 3, 4, ~3, 5, ~4, ~5, 6, ~6)
    after: list[set[int]] = [set() for _ in amounts]
    for before, i in sorted(flows(p, *moments), key=lambda pair: moments.index(pair[1])):
        after[i] |= {before} | after[before]
    for size in range(2, 5):
        for group in combinations(range(len(amounts)), size):
            if not any(a in after[b] or b in after[a] for a, b in combinations(group, 2)):
                assert sum(amounts[i] for i in group) <= 10


def test_more_than_there_is_is_a_fault_of_the_caller() -> None:
    with pytest.raises(AssertionError, match="more of a share"):
        flows(of(user("a", 6), user("b", 5)), 0, 1)


def test_without_times_ops_end_when_another_needs_their_part() -> None:
    p = of(user("a", 6), user("b", 4), user("c", 5), user("d", 1), after="b>d")
    assert list(moments_of(p, (0, 0, 0, 0), (0, 1, 2, 3))) == [0, 1, ~0, 2, ~1, 3]


def test_a_transfer_ends_when_it_is_awaited() -> None:
    dma = move("t", 4)
    mode = dma.modes[0].model_copy(update={"pulls": (Pull(channel="bus", rate=8),)})
    p = Problem(
        engines=(Engine(name="hvx", units=2), Engine(name="ddr", kind="pipe")),
        channels=(Channel(name="bus", capacity=10),),
        ops=(
            Op(name="t", modes=(mode,)),
            Op(
                name="x",
                modes=(
                    Mode(uses=(Use(engine="hvx", ticks=1),), latency_ticks=1, pulls=(Pull(channel="bus", rate=2),)),
                ),
            ),
            on("hvx", "y", 1),
        ),
    ).with_rigid_channels()
    assert list(moments_of(p, (0, 0, 0), (0, 1, 2, ~0))) == [0, 1, 2, ~0]


def test_what_passes_through_a_dropped_op_goes_on() -> None:
    assert set(contracted(((0, 1), (1, 2), (2, 3), (1, 4)), {0, 3, 4})) == {(0, 3), (0, 4)}
    assert contracted(((0, 1),), {0}) == ()
