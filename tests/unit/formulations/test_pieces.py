"""Progress events: an op cut in two where another should begin inside it."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from in_process import InProcess
from shared_strategies import sharing_problems
from unit.shared_channels import moving, pulling, sharing

from hexloom import solve
from hexloom.formulations import shared_portfolio
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.pieces import Cut, can_be_cut, cut_decision, cut_op
from hexloom.formulations.problem import Buffer, Op, Problem, Scratchpad
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.evaluate import evaluator


def in_pieces(op: Op, pieces: int) -> Op:
    return op.model_copy(update={"pieces": pieces})


def replaced(problem: Problem, **fields: object) -> Problem:
    return problem.changed(**fields)


def late_start(pieces: int) -> Problem:
    """The first counterexample: event-driven plans take 24, the best start times 21."""
    load = in_pieces(pulling("load", 12, "dma", ddr=75), pieces)
    return sharing(load, pulling("z", 6, "hmx"), pulling("x", 12, "hvx", ddr=75), after="load>z")


@pytest.mark.parametrize(("pieces", "makespan"), [(1, 24), (2, 21), (12, 21)])
def test_a_progress_event_reaches_the_best_start_times(
    pieces: int, makespan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_portfolio, "Guard", InProcess)
    result = solve(late_start(pieces), contention="fluid", seed=0, time_limit_s=0.2)
    assert result.schedule is not None
    assert result.schedule.makespan == makespan
    assert not check_schedule(result.schedule)
    assert result.schedule.problem.ops[0].name == ("load" if pieces == 1 else "load+1")


def test_what_does_not_pay_is_not_cut() -> None:
    """One op alone, and two that never share: no cut makes them faster."""
    of = sharing(in_pieces(pulling("a", 10, ddr=80), 5), in_pieces(pulling("b", 10, ddr=20), 5))
    schedule = solve(of, contention="fluid", seed=0, time_limit_s=0.2).schedule
    assert schedule is not None and schedule.makespan == 10
    assert schedule.problem == of


def test_parts_of_a_transfer_are_transfers_in_any_order() -> None:
    move = in_pieces(moving("t", 10, "hvx", issue=1, poll=2, ddr=50), 4)
    of = sharing(move, pulling("a", 3), pulling("b", 3), after="a>t t>b", owners="hvx")
    cut = cut_op(of, Cut(0, 1))
    assert [(op.name, op.modes[0].latency_ticks, op.pieces) for op in cut.ops[:2]] == [("t+1", 2, 1), ("t+2", 8, 3)]
    assert {(e.before, e.after) for e in cut.precedences} == {("a", "t+1"), ("a", "t+2"), ("t+1", "b"), ("t+2", "b")}
    assert all(op.modes[0].dma == of.ops[0].modes[0].dma for op in cut.ops[:2])


def test_a_worker_does_the_parts_in_order_and_pays_its_overhead_once() -> None:
    mode = pulling("a", 10, "hvx", ddr=50).modes[0].model_copy(update={"overhead_ticks": 3, "latency_ticks": 12})
    of = sharing(Op(name="a", modes=(mode,), pieces=2, deadline_ticks=40), pulling("a+1", 1), after="a>a+1")
    shared = Buffer(name="b", size_bytes=4, ops=("a", "a+1"))
    of = replaced(of, buffers=(shared,), scratchpad=Scratchpad(total_bytes=8))
    cut = cut_op(of, Cut(0, 1))
    first, second = cut.ops[:2]
    assert (first.name, second.name) == ("a++1", "a++2")
    parts = [(m.overhead_ticks, m.uses[0].ticks, m.latency_ticks) for m in (first.modes[0], second.modes[0])]
    assert parts == [(3, 6, 6), (0, 4, 6)]
    assert (first.deadline_ticks, second.deadline_ticks) == (None, 40)
    assert {(e.before, e.after) for e in cut.precedences} == {("a++1", "a++2"), ("a++2", "a+1")}
    assert cut.buffers[0].ops == ("a++1", "a++2", "a+1")


def test_many_ops_are_not_tried() -> None:
    ops = [in_pieces(pulling(f"o{i}", 2, ddr=60), 2) for i in range(61)]
    assert not can_be_cut(sharing(*ops)) and can_be_cut(sharing(*ops[:60]))


@settings(max_examples=30)
@given(sharing_problems(max_ops=4), st.data())
def test_a_plan_keeps_its_times_when_an_op_is_cut(problem: Problem, data: st.DataObject) -> None:
    """The same work on the same thread, one part right after the other: every other op keeps its times too."""

    def whole(op: Op) -> bool:
        return all(
            mode.dma is None and mode.latency_ticks >= 2 and all(u.ticks == mode.latency_ticks for u in mode.uses)
            for mode in op.modes
        )

    candidates = [i for i, op in enumerate(problem.ops) if whole(op)]
    assume(candidates)
    i = data.draw(st.sampled_from(candidates))
    op = problem.ops[i]
    n = len(problem.ops)
    decision = list_schedule(problem, Policy(tuple(float(-k) for k in range(n)), (0,) * n))
    assume(decision is not None)
    assert decision is not None
    offered = replaced(problem, ops=(*problem.ops[:i], in_pieces(op, 2), *problem.ops[i + 1 :]))
    before = evaluator("fluid")(problem, decision)
    after = evaluator("fluid")(cut_op(offered, Cut(i, 1)), cut_decision(decision, offered, Cut(i, 1)))
    assert [*after.ended[:i], *after.ended[i + 1 :]] == pytest.approx(list(before.ended))
    assert after.makespan == pytest.approx(before.makespan)
