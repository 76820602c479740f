"""A solver that lies, hangs or dies: what is claimed stays true."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from unit.formulations.flat_models import flat_model
from unit.small import buffer, on, problem

from hexloom import check_schedule, solve
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat import guard as guard_module
from hexloom.formulations.flat import lane as lane_module
from hexloom.formulations.flat import process as process_module
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.search import BROKEN, CONTRADICTED
from hexloom.formulations.flat.solution import FlatSolution
from hexloom.formulations.greedy import ANY, Policy, list_schedule
from hexloom.formulations.local_search import Found, LocalSearch
from hexloom.optimizer import solve as solve_module
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexloom.formulations.problem import Problem


@pytest.fixture(autouse=True)
def solved_by_the_flat_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the small problems here from the search over events, which would leave nothing to the solver.

    One guard only: who is asked what is counted here.
    """
    monkeypatch.setattr(portfolio, "EVENT_OPS", 0)
    monkeypatch.setattr(portfolio, "BESIDE_OPS", 0)
    monkeypatch.setattr(portfolio, "TWICE_OPS", 0)


# --- a solver that lies ---------------------------------------------------------------------------------


def in_process(job: Job, on_solution: Callable[[FlatSolution], None] | None) -> Outcome:
    flat = FlatModel(job.problem, job.heads_tails, job.options)
    if job.incumbent is not None:
        flat.hint(*job.incumbent)
    seen: list[FlatSolution] = []
    status, bound = flat.solve(lambda s: (seen.append(s), on_solution(s) if on_solution else None)[0])  # type: ignore[func-returns-value]
    return Outcome(status, bound, seen[-1] if seen else None)


def lying(monkeypatch: pytest.MonkeyPatch, lie: Callable[[int, Job, Any], Outcome]) -> list[Job]:
    """Let ``lie`` answer the n-th job."""
    jobs: list[Job] = []

    def answer(self: Guard, job: Job, on_solution: Any = None) -> Outcome:
        jobs.append(job)
        return lie(len(jobs), job, on_solution)

    monkeypatch.setattr(Guard, "solve", answer)
    return jobs


@pytest.fixture
def worst_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local search gives up after one list schedule in a bad order, so that there is something to improve."""

    def run_once(self: LocalSearch, incumbents: Any = (), sharpen: Any = None, *, climb: bool = True) -> Any:
        if sharpen is not None:
            self.bounds = sharpen()
        p = self.problem
        decision = list_schedule(p, Policy(tuple(-float(i) for i in range(len(p.ops))), (ANY,) * len(p.ops)))
        assert decision is not None
        return Found((decision, evaluate(p, decision)), 1)

    monkeypatch.setattr(LocalSearch, "run", run_once)


def improvable() -> Problem:
    """On two threads 3, 3, 2, 2, 2 take 6; in file order (2, 2, 2, 3, 3) they take 7. The path is 3."""
    return problem(*(on("hvx", f"a{i}", t) for i, t in enumerate((2, 2, 2, 3, 3))))


def nearly() -> Problem:
    """Three ops of 2 on two threads: 4 is best, arithmetic proves 3."""
    return problem(*(on("hvx", f"a{i}", 2) for i in range(3)))


def test_the_honest_solver_proves(monkeypatch: pytest.MonkeyPatch) -> None:
    only_cp_sat(monkeypatch)
    jobs = lying(monkeypatch, lambda n, job, take: in_process(job, take))
    result = solve(nearly(), seed=1, time_limit_s=1)
    assert len(jobs) == 3, "the claim, the second proof, and the incumbent that must not be denied"
    assert (result.status, result.makespan_us, result.certificate) == ("OPTIMAL", 4, "search")
    assert result.notes == ()


def only_cp_sat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a gap that only CP-SAT can close."""
    monkeypatch.setattr(solve_module, "configuration_bound", lambda *_, **__: None)
    monkeypatch.setattr(portfolio, "EVENT_OPS", 0)


