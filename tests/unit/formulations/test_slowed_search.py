"""The search with overlap terms: what it proves, what it finds, and a solver that lies."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from free_start import free_start_optimum
from unit.formulations.test_slowed_model import COPY, LATE_START, THREE
from unit.shared_channels import pulling, sharing

from hexloom import check_schedule, solve
from hexloom.formulations import shared_portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.child import model_of
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.search import CONTRADICTED
from hexloom.formulations.flat.slowed_extract import slowed_decision
from hexloom.formulations.flat.slowed_search import SlowedFound, search_contended
from hexloom.formulations.flat.solution import FlatSolution
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.optimizer.evaluate import evaluator

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.problem import Problem


class InProcess:
    """The guard without its process; ``answer`` may change what the solver says, ``asked`` what it was asked."""

    def __init__(self, answer: Callable[[Job, Outcome], Outcome] | None = None) -> None:
        self.answer = answer
        self.asked: list[Job] = []

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def solve(self, job: Job, on_solution: Callable[[FlatSolution], None] | None = None) -> Outcome:
        self.asked.append(job)
        flat = model_of(job)
        if job.incumbent is not None:
            flat.hint(*job.incumbent)
        seen: list[FlatSolution] = []

        def take(solution: FlatSolution) -> None:
            seen.append(solution)
            if on_solution is not None:
                on_solution(solution)

        status, bound = flat.solve(take)
        outcome = Outcome(status, bound, seen[-1] if seen else None)
        return outcome if self.answer is None else self.answer(job, outcome)


def listed(p: Problem, *guards: tuple[int, int]) -> tuple[Decision, Simulated]:
    """Return a list schedule in the order of the file."""
    n = len(p.ops)
    decision = list_schedule(p, Policy(tuple(float(-i) for i in range(n)), (0,) * n, guards=guards))
    assert decision is not None
    return decision, evaluator("fluid")(p, decision)


def searched(p: Problem, guard: Any, incumbent: tuple[Decision, Simulated], lower: int = 1, **keys: Any) -> SlowedFound:
    bounds = lower_bounds(p, "fluid")
    arguments = (bounds, evaluator("fluid"), incumbent, Fraction(lower), 10.0, 0)
    return search_contended(guard, p, "fluid", *arguments, **keys)


def test_both_bounds_of_the_first_counterexample() -> None:
    """21 for any start times, 24 for plans, less what floors lose."""
    found = searched(LATE_START, InProcess(), listed(LATE_START))
    assert found.notes == ()
    assert found.best[1].makespan == 24
    assert Fraction(2098, 100) < found.bound <= 21
    assert Fraction(2398, 100) < found.plan_bound <= 24


def test_a_proven_plan_is_not_proven_again() -> None:
    guard = InProcess()
    found = searched(LATE_START, guard, listed(LATE_START), plan_proven=True)
    assert all(job.slowing is not None and not job.slowing.events for job in guard.asked)
    assert Fraction(2098, 100) < found.bound <= 21


def test_a_bad_plan_is_improved() -> None:
    """x held back until z has ended takes 30."""
    incumbent = listed(LATE_START, (1, 2))
    assert incumbent[1].makespan == 30
    told: list[float] = []
    found = searched(LATE_START, InProcess(), incumbent, on_progress=lambda makespan, bound: told.append(makespan))
    assert found.best[1].makespan == told[-1] == 24


def test_what_waits_in_a_solution_waits_in_the_plan() -> None:
    """x from 12 on: it waits for the load."""
    solution = FlatSolution((0, 12, 12), (0, 12, 12), (12, 18, 24), (0, 0, 0), {}, None, 24)
    decision = slowed_decision(LATE_START, LATE_START, solution)
    assert decision is not None
    assert decision.guards == ((0, 2),)
    assert evaluator("fluid")(LATE_START, decision).start == (0, 12, 12)


def test_every_proof_is_asked_for_twice() -> None:
    guard = InProcess()
    found = searched(COPY, guard, listed(COPY))
    assert found.bound > 0
    assert {job.options.presolve for job in guard.asked} == {True, False}
    assert {job.options.seed for job in guard.asked} == {0, 1}


def test_what_is_not_confirmed_is_not_proven() -> None:
    def unsure(job: Job, outcome: Outcome) -> Outcome:
        return outcome if job.options.presolve else Outcome("UNKNOWN", 0, None)

    found = searched(THREE, InProcess(unsure), listed(THREE))
    assert (found.bound, found.plan_bound, found.notes) == (0, 0, ())


def test_a_solver_that_denies_the_plan_is_not_believed() -> None:
    found = searched(THREE, InProcess(lambda job, _: Outcome("INFEASIBLE", job.options.upper + 1, None)), listed(THREE))
    assert found.notes == (CONTRADICTED,)
    assert (found.bound, found.plan_bound) == (0, 0)


def test_a_solver_that_finds_what_it_denied_is_not_believed() -> None:
    def forgetful(job: Job, outcome: Outcome) -> Outcome:
        if not job.options.presolve:
            return Outcome("OPTIMAL", 1, FlatSolution((), (), (), (), {}, None, 1))
        return outcome

    found = searched(THREE, InProcess(forgetful), listed(THREE))
    assert found.notes == (CONTRADICTED,)
    assert (found.bound, found.plan_bound) == (0, 0)


def test_an_interrupt_leaves_what_was_found() -> None:
    def interrupted(job: Job, outcome: Outcome) -> Outcome:
        raise KeyboardInterrupt

    incumbent = listed(THREE)
    found = searched(THREE, InProcess(interrupted), incumbent)
    assert found.interrupted
    assert found.best == incumbent


def test_too_many_sets_are_not_asked_about() -> None:
    p = sharing(*(pulling(f"o{i}", 4, ddr=i + 1) for i in range(14)))
    guard = InProcess()
    found = searched(p, guard, listed(p))
    assert guard.asked == []
    assert (found.bound, found.plan_bound) == (0, 0)


BETWEEN = sharing(
    pulling("o0", 6, "m"),
    pulling("o1", 3, "d", ddr=60),
    pulling("o2", 5, "v", ddr=75),
    pulling("o3", 3, "m"),
    pulling("o4", 6, "v", ddr=90),
    after="o0>o1 o3>o4",
)
"""Prices of sets that run together prove 410/33, which is 12.42; the best start times take 13."""


@pytest.mark.parametrize("by_events", [True, False])
def test_a_solve_quotes_what_was_proven(monkeypatch: pytest.MonkeyPatch, by_events: bool) -> None:
    monkeypatch.setattr(shared_portfolio, "Guard", InProcess)
    monkeypatch.setattr(shared_portfolio, "EVENT_OPS", 12 if by_events else 0)
    result, again = (solve(BETWEEN, contention="fluid", seed=3, time_limit_s=1) for _ in range(2))
    assert result.schedule is not None and again.schedule is not None
    assert result.schedule.to_json() == again.schedule.to_json()
    assert check_schedule(result.schedule) == []
    assert result.certificate == "search"
    assert Fraction(410, 33) < result.schedule.lower_bound <= free_start_optimum(BETWEEN, "fluid")
    assert result.schedule.lower_bound <= result.schedule.plan_bound <= result.schedule.makespan
    assert not by_events or result.status == "OPTIMAL"


@pytest.mark.slow
def test_the_child_solves_these_models_too() -> None:
    with Guard() as guard:
        found = searched(LATE_START, guard, listed(LATE_START))
    assert Fraction(2098, 100) < found.bound <= 21
