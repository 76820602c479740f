"""One question asked twice at the same time: what counts as proven, and who is believed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from in_process import InProcess
from unit.small import on, problem

from hexloom import check_schedule, solve
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat import twice as twice_module
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.lane import CONTRADICTED, Task
from hexloom.formulations.flat.twice import Twice
from hexloom.formulations.greedy import ANY, Policy, list_schedule
from hexloom.optimizer import solve as solve_module
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.flat.beside import Result
    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem


def improvable() -> Problem:
    """On two threads 3, 3, 2, 2, 2 take 6; in file order (2, 2, 2, 3, 3) they take 7. The path is 3."""
    return problem(*(on("hvx", f"a{i}", t) for i, t in enumerate((2, 2, 2, 3, 3))))


class Side(InProcess):
    """A guard that answers what it is told to; None: what the solver says."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)
        self.jobs: list[Job] = []

    def solve(self, job: Job, on_solution: Callable[[FlatSolution], None] | None = None) -> Outcome:
        self.jobs.append(job)
        answer = self.answers.pop(0) if self.answers else None
        if answer is None:
            return super().solve(job, on_solution)
        return answer(self, job, on_solution) if callable(answer) else answer


def asked(first: Side, second: Side, seed: int | None = 1, **more: Any) -> Result:
    p = improvable()
    decision = list_schedule(p, Policy(tuple(-float(i) for i in range(5)), (ANY,) * 5))
    assert decision is not None
    task = Task(p, lower_bounds(p).heads_tails, evaluate, 3, 5.0, seed)
    return Twice((first, second), task, (decision, evaluate(p, decision)), 1, **more).run()  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [1, None])
def test_what_both_prove_is_proven(seed: int | None) -> None:
    first, second = Side(), Side()
    result = asked(first, second, seed)
    assert result.best is not None
    assert (result.best[1].makespan, result.bound, result.exhausted, result.notes) == (6, 6, True, ())
    assert {job.options.presolve for side in (first, second) for job in side.jobs} == {True, False}
    assert len({job.options.seed for side in (first, second) for job in side.jobs}) == 2


@pytest.mark.parametrize("unlucky", [0, 1])
def test_who_ends_first_asks_again_and_does_not_wait_for_the_other(unlucky: int) -> None:
    def until_stopped(side: Side, job: Job, _: Any) -> Outcome:
        assert side.ended.wait(60)  # type: ignore[attr-defined]
        return Outcome("DIED", 0, None)

    sides = [Side(), Side()]
    sides[unlucky] = Side(until_stopped)
    ended = sides[unlucky].ended = threading.Event()  # type: ignore[attr-defined]
    sides[unlucky].stop = ended.set  # type: ignore[method-assign]
    result = asked(sides[0], sides[1], None)
    assert (result.bound, result.exhausted, result.notes) == (6, True, ())
    again = sides[1 - unlucky].jobs[1].options
    assert (again.upper, again.presolve) == (5, unlucky == 0)


def test_what_takes_longer_than_a_moment_is_asked_with_strong_propagation() -> None:
    first = Side(Outcome("UNKNOWN", 5, None))
    result = asked(first, Side())
    assert (result.bound, result.exhausted) == (6, True)
    assert [job.options.strong for job in first.jobs[:2]] == [False, True]
    assert first.jobs[0].options.seconds < first.jobs[1].options.seconds


def test_one_proof_alone_is_not_enough() -> None:
    unknown = Outcome("UNKNOWN", 4, None)
    result = asked(Side(None, unknown, unknown), Side(unknown, unknown))
    assert result.best is not None
    assert (result.best[1].makespan, result.bound, result.exhausted) == (6, 4, False), "4: what both say"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Outcome("INFEASIBLE", 8, None), None),
        (None, Outcome("INFEASIBLE", 8, None)),
        (Outcome("OPTIMAL", 7, None), None),
    ],
)
def test_who_denies_a_plan_that_is_there_is_not_believed(first: Outcome | None, second: Outcome | None) -> None:
    denied = threading.Event()

    def denies(outcome: Outcome | None) -> Any:
        def answer(side: Side, job: Job, take: Any) -> Outcome:
            if outcome is None:
                assert denied.wait(60)
                return InProcess.solve(side, job, take)
            denied.set()
            return outcome

        return answer

    result = asked(Side(denies(first)), Side(denies(second)))
    assert CONTRADICTED in result.notes


def test_a_better_bound_of_arithmetic_ends_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twice_module, "SHARPEN_AFTER_S", 0.0)
    unknown = Outcome("UNKNOWN", 0, None)
    first, second = Side(unknown, unknown), Side(unknown, unknown)
    result = asked(first, second, None, sharpen=lambda: 7)
    assert (result.bound, result.exhausted) == (7, True)
    assert first.stopped and second.stopped


def test_roomy_problems_are_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve_module, "configuration_bound", lambda *_, **__: None)
    monkeypatch.setattr(solve_module, "sequence_bound", lambda *_: None)
    monkeypatch.setattr(portfolio, "EVENT_OPS", 2)
    for seed in (1, None):
        result = solve(problem(*(on("hvx", f"a{i}", 2) for i in range(3))), seed=seed, time_limit_s=10)
        assert (result.status, result.makespan_us, result.certificate) == ("OPTIMAL", 4, "search")
        assert result.proved_twice
        assert result.schedule is not None and check_schedule(result.schedule) == []


def test_a_process_is_kept_for_the_next_guard_and_can_be_stopped() -> None:
    p = improvable()
    job = Job(p, lower_bounds(p).heads_tails, _options(p), None)
    with Guard() as guard:
        assert guard.solve(job).bound == 6
        process = guard._process
    with Guard() as guard:
        assert guard._process is process
        threading.Timer(0.2, guard.stop).start()
        assert guard.solve(Job(p, job.heads_tails, _options(p), None)).status in ("DIED", "OPTIMAL")
        guard.stop()
        assert guard.solve(job) == Outcome("DIED", 0, None)
    with Guard() as guard:
        assert guard.solve(job).bound == 6, "whatever the last one left in the wire"


def _options(p: Problem) -> Any:
    from unit.formulations.flat_models import flat_model

    return flat_model(p).options
