"""Windows: what is cut out of a schedule, what stays when it is put back, and that the result is a plan."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from in_process import InProcess
from unit.formulations.test_rings import two_matmuls
from unit.small import buffer, move, on, problem

from hexloom import solve
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat import windows
from hexloom.formulations.flat.child import model_of
from hexloom.formulations.flat.cut import Stretch, cut, put_back, stretch_at
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Job
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution
from hexloom.formulations.flat.verify import broken_rule
from hexloom.formulations.flat.windows import WindowSearch, counted_schedule
from hexloom.formulations.late_starts import late_starts
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan

if TYPE_CHECKING:
    from hexloom.formulations.dispatch import Dispatch
    from hexloom.formulations.policy import Policy
    from hexloom.formulations.problem import Problem


def chain(count: int, capacity: int = 8) -> Problem:
    """Load for 2, work for 3, one pair after the other on its engines; 2 B from each load to its work."""
    ops, edges, buffers = [], [], []
    for k in range(count):
        ops += [on("lut", f"l{k}", 2, tile=k), on("hmx", f"w{k}", 3, tile=k)]
        edges.append(f"l{k}>w{k}")
        buffers.append(buffer(f"b{k}", 2, f"l{k}", f"w{k}"))
    return problem(*ops, after=" ".join(edges), buffers=tuple(buffers), capacity=capacity)


def one_after_the_other(p: Problem, gap: int = 0) -> FlatSolution:
    """Every op after the one in front of it in the file, with a gap between them; all buffers at address 0."""
    start, at = [], 0
    for op in p.ops:
        start.append(at)
        at += op.modes[0].duration_ticks + gap
    known = tuple(s + op.modes[0].duration_ticks for s, op in zip(start, p.ops, strict=True))
    offsets = dict.fromkeys(range(len(p.buffers)), 0)
    return FlatSolution(tuple(start), tuple(start), known, (0,) * len(start), {}, offsets, known[-1])


def solved(p: Problem, times: FlatSolution, stretch: Stretch, *, keep: bool, sequence: bool = False) -> FlatSolution:
    piece = cut(p, lower_bounds(p).heads_tails, times, stretch, keep=keep)
    options = FlatOptions(
        addresses=True, upper=times.makespan + 20, lower=0, seconds=5, deterministic=True, seed=0, workers=1,
        presolve=False,
    )  # fmt: skip
    window = replace(piece.window, sequence=sequence)
    found = InProcess().solve(Job(piece.problem, piece.heads_tails, options, None, window=window)).solution
    assert found is not None
    return put_back(times, piece, found)


def test_a_stretch_is_what_starts_in_its_time() -> None:
    times = one_after_the_other(chain(3))
    assert stretch_at(times, 1, 2) == Stretch(frozenset({1, 2}), 2, 7 + 2, 2)
    assert stretch_at(times, 4, 9).free == {4, 5}


def test_only_what_can_meet_the_window_is_cut_out_and_keeps_its_address() -> None:
    p = chain(6)
    times = one_after_the_other(p)
    piece = cut(p, lower_bounds(p).heads_tails, times, Stretch(frozenset({4, 5}), 10, 15, 2))
    assert [op.name for op in piece.problem.ops] == ["l2", "w2", "l3", "w3"]
    assert [(b.name, b.address) for b in piece.problem.buffers] == [("b2", None), ("b3", 0)]
    assert (piece.window.free, piece.window.later) == ({0, 1}, {2, 3})


def test_what_lives_through_the_window_is_part_of_it() -> None:
    """``long`` is used by the first and the last op only: both are part of the piece, and it keeps its address."""
    p = chain(5)
    p = p.changed(buffers=(*p.buffers, buffer("long", 4, "l0", "w4")))
    times = one_after_the_other(p)
    times = replace(times, offsets={**(times.offsets or {}), 5: 4})
    piece = cut(p, lower_bounds(p).heads_tails, times, Stretch(frozenset({4}), 10, 12, 0))
    assert {"l0", "w4"} <= {op.name for op in piece.problem.ops}
    assert {b.name: b.address for b in piece.problem.buffers}["long"] == 4


def test_all_that_is_later_moves_with_what_the_window_saves() -> None:
    """Two loads run beside works: 2 + 3 * 3 ticks instead of 3 * 5, and the third pair keeps its own distance."""
    p = chain(3)
    times = one_after_the_other(p)
    found = solved(p, times, stretch_at(times, 0, 4), keep=True)
    assert found.makespan == 11
    assert found.start[4:] == tuple(at - 4 for at in times.start[4:])
    assert broken_rule(p, found) is None


def test_addresses_are_found_by_moving_no_more_than_they_need() -> None:
    """Only one buffer of 2 fits into 3 B, but both would be alive: the second load waits for the first work."""
    p = chain(2, capacity=3)
    counted = FlatSolution((0, 2, 2, 5), (0, 2, 2, 5), (2, 5, 4, 8), (0,) * 4, {}, None, 8)
    for sequence in (True, False):
        found = solved(p, counted, stretch_at(counted, 0, 4), keep=False, sequence=sequence)
        assert found.makespan == 10
        assert broken_rule(p, found) is None


def test_a_sequence_keeps_its_order() -> None:
    """In the order of the schedule the long op goes first, and the whole takes 9; the other way round it takes 7."""
    p = problem(on("hmx", "long", 4), on("hmx", "short", 2), on("lut", "after", 3), after="short>after")
    times = FlatSolution((0, 4, 6), (0, 4, 6), (4, 6, 9), (0, 0, 0), {}, {}, 9)
    whole = stretch_at(times, 0, 3)
    assert solved(p, times, whole, keep=True, sequence=True).makespan == 9
    assert solved(p, times, whole, keep=True).makespan == 6


def test_transfers_are_issued_in_the_order_in_which_they_are_served() -> None:
    p = problem(move("a", 5), move("b", 1), on("hmx", "c", 5), after="b>c")
    times = FlatSolution((0, 0, 6), (0, 5, 6), (5, 6, 11), (0, 0, 0), {}, {}, 11)
    found = solved(p, times, stretch_at(times, 0, 3), keep=True)
    assert found.makespan == 6
    assert (found.start[1], 1) < (found.start[0], 0)
    decision = decision_of(p, found, late_issues=False)
    assert decision is not None
    assert evaluate(p, decision).makespan == 6


def test_loads_start_as_late_as_their_followers_and_the_pipe_allow() -> None:
    """Two transfers of 2 ticks before c, which starts at 9: they move at 5 and 7."""
    buffers = (buffer("x", 2, "a", "c"), buffer("y", 2, "b", "c"))
    p = problem(move("a", 2), move("b", 2), on("hmx", "c", 3), after="a>c b>c", buffers=buffers, capacity=8)
    start, moved, _ = late_starts(p, (0,) * 3, (((),), ((),), ((0,),)), ((0, 0, 9), (0, 2, 9), (2, 4, 12)))
    assert moved == (5, 7, 9)
    assert start == (5, 7, 9)


def test_an_op_stays_where_its_bytes_would_not_fit_later() -> None:
    """If b began at 10, right before d, 1 B of a and 1 B of b would be alive at once beside the 2 B of c."""
    ops = (on("lut", "a", 1), on("lut", "b", 1), on("hmx", "c", 9), on("hmx", "d", 1))
    buffers = (buffer("x", 1, "a", "b"), buffer("y", 1, "b", "d"), buffer("z", 2, "c"))
    p = problem(*ops, after="a>b b>d a>c", buffers=buffers, capacity=3)
    times = ((0, 1, 2, 11), (0, 1, 2, 11), (1, 2, 11, 12))
    start, _, _ = late_starts(p, (0,) * 4, (((0,),), ((0,),), ((0,),), ((0,),)), times)
    assert start[1] == 1


@pytest.mark.parametrize("capacity", [9, 10, 11])
def test_window_search_ends_with_plans_that_pass_the_checker(capacity: int) -> None:
    p = two_matmuls(capacity)
    search = WindowSearch(InProcess(), p, lower_bounds(p), evaluate, 1.0, seed=0)  # type: ignore[arg-type]
    best = search.run(Fraction(1, 10))
    assert best is not None
    assert check_plan(p, make_plan(p, best[0])) == []
    assert best[1].makespan >= lower_bounds(p).best.ticks


def test_a_plan_that_meets_the_bound_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first list schedule takes 2 ticks and six times 3, as the bound says: no other is asked for."""
    asked: list[Policy] = []

    def counting(p: Problem, policy: Policy) -> Dispatch | None:
        asked.append(policy)
        return counted_schedule(p, policy)

    monkeypatch.setattr(windows, "counted_schedule", counting)
    p = chain(6)
    guard = InProcess(lazy=True)
    search = WindowSearch(guard, p, lower_bounds(p), evaluate, 1.0, seed=0)  # type: ignore[arg-type]
    best = search.run()
    assert best is not None
    assert best[1].makespan == 20
    assert len(asked) == 1
    assert not guard.prepared, "a solver was loaded for nothing"


