"""Loops of few iterations, written down as a whole: the shortest order of their tiles that anyone finds."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from hexloom import check_periodic_schedule, load_hw, solve_periodic
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.tile_beam import NARROW, TileBeam
from hexloom.optimizer.baselines import back_to_back, baselines
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.lower import lower
from hexloom.optimizer.periodic import ends
from hexloom.optimizer.periodic.trial import Source
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.periodic.trial import Small

TILES, TOGETHER = 24, 3

SHORTEST = TILES // TOGETHER * 11 + TILES * 9
"""Microseconds: ops of 11 on one thread each, as many together as there is room for, then theirs of 9 on all."""


def turns() -> Workload:
    """Return a loop whose first stage takes a thread, the second one all, and a third of the scratchpad between."""
    a = {"name": "a{i}", "stage": "a", "engine": "hvx", "duration_us": 11, "buffers": ["x{i}"]}
    b = {"name": "b{i}", "stage": "b", "engine": "hvx", "units": "all", "duration_us": 9, "after": ["a{i}"]}
    loop = {
        "for": "i",
        "count": TILES,
        "ops": [a, b | {"buffers": ["x{i}"]}],
        "buffers": [{"name": "x{i}", "size_bytes": 5 * 2**19}],
    }
    tasks = [{"name": "t", "ops": [loop]}]
    return Workload.from_data({"schema": "hexloom.workload/1", "name": "w", "hw": "hexagon-v79", "tasks": tasks})


@pytest.fixture(scope="module")
def small() -> Small:
    source = Source(turns(), load_hw("hexagon-v79"), "none", 16)
    return source.small(source.trips)


def us(small: Small, decision: Decision | None) -> Fraction:
    assert decision is not None
    assert small.problem.tick is not None
    return Fraction(evaluator("none")(small.problem, decision).makespan) * small.problem.tick


def today(small: Small) -> Decision | None:
    return back_to_back(small.problem, baselines(small.problem, small.lowered.loops))


def test_narrow_searches_over_tiles_find_what_a_loop_misses(small: Small) -> None:
    known = today(small)
    assert us(small, known) > SHORTEST
    assert us(small, ends.by_tiles(small, known, 0.3, seed=1)) == SHORTEST
    beam = TileBeam(small.problem, lower_bounds(small.problem).heads_tails, float("inf"))
    assert us(small, beam.run(0.1, 0, counted=True, widths=NARROW)) == SHORTEST


def test_what_is_known_comes_back_where_nothing_is_shorter(small: Small) -> None:
    best = ends.by_tiles(small, None, 0.3, seed=1)
    assert best is not None
    assert ends.by_tiles(small, best, 0.05, seed=1) is best


def test_loops_take_the_plan_of_the_tiles() -> None:
    found = solve_periodic(turns(), time_limit_s=0.8, contention="none", seed=1)
    assert found.us(found.makespan) == SHORTEST
    assert check_periodic_schedule(found) == []


def test_windows_that_end_with_a_longer_plan_do_not_lose_what_was_known(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse, best = today(small), ends.by_tiles(small, None, 0.3, seed=1)
    assert worse is not None
    assert best is not None
    judge = evaluator("none")
    monkeypatch.setattr(portfolio, "LOST_GAP", Fraction(1))
    monkeypatch.setattr(portfolio, "has_lines", lambda _: False)
    monkeypatch.setattr(portfolio, "_needs_windows", lambda _: True)
    monkeypatch.setattr(portfolio.WindowSearch, "run", lambda *_: (worse, judge(small.problem, worse)))
    monkeypatch.setattr(portfolio, "_by_solver", lambda *of: of[4])
    found = portfolio.search(small.problem, lower_bounds(small.problem), judge, (best,), 1.0, 1)
    assert found.best is not None
    assert found.best[0] is best


def test_a_plan_at_the_bound_ends_the_search_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "_needs_windows", lambda _: True)
    source = Source(turns(), load_hw("hexagon-v79"), "none", 16)
    problem = lower(source.cut({"t": TILES}), source.machine, "none").problem
    best = ends.by_tiles(source.small(source.trips), None, 0.3, seed=1)
    assert best is not None
    bounds = lower_bounds(problem)
    judge, seen = evaluator("none"), 0

    def counting(problem: Problem, decision: Decision) -> Simulated:
        nonlocal seen
        seen += 1
        return judge(problem, decision)

    gap = Fraction(1, 2)
    found = portfolio.search(problem, bounds, counting, (best,), 5.0, 1, enough_gap=gap)
    assert found.best is not None
    assert found.best[0] is best
    assert seen == 1
