"""Bounds on the interval of a loop, each by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from loops import buf, dep, engines, four_stages, loop, op

from hexloom.formulations.mode import Channel, Pull
from hexloom.formulations.periodic.bounds import RateBound, impossible, least_ii, lower_bounds


def named(bounds: tuple[RateBound, ...], name: str) -> RateBound:
    return next(bound for bound in bounds if bound.name == name)


def test_work_over_units_is_exact() -> None:
    bounds = lower_bounds(loop(op("a", "hvx", 3), op("b", "hvx", 2, units=2), on=engines(hvx=2)))
    assert bounds[1:] == (RateBound("engine", Fraction(7, 2), ("hvx",), "hvx: 7 ticks of work over 2 units"),)


def test_gangs_leave_what_lies_between_them() -> None:
    bounds = lower_bounds(loop(op("a", "hvx", 3), op("b", "hvx", 2, units=2), on=engines(hvx=2)))
    detail = "hvx: 2 ticks on all units, and 3 between two of them on some"
    assert bounds[0] == RateBound("gangs", Fraction(5), ("hvx",), detail)
    assert least_ii(bounds) == 5


def test_what_is_fixed_to_one_unit_counts_there() -> None:
    bounds = lower_bounds(loop(op("a", "hvx", 3, ids=(1,)), op("b", "hvx", 2, ids=(1,)), on=engines(hvx=2)))
    assert bounds[0] == RateBound("engine", Fraction(5), ("hvx[1]",), "hvx[1]: 5 ticks of work that is fixed to it")


@pytest.mark.parametrize(("rule", "ticks"), [("rigid", Fraction(10, 3)), ("fluid", Fraction(10, 3)), ("none", None)])
def test_a_channel_moves_what_its_ops_ask_for(rule: str, ticks: Fraction | None) -> None:
    pull = (Pull(channel="ddr", rate=2),)
    body = loop(
        op("a", ticks=4, pulls=pull), op("b", pulls=pull), channels=(Channel(name="ddr", capacity=3),), rule=rule
    )
    assert [b.ticks for b in lower_bounds(body) if b.name == "channel"] == ([] if ticks is None else [ticks])


def test_the_worst_cycle_is_found_and_named() -> None:
    body = loop(
        *(op(name, ticks=ticks) for name, ticks in (("a", 3), ("b", 4), ("c", 9))),
        deps=(dep("a", "b"), dep("b", "a", 2), dep("c", "c", 3), dep("b", "c"), dep("c", "b", 4)),
    )
    bound = lower_bounds(body)[0]
    # a -> b -> a takes 7 ticks over 2 iterations, c alone 9 over 3, b -> c -> b 13 over 4.
    assert (bound.name, bound.ticks, set(bound.bottleneck)) == ("recurrence", Fraction(7, 2), {"a", "b"})
    assert bound.detail in ("a -> b -> a: 7 ticks over 2 iterations", "b -> a -> b: 7 ticks over 2 iterations")


def test_a_delay_of_its_own_replaces_the_latency() -> None:
    body = loop(op("a", ticks=9), op("b", ticks=9), deps=(dep("a", "b", 0, 2), dep("b", "a", 1, 3)))
    assert lower_bounds(body)[0].ticks == 5


def test_a_ring_bounds_the_interval_as_a_cycle_does() -> None:
    bound = lower_bounds(four_stages(10, 5, 8, 2))[0]
    assert (bound.ticks, bound.bottleneck) == (15, ("A", "B", "raw"))
    assert bound.detail == "A -> B -> A, through the ring of 'raw': 15 ticks over 1 iterations"


def test_bytes_times_least_life_over_capacity() -> None:
    body = loop(
        *(op(name, ticks=3) for name in "abc"),
        deps=(dep("a", "b"), dep("b", "c")),
        buffers=(buf("x", 4, "a", "b"), buf("y", 2, "b", "c"), buf("z", 1, "c")),
        capacity=7,
    )
    # x and y live for 6 ticks, z for 3: 4 * 6 + 2 * 6 + 1 * 3 bytes times ticks.
    assert named(lower_bounds(body), "scratchpad").ticks == Fraction(39, 7)


def test_a_buffer_across_iterations_takes_its_bytes_for_good() -> None:
    body = loop(
        op("a", ticks=2), op("b", ticks=3), deps=(dep("a", "b"),), buffers=(buf("x", 4, "a", ("b", 1)),), capacity=9
    )
    # It lives for one interval and 5 ticks: 4 * (II + 5) <= 9 * II.
    assert named(lower_bounds(body), "scratchpad").ticks == 4
    assert impossible(body.changed(scratchpad={"total_bytes": 4})) is not None


def test_together_they_say_more_than_each() -> None:
    """Around a cycle one buffer or the other is alive, wherever its slack lies."""
    body = loop(
        op("a"),
        op("b"),
        deps=(dep("a", "b", 0, 4), dep("b", "a", 1, 0)),
        buffers=(buf("x", 3, "a", "b"), buf("y", 3, "b", ("a", 1))),
        capacity=4,
    )
    bounds = lower_bounds(body)
    # Alone: x lives for 5 ticks and has one place, and 3 * 5 + 3 * 1 bytes times ticks of 4. Together the lives are
    # rate + 2 ticks long: 3 * (rate + 2) <= 4 * rate.
    assert [(b.name, b.ticks) for b in bounds] == [("rate", 6), ("recurrence", 5), ("scratchpad", Fraction(9, 2))]


def test_what_one_op_needs_at_once_must_fit() -> None:
    body = loop(op("a"), op("b"), buffers=(buf("x", 3, "a", "b"), buf("y", 2, "a"), buf("z", 4, "b", "a")), capacity=8)
    assert impossible(body) == (
        "op 'a' needs 'x', 'y', 'z' at once, 9 B, the scratchpad has 8 B available; make them smaller"
    )
    assert impossible(body.changed(scratchpad={"total_bytes": 9})) is None


def test_a_ring_shorter_than_its_iterations_is_impossible_and_named() -> None:
    body = loop(op("a"), op("b"), deps=(dep("a", "b"),), buffers=(buf("x", 1, "a", ("b", 1), depth=1),), capacity=4)
    reason = impossible(body)
    assert reason is not None
    assert "through the ring of 'x'" in reason
    assert reason.endswith("give 'x' more copies or bytes")
    assert impossible(body.changed(buffers=(buf("x", 1, "a", ("b", 1), depth=2),))) is None
