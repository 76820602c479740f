"""The search over events where channels are shared: known answers, guards, limits, and what it leaves as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.shared_channels import DDR, moving, pulling, sharing

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import EventFound, SearchLimits, search_events
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem, Rule


def searched(of: Problem, rule: Rule = "fluid", lower: float = 0, states: int = 50_000) -> EventFound:
    bounds = lower_bounds(of)
    return search_events(of, bounds.heads_tails, evaluator(rule), None, lower, SearchLimits(states), rule)


def makespan(of: Problem, rule: Rule = "fluid") -> float:
    found = searched(of, rule)
    assert found.proven
    assert found.best is not None
    assert evaluator(rule)(of, found.best[0]).makespan == pytest.approx(found.best[1].makespan)
    return found.best[1].makespan


LATE_START = (
    pulling("load", 12, "dma", ddr=75),
    pulling("z", 6, "hmx"),
    pulling("x", 12, "hvx", ddr=75),
)


@pytest.mark.parametrize(
    ("rule", "ticks"),
    # Under priority the load goes at full speed and x gets 25 of 75: 4 of 12 until 12, the other 8 until 20.
    [("none", 18), ("rigid", 18), ("fluid", 24), ("proportional", 24), ("priority", 20)],
)
def test_the_first_counterexample(rule: Rule, ticks: int) -> None:
    """mathematics A1: every event-driven plan takes at least 24, though 21 is possible with a start at 6."""
    assert makespan(sharing(*LATE_START, after="load>z"), rule) == pytest.approx(ticks)


def test_a_load_in_two_pieces_gives_the_event_that_was_missing() -> None:
    """mathematics A1: x begins at the end of the first half: 21."""
    halves = (pulling("load.0", 6, "dma", ddr=75), pulling("load.1", 6, "dma", ddr=75))
    of = sharing(*halves, *LATE_START[1:], after="load.0>load.1 load.1>z")
    found = searched(of)
    assert found.proven and not found.free_start
    assert found.best is not None
    assert found.best[1].makespan == pytest.approx(21)
    assert found.best[0].guards == ((0, 3),)


def test_what_meets_a_bound_is_the_best_for_any_start_times() -> None:
    """Twice 10 at 100 of 100: 20 by bytes, whatever begins when."""
    found = searched(sharing(pulling("a", 10, ddr=100), pulling("b", 10, ddr=100)), lower=20)
    assert found.proven and found.free_start


def test_an_op_is_held_back_that_would_slow_the_long_way() -> None:
    """x beside b costs b half its speed, and z waits for b: x goes after b, beside z, though its input is there."""
    of = sharing(
        pulling("x", 10, "v", ddr=100),
        pulling("b", 10, "d", ddr=100),
        pulling("z", 20, "m"),
        after="b>z",
    )
    found = searched(of)
    assert found.best is not None
    assert found.best[1].makespan == pytest.approx(30)
    assert found.best[0].guards == ((1, 0),)


def test_nested_channels_and_both_directions() -> None:
    """mathematics A2 (b), by hand: all at 0 take 25, as a is free of k while s is there."""
    of = sharing(
        pulling("a", 10, read=60),
        pulling("k", 20, read=60, write=60),
        pulling("s", 5, write=60),
        pulling("z", 15),
        after="a>z",
        channels=(DDR.model_copy(update={"name": "read"}), DDR.model_copy(update={"name": "write", "capacity": 60})),
    )
    assert makespan(of) == pytest.approx(25)


def test_interference_keeps_two_ops_apart() -> None:
    """Together each goes at 3/10: side by side 10 and 10 take 33 1/3, one after the other 20."""
    of = sharing(
        pulling("a", 10, op_class="gather"),
        pulling("b", 10, op_class="gather"),
        factors="gather<gather=3/10",
    )
    assert makespan(of) == pytest.approx(20)


def test_a_transfer_works_only_while_it_moves() -> None:
    """Issue 2, 10 of transfer, poll 1; b has 4. b first, alone for 2: 2 left at half speed, then 8 left: 15."""
    of = sharing(moving("load", 10, "v", issue=2, poll=1, ddr=100), pulling("b", 4, ddr=100), owners="v")
    assert makespan(of) == pytest.approx(15)


def test_a_deadline_is_kept() -> None:
    """a must end by 10, so b may not disturb it."""
    a, b = pulling("a", 10, ddr=100), pulling("b", 10, ddr=100)
    of = sharing(a.model_copy(update={"deadline_ticks": 10}), b)
    found = searched(of)
    assert found.proven and found.best is not None
    assert found.best[1].start == (0, 10)
    both = sharing(*(op.model_copy(update={"deadline_ticks": 19}) for op in (a, b)))
    assert searched(both).infeasible


def test_a_limit_ends_without_a_proof() -> None:
    found = searched(sharing(*(pulling(f"o{k}", 3 + k, ddr=40 + k) for k in range(6))), states=5)
    assert not found.proven and not found.infeasible


def test_the_same_again() -> None:
    of = sharing(*(pulling(f"o{k}", 3 + k, f"e{k % 3}", ddr=40 + 9 * k) for k in range(6)))
    assert searched(of) == searched(of)
