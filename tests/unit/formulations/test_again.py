from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from unit.shared_channels import pulling, sharing
from unit.small import buffer, on, problem

from hexloom import Problem, solve
from hexloom.emit.summary import result_numbers
from hexloom.formulations import portfolio
from hexloom.formulations.again import NO_SECOND_WAY, WITHDRAWN, Claim, claim_of, prove_again, prove_again_by_events
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import search_events
from hexloom.formulations.flat.guard import Guard, Outcome
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.portfolio import Found
from hexloom.formulations.problem import Engine
from hexloom.optimizer import solve as solve_module
from hexloom.optimizer.evaluate import evaluate, evaluator

if TYPE_CHECKING:
    from hexloom.formulations.events.search import EventFound

ENGINES = (Engine(name="hvx"), Engine(name="hmx"), Engine(name="lut", kind="resource"))


def gap_of_two() -> Problem:
    """Nothing takes less than 12 ticks, and the bounds of arithmetic say 10."""
    ops = (
        on("hvx", "o0", 4),
        on("hvx", "o1", 2),
        on("lut", "o2", 2),
        on("hmx", "o3", 4),
        on("hmx", "o4", 4),
        on("hvx", "o5", 2),
    )
    return problem(*ops, after="o0>o1 o0>o4 o0>o5 o2>o3 o4>o5", engines=ENGINES)


@pytest.fixture
def no_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_module, "configuration_bound", lambda *_, **__: None)


@pytest.mark.usefixtures("no_prices")
def test_a_proof_over_events_is_one_until_the_solver_agrees() -> None:
    once = solve(gap_of_two(), seed=1)
    assert (once.status, once.makespan_us, once.certificate, once.proved_twice) == ("OPTIMAL", 12, "search", False)
    twice = solve(gap_of_two(), seed=1, prove_twice=True)
    assert (twice.status, twice.makespan_us, twice.proved_twice) == ("OPTIMAL", 12, True)
    assert result_numbers(twice, {})["proved_twice"] is True


def test_arithmetic_needs_no_second_proof() -> None:
    assert solve(problem(on("hvx", "a", 3)), prove_twice=True).proved_twice is None


def two_pulling(due: int | None = None) -> Problem:
    """Side by side 90 ticks, one after the other 110; 82.5 of the channel."""
    ops = (pulling("a", 40, ddr=75), pulling("b", 70, ddr=75))
    return sharing(*(op.model_copy(update={"deadline_ticks": due}) for op in ops))


@pytest.mark.usefixtures("no_prices")
@pytest.mark.parametrize(("rule", "due", "status"), [("fluid", None, "OPTIMAL"), ("proportional", 85, "INFEASIBLE")])
def test_where_ops_slow_each_other_the_events_are_searched_once_more(rule: str, due: int | None, status: str) -> None:
    once = solve(two_pulling(due), contention=rule, seed=1, explained=False)
    assert (once.status, once.proved_twice) == (status, False)
    twice = solve(two_pulling(due), contention=rule, seed=1, explained=False, prove_twice=True)
    assert (twice.status, twice.proved_twice) == (status, True)


@pytest.mark.usefixtures("no_prices")
def test_where_there_is_no_second_way_a_note_says_so() -> None:
    result = solve(two_pulling(), contention="priority", seed=1, prove_twice=True)
    assert (result.status, result.proved_twice) == ("OPTIMAL", False)
    assert NO_SECOND_WAY in result.notes


@pytest.mark.parametrize("seconds", [0.0, 2.0])
@pytest.mark.parametrize("rule", ["fluid", "proportional"])
def test_prices_need_no_second_proof(rule: str, seconds: float) -> None:
    result = solve(two_pulling(), contention=rule, time_limit_s=seconds)
    assert result.schedule is not None
    proven = result.schedule.optimal_in == "free_start" and result.certificate != "search"
    assert (result.proved_twice is None) == (proven or result.status == "FEASIBLE")


def test_a_shorter_plan_of_the_second_search_withdraws_the_first() -> None:
    """The first claims that nothing is shorter than one op after the other: 110 ticks."""
    p, judge = two_pulling(), evaluator("fluid")
    beside = list_schedule(p, Policy((1.0, 0.0), (0, 0)))
    assert beside is not None
    slow = replace(beside, guards=((0, 1),))
    claimed = Found((slow, judge(p, slow)), 0, 0, False, False, plan_bound=110.0)
    found, agreed = prove_again_by_events(p, "fluid", judge, claimed, 1.0, 1)
    assert (found.plan_bound, found.notes, agreed) == (0, (WITHDRAWN,), False)


@pytest.mark.slow
def test_that_nothing_fits_is_proven_twice() -> None:
    late = problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 4, "a", "c", address=0), buffer("y", 4, "b", address=0)),
        capacity=8,
    )
    once = solve(late, seed=1, explained=False)
    assert (once.status, once.proved_twice) == ("INFEASIBLE", False)
    twice = solve(late, seed=1, prove_twice=True, explained=False)
    assert (twice.status, twice.proved_twice) == ("INFEASIBLE", True)


def test_a_false_optimum_is_withdrawn() -> None:
    """One op after the other, claimed to be the best: the solver has a better plan, which is kept."""
    of, bounds = gap_of_two(), lower_bounds(gap_of_two())
    good = solve(of, seed=1).decision
    assert good is not None
    slow = replace(good, guards=tuple(pairwise(good.actions)))
    simulated = evaluate(of, slow)
    assert simulated.makespan == 18
    claimed = Found((slow, simulated), 18, 0, False, False, by_events=True)
    found, proven = prove_again(of, bounds, evaluate, claimed, 5.0, 1)
    assert not proven
    assert found.best is not None and found.best[1].makespan < 18
    assert (found.search_bound, found.plan_bound, found.notes) == (0, 0, (WITHDRAWN,))


def test_a_false_verdict_that_nothing_fits_is_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def deceived(*args: Any, **keys: Any) -> EventFound:
        return replace(search_events(*args, **keys), best=None, proven=False, infeasible=True)

    monkeypatch.setattr(portfolio, "search_events", deceived)
    result = solve(gap_of_two(), seed=1, prove_twice=True)
    assert result.schedule is not None
    assert (result.status, result.proved_twice) == ("FEASIBLE", False)
    assert WITHDRAWN in result.notes


def test_a_solver_that_is_silent_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_module, "configuration_bound", lambda *_, **__: None)
    monkeypatch.setattr(Guard, "solve", lambda *_: Outcome("UNKNOWN", 0, None))
    result = solve(gap_of_two(), seed=1, prove_twice=True)
    assert (result.status, result.makespan_us, result.proved_twice) == ("OPTIMAL", 12, False)


def test_what_is_claimed() -> None:
    of = gap_of_two()
    lower = lower_bounds(of).best.ticks
    best = solve(of, seed=1)
    assert best.decision is not None
    plan = best.decision, evaluate(of, best.decision)
    assert claim_of(of, Found(plan, 12, 0, False, False), lower) == Claim(11, True)
    assert claim_of(of, Found(plan, 12, 0, False, False, by_events=True), lower) == Claim(11, False)
    assert claim_of(of, Found(plan, 11, 0, False, False), lower) is None
    assert claim_of(of, Found(None, 0, 0, True, False), lower) == Claim(of.horizon_ticks, True)
    assert claim_of(of, Found(None, 0, 0, False, False), lower) is None
