"""Bounds of small problems, computed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unit.small import buffer, held, move, on, problem, run

from hexloom.formulations import bounds as bounds_module
from hexloom.formulations import heads_tails as module
from hexloom.formulations import lifetimes
from hexloom.formulations.bounds import Bound, lower_bounds
from hexloom.formulations.heads_tails import WINDOW_LIMIT, Grid, engine_demands, heads_and_tails
from hexloom.formulations.problem import Engine

if TYPE_CHECKING:
    import pytest

    from hexloom.formulations.problem import Problem


def bound(p: Problem, name: str) -> Bound:
    return {b.name: b for b in lower_bounds(p).found}[name]


def test_critical_path_follows_durations_and_the_entry() -> None:
    """2 + (1 + 5 + 1) + 3: issue and poll are on the path; the other op is shorter."""
    p = problem(move("a", 5, issue=1, poll=1), on("hvx", "b", 3), on("hmx", "c", 9), after="a>b", entry_ticks=2)
    found = bound(p, "critical_path")
    assert (found.ticks, found.engine) == (12, None)
    assert found.detail == "2 ops in a row from a to b"
    assert lower_bounds(p).best == found


def test_engine_work_is_shared_by_its_units() -> None:
    """Three times 5 on two units are 7.5; with a join of 1 each 9. The shortest mode counts."""
    p = problem(*(on("hvx", f"a{i}", 5) for i in range(3)), entry_ticks=2)
    found = bound(p, "engine_work")
    assert (found.ticks, found.engine, found.detail) == (2 + 8, "hvx", "all work on hvx over its 2 units")
    joined = problem(*(on("hvx", f"a{i}", 5, overhead=1) for i in range(3)))
    assert bound(joined, "engine_work").ticks == 9
    gang = problem(run("g", held("hvx", 4, 2)), on("hvx", "a", 2))
    assert bound(gang, "engine_work").ticks == 5


def test_an_engine_that_every_op_can_avoid_bounds_nothing() -> None:
    both = on("hvx", "a", 9).model_copy(update={"modes": (*on("hvx", "a", 9).modes, *on("hmx", "a", 7).modes)})
    found = lower_bounds(problem(both))
    assert {b.name for b in found.found} == {"critical_path"}
    assert found.best.ticks == 7


def test_channel_bytes_are_the_work_of_a_pipe() -> None:
    found = bound(problem(*(move(f"m{i}", 4, owner=i % 2) for i in range(3))), "channel_bytes")
    assert (found.ticks, found.engine, found.detail) == (12, "ddr", "all transfers pass ddr")


def test_channel_bytes_are_also_what_ops_hold_of_a_share() -> None:
    """Overhead and a late result count: 3 x (1 + 4) ticks x 3 of 5."""
    ops = [run(n, held("hmx", 1), held("bus", 1, 3), latency=4, overhead=1) for n in "abc"]
    found = bound(
        problem(*ops, engines=(Engine(name="hmx"), Engine(name="bus", units=5, kind="share"))), "channel_bytes"
    )
    assert (found.ticks, found.engine) == (9, "bus")
    assert found.detail == "all demands on bus, each for the whole life of its op"


def test_issue_and_poll_are_work_of_the_owner() -> None:
    p = problem(*(move(f"m{i}", 1, issue=3, poll=1) for i in range(5)))
    assert bound(p, "engine_work").ticks == -(-5 * 4 // 2)  # hvx has two units; which one is not asked


def test_heads_and_tails_frame_the_work_of_an_engine() -> None:
    """No job of 5 before 2, and 3 follow the last: 2 + 3 x 5 + 3."""
    ops = []
    for i in range(3):
        ops += [on("hvx", f"a{i}", 2), on("hmx", f"m{i}", 5), on("hvx", f"z{i}", 3)]
    p = problem(*ops, after=" ".join(f"a{i}>m{i} m{i}>z{i}" for i in range(3)))
    found = bound(p, "heads_tails")
    assert (found.ticks, found.engine) == (20, "hmx")
    assert all(number in found.detail for number in ("hmx", "2", "15", "3"))


def test_a_window_may_leave_early_work_out() -> None:
    """m0 can start at 0, the other two only at 20: 20 + 2 x 5 beats all of it, 0 + 15."""
    p = problem(
        on("hvx", "wait", 20), on("hmx", "m0", 5), on("hmx", "m1", 5), on("hmx", "m2", 5), after="wait>m1 wait>m2"
    )
    assert bound(p, "heads_tails").ticks == 30


def test_many_heads_are_thinned_out_and_still_hold() -> None:
    n = 3 * WINDOW_LIMIT
    ops = [run(f"p{i}", latency=i) for i in range(n)] + [on("hmx", f"m{i}", 1) for i in range(n)]
    p = problem(*ops, after=" ".join(f"p{i}>m{i}" for i in range(n)))
    assert bound(p, "heads_tails").ticks == n  # i + (n - i)


def test_stages_that_share_an_engine_have_a_steady_interval() -> None:
    """Four tiles of load 2, cook 3 and eat 1 on hvx[0..1] as gangs: 2 + 4 x (3 + 1)."""
    ops, edges = [], []
    for i in range(4):
        ops += [
            move(f"l{i}", 2, task="t", stage="load", tile=i),
            run(f"c{i}", held("hvx", 3, 2), task="t", stage="cook", tile=i),
            on("hmx", f"m{i}", 1, task="t", stage="mm", tile=i),
            run(f"e{i}", held("hvx", 1, 2), task="t", stage="eat", tile=i),
        ]
        edges += [f"l{i}>c{i}", f"c{i}>m{i}", f"m{i}>e{i}"]
    p = problem(*ops, after=" ".join(edges))
    found = bound(p, "steady_interval")
    assert (found.ticks, found.engine) == (18, "hvx")
    assert found.detail == "stages cook + eat of t share hvx over 4 tiles"


def test_one_stage_or_one_tile_has_no_steady_interval() -> None:
    one_stage = problem(*(on("hmx", f"m{i}", 1, task="t", stage="m", tile=i) for i in range(3)))
    one_tile = problem(*(on("hmx", f"m{i}", 1, task="t", stage=f"s{i}", tile=0) for i in range(3)))
    for p in (one_stage, one_tile):
        assert "steady_interval" not in {b.name for b in lower_bounds(p).found}


def test_of_equal_bounds_the_simplest_names_the_bottleneck() -> None:
    found = lower_bounds(problem(on("hmx", "a", 5), on("hmx", "b", 5)))
    assert [(b.name, b.ticks) for b in found.found] == [("engine_work", 10), ("heads_tails", 10), ("critical_path", 5)]


# --- heads and tails ------------------------------------------------------------------------------------


def test_a_head_counts_what_ancestors_bring_to_one_engine() -> None:
    """Three loads of 4 on one pipe come before the job: 12, not 4. The tail of a load is what follows it."""
    p = problem(*(move(f"l{i}", 4, owner=i % 2) for i in range(3)), on("hmx", "m", 5), after="l0>m l1>m l2>m")
    ht = heads_and_tails(p, engine_demands(p, Grid(p, "none")), Grid(p, "none"))
    assert list(ht.head) == [0, 0, 0, 12]
    assert list(ht.duration) == [4, 4, 4, 5]
    assert list(ht.tail) == [5, 5, 5, 0]
    assert lower_bounds(p).best.ticks == 17


def test_many_ops_follow_paths_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DENSE_LIMIT", 3)
    p = problem(*(move(f"l{i}", 4) for i in range(3)), on("hmx", "m", 5), after="l0>m l1>m l2>m", entry_ticks=1)
    ht = heads_and_tails(p, engine_demands(p, Grid(p, "none")), Grid(p, "none"))
    assert list(ht.head) == [1, 1, 1, 5]


def test_how_much_is_looked_at_at_once_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [o for k in range(3) for o in (move(f"l{k}", 4), on("hvx", f"c{k}", 3), on("hmx", f"m{k}", 5 + k))]
    p = problem(*ops, after="l0>c0 c0>m0 l1>c0 l2>c2 c2>m2 l1>m2", entry_ticks=1)

    def found() -> tuple[object, list[int], list[int]]:
        bounds = lower_bounds(p)
        return bounds.found, bounds.heads_tails.head.tolist(), bounds.heads_tails.tail.tolist()

    together = found()
    for name, most in (("BATCH_OPS", 1), ("MOST_NUMBERS", 1)):
        monkeypatch.setattr(module, name, most)
        monkeypatch.setattr(bounds_module, name, most, raising=False)
        assert found() == together


def test_lead_and_trail_are_outside_the_engine() -> None:
    """Each transfer: issue 1, pipe 4, latency 2 more, poll 3: the pipe starts at 1 and 5 ticks follow its end."""
    p = problem(move("a", 4, latency=6, issue=1, poll=3, owner=0), move("b", 4, latency=6, issue=1, poll=3, owner=1))
    assert bound(p, "heads_tails").ticks == 1 + 8 + 5


def test_bytes_for_as_long_as_they_must_live() -> None:
    """Two lives of 4 + 5 + 6 with 3 B each in 4 B beside a resident: 90 over 4; what lives for ever is not counted."""
    ops = [on(e, f"{n}{k}", t) for k in range(2) for e, n, t in (("lut", "l", 4), ("hvx", "v", 5), ("hmx", "m", 6))]
    buffers = (*(buffer(f"b{k}", 3, f"l{k}", f"m{k}") for k in range(2)), buffer("home", 2, resident=True))
    p = problem(*ops, after="l0>v0 v0>m0 l1>v1 v1>m1", buffers=buffers, capacity=6)
    found = bound(p, "scratchpad")
    assert (found.ticks, found.engine) == (23, None)
    assert found.detail == "scratchpad of 4 B: head 0 ticks + bytes x time 23 ticks + tail 0 ticks"
    assert [b.name for b in lower_bounds(p).found][:2] == ["turns", "scratchpad"]


def test_a_life_holds_the_work_of_its_users_on_one_engine() -> None:
    """Four jobs of 5 without a path share hmx and 4 B of 6, two of 3 share 4 B for no longer than the longer one."""
    ops = [*(on("hmx", f"m{k}", 5) for k in range(4)), on("hvx", "v0", 3), on("lut", "v1", 2)]
    buffers = (buffer("x", 4, "m0", "m1", "m2", "m3"), buffer("y", 4, "v0", "v1"))
    p = problem(*ops, buffers=buffers, capacity=6)
    assert bound(p, "scratchpad").ticks == -(-(4 * 20 + 4 * 3) // 6)
    assert bound(p, "turns").ticks == 20 + 3


def test_buffers_that_never_fit_together_take_turns() -> None:
    """x: head 2, life 4, tail 1; y: head 3, life 6, tail 5; one of them is the first, the other one the last."""
    ops = [run("i0", latency=2), on("hvx", "a", 4), run("o0", latency=1)]
    ops += [run("i1", latency=3), on("hmx", "b", 6), run("o1", latency=5)]
    buffers = (buffer("x", 4, "a"), buffer("y", 4, "b"), buffer("small", 1, "a"))
    p = problem(*ops, after="i0>a a>o0 i1>b b>o1", buffers=buffers, capacity=7)
    found = bound(p, "turns")
    assert found.ticks == min(2 + 10 + 5, 3 + 10 + 1)
    assert found.detail == "2 buffers, no two fit into 7 B: head 3 ticks + lives 10 ticks + tail 1 ticks"
    roomy = problem(*ops, after="i0>a a>o0 i1>b b>o1", buffers=buffers, capacity=8)
    assert "turns" not in {b.name for b in lower_bounds(roomy).found}


def test_what_lives_for_no_time_takes_no_turn() -> None:
    """A mark shares an instant with anything: b needs nothing before it, the rest of 9 after it may follow at once."""
    ops = (run("mark"), run("late", latency=9), on("hmx", "b", 9))
    p = problem(*ops, after="mark>late", buffers=(buffer("x", 4, "mark"), buffer("y", 4, "b")), capacity=4)
    assert "turns" not in {b.name for b in lower_bounds(p).found}


def test_a_life_has_heads_and_tails() -> None:
    """A delay of 3 before all users, one of 2 after; of two users without a path the longer one counts."""
    ops = (run("in", latency=3), on("hvx", "a", 4), on("hmx", "b", 5), run("out", latency=2))
    p = problem(*ops, after="in>a in>b a>out b>out", buffers=(buffer("x", 4, "a", "b"),), capacity=4)
    assert bound(p, "scratchpad").ticks == 3 + 5 + 2


def test_a_life_of_a_transfer_counts_issue_and_poll() -> None:
    p = problem(move("d", 5, issue=1, poll=1), buffers=(buffer("x", 4, "d"),), capacity=4)
    assert bound(p, "scratchpad").ticks == 7


def test_no_bytes_no_bound() -> None:
    p = problem(on("hvx", "a", 4), buffers=(buffer("x", 0, "a"), buffer("home", 2, resident=True)), capacity=4)
    assert "scratchpad" not in {b.name for b in lower_bounds(p).found}


def test_when_paths_take_too_long_a_life_is_its_longest_op(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetimes, "LIFE_STEPS", 0)
    p = problem(on("hvx", "a", 4), on("hmx", "b", 5), after="a>b", buffers=(buffer("x", 4, "a", "b"),), capacity=4)
    assert bound(p, "scratchpad").ticks == 5
