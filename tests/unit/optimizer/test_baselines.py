from __future__ import annotations

from typing import TYPE_CHECKING

from unit.small import buffer, held, move, on, problem, run

from hexloom.optimizer.baselines import back_to_back, baselines
from hexloom.optimizer.lower import TaskLoop
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.restrict import decision_of_loop, restrict, with_waits
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def loop(task: str, *ops: str, staged: bool = False, entry: int = 2) -> TaskLoop:
    return TaskLoop(task, ops, staged, entry)


def pipeline() -> Problem:
    """Two tiles of load 4, cook 3, mm 5 (a task), and one op of another task."""
    ops = []
    for k in range(2):
        ops += [
            move(f"load{k}", 4, task="t", stage="load", tile=k),
            on("hvx", f"cook{k}", 3, task="t", stage="cook", tile=k),
            on("hmx", f"mm{k}", 5, task="t", stage="mm", tile=k),
        ]
    edges = "load0>cook0 cook0>mm0 load1>cook1 cook1>mm1"
    return problem(*ops, on("hvx", "n", 6, task="u", stage="n"), after=edges, entry_ticks=2)


LOOPS = (loop("t", "load0", "load1", "cook0", "mm0", "cook1", "mm1"), loop("u", "n"))


def test_serial_is_every_stage_after_the_other() -> None:
    found = baselines(pipeline(), LOOPS)
    assert [t.staged_ticks for t in found.tasks] == [2 * (4 + 3 + 5), 6]
    assert found.serial == 24 + 6 + 2 * 2


def test_existing_is_task_after_task_each_with_its_loop() -> None:
    """Loads 0-4 and 4-8, cook 4-7 and 8-11, mm 7-12 and 12-17; then 6 for the other task, an entry each."""
    found = baselines(pipeline(), LOOPS)
    assert [t.loop_ticks for t in found.tasks] == [17, 6]
    assert found.existing == 17 + 6 + 2 * 2


def test_one_stage_at_a_time_overlaps_nothing() -> None:
    found = baselines(pipeline(), (loop("t", *LOOPS[0].loop, staged=True), LOOPS[1]))
    assert found.existing == found.serial == 34


def test_slices_of_one_stage_run_side_by_side() -> None:
    """Three slices of 4 on two threads: 8; with their loads on one pipe 2 + 2 + 2."""
    slices = [run(f"s{w}", held("hvx", 4, 1, (w % 2,)), task="t", stage="s", tile=0) for w in range(3)]
    loads = [move(f"l{w}", 2, owner=w % 2, task="t", stage="l", tile=0) for w in range(3)]
    p = problem(*loads, *slices)
    assert baselines(p, (loop("t", *(op.name for op in p.ops)),)).serial == 6 + 8 + 2


def test_the_fastest_mode_counts_and_one_that_cannot_run_does_not() -> None:
    slow, fast, wide = on("hvx", "a", 9), on("hmx", "a", 4), run("a", held("hvx", 1, 3))
    op = slow.model_copy(update={"modes": (*slow.modes, *wide.modes, *fast.modes)})
    p = problem(op)
    decision = decision_of_loop(p, [0])
    assert decision is not None
    assert decision.modes == (2,)


def test_a_loop_that_does_not_fit_has_no_time() -> None:
    """a and b may run in either order; today's loop has both buffers alive at once."""
    p = problem(
        *(on("hvx", n, 1, task="t") for n in ("a0", "b0", "a1", "b1")),
        after="a0>a1 b0>b1",
        buffers=(buffer("x", 8, "a0", "a1"), buffer("y", 8, "b0", "b1")),
        capacity=8,
    )
    assert baselines(p, (loop("t", "a0", "b0", "a1", "b1"),)).existing is None
    fits = baselines(p, (loop("t", "a0", "a1", "b0", "b1"),))
    assert fits.existing == 2 + 4
    assert back_to_back(p, baselines(p, (loop("t", "a0", "b0", "a1", "b1"),))) is None


def test_back_to_back_is_existing_in_one_entry() -> None:
    p = pipeline()
    found = baselines(p, LOOPS)
    decision = back_to_back(p, found)
    assert decision is not None
    timeline = simulate(p, make_plan(p, decision))
    assert timeline.makespan == 2 + 17 + 6
    assert timeline.times["n"].start == 2 + 17
    assert found.existing is not None and timeline.makespan == found.existing - 2


def test_back_to_back_needs_tasks_that_do_not_depend_on_each_other_both_ways() -> None:
    p = problem(*(on("hvx", n, 1, task=n[0]) for n in ("a0", "b", "a1")), after="a0>b b>a1")
    assert back_to_back(p, baselines(p, (loop("a", "a0", "a1"), loop("b", "b")))) is None


def test_the_owner_waits_right_before_the_first_that_needs_it() -> None:
    p = problem(move("a", 1), move("b", 1), on("hvx", "c", 1), on("hvx", "d", 1), move("e", 1), after="b>c a>d")
    modes = (0,) * 5
    assert with_waits(p, modes, range(5)) == (0, 1, ~1, 2, ~0, 3, 4, ~4)


def test_buffers_share_as_late_as_they_can() -> None:
    """Room for all: nobody shares. Room for two of three: the third takes the place of the oldest."""
    ops = [on("hvx", n, 1) for n in "abc"]
    for capacity, distinct in ((24, 3), (16, 2), (8, 1)):
        p = problem(*ops, buffers=tuple(buffer(f"x{n}", 8, n) for n in "abc"), capacity=capacity)
        decision = decision_of_loop(p, range(3))
        assert decision is not None
        assert len(set(decision.offsets)) == distinct
        if distinct == 2:
            assert decision.offsets[2] == decision.offsets[0] != decision.offsets[1]
    assert decision_of_loop(problem(*ops, buffers=(buffer("x", 9, "a"),), capacity=8), range(3)) is None


def test_restricting_keeps_what_a_decision_says_of_the_rest() -> None:
    p = pipeline()
    decision = back_to_back(p, baselines(p, LOOPS))
    assert decision is not None
    keep = frozenset(("load1", "cook1", "n"))
    part, partial = restrict(p, decision, keep, "some")
    assert [op.name for op in part.ops] == ["load1", "cook1", "n"]
    assert [(e.before, e.after) for e in part.precedences] == [("load1", "cook1")]
    assert (part.name, part.entry_ticks) == ("some", 0)
    assert partial.actions == (0, ~0, 1, 2)
    assert partial.guards == ()  # mm1 > n has one end outside
    assert simulate(part, make_plan(part, partial)).makespan == 4 + 3 + 6


def test_tasks_that_share_a_buffer_are_not_put_back_to_back() -> None:
    ops = (on("hvx", "a", 1, task="t"), on("hvx", "b", 1, task="u"), on("hvx", "c", 1, task="t"))
    shared = problem(*ops, buffers=(buffer("x", 5, "a", "b"), buffer("y", 4, "c")), capacity=8)
    found = baselines(shared, (loop("t", "a", "c"), loop("u", "b")))
    assert back_to_back(shared, found) is None
