"""Times of small plans, computed by hand."""

from __future__ import annotations

import pytest
from unit.small import held, move, on, plan, problem, run

from hexloom.formulations.problem import Engine
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.plan import Assignment
from hexloom.optimizer.simulate import Timeline, simulate


def times(timeline: Timeline, op: str) -> dict[str, int]:
    return timeline.times[op]._asdict()


def starts(timeline: Timeline) -> dict[str, int]:
    return {name: t.start for name, t in timeline.times.items()}


def test_a_busy_owner_sees_the_end_of_a_transfer_late() -> None:
    """Issue 0-1, transfer 1-6; the owner cooks until 11 and polls until 13: eat starts then, not at 6."""
    p = problem(move("load", 4, latency=5, issue=1, poll=2), on("hvx", "cook", 10), on("hvx", "eat", 3))
    found = simulate(p, plan(p, "load>eat", hvx0="start load, cook, wait load", hvx1="eat"))
    assert times(found, "load") == {
        "start": 0,
        "end": 1,
        "transfer_start": 1,
        "done": 6,
        "wait_start": 11,
        "observed": 13,
    }
    assert starts(found) == {"load": 0, "cook": 1, "eat": 13}
    assert found.makespan == 16


def test_a_waiting_owner_sees_it_after_one_poll() -> None:
    p = problem(move("load", 4, latency=5, issue=1, poll=2), on("hvx", "eat", 3))
    found = simulate(p, plan(p, hvx0="start load, wait load, eat"))
    assert times(found, "load")["wait_start"] == 1
    assert times(found, "load")["observed"] == 8
    assert starts(found)["eat"] == 8


def test_the_owner_is_held_by_the_issue_only() -> None:
    p = problem(move("a", 9, issue=2), move("b", 9, issue=2), on("hvx", "c", 1))
    found = simulate(p, plan(p, hvx0="start a, start b, c, wait a, wait b"))
    assert starts(found) == {"a": 0, "b": 2, "c": 4}
    assert (times(found, "a")["transfer_start"], times(found, "b")["transfer_start"]) == (2, 11)
    assert found.makespan == 20


def test_a_pipe_serves_what_was_issued_first() -> None:
    """``b`` is issued at 1, ``a`` at 3, although ``a`` comes first in the file."""
    p = problem(move("a", 10, owner=0, issue=3), move("b", 10, owner=1, issue=1))
    found = simulate(p, plan(p, hvx0="start a, wait a", hvx1="start b, wait b"))
    assert (times(found, "b")["transfer_start"], times(found, "a")["transfer_start"]) == (1, 11)


def test_of_transfers_issued_at_once_the_first_in_the_file_goes_first() -> None:
    p = problem(move("a", 10, owner=1), move("b", 10, owner=0))
    found = simulate(p, plan(p, hvx0="start b, wait b", hvx1="start a, wait a"))
    assert (times(found, "a")["transfer_start"], times(found, "b")["transfer_start"]) == (0, 10)


def test_a_transfer_passes_one_that_waits_for_another_pipe() -> None:
    """All share ddr for 2 ticks; a and b share q0 for 6, so c on q1 goes before b."""
    engines = tuple(Engine(name=n, kind="pipe") for n in ("ddr", "q0", "q1"))
    p = problem(
        move("a", 6, pipes={"ddr": 2, "q0": 6}),
        move("b", 6, pipes={"ddr": 2, "q0": 6}),
        move("c", 6, pipes={"ddr": 2, "q1": 6}),
        engines=(Engine(name="hvx", units=2), *engines),
    )
    found = simulate(p, plan(p, hvx0="start a, start b, start c, wait a, wait b, wait c"))
    assert {n: times(found, n)["transfer_start"] for n in "abc"} == {"a": 0, "c": 2, "b": 6}
    assert found.makespan == 12


def test_a_pipe_of_two_units_moves_two_at_once() -> None:
    engines = (Engine(name="hvx"), Engine(name="ddr", units=2, kind="pipe"))
    p = problem(move("a", 5), move("b", 5), move("c", 5), engines=engines)
    found = simulate(p, plan(p, hvx0="start a, start b, start c, wait a, wait b, wait c"))
    assert [times(found, n)["transfer_start"] for n in "abc"] == [0, 0, 5]


