"""Two searches at the same time: what counts of what they say, and that nobody's speed matters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.small import buffer, on, problem

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.beside import Beside
from hexloom.formulations.flat.fresh import FreshLane
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.flat.lane import CONTRADICTED, Task
from hexloom.formulations.greedy import ANY, Policy, list_schedule
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.problem import Problem


def tight() -> Problem:
    """Six ops on three threads, with a buffer each; two of these fit at the same time."""
    ops = [on("hvx", f"a{i}", t) for i, t in enumerate((2, 3, 4, 2, 3, 4))]
    buffers = tuple(buffer(f"b{i}", 4 + i % 2, f"a{i}") for i in range(6))
    return problem(*ops, buffers=buffers, capacity=10)


def planned(p: Problem) -> tuple[Decision, Simulated]:
    decision = list_schedule(p, Policy(tuple(float(i) for i in range(6)), (ANY,) * 6))
    assert decision is not None
    return decision, evaluate(p, decision)


def searches(seed: int | None = 1) -> Beside:
    p = tight()
    task = Task(p, lower_bounds(p).heads_tails, evaluate, 0, 1.0, seed)
    return Beside(Guard(lazy=True), Guard(lazy=True), task, None, 1, None)


def test_what_is_proven_beside_something_better_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    both, better = searches(), planned(tight())
    monkeypatch.setattr(FreshLane, "by_bytes", lambda lane: setattr(lane, "best", better))

    def proves_nothing_exists(lane: FreshLane) -> None:
        lane.exhausted = True

    monkeypatch.setattr(FreshLane, "by_addresses", proves_nothing_exists)
    result = both.run()
    assert result.notes == (CONTRADICTED,)
    assert result.best is better


def test_a_proof_by_bytes_ends_the_other_search(monkeypatch: pytest.MonkeyPatch) -> None:
    both, best = searches(), planned(tight())

    def proves(lane: FreshLane) -> None:
        lane.best, lane.bound, lane.exhausted, lane.settled = best, int(best[1].makespan), True, True
        lane.tell(lane)

    def waits(lane: FreshLane) -> None:
        while not lane.guard.stopped:
            pass

    monkeypatch.setattr(FreshLane, "by_bytes", proves)
    monkeypatch.setattr(FreshLane, "by_addresses", waits)
    result = both.run()
    assert (result.best, result.exhausted, result.notes) == (best, True, ())


@pytest.mark.parametrize(("seed", "settled", "ends"), [(1, None, False), (1, False, True), (None, None, True)])
def test_with_counted_limits_a_proof_by_addresses_waits_for_what_bytes_may_prove(
    seed: int | None, settled: bool | None, ends: bool
) -> None:
    both = searches(seed)
    both.counting.settled = settled
    both.placing.best, both.placing.exhausted = planned(tight()), True
    both.placing.tell(both.placing)
    assert both.counting.guard.stopped == ends


def test_an_interrupt_ends_both(monkeypatch: pytest.MonkeyPatch) -> None:
    both, best = searches(), planned(tight())

    def interrupted(lane: FreshLane) -> None:
        raise KeyboardInterrupt

    def waits(lane: FreshLane) -> None:
        lane.best = best
        while not lane.guard.stopped:
            pass

    monkeypatch.setattr(FreshLane, "by_bytes", interrupted)
    monkeypatch.setattr(FreshLane, "by_addresses", waits)
    result = both.run()
    assert (result.best, result.interrupted, result.exhausted) == (best, True, False)
