"""The mixed-integer cross-check: what it takes, what it proves, and how it reads a solver that was cut short."""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING

import pulp
import pytest
from hypothesis import assume, event, given, settings
from oracle import OracleLimit, optimum
from strategies import problems
from unit.small import buffer, held, move, on, problem, run

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.milp import MilpResult, accepts, cross_check
from hexloom.formulations.mip_solver import cbc_bound
from hexloom.formulations.mip_solver import run as run_program
from hexloom.formulations.problem import Engine

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem

SOLVERS = ["cbc", *(["highs"] if importlib.util.find_spec("highspy") else [])]


@pytest.mark.parametrize("solver", SOLVERS)
def test_three_ops_on_two_threads(solver: str) -> None:
    p = problem(*(on("hvx", n, 2) for n in "abc"))
    assert cross_check(p, solver=solver) == MilpResult(4, 4, True, solver=solver)  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", SOLVERS)
def test_nothing_below(solver: str) -> None:
    p = problem(*(on("hvx", n, 2) for n in "abc"))
    found = cross_check(p, upper=3, solver=solver)  # type: ignore[arg-type]
    assert (found.bound, found.value, found.proven, found.infeasible) == (4, None, True, True)
    assert cross_check(p, upper=1) == MilpResult(2, None, True, infeasible=True, solver="arithmetic")


def test_addresses_count_not_only_bytes() -> None:
    buffers = (buffer("pin", 4, "a", address=4), buffer("x", 6, "b"))
    p = problem(on("hvx", "a", 3), on("hmx", "b", 3), buffers=buffers, capacity=12)
    assert cross_check(p).value == 6


def test_a_share_is_an_amount_held_until_the_result() -> None:
    ops = [run(n, held(e, 1), held("bus", 1, 3), latency=3) for n, e in (("a", "hmx"), ("b", "hvx"))]
    engines = (Engine(name="hmx"), Engine(name="hvx"), Engine(name="bus", units=5, kind="share"))
    assert cross_check(problem(*ops, engines=engines)).value == 6


def test_fixed_units() -> None:
    p = problem(run("a", held("hvx", 2, ids=(0,))), run("b", held("hvx", 2, ids=(0,))), on("hvx", "c", 4))
    assert cross_check(p).value == 4


def test_what_cannot_fit() -> None:
    too_big = problem(on("hvx", "a", 3), buffers=(buffer("x", 6, "a"),), capacity=5)
    assert cross_check(too_big) == MilpResult(4, None, True, infeasible=True, solver="arithmetic")
    late = problem(on("hvx", "a", 3, deadline_ticks=2))
    assert cross_check(late).infeasible


@pytest.mark.parametrize(
    ("p", "reason"),
    [
        (problem(move("d", 3)), "op 'd', mode 'default' is a transfer"),
        (problem(run("a"), buffers=(buffer("x", 3, "a"),), capacity=5), "buffer 'x' may live for no time"),
        (problem(run("a", held("hmx", 2, 3))), "op 'a' has no way to run, or more than 64"),
    ],
)
def test_what_it_does_not_take(p: Problem, reason: str) -> None:
    assert accepts(p) == reason
    with pytest.raises(ValueError, match="the cross-check does not take this problem"):
        cross_check(p)


def test_a_program_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 20000 starts"):
        cross_check(problem(on("hmx", "a", 30_000)))


def test_optimal_after_a_time_limit_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """PuLP's status is Optimal for an incumbent at the limit; the bound comes from the solver's own words."""
    p = problem(*(on("hvx", n, 2) for n in "abc"))
    log = "Result - Stopped on time limit\n\nObjective value:     4.00000000\nLower bound:         2.2\n"
    solve = pulp.LpProblem.solve

    def stopped(self: pulp.LpProblem, solver: pulp.PULP_CBC_CMD) -> int:
        status = solve(self, solver)
        with open(solver.optionsDict["logPath"], "w", encoding="utf-8") as file:
            file.write(log)
        self.sol_status = pulp.LpSolutionIntegerFeasible
        assert status == pulp.LpStatusOptimal
        return int(status)

    monkeypatch.setattr(pulp.LpProblem, "solve", stopped)
    assert cross_check(p, solver="cbc") == MilpResult(3, 4, False, solver="cbc")
    log = log.replace("2.2", "4.0000001")
    assert cross_check(p, solver="cbc") == MilpResult(4, 4, False, solver="cbc")


def test_no_time_at_all() -> None:
    engines = problem(on("hvx", "a", 1)).engines
    p = problem(*(run(f"a{i}", held("hvx", 3 + i % 4, 1 + i % 2)) for i in range(12)), engines=engines)
    found = cross_check(p, seconds=0.01, solver="cbc")
    assert found.bound <= 100
    assert not (found.proven and found.value is None and not found.infeasible)


@pytest.mark.parametrize(
    ("log", "bound"),
    [
        ("Result - Optimal solution found\n\nObjective value:                12.00000000\nEnumerated nodes: 0\n", 12),
        ("Result - Stopped on time limit\n\nObjective value:       15\nLower bound:                    11.500\n", 11.5),
        ("Result - Stopped on time limit\n\nNo feasible solution found\nLower bound:   3e+01\n", 30),
        ("Result - Stopped on time limit\n\nObjective value:       15\n", None),
        ("", None),
    ],
)
def test_the_bound_in_the_log(log: str, bound: float | None) -> None:
    assert cbc_bound(log) == bound


def test_what_only_integers_refute_is_infeasible_too() -> None:
    """2 x + 2 y = 3: CBC says "Integer infeasible" here, which PuLP does not tell from a time limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        program = pulp.LpProblem("odd", pulp.LpMinimize)
        x, y = (pulp.LpVariable(name, 0, 5, cat=pulp.LpInteger) for name in "xy")
        program += x
        program += 2 * x + 2 * y == 3
        answer = run_program(program, 10.0, "cbc")
    assert (answer.infeasible, answer.solution) == (True, False)


@settings(max_examples=max(10, settings().max_examples // 4))
@given(problems(max_ops=4, dma=False, max_buffers=3))
def test_it_agrees_with_the_oracle(p: Problem) -> None:
    assume(first_shortfall(p, lower_bounds(p).heads_tails) is None)
    assume(accepts(p) is None)
    try:
        best = optimum(p)
    except OracleLimit:
        assume(False)
        raise
    found = cross_check(p, None if best is None else best.ticks + 2)
    event("infeasible" if found.infeasible else "solved")
    assert found.proven
    assert found.value == (None if best is None else best.ticks)
    assert found.infeasible == (best is None)
