"""Hints, extraction, and a solver that lies, hangs or dies: what is claimed stays true."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from unit.formulations.flat_models import accepts, best_of, flat_model
from unit.small import ENGINES, buffer, held, move, on, problem, run

from hexloom import check_schedule, solve
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat import guard as guard_module
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.model import FlatModel, FlatSolution
from hexloom.formulations.flat.search import BROKEN, CONTRADICTED
from hexloom.formulations.flat.verify import broken_rule
from hexloom.formulations.greedy import ANY, Policy, list_schedule
from hexloom.formulations.local_search import Found, LocalSearch
from hexloom.formulations.problem import Dma, Engine, Mode, Op
from hexloom.optimizer import solve as solve_module
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.problem import Problem


@pytest.fixture(autouse=True)
def solved_by_the_flat_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the small problems here from the search over events, which would leave nothing to the solver."""
    monkeypatch.setattr(portfolio, "EVENT_OPS", 0)


def everything() -> Problem:
    """Transfers, modes, fixed units, latency, overhead, shares, pins, residents: each variable of the model occurs."""
    dma = Dma(owner_engine="hvx", owner_unit=1, issue_ticks=1)
    shared = Mode(uses=(held("ddr", 2), held("bus", 2, 3)), latency_ticks=2, dma=dma)
    return problem(
        Op(name="s", modes=(shared,)),
        run("t", held("hmx", 1), held("bus", 1, 3)),
        move("d", 3, issue=1, poll=1),
        run("a", held("hvx", 2), overhead=1),
        run("b", held("hvx", 2, ids=(0,)), latency=4),
        on("hmx", "c", 3),
        on("lut", "e", 2),
        after="d>a a>c b>e",
        buffers=(
            buffer("x", 4, "d", "a", align_bytes=2),
            buffer("y", 4, "a", "c"),
            buffer("pin", 2, "b", address=4),
            buffer("home", 2, resident=True),
        ),
        capacity=12,
        engines=(*ENGINES, Engine(name="bus", units=5, kind="share")),
    )


# --- hints and extraction -------------------------------------------------------------------------------


@pytest.mark.parametrize("addresses", [False, True])
@pytest.mark.parametrize(
    "p",
    [
        # Seen in random tests: a mark at the very start of a transfer, or beside what is resident; two of its buffers.
        problem(
            move("t", 1),
            run("mark"),
            *(on("hmx", f"x{k}", 1) for k in range(3)),
            buffers=(buffer("a", 1, "t"), buffer("b", 1, "mark")),
            capacity=8,
        ),
        problem(
            run("mark"), on("hmx", "x", 1), buffers=(buffer("a", 1, resident=True), buffer("b", 1, "mark")), capacity=8
        ),
        problem(run("mark"), buffers=(buffer("a", 1, "mark"), buffer("b", 1, "mark")), capacity=8),
        # At the one instant where both marks fit, the second must go first: it frees the bytes of the first.
        problem(
            on("hmx", "x", 1),
            on("hmx", "y", 1),
            run("needs"),
            run("frees"),
            buffers=(buffer("a", 5, "x", "frees"), buffer("b", 4, "needs")),
            capacity=8,
        ),
    ],
)
def test_a_buffer_of_no_time_still_has_its_own_bytes(p: Problem, addresses: bool) -> None:
    _, solution = best_of(flat_model(p, addresses=addresses))
    assert solution is not None
    decision = decision_of(p, solution)
    assert decision is not None
    assert check_plan(p, make_plan(p, decision)) == []


@pytest.mark.parametrize("addresses", [False, True])
def test_the_incumbent_solves_the_model_as_it_stands(addresses: bool) -> None:
    p = everything()
    decision = list_schedule(p, Policy((0.0,) * 7, (ANY,) * 7))
    assert decision is not None
    assert accepts(p, decision, evaluate(p, decision), addresses=addresses)


@pytest.mark.parametrize("addresses", [False, True])
def test_a_solution_keeps_all_rules_and_becomes_a_plan(addresses: bool) -> None:
    p = everything()
    status, solution = best_of(flat_model(p, addresses=addresses))
    assert status == "OPTIMAL" and solution is not None
    assert broken_rule(p, solution) is None
    decision = decision_of(p, solution)
    assert decision is not None
    assert evaluate(p, decision).makespan <= solution.makespan


def test_lives_that_cannot_be_packed_are_no_decision() -> None:
    p = problem(
        on("hvx", "a", 3),
        on("hmx", "b", 3),
        buffers=(buffer("pin", 4, "a", address=4), buffer("x", 6, "b")),
        capacity=12,
    )
    _, solution = best_of(flat_model(p))
    assert solution is not None and solution.makespan == 3
    assert decision_of(p, solution) is None


