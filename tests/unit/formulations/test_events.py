"""The search over events on small problems with a known answer, its limits and its proofs."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from unit.small import buffer, held, move, on, problem, run

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import EventFound, SearchLimits, search_events
from hexloom.formulations.problem import Engine, Mode, Op, Problem
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated


def searched(of: Problem, incumbent: tuple[Decision, Simulated] | None = None, states: int = 50_000) -> EventFound:
    bounds = lower_bounds(of)
    return search_events(of, bounds.heads_tails, evaluate, incumbent, bounds.best.ticks, SearchLimits(states))


def ticks(found: EventFound) -> int:
    assert found.proven
    assert found.best is not None
    return found.best[1].makespan


def two_tiles_with_modes() -> Problem:
    """One tile must take the slow mode on one unit, the other the fast one on three: only so both end at 4."""
    slow, fast = (
        Mode(name="slow", uses=(held("hvx", 3),), latency_ticks=3),
        Mode(name="fast", uses=(held("hvx", 1, 3),), latency_ticks=1),
    )
    busy = [
        run("hold0", held("hvx", 1, 3, (1, 2, 3)), deadline_ticks=2),
        run("hold1", held("hvx", 1, 3, (1, 2, 3)), deadline_ticks=4),
        *(on("clock", f"c{k}", 1) for k in range(4)),
    ]
    tiles = [on("dma", f"d{k}", 1, tile=k) for k in range(2)]
    tiles += [Op(name=f"v{k}", modes=(slow, fast), tile=k) for k in range(2)]
    return problem(
        *busy,
        *tiles,
        after="d0>v0 d1>v1 c0>c1 c1>c2 c2>c3 c0>hold0 c2>hold1",
        engines=(Engine(name="hvx", units=4), Engine(name="dma"), Engine(name="clock")),
    )


def pipeline(tiles: int) -> Problem:
    """Load over the pipe (2), convert on one of two contexts (3), multiply (2), per tile."""
    ops = [
        op
        for k in range(tiles)
        for op in (move(f"l{k}", 2, issue=1, tile=k), on("hvx", f"v{k}", 3, tile=k), on("hmx", f"m{k}", 2, tile=k))
    ]
    return problem(*ops, after=" ".join(f"l{k}>v{k} v{k}>m{k}" for k in range(tiles)))


def test_tiles_of_different_modes() -> None:
    assert ticks(searched(two_tiles_with_modes())) == 4


def test_a_pipeline_of_three_tiles() -> None:
    # The first tile is there at 3 and converted at 6. The thread that owns the pipe cannot convert and look for the
    # third tile at once: either the second tile is converted late, at 9, or the third at 11.
    assert ticks(searched(pipeline(3))) == 13


def test_what_fits_in_bytes_but_not_in_addresses_is_not_a_plan() -> None:
    # Small ones at both ends of the scratchpad and a large one between them cannot be moved in mid-life.
    ops = [on("hmx", "a", 1), on("hvx", "b", 1), on("hvx", "c", 1), on("hvx", "d", 1)]
    of = problem(
        *ops,
        buffers=(buffer("pin", 1, "a", "c", address=1), buffer("x", 2, "b"), buffer("y", 1, "d")),
        capacity=3,
        after="a>b b>c",
    )
    assert searched(of).infeasible


def test_an_address_forces_an_order() -> None:
    ops = [on("hvx", "a", 2), on("hvx", "b", 2)]
    of = problem(*ops, buffers=(buffer("x", 2, "a"), buffer("y", 2, "b")), capacity=3)
    assert ticks(searched(of)) == 4
    roomy = problem(*ops, buffers=(buffer("x", 2, "a"), buffer("y", 2, "b")), capacity=4)
    assert ticks(searched(roomy)) == 2


def test_a_transfer_is_held_back_where_that_pays() -> None:
    # First come, first served gives the pipe to the long transfer, which nobody needs, unless it waits.
    of = problem(
        on("hmx", "k", 1),
        move("need", 2, owner=1),
        move("long", 9, owner=0),
        on("hmx", "z", 9),
        after="k>need need>z",
    )
    found = searched(of)
    assert ticks(found) == 12
    assert not found.free_start
    assert found.best is not None
    assert found.best[0].guards in (((0, 2),), ((1, 2),))


def test_a_deadline_counts() -> None:
    ops = [on("hmx", "a", 3), on("hmx", "b", 2, deadline_ticks=2)]
    found = searched(problem(*ops))
    assert ticks(found) == 5
    assert found.best is not None
    assert found.best[1].start == (2, 0)
    assert searched(problem(on("hmx", "a", 3, deadline_ticks=3), on("hmx", "b", 2, deadline_ticks=4))).infeasible


def test_more_units_than_there_are() -> None:
    assert searched(problem(run("a", held("hmx", 1, 2)))).infeasible


def test_the_incumbent_is_kept_when_nothing_is_shorter() -> None:
    best = searched(pipeline(2)).best
    assert best is not None
    found = searched(pipeline(2), best)
    assert found.best is best
    assert found.proven


def test_a_limit_ends_without_a_proof() -> None:
    found = searched(pipeline(4), states=3)
    assert not found.proven
    assert not found.infeasible
    assert found.best is None


def test_the_same_again() -> None:
    first, second = (searched(pipeline(3)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("seconds", [0.0, 0.05])
def test_a_limit_in_seconds_holds(seconds: float) -> None:
    of = pipeline(6)
    bounds = lower_bounds(of)
    started = perf_counter()
    search_events(of, bounds.heads_tails, evaluate, None, 0, SearchLimits(10**9, seconds=seconds))
    assert perf_counter() - started < seconds + 20  # to the end it would take hours


def test_eight_ops_are_searched_to_the_end() -> None:
    for split in range(7):
        of = problem(
            *(move(f"l{k}", 1 + (k + split) % 3, owner=k % 2, issue=1) for k in range(3)),
            *(on("hvx", f"v{k}", 2 + k) for k in range(3)),
            *(on("hmx", f"m{k}", 1 + split % 3) for k in range(2)),
            after="l0>v0 l1>v1 l2>v2 v0>m0 v1>m1",
        )
        assert searched(of).proven


def test_many_units_of_one_engine_are_counted_and_not_chosen_one_by_one() -> None:
    """16 of 80 units can be chosen in 10^16 ways, all alike; five jobs fit side by side."""
    wide, narrow = (
        Mode(name="wide", uses=(held("unit", 428, 80),), latency_ticks=428),
        Mode(name="narrow", uses=(held("unit", 746, 16),), latency_ticks=746),
    )
    ops = [Op(name=f"m{k}", modes=(wide, narrow)) for k in range(5)]
    found = searched(problem(*ops, engines=(Engine(name="unit", units=80),)))
    assert ticks(found) == 746
