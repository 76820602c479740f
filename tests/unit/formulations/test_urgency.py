from __future__ import annotations

from typing import TYPE_CHECKING

from unit.small import held, move, on, problem, run

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.urgency import busiest_engine, due_priority, head_start
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def tiles() -> Problem:
    """Loads of 2 and 1, jobs of 5 on hmx, a store of 1 and one of 2 on both threads."""
    ops = [move("l0", 2), on("hmx", "j0", 5), run("s0", held("hvx", 1, 2))]
    ops += [move("l1", 1), on("hmx", "j1", 5), run("s1", held("hvx", 2, 2))]
    return problem(*ops, after="l0>j0 j0>s0 l1>j1 j1>s1")


def test_due_dates_follow_the_busiest_engine_backwards() -> None:
    """Bound 1 + 10 + 1: the shorter head (1) goes first; j0 must start at 6, j1 at 1, what is before them sooner."""
    p = tiles()
    bounds = lower_bounds(p)
    assert (busiest_engine(p, bounds), bounds.best.ticks) == ("hmx", 12)
    due = due_priority(p, bounds, (), ahead=5)
    assert {op.name: -d for op, d in zip(p.ops, due, strict=True)} == {
        "l0": 4, "j0": 6, "s0": 11, "l1": 0, "j1": 1, "s1": 10
    }  # fmt: skip
    sooner = due_priority(p, bounds, (), ahead=1)
    assert -sooner[p.op_index["s1"]] == 6 - 2


def test_the_first_load_is_let_through() -> None:
    """Issued at one instant, l0 would be served first: the file names it first."""
    p = tiles()
    bounds = lower_bounds(p)
    guards = head_start(p, bounds, ())
    assert guards == ((3, 0),)
    priority = due_priority(p, bounds, (), ahead=5)
    with_start = list_schedule(p, Policy(priority, (0,) * 6, guards))
    without = list_schedule(p, Policy(priority, (0,) * 6))
    assert with_start is not None and without is not None
    assert evaluate(p, with_start).makespan == 12
    assert evaluate(p, without).makespan > 12


def test_without_a_single_unit_there_is_no_busiest_engine() -> None:
    p = problem(on("hvx", "a", 3), on("hvx", "b", 3))
    assert busiest_engine(p, lower_bounds(p)) is None
    assert head_start(p, lower_bounds(p), ()) == ()


def test_foresight_keeps_threads_for_a_job_of_all_that_is_about_to_be_ready() -> None:
    """a ends at 2, then g needs both threads; x of 5 would hold one of them until 5."""
    p = problem(on("hmx", "a", 2), run("g", held("hvx", 3, 2)), on("hvx", "x", 5), after="a>g")
    due = (0.0, -2.0, -9.0)
    blind = list_schedule(p, Policy(due, (0, 0, 0)))
    seeing = list_schedule(p, Policy(due, (0, 0, 0), foresight=True))
    assert blind is not None and seeing is not None
    assert evaluate(p, blind).start == (0, 5, 0)
    assert evaluate(p, seeing).start == (0, 2, 5)
