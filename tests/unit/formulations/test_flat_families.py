"""Each family of constraints alone: what breaks only this rule is refused, its closest neighbour is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.formulations.flat_models import admits, best_of, flat_model, optimum_of
from unit.small import buffer, held, move, on, problem, run

from hexloom.formulations.problem import Dma, Engine, Mode, Op, Scratchpad, Use

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem

PIPES = (Engine(name="hvx", units=2), Engine(name="ddr", kind="pipe"), Engine(name="two", units=2, kind="pipe"))


# --- engines --------------------------------------------------------------------------------------------


def test_a_unary_engine_has_one_holder() -> None:
    p = problem(on("hmx", "a", 3), on("hmx", "b", 2))
    assert admits(p, {"a": 0, "b": 3})
    assert not admits(p, {"a": 0, "b": 2})
    assert optimum_of(p) == 5


def test_overhead_holds_the_engine_too() -> None:
    p = problem(run("a", held("hmx", 3), overhead=2), on("hmx", "b", 2))
    assert admits(p, {"a": 0, "b": 5})
    assert not admits(p, {"a": 0, "b": 4})


def test_a_late_result_does_not_hold_the_thread() -> None:
    p = problem(run("a", held("hmx", 3), latency=7), on("hmx", "b", 2))
    assert admits(p, {"a": 0, "b": 3})
    assert optimum_of(p) == 7


def test_a_late_result_holds_a_unit_without_a_thread() -> None:
    """Nothing but the result of the first user tells the second that the unit is free."""
    p = problem(run("a", held("lut", 3), latency=7), on("lut", "b", 2))
    assert admits(p, {"a": 0, "b": 7})
    assert not admits(p, {"a": 0, "b": 6})
    assert optimum_of(p) == 9


def test_counted_units_are_a_sum() -> None:
    p = problem(*(on("hvx", name, 4) for name in "abc"))
    assert admits(p, {"a": 0, "b": 0, "c": 4})
    assert not admits(p, {"a": 0, "b": 1, "c": 3})
    assert optimum_of(p) == 8


def test_a_gang_takes_all_its_units_at_once() -> None:
    p = problem(run("gang", held("hvx", 4, 2)), on("hvx", "x", 1))
    assert not admits(p, {"gang": 0, "x": 3})
    assert admits(p, {"gang": 1, "x": 0})


def test_fixed_units_leave_the_others() -> None:
    p = problem(run("a", held("hvx", 4, ids=(0,))), run("b", held("hvx", 4, ids=(0,))), on("hvx", "c", 4))
    assert admits(p, {"a": 0, "b": 4, "c": 2})
    assert not admits(p, {"a": 0, "b": 3})
    assert optimum_of(p) == 8


def test_units_are_whole_in_space_not_only_a_sum() -> None:
    """One of two units is free for c at any time, but it is not the same one for long enough."""
    p = problem(run("a", held("hvx", 2, ids=(0,))), run("b", held("hvx", 2, ids=(1,))), on("hvx", "c", 4))
    assert admits(p, {"a": 0, "b": 4, "c": 0})
    assert not admits(p, {"a": 0, "b": 2, "c": 0})
    assert admits(p, {"a": 4, "b": 0, "c": 2})


def test_a_marker_takes_no_engine() -> None:
    p = problem(on("hmx", "a", 4), run("mark", held("hmx", 0)))
    assert all(admits(p, {"a": 0, "mark": at}) for at in range(5))


def test_only_the_chosen_mode_holds() -> None:
    way = tuple(Mode(name=e, uses=(Use(engine=e, ticks=t),), latency_ticks=t) for e, t in (("hmx", 3), ("lut", 5)))
    p = problem(on("hmx", "a", 4), Op(name="b", modes=way))
    status, solution = best_of(flat_model(p))
    assert status == "OPTIMAL" and solution is not None
    assert (solution.makespan, solution.mode) == (5, (0, 1))


def sharers(*, poll: int = 0) -> Problem:
    """A result that comes late and a transfer, which hold 3 of 5, and an op that wants 3."""
    late = Mode(uses=(held("hvx", 2), held("bus", 3, 3)), latency_ticks=4)
    dma = Dma(owner_engine="hvx", owner_unit=1, issue_ticks=1, poll_ticks=poll)
    moved = Mode(uses=(held("ddr", 2), held("bus", 2, 3)), latency_ticks=2, dma=dma)
    ops = (
        Op(name="late", modes=(late,)),
        Op(name="moved", modes=(moved,)),
        run("x", held("hmx", 1), held("bus", 1, 3)),
    )
    engines = (*PIPES, Engine(name="hmx"), Engine(name="bus", units=5, kind="share"))
    return problem(*ops, engines=engines)


def test_a_share_is_held_until_the_result_is_known() -> None:
    """The thread is free at 2, the share at 4."""
    assert not admits(sharers(), {"late": 0, "x": 3, "moved": 9})
    assert admits(sharers(), {"late": 0, "x": 4, "moved": 9})


def test_a_transfer_holds_a_share_from_its_issue_until_it_is_seen() -> None:
    p = sharers(poll=1)
    assert not admits(p, {"moved": 2, "late": 9, "x": 2})
    assert admits(p, {"moved": 2, "late": 9, "x": 1})
    assert not admits(p, {"moved": 2, "late": 20, "x": 7}, moved=8)
    assert admits(p, {"moved": 2, "late": 20, "x": 8}, moved=8)


def test_an_amount_is_not_one_of_units() -> None:
    """Two and three of five go together; each takes a whole engine otherwise."""
    ops = [run(n, held(e, 2), held("bus", 2, amount)) for n, e, amount in (("a", "hvx", 2), ("b", "hmx", 3))]
    engines = (Engine(name="hvx"), Engine(name="hmx"), Engine(name="bus", units=5 * 10**11, kind="share"))
    assert optimum_of(problem(*ops, engines=engines)) == 2


# --- transfers ------------------------------------------------------------------------------------------


def test_an_owner_is_busy_while_it_issues_and_polls() -> None:
    p = problem(move("d", 5, issue=2, poll=1), run("x", held("hvx", 2, ids=(0,))))
    assert not admits(p, {"d": 0, "x": 1})
    assert admits(p, {"d": 0, "x": 2}, d=8)
    assert not admits(p, {"d": 0, "x": 6}, d=8), "it polls from 7 to 8"
    assert admits(p, {"d": 0, "x": 6}, d=9), "a busy owner observes late"
    assert optimum_of(p) == 8


def test_a_transfer_moves_after_its_issue_and_is_known_after_its_latency() -> None:
    p = problem(move("d", 3, latency=4, issue=2, poll=1))
    assert admits(p, {"d": 0}, moved_d=2, d=7)
    assert not admits(p, {"d": 0}, moved_d=1)
    assert not admits(p, {"d": 0}, moved_d=2, d=6)
    assert admits(p, {"d": 0}, moved_d=5, d=12)


@pytest.mark.parametrize("at", range(1, 4))
def test_an_owner_acts_not_inside_another_op_even_in_no_time(at: int) -> None:
    """Issue and poll of zero ticks: allowed at the ends of an op of its owner, never strictly inside."""
    p = problem(move("d", 2, pipes={}), run("x", held("hvx", 4, ids=(0,))))
    assert not admits(p, {"d": at, "x": 0})
    assert not admits(p, {"d": 0, "x": 1}, d=1 + at)
    assert admits(p, {"d": 4, "x": 0})
    assert admits(p, {"d": 0, "x": 0}, d=4)
    assert admits(p, {"d": 0, "x": 1}, d=5)


def test_an_owner_of_one_unit_acts_not_inside_either() -> None:
    p = problem(move("d", 2, pipes={}), on("hvx", "x", 4), engines=(Engine(name="hvx"),))
    assert not admits(p, {"d": 2, "x": 0})
    assert optimum_of(p) == 4


def test_two_acts_of_no_time_at_one_instant() -> None:
    p = problem(move("d", 2, pipes={}), move("e", 2, pipes={}))
    assert admits(p, {"d": 0, "e": 0}, d=2, e=2)


def test_a_pipe_serves_one_transfer_at_a_time() -> None:
    p = problem(move("d", 3), move("e", 3, owner=1))
    assert admits(p, {"d": 0, "e": 0}, moved_d=0, moved_e=3)
    assert not admits(p, {"d": 0, "e": 0}, moved_d=0, moved_e=2)
    assert optimum_of(p) == 6


def test_a_pipe_of_two_units_serves_two() -> None:
    p = problem(*(move(n, 3, owner=k % 2, pipes={"two": 3}) for k, n in enumerate("def")), engines=PIPES)
    assert optimum_of(p) == 6
    assert not admits(p, {}, moved_d=0, moved_e=1, moved_f=2)


def test_a_pipe_held_for_less_than_the_latency() -> None:
    p = problem(move("d", 2, latency=6), move("e", 2, latency=6, owner=1))
    assert optimum_of(p) == 8


# --- time -----------------------------------------------------------------------------------------------


def test_precedence_waits_for_the_result() -> None:
    p = problem(run("a", held("hmx", 2), latency=5, overhead=1), on("hvx", "b", 1), after="a>b")
    assert admits(p, {"a": 0, "b": 6})
    assert not admits(p, {"a": 0, "b": 5})


def test_precedence_waits_until_the_owner_has_seen_the_end() -> None:
    p = problem(move("d", 3, poll=2), on("hmx", "b", 1), after="d>b")
    assert admits(p, {"d": 0, "b": 5}, d=5)
    assert not admits(p, {"d": 0, "b": 5}, d=6)
    assert not admits(p, {"d": 0, "b": 4})


def test_a_deadline_counts_when_the_result_is_known() -> None:
    p = problem(run("a", held("hmx", 2), latency=4, deadline_ticks=5))
    assert admits(p, {"a": 1})
    assert not admits(p, {"a": 2})


def test_nothing_starts_before_the_entry_is_over() -> None:
    p = problem(on("hmx", "a", 2), entry_ticks=3)
    assert not admits(p, {"a": 2})
    assert optimum_of(p) == 5


# --- scratchpad -----------------------------------------------------------------------------------------


def test_bytes_alive_are_a_sum() -> None:
    buffers = (buffer("x", 3, "a"), buffer("y", 3, "b"))
    p = problem(on("hvx", "a", 2), on("hmx", "b", 2), buffers=buffers, capacity=5)
    assert not admits(p, {"a": 0, "b": 1})
    assert admits(p, {"a": 0, "b": 2})
    assert optimum_of(p) == 4


def test_a_buffer_lives_from_its_first_to_its_last_op() -> None:
    buffers = (buffer("x", 3, "a", "c"), buffer("y", 3, "b"))
    p = problem(*(on("hvx", n, 2) for n in "abc"), after="a>c", buffers=buffers, capacity=5)
    assert not admits(p, {"a": 0, "b": 3, "c": 5})
    assert admits(p, {"a": 0, "b": 4, "c": 2})


def test_a_transfer_holds_its_bytes_until_it_is_seen() -> None:
    buffers = (buffer("x", 3, "d"), buffer("y", 3, "b"))
    p = problem(move("d", 2, poll=1), on("hmx", "b", 2), buffers=buffers, capacity=5)
    assert admits(p, {"d": 0, "b": 3}, d=3)
    assert not admits(p, {"d": 0, "b": 3}, d=4)
    assert not admits(p, {"d": 1, "b": 0}, d=4)


def test_residents_take_their_bytes_always() -> None:
    buffers = (buffer("home", 2, resident=True), buffer("x", 3, "a"), buffer("y", 3, "b"))
    p = problem(on("hvx", "a", 2), on("hmx", "b", 2), buffers=buffers, capacity=7)
    assert not admits(p, {"a": 0, "b": 1})
    assert optimum_of(p) == 4
    roomy = p.model_copy(update={"scratchpad": Scratchpad(total_bytes=8)})
    assert optimum_of(roomy) == 2


def test_sizes_are_rounded_and_reserved_bytes_are_gone() -> None:
    buffers = (buffer("x", 3, "a", granule_bytes=4), buffer("y", 4, "b"))
    p = problem(on("hvx", "a", 2), on("hmx", "b", 2), buffers=buffers, capacity=7)
    assert optimum_of(p) == 4
    tight = p.model_copy(update={"scratchpad": Scratchpad(total_bytes=9, reserved_bytes=2)})
    assert optimum_of(tight) == 4


def test_addresses_alone_refuse_what_bytes_allow() -> None:
    """A pin in the middle: 8 bytes are free, but no 6 in one piece."""
    buffers = (buffer("pin", 4, "a", address=4), buffer("x", 6, "b"))
    p = problem(on("hvx", "a", 3), on("hmx", "b", 3), buffers=buffers, capacity=12)
    assert optimum_of(p) == 3
    assert optimum_of(p, addresses=True) == 6
    assert not admits(p, {"a": 0, "b": 2}, {})
    assert admits(p, {"a": 0, "b": 3}, {"pin": 4, "x": 0})
    assert not admits(p, {"a": 0, "b": 3}, {"pin": 0}), "a pin stays"


def test_addresses_are_aligned_and_inside() -> None:
    p = problem(on("hvx", "a", 3), buffers=(buffer("x", 6, "a", align_bytes=4),), capacity=12)
    assert admits(p, {"a": 0}, {"x": 4})
    assert not admits(p, {"a": 0}, {"x": 2})
    assert not admits(p, {"a": 0}, {"x": 8})


def test_alignment_alone_refuses() -> None:
    """5 + 5 of 12 bytes, but at multiples of 8 the second would end at 13."""
    buffers = (buffer("x", 5, "a", align_bytes=8), buffer("y", 5, "b", align_bytes=8))
    p = problem(on("hvx", "a", 3), on("hmx", "b", 3), buffers=buffers, capacity=12)
    assert optimum_of(p) == 3
    assert optimum_of(p, addresses=True) == 6


def test_a_resident_keeps_its_address_from_first_to_last() -> None:
    buffers = (buffer("home", 4, resident=True, address=4), buffer("x", 6, "a"))
    p = problem(on("hvx", "a", 3), buffers=buffers, capacity=14)
    assert admits(p, {"a": 0}, {"x": 8})
    assert not admits(p, {"a": 0}, {"x": 3})
    assert not admits(p, {"a": 0}, {"x": 7})
    assert optimum_of(p.model_copy(update={"scratchpad": Scratchpad(total_bytes=13)}), addresses=True) is None


def test_buffers_of_no_time_lie_where_others_end() -> None:
    """A buffer of an op without length may not lie in live bytes; at the very end of them it may."""
    buffers = (buffer("x", 4, "a"), buffer("y", 4, "mark"))
    p = problem(on("hvx", "a", 3), run("mark"), buffers=buffers, capacity=4)
    assert not admits(p, {"a": 0, "mark": 1}, {})
    assert admits(p, {"a": 0, "mark": 3}, {})
    assert admits(p, {"a": 0, "mark": 0}, {})
    assert optimum_of(p, addresses=True) == 3


# --- orders of equal tiles that look harmless -----------------------------------------------------------


def tiles(stages: int) -> Problem:
    slow, fast = (
        Mode(name=n, uses=(Use(engine="hvx", ticks=t, units=u),), latency_ticks=t)
        for n, t, u in (("slow", 3, 1), ("fast", 1, 3))
    )
    ops = []
    edges = []
    for k in range(2):
        ops += [on("dma", f"d{k}", 1), Op(name=f"v{k}", modes=(slow, fast))]
        edges.append(f"d{k}>v{k}")
        if stages == 3:
            ops.append(on("hmx", f"h{k}", 1))
            edges.append(f"v{k}>h{k}")
    # Three of the four units are taken in [1, 2) and in [3, 4): by delays that deadlines hold in place.
    for name, at in (("p", 1), ("q", 3)):
        ops.append(run(f"{name}0", latency=at, deadline_ticks=at))
        ops.append(run(name, held("hvx", 1, 3), deadline_ticks=at + 1))
        edges.append(f"{name}0>{name}")
    engines = (Engine(name="hvx", units=4), Engine(name="dma"), Engine(name="hmx"))
    return problem(*ops, after=" ".join(edges), engines=engines)


@pytest.mark.parametrize(("stages", "ticks"), [(2, 4), (3, 5)])
@pytest.mark.parametrize("presolve", [True, False])
def test_tiles_may_overtake_each_other(stages: int, ticks: int, presolve: bool) -> None:
    """slow [1,4) and fast [2,3): ordered by end (or, with a third stage, by start) at every stage it takes one more."""
    assert optimum_of(tiles(stages), presolve=presolve) == ticks


@pytest.mark.parametrize("stages", [2, 3])
def test_the_tempting_order_costs_a_tick(stages: int) -> None:
    p = tiles(stages)
    flat = flat_model(p)
    at = {op.name: of for op, of in zip(p.ops, flat.variables.ops, strict=True)}
    for stage in "dvh"[:stages]:
        first, second = at[f"{stage}0"], at[f"{stage}1"]
        if stages == 2:
            flat.model.add(first.known <= second.known)
        else:
            flat.model.add(first.start <= second.start)
    _, solution = best_of(flat)
    assert solution is not None
    assert solution.makespan == {2: 5, 3: 6}[stages]


def test_equal_buffers_keep_their_lives_beside_a_pin() -> None:
    """Lives matched first in first out, [0,4) and [2,10), do not fit beside the pin; [0,10) and [2,4) do.

    The ops of each life are bare delays that deadlines hold in place.
    """
    spans = {"e": (0, 10), "f": (2, 4), "g": (0, 2), "h": (4, 10)}
    ops, edges = [], []
    for name, (born, died) in spans.items():
        if born:
            ops.append(run(f"{name}0", latency=born, deadline_ticks=born))
            edges.append(f"{name}0>{name}")
        ops.append(run(name, latency=died - born, deadline_ticks=died))
    sizes = {"e": 1, "f": 1, "g": 2, "h": 2}
    ops.append(run("all", latency=10))
    buffers = (buffer("pin", 1, "all", address=1), *(buffer(n, size, n) for n, size in sizes.items()))
    p = problem(*ops, after=" ".join(edges), buffers=buffers, capacity=4)
    status, solution = best_of(flat_model(p, addresses=True))
    assert status == "OPTIMAL" and solution is not None and solution.offsets is not None
    assert solution.offsets == {0: 1, 1: 0, 2: 2, 3: 2, 4: 2}


def test_a_mode_that_issues_and_one_that_computes() -> None:
    """The owner is held only by the mode that is chosen."""
    dma = Mode(name="dma", latency_ticks=2, dma=Dma(owner_engine="hvx", owner_unit=0, issue_ticks=3))
    own = Mode(name="own", uses=(Use(engine="hmx", ticks=4),), latency_ticks=4)
    p = problem(Op(name="a", modes=(dma, own)), run("x", held("hvx", 4, ids=(0,))))
    status, solution = best_of(flat_model(p))
    assert status == "OPTIMAL" and solution is not None
    assert (solution.makespan, solution.mode[0]) == (4, 1)


def test_bytes_are_where_the_aligned_address_says() -> None:
    buffers = (buffer("x", 4, "a", align_bytes=4), buffer("pin", 2, "b", address=6))
    p = problem(on("hvx", "a", 3), on("hmx", "b", 3), buffers=buffers, capacity=12)
    assert admits(p, {"a": 0, "b": 0}, {"x": 0})
    assert not admits(p, {"a": 0, "b": 0}, {"x": 4})
    assert admits(p, {"a": 0, "b": 0}, {"x": 8})