def test_a_gang_starts_when_all_its_threads_are_there() -> None:
    p = problem(on("hvx", "a", 7), run("g", held("hvx", 4, 2), overhead=1), on("hvx", "b", 2))
    found = simulate(p, plan(p, hvx0="a, g", hvx1="g, b"))
    assert starts(found) == {"a": 0, "g": 7, "b": 12}
    assert times(found, "g")["end"] == times(found, "g")["done"] == 12


def test_a_thread_is_free_before_the_result_exists() -> None:
    p = problem(run("a", held("hvx", 3), latency=5, overhead=2), on("hvx", "b", 1), on("hmx", "c", 1))
    found = simulate(p, plan(p, "a>c", hvx0="a, b", hmx0="c"))
    assert (times(found, "a")["end"], times(found, "a")["done"]) == (5, 7)
    assert starts(found) == {"a": 0, "b": 5, "c": 7}


def test_every_thread_of_an_op_is_held_for_its_own_time() -> None:
    p = problem(run("a", held("hvx", 9), held("hmx", 3)), on("hmx", "b", 1), on("hvx", "c", 1))
    found = simulate(p, plan(p, hvx0="a, c", hmx0="a, b"))
    assert starts(found) == {"a": 0, "b": 3, "c": 9}


def test_ops_without_a_thread_start_when_their_waits_are_over() -> None:
    p = problem(on("lut", "a", 4), run("mark"), run("pause", latency=6), on("lut", "b", 1))
    found = simulate(p, plan(p, "a>mark mark>pause a>b"))
    assert starts(found) == {"a": 0, "mark": 4, "pause": 4, "b": 4}
    assert found.makespan == 10


def test_nothing_starts_before_the_entry_is_over() -> None:
    p = problem(on("hvx", "a", 4), on("lut", "b", 1), move("c", 2, owner=1), entry_ticks=5)
    found = simulate(p, plan(p, hvx0="a", hvx1="start c, wait c"))
    assert starts(found) == {"a": 5, "b": 5, "c": 5}
    assert found.makespan == 9


def test_an_op_waits_for_all_that_it_waits_for() -> None:
    p = problem(on("hvx", "a", 4), on("hvx", "b", 6), on("hmx", "c", 1), move("d", 1, owner=1))
    found = simulate(p, plan(p, "a>c b>c c>d", hvx0="a", hvx1="b, start d, wait d", hmx0="c"))
    assert starts(found)["c"] == 6
    assert starts(found)["d"] == 7


def test_a_transfer_that_waits_blocks_its_owner() -> None:
    p = problem(on("hmx", "mm", 5), move("load", 1), on("hvx", "b", 1))
    found = simulate(p, plan(p, "mm>load", hmx0="mm", hvx0="start load, b, wait load"))
    assert starts(found) == {"mm": 0, "load": 5, "b": 5}


def test_a_deadlock_names_the_ops() -> None:
    p = problem(on("hvx", "a", 1), on("hvx", "b", 1), on("hmx", "c", 1))
    with pytest.raises(PlanError, match=r"never ends; blocked: a, b$"):
        simulate(p, plan(p, "b>a", hvx0="a, b", hmx0="c"))
    q = problem(move("load", 1))
    with pytest.raises(PlanError, match=r"blocked: load$"):
        simulate(q, plan(q, hvx0="start load"))  # nobody looks


def test_crossed_gangs_block_each_other() -> None:
    p = problem(run("g", held("hvx", 1, 2)), run("h", held("hvx", 1, 2)))
    with pytest.raises(PlanError, match=r"blocked: g, h$"):
        simulate(p, plan(p, hvx0="g, h", hvx1="h, g"))


def test_a_long_list_of_blocked_ops_is_cut() -> None:
    p = problem(*(on("hvx", f"o{i}", 1) for i in range(20)))
    with pytest.raises(PlanError, match=r"blocked: o0, o1, o2, o3, o4, o5, o6, o7 and 12 more$"):
        simulate(p, plan(p, "o19>o0", hvx0=", ".join(f"o{i}" for i in range(20))))


def test_a_plan_of_another_problem_is_refused() -> None:
    p = problem(on("hvx", "a", 1), on("hvx", "b", 1))
    other = plan(p, hvx0="a, b").model_copy(update={"assignments": (Assignment(op="b"), Assignment(op="a"))})
    with pytest.raises(PlanError, match="does not assign every op"):
        simulate(p, other)