def test_of_one_instant_what_takes_no_time_is_first() -> None:
    p = problem(run("mark"), on("hmx", "a", 2), move("d", 2, pipes={}), after="mark>a mark>d")
    _, solution = best_of(flat_model(p))
    assert solution is not None
    decision = decision_of(p, solution)
    assert decision is not None
    assert decision.actions.index(0) < decision.actions.index(1)
    assert decision.actions.index(2) < decision.actions.index(~2)
    assert evaluate(p, decision).makespan == 2


BREAKS: list[tuple[str, Callable[[FlatSolution], FlatSolution]]] = [
    ("does not give every op", lambda s: replace(s, start=s.start[1:])),
    ("has no mode 7", lambda s: replace(s, mode=(7, *s.mode[1:]))),
    ("does not take its duration", lambda s: replace(s, known=(s.start[0], *s.known[1:]))),
    ("before the entry", lambda s: _shifted(s, -1)),
    ("after the makespan", lambda s: replace(s, makespan=1)),
    ("is known", lambda s: _moved(s, 3, 0)),
    ("may not lie at 1", lambda s: replace(s, offsets={**(s.offsets or {}), 0: 1})),
    ("may not lie at 11", lambda s: replace(s, offsets={**(s.offsets or {}), 1: 11})),
    ("may not lie at 0", lambda s: replace(s, offsets={**(s.offsets or {}), 2: 0})),
    ("has no address", lambda s: replace(s, offsets={})),
    ("share bytes", lambda s: replace(s, offsets={**(s.offsets or {}), 0: 0, 3: 0})),
]


def _shifted(s: FlatSolution, by: int) -> FlatSolution:
    return replace(
        s,
        start=tuple(t + by for t in s.start),
        moved=tuple(t + by for t in s.moved),
        known=tuple(t + by for t in s.known),
    )


def _moved(s: FlatSolution, op: int, to: int) -> FlatSolution:
    by = to - s.start[op]
    at = [list(column) for column in (s.start, s.moved, s.known)]
    for column in at:
        column[op] += by
    return replace(s, start=tuple(at[0]), moved=tuple(at[1]), known=tuple(at[2]))


@pytest.mark.parametrize(("says", "change"), BREAKS)
def test_a_broken_solution_is_told(says: str, change: Callable[[FlatSolution], FlatSolution]) -> None:
    p = everything()
    _, solution = best_of(flat_model(p, addresses=True))
    assert solution is not None
    assert says in (broken_rule(p, change(solution)) or "")


def test_engines_given_twice_are_told() -> None:
    p = problem(on("hmx", "a", 2), on("hmx", "b", 2), run("c", held("hvx", 2, ids=(0,))), move("d", 2, pipes={}))
    _, solution = best_of(flat_model(p))
    assert solution is not None
    assert "'hmx' gives more than its 1 units" in (broken_rule(p, _moved(solution, 0, solution.start[1])) or "")
    both = _moved(_moved(solution, 3, 0), 2, 1)
    assert "hvx[0] does two things at once" in (broken_rule(p, both) or "")
    bytes_too = p.model_copy(update={"buffers": (buffer("x", 3, "a", "b"),)})
    assert "more than 0 B are alive" in (broken_rule(bytes_too, solution) or "")


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

    def run_once(self: LocalSearch, incumbents: Any = (), sharpen: Any = None) -> Any:
        if sharpen is not None:
            self.bounds = sharpen()
        p = self.problem
        decision = list_schedule(p, Policy(tuple(-float(i) for i in range(len(p.ops))), (ANY,) * len(p.ops)))
        assert decision is not None
        return Found(decision, evaluate(p, decision).makespan, 1)

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
def child(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a program of the test's own in place of the solver's process."""
    start = subprocess.Popen

    def install(then: str) -> None:
        code = CHILD.format(then=then.strip())

        def popen(command: list[str], **keys: Any) -> Any:
            return start([sys.executable, "-c", code, command[-1]], **keys)

        monkeypatch.setattr(guard_module.subprocess, "Popen", popen)

    return install


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
    monkeypatch.setattr(guard_module, "START_S", 0.2)
    monkeypatch.setattr(
        guard_module.subprocess,
        "Popen",
        lambda command, start=subprocess.Popen, **keys: start(
            [sys.executable, "-c", "import time; time.sleep(600)"], **keys
        ),
    )
    job = Job(p, lower_bounds(p).heads_tails, flat_model(p).options, None)
    with Guard() as guard:
        assert guard.solve(job).status == "OVERRUN"
