"""Beam search over tile counters: orders that no list schedule finds, and never one that breaks a rule."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import OracleLimit, optimum
from unit.small import buffer, held, move, problem, run

from hexloom import solve
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.problem import Engine, Op, Problem
from hexloom.formulations.tile_beam import TileBeam, has_lines
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision

SIX = (Engine(name="hvx", units=6), Engine(name="hmx"), Engine(name="ddr", kind="pipe"))


def turns(tiles: int, room: int = 0) -> Problem:
    """Return tiles of an op of 11 on one of six threads, then one of 9 on all; a byte from one to the other."""
    ops: list[Op] = []
    for k in range(tiles):
        ops.append(run(f"a{k}", held("hvx", 11), task="t", stage="a", tile=k))
        ops.append(run(f"b{k}", held("hvx", 9, 6), task="t", stage="b", tile=k))
    buffers = tuple(buffer(f"x{k}", 1, f"a{k}", f"b{k}") for k in range(tiles)) if room else ()
    return problem(
        *ops, after=" ".join(f"a{k}>b{k}" for k in range(tiles)), buffers=buffers, capacity=room, engines=SIX
    )


def searched(of: Problem, seconds: float = 0.5) -> tuple[Decision | None, float]:
    beam = TileBeam(of, lower_bounds(of).heads_tails, inf)
    return beam.run(seconds, 0, counted=True), beam.below


@pytest.mark.parametrize(("room", "ticks"), [(0, 2 * 11 + 12 * 9), (3, 4 * 11 + 12 * 9), (1, 12 * 20)])
def test_small_ops_wait_until_several_go_together(room: int, ticks: int) -> None:
    """No op of ``b`` runs beside one of ``a``, and of these so many go together as there are threads, and bytes."""
    of = turns(12, room)
    decision, below = searched(of)
    assert decision is not None
    assert below == ticks
    assert evaluator("none")(of, decision).makespan == ticks


def test_a_solve_asks_it() -> None:
    assert (
        solve(turns(24, 3), contention="none", time_limit_s=2, seed=1, explained=False).makespan_us == 8 * 11 + 24 * 9
    )


def test_what_is_proven_soon_does_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the beam search was asked")

    monkeypatch.setattr(TileBeam, "run", never)
    alone = [run(f"a{k}", held("hvx", 11, 6), task="t", stage="a", tile=k) for k in range(12)]
    assert has_lines(problem(*alone, engines=SIX))
    result = solve(problem(*alone, engines=SIX), contention="none", time_limit_s=2, explained=False)
    assert (result.status, result.makespan_us) == ("OPTIMAL", 12 * 11)


def test_ctrl_c_in_it_keeps_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TileBeam, "_search", interrupted)
    result = solve(turns(24, 3), contention="none", time_limit_s=0.01, seed=1, explained=False)
    assert result.schedule is not None
    assert result.interrupted


def test_nobody_waits_for_bytes_for_ever() -> None:
    """Two bytes of three each for two buffers that follow each other: three tiles at once would block each other."""
    ops, edges, buffers = [], [], []
    for k in range(8):
        ops += [
            run(f"{s}{k}", held(e, 2), task="t", stage=s, tile=k) for s, e in (("a", "hvx"), ("b", "hvx"), ("c", "hmx"))
        ]
        edges += [f"a{k}>b{k}", f"b{k}>c{k}"]
        buffers += [buffer(f"x{k}", 1, f"a{k}", f"b{k}"), buffer(f"y{k}", 1, f"b{k}", f"c{k}")]
    of = problem(*ops, after=" ".join(edges), buffers=tuple(buffers), capacity=3, engines=SIX)
    decision, below = searched(of)
    assert decision is not None
    assert evaluator("none")(of, decision).makespan == below


@st.composite
def tiles(draw: st.DrawFn) -> Problem:
    """Draw one or two tasks of a few equal tiles, with buffers of one size and transfers that a thread owns."""
    ops: list[Op] = []
    edges: list[str] = []
    buffers = []
    for task in ("t", "u")[: draw(st.integers(1, 2))]:
        stages = draw(st.integers(1, 3))
        kinds = [draw(st.sampled_from(["one", "all", "hmx", "move"])) for _ in range(stages)]
        ticks = [draw(st.integers(1, 4)) for _ in range(stages)]
        keep = [draw(st.booleans()) for _ in range(stages)]
        for k in range(draw(st.integers(1, 6 // stages if task == "t" else max(1, 3 // stages)))):
            for s in range(stages):
                name = f"{task}{s}.{k}"
                keys = {"task": task, "stage": str(s), "tile": k}
                if kinds[s] == "move":
                    ops.append(move(name, ticks[s], **keys))
                else:
                    use = held("hmx", ticks[s]) if kinds[s] == "hmx" else held("hvx", ticks[s], 1 + (kinds[s] == "all"))
                    ops.append(run(name, use, **keys))
                if s:
                    edges.append(f"{task}{s - 1}.{k}>{name}")
                    if keep[s]:
                        buffers.append(buffer(f"{task}{s}.{k}b", 1, f"{task}{s - 1}.{k}", name))
    return problem(*ops, after=" ".join(edges), buffers=tuple(buffers), capacity=draw(st.integers(2, 4)))


def is_never_below_the_optimum(of: Problem) -> None:
    decision, below = searched(of, 0.3)
    try:
        best = optimum(of, 4000)
    except OracleLimit:
        return
    if best is None:
        assert decision is None
        return
    if decision is not None:
        taken = evaluator("none")(of, decision).makespan
        assert best.ticks <= taken <= below
        assert below == best.ticks
    else:
        assert len(of.buffers) > 0


@settings(max_examples=15)
@given(tiles())
def test_it_is_never_below_the_optimum(of: Problem) -> None:
    is_never_below_the_optimum(of)


@pytest.mark.slow
@settings(max_examples=80)
@given(tiles())
def test_it_is_never_below_the_optimum_often(of: Problem) -> None:
    is_never_below_the_optimum(of)


def test_few_tiles_or_many_stages_are_no_lines() -> None:
    assert has_lines(turns(4))
    assert not has_lines(turns(3))


def test_ops_without_labels_are_no_tiles_and_all_time_is_for_the_solver() -> None:
    """Of the time of a bare problem a third went to a search along the order in which its ops are written."""
    assert not has_lines(problem(*(run(f"o{k}", held("hvx", 3)) for k in range(30)), engines=SIX))
