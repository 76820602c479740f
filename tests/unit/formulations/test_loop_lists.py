"""List schedules and first fit of loops: what they find is checked, and when they give up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import event, given
from hypothesis import strategies as st
from loops import buf, dep, engines, four_stages, loop, loops, op

from hexloom.formulations.periodic.bounds import impossible, least_ii, lower_bounds
from hexloom.formulations.periodic.list_schedule import least_length, list_schedule
from hexloom.formulations.periodic.lives import MOST_PAIRS, pairs_to_part
from hexloom.formulations.periodic.place import Ring, meet, place
from hexloom.formulations.periodic.schedule import ModuloSchedule
from hexloom.optimizer.check_periodic import check_modulo

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop


@given(loops(6), st.integers(0, 2))
def test_what_the_list_finds_holds(of: Loop, more: int) -> None:
    if impossible(of) is not None:
        return
    ii = least_ii(lower_bounds(of)) + more
    found = list_schedule(of, ii)
    event("found" if found is not None else "given up")
    if found is not None:
        assert check_modulo(of, found) == []
        assert max(found.starts[o.name] + o.latency_ticks for o in of.ops) >= least_length(of, ii)


def test_four_stages_as_soon_as_possible() -> None:
    found = list_schedule(four_stages(10, 5, 8, 2), 15)
    assert found is not None
    assert found.starts == {"A": 0, "B": 10, "C": 15, "D": 23}


def test_the_list_gives_up_where_a_cycle_leaves_no_room() -> None:
    of = loop(op("a", ticks=3), op("b", ticks=3), deps=(dep("a", "b"), dep("b", "a", 1)))
    assert list_schedule(of, 5) is None
    assert list_schedule(of, 6) is not None


def test_ops_longer_than_the_interval_are_left_to_the_solver() -> None:
    assert list_schedule(loop(op("a", "x", 3), on=engines(x=2)), 2) is None


def test_copies_meet_where_some_iterations_of_them_do() -> None:
    x, y = (buf(name, 1, "a") for name in "xy")
    one, two = Ring(x, 0, 3, 2), Ring(y, 3, 5, 4)
    # Interval 4: x lives in [0, 3), and y until tick 5, so that it meets x of the next iteration at tick 4.
    assert [meet(one, k, two, 0, 4) for k in (0, 1)] == [False, True]
    assert [meet(one, k, Ring(y, 3, 4, 4), 0, 4) for k in (0, 1)] == [False, False]


def test_first_fit_places_the_largest_first_and_says_when_it_cannot() -> None:
    of = loop(op("a", ticks=2), buffers=(buf("s", 1, "a", align=4), buf("l", 5, "a")), capacity=9)
    schedule = ModuloSchedule(ii_ticks=2, starts={"a": 0})
    placed = place(of, schedule)
    assert placed is not None
    assert placed.addresses == {"s": (8,), "l": (0,)}
    assert place(of.changed(scratchpad={"total_bytes": 5}), schedule) is None


def test_a_loop_too_large_for_the_model_with_addresses_is_not_given_to_it() -> None:
    """Two rings of free depth with up to 2 and 3 copies: 6 shifts, and 1 to 6 clauses for each pair of numbers."""
    of = loop(op("a"), buffers=(buf("x", 3, "a"), buf("y", 2, "a")), capacity=6)
    # Copies 1 to 2 and 1 to 3: n * m / gcd is 1, 2, 3, 2, 2, 6.
    assert pairs_to_part(of) == (1 + 2 + 3) * (1 + 2 + 3 + 2 + 2 + 6)
    many = loop(
        *(op(f"o{i}") for i in range(40)), buffers=tuple(buf(f"b{i}", 1, f"o{i}") for i in range(40)), capacity=20
    )
    assert pairs_to_part(many) > MOST_PAIRS