@pytest.mark.parametrize("bound", [0, 99])
def test_infeasible_always_is_contradicted_by_the_plan(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    only_cp_sat(monkeypatch)
    lying(monkeypatch, lambda n, job, take: Outcome("INFEASIBLE", bound, None))
    result = solve(nearly(), seed=1, time_limit_s=0.5)
    assert result.status == "FEASIBLE"
    assert result.makespan_us == 4
    assert result.notes == (CONTRADICTED,)
    assert result.schedule is not None
    assert result.schedule.notes == result.notes
    assert check_schedule(result.schedule) == []


@pytest.mark.parametrize("second", ["UNKNOWN", "FEASIBLE", "OVERRUN", "DIED", "MODEL_INVALID", "OPTIMAL"])
def test_infeasible_that_nobody_repeats_proves_nothing(monkeypatch: pytest.MonkeyPatch, second: str) -> None:
    only_cp_sat(monkeypatch)
    lying(monkeypatch, lambda n, job, take: Outcome("INFEASIBLE" if n == 1 else second, 5, None))
    result = solve(nearly(), seed=1, time_limit_s=0.5)
    assert (result.status, result.makespan_us) == ("FEASIBLE", 4)
    assert result.lower_bound_us == 3


@pytest.mark.usefixtures("worst_first")
def test_infeasible_while_something_shorter_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run lies; the second finds the better plan, and the verdicts are no longer believed."""
    only_cp_sat(monkeypatch)

    def lie(n: int, job: Job, take: Any) -> Outcome:
        return Outcome("INFEASIBLE", job.options.upper + 1, None) if n == 1 else in_process(job, take)

    lying(monkeypatch, lie)
    result = solve(improvable(), seed=1, time_limit_s=1)
    assert result.makespan_us == 6
    assert CONTRADICTED in result.notes
    assert result.certificate != "search"


@pytest.mark.usefixtures("worst_first")
@pytest.mark.parametrize("bound", [0, 1, 7, 10**9])
def test_optimal_with_a_wrong_bound(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    """A bound is never taken from a solver's word; without a solution nothing was found either."""
    only_cp_sat(monkeypatch)
    lying(monkeypatch, lambda n, job, take: Outcome("OPTIMAL", bound, None))
    result = solve(improvable(), seed=1, time_limit_s=0.5)
    assert (result.status, result.makespan_us, result.lower_bound_us) == ("FEASIBLE", 7, 6)


@pytest.mark.usefixtures("worst_first")
def test_a_solution_that_breaks_a_rule_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    only_cp_sat(monkeypatch)

    def lie(n: int, job: Job, take: Any) -> Outcome:
        count = len(job.problem.ops)
        ticks = [op.modes[0].duration_ticks for op in job.problem.ops]
        all_at_once = FlatSolution((0,) * count, (0,) * count, tuple(ticks), (0,) * count, {}, None, 3)
        if take is not None and n == 1:
            take(all_at_once)
        return Outcome("OPTIMAL", 3, all_at_once) if n == 1 else Outcome("INFEASIBLE", 9, None)

    lying(monkeypatch, lie)
    result = solve(improvable(), seed=1, time_limit_s=0.5)
    assert (result.status, result.makespan_us) == ("FEASIBLE", 7)
    assert any(note.startswith(BROKEN) for note in result.notes)
    assert result.schedule is not None and check_schedule(result.schedule) == []


def test_infeasible_without_an_incumbent_needs_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins that exclude each other in this order: only search proves it, and one word is not enough."""
    p = problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 4, "a", "c", address=0), buffer("y", 4, "b", address=0)),
        capacity=8,
    )
    only_cp_sat(monkeypatch)
    lying(monkeypatch, lambda n, job, take: Outcome("INFEASIBLE" if n % 2 else "UNKNOWN", 0, None))
    assert solve(p, seed=1, time_limit_s=0.2).status == "LIMIT"
    lying(monkeypatch, lambda n, job, take: in_process(job, take))
    assert solve(p, seed=1, time_limit_s=1).status == "INFEASIBLE"


@pytest.mark.usefixtures("worst_first")
@pytest.mark.parametrize("packs", [True, False])
def test_fewer_bytes_are_counted_only_while_the_last_solution_does_not_pack(
    monkeypatch: pytest.MonkeyPatch, packs: bool
) -> None:
    """Of two solutions the first cannot be packed: where the second can, the search goes on with all bytes."""
    only_cp_sat(monkeypatch)
    p = problem(
        *(on("hvx", f"a{i}", t) for i, t in enumerate((2, 2, 2, 3, 3))),
        buffers=tuple(buffer(f"b{i}", 4, f"a{i}") for i in range(5)),
        capacity=9,
    )
    asked: list[int] = []

    def once(problem: Problem, solution: FlatSolution, **how: bool) -> Any:
        asked.append(solution.makespan)
        return None if len(asked) == 1 or not packs else decision_of(problem, solution, **how)

    def twice(n: int, job: Job, take: Any) -> Outcome:
        if n == 1:
            seen: list[FlatSolution] = []
            in_process(job, seen.append)
            take(seen[-1])
            take(seen[-1])
        return Outcome("FEASIBLE" if n == 1 else "UNKNOWN", 0, None)

    monkeypatch.setattr(lane_module, "decision_of", once)
    jobs = lying(monkeypatch, twice)
    solve(p, seed=1, time_limit_s=0.5)
    later = [(job.problem.scratchpad.available_bytes, job.options.addresses) for job in jobs[1:]]
    assert later == ([(9, False)] if packs else [(8, False), (9, True)])


# --- the hard limit -------------------------------------------------------------------------------------

CHILD = """
import os, sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
connection.send(os.getpid())
while True:
    job = connection.recv()
    {then}
"""

SOLVE_FIRST = """
    from hexloom.formulations.flat.model import FlatModel
    flat = FlatModel(job.problem, job.heads_tails, job.options)
    flat.solve(connection.send)
"""


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Put a program of the test's own in place of the solver's process; none that was kept is used, none is kept."""
    start = subprocess.Popen

    def install(then: str) -> None:
        process_module.end_kept()
        code = CHILD.format(then=then.strip())

        def popen(command: list[str], **keys: Any) -> Any:
            return start([sys.executable, "-c", code, command[-1]], **keys)

        monkeypatch.setattr(process_module.subprocess, "Popen", popen)

    yield install
    process_module.end_kept()


def test_a_child_that_never_answers_is_cut(child: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    child("import time; time.sleep(600)")
    only_cp_sat(monkeypatch)
    monkeypatch.setattr(guard_module, "GRACE_S", 0.2)
    started = time.monotonic()
    result = solve(nearly(), time_limit_s=1)
    assert time.monotonic() - started < 60  # the child sleeps for 600 s
    assert (result.status, result.makespan_us) == ("FEASIBLE", 4)


def test_a_child_that_dies_loses_nothing(child: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    child("os._exit(3)")
    only_cp_sat(monkeypatch)
    started = time.monotonic()
    result = solve(nearly(), time_limit_s=2)
    assert time.monotonic() - started < 60
    assert (result.status, result.makespan_us) == ("FEASIBLE", 4)


@pytest.mark.usefixtures("worst_first")
def test_what_was_found_before_death_counts(child: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    child(SOLVE_FIRST + "    os._exit(3)")
    only_cp_sat(monkeypatch)
    result = solve(improvable(), time_limit_s=3)
    assert result.makespan_us == 6


def test_the_guard_starts_again_after_a_death(child: Callable[[str], None]) -> None:
    p = nearly()
    flat = flat_model(p)
    job = Job(p, lower_bounds(p).heads_tails, replace(flat.options, seconds=5.0), None)
    child("os._exit(3)")
    with Guard() as guard:
        assert guard.solve(job) == Outcome("DIED", 0, None)
        child(SOLVE_FIRST + "    connection.send(('OPTIMAL', 4))")
        again = guard.solve(job)
    assert (again.status, again.bound) == ("OPTIMAL", 4)
    assert again.solution is not None and again.solution.makespan == 4


def test_a_child_that_never_loads_is_cut(child: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    p = nearly()
    process_module.end_kept()
    monkeypatch.setattr(process_module, "START_S", 0.2)
    monkeypatch.setattr(
        process_module.subprocess,
        "Popen",
        lambda command, start=subprocess.Popen, **keys: start(
            [sys.executable, "-c", "import time; time.sleep(600)"], **keys
        ),
    )
    job = Job(p, lower_bounds(p).heads_tails, flat_model(p).options, None)
    with Guard() as guard:
        assert guard.solve(job).status == "OVERRUN"


def test_where_the_bound_is_above_all_that_is_wanted_there_is_nothing() -> None:
    """With few bytes a bound can pass the horizon; CP-SAT would call such a model invalid."""
    p = nearly()
    options = replace(flat_model(p).options, lower=9, upper=8)
    with Guard(lazy=True) as guard:
        assert guard.solve(Job(p, lower_bounds(p).heads_tails, options, None)) == Outcome("INFEASIBLE", 9, None)