def test_large_problems_go_through_windows_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "WINDOWS_OPS", 6)
    monkeypatch.setattr(portfolio, "Guard", InProcess)
    first = solve(two_matmuls(9), time_limit_s=0.5, seed=1)
    assert first.makespan_us == solve(two_matmuls(9), time_limit_s=0.5, seed=1).makespan_us
    monkeypatch.setattr(portfolio, "WINDOWS_OPS", 1000)
    assert first.makespan_us == solve(two_matmuls(9), time_limit_s=0.5, seed=1).makespan_us


def test_a_window_is_solved_by_its_own_model() -> None:
    p = chain(2)
    times = one_after_the_other(p)
    piece = cut(p, lower_bounds(p).heads_tails, times, stretch_at(times, 0, 4))
    options = FlatOptions(True, 20, 0, 1, deterministic=True, seed=0, workers=1)
    model = model_of(Job(piece.problem, piece.heads_tails, options, None, window=piece.window))
    hinted = set(model.model.proto.solution_hint.vars)
    assert len(hinted) == len(model.model.proto.solution_hint.vars), "a variable has two hints"


def test_a_window_with_an_op_of_no_length_is_a_valid_model() -> None:
    """Its end is the variable of its start, which may be hinted once only."""
    p = problem(on("lut", "a", 2), on("hmx", "mark", 0), on("hmx", "b", 3), after="a>mark mark>b")
    times = one_after_the_other(p)
    piece = cut(p, lower_bounds(p).heads_tails, times, stretch_at(times, 0, 3))
    options = FlatOptions(addresses=False, upper=9, lower=0, seconds=5, deterministic=True, seed=0, workers=1)
    model = model_of(Job(piece.problem, piece.heads_tails, options, None, window=piece.window))
    assert model.model.validate() == ""


def drained(count: int, capacity: int) -> Problem:
    """Per tile a load of 8 B, two steps that read half of it each, in turn, and work on what they write."""
    ops, edges, buffers = [], [], []
    for k in range(count):
        ops += [on("lut", f"l{k}", 4, tile=k)]
        for j in range(2):
            ops += [on("hvx", f"r{k}.{j}", 2 + j, tile=k), on("hmx", f"m{k}.{j}", 3, tile=k)]
            edges += [f"l{k}>r{k}.{j}", f"r{k}.{j}>m{k}.{j}"]
            buffers.append(buffer(f"raw{k}.{j}", 4, f"l{k}", f"r{k}.0", *[f"r{k}.1"] * j, part_of=f"raw{k}"))
            buffers.append(buffer(f"o{k}.{j}", 3 + j, f"r{k}.{j}", f"m{k}.{j}"))
        edges.append(f"r{k}.0>r{k}.1")
    return problem(*ops, after=" ".join(edges), buffers=tuple(buffers), capacity=capacity)


def test_parts_of_a_range_are_cut_out_together() -> None:
    """The range of the first tile stays where only its second step is solved anew, for the first part is over then."""
    p = drained(2, 16)
    times = one_after_the_other(p)
    offsets = [0, 8, 4, 8, 0, 8, 4, 8]
    times = replace(times, offsets=dict(enumerate(offsets)))
    assert broken_rule(p, times) is None
    stay = cut(p, lower_bounds(p).heads_tails, times, Stretch(frozenset({3, 4}), 9, 15, 0))
    assert [(b.name, b.address, b.part_of) for b in stay.problem.buffers if b.name.startswith("raw")] == [
        ("raw0.0", 0, None),
        ("raw0.1", 4, None),
    ]
    moves = cut(p, lower_bounds(p).heads_tails, times, stretch_at(times, 0, 5))
    assert [(b.name, b.address, b.part_of) for b in moves.problem.buffers if b.name.startswith("raw")] == [
        ("raw0.0", None, "raw0"),
        ("raw0.1", None, "raw0"),
        ("raw1.0", 0, None),
        ("raw1.1", 4, None),
    ]
    found = solved(p, times, stretch_at(times, 0, 10), keep=True)
    assert broken_rule(p, found) is None
    assert found.makespan < times.makespan


@pytest.mark.parametrize("capacity", [12, 14])
def test_windows_place_ranges_in_parts(capacity: int) -> None:
    p = drained(9, capacity)
    search = WindowSearch(InProcess(), p, lower_bounds(p), evaluate, 1.0, seed=0)  # type: ignore[arg-type]
    best = search.run(Fraction(1, 10))
    assert best is not None
    assert check_plan(p, make_plan(p, best[0])) == []
