"""The flat model against the oracle: where it is exact, where it is a relaxation, and that it never loses a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from effort import examples
from hypothesis import assume, event, given, settings
from in_process import InProcess
from oracle import OracleLimit, Witness, optimum
from ortools.sat.python import cp_model
from plan_rules import faults
from strategies import problems

from hexloom import solve
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.decision import Decision
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.decision import Simulated
    from hexloom.formulations.problem import Problem

SECONDS = 20.0


def best(problem: Problem) -> Witness | None:
    try:
        return optimum(problem)
    except OracleLimit:
        event("oracle gave up")
        assume(False)
        raise


def solved(
    problem: Problem, *, addresses: bool, presolve: bool = True, upper: int | None = None
) -> tuple[str, int, FlatSolution | None]:
    """Run the flat model in this process; returns status, bound and the last solution."""
    bounds = lower_bounds(problem)
    options = FlatOptions(
        addresses=addresses,
        upper=problem.horizon_ticks if upper is None else upper,
        lower=bounds.best.ticks,
        seconds=SECONDS,
        deterministic=True,
        seed=0,
        workers=1,
        presolve=presolve,
    )
    solutions: list[FlatSolution] = []
    status, bound = FlatModel(problem, bounds.heads_tails, options).solve(solutions.append)
    assert status in ("OPTIMAL", "INFEASIBLE")
    return status, bound, solutions[-1] if solutions else None


def has_pipes(problem: Problem) -> bool:
    pipes = {engine.name for engine in problem.engines if engine.kind == "pipe"}
    return any(use.engine in pipes and use.ticks for op in problem.ops for mode in op.modes for use in mode.uses)


def compare(problem: Problem, *, presolve: bool) -> None:
    found = best(problem)
    if first_shortfall(problem, lower_bounds(problem).heads_tails) is not None:
        return
    for addresses in (False, True):
        status, bound, solution = solved(problem, addresses=addresses, presolve=presolve)
        event(status)
        if found is None:
            assert status == "INFEASIBLE" or has_pipes(problem) or not addresses
            continue
        assert status == "OPTIMAL"
        assert solution is not None
        assert bound == solution.makespan
        assert solution.makespan <= found.ticks
        if addresses and not has_pipes(problem):
            assert solution.makespan == found.ticks


@given(problems())
def test_the_optimum_with_presolve(problem: Problem) -> None:
    compare(problem, presolve=True)


@given(problems())
def test_the_optimum_without_presolve(problem: Problem) -> None:
    compare(problem, presolve=False)


@given(problems())
def test_a_solution_becomes_a_plan_that_is_no_longer(problem: Problem) -> None:
    """Where no pipe is shared; with pipes the hardware's order of service can differ from the model's."""
    assume(first_shortfall(problem, lower_bounds(problem).heads_tails) is None)
    for addresses in (False, True):
        _, _, solution = solved(problem, addresses=addresses)
        if solution is None:
            continue
        decision = decision_of(problem, solution)
        if decision is None:
            assert not addresses
            continue
        plan = make_plan(problem, decision)
        timeline = simulate(problem, plan)
        assert faults(problem, plan, timeline.times) == []
        if not has_pipes(problem):
            assert timeline.makespan <= solution.makespan


def accepts(problem: Problem, decision: Decision, simulated: Simulated, *, addresses: bool) -> bool:
    """Whether the decision's own times, and nothing else, solve the model."""
    bounds = lower_bounds(problem)
    options = FlatOptions(
        addresses=addresses,
        upper=simulated.makespan,
        lower=bounds.best.ticks,
        seconds=SECONDS,
        deterministic=True,
        seed=0,
        workers=1,
    )
    flat = FlatModel(problem, bounds.heads_tails, options)
    flat.hint(decision, simulated)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    return solver.solve(flat.model) == cp_model.OPTIMAL


@given(problems())
def test_no_plan_is_cut_off(problem: Problem) -> None:
    """The oracle's plan, every variable hinted, is accepted as it stands."""
    found = best(problem)
    assume(found is not None)
    assert found is not None
    assume(first_shortfall(problem, lower_bounds(problem).heads_tails) is None)
    decision = Decision(found.modes, found.units, found.actions, found.offsets, found.guards, found.flows)
    simulated = evaluate(problem, decision)
    for addresses in (False, True):
        assert accepts(problem, decision, simulated, addresses=addresses)


def compare_whole(problem: Problem) -> None:
    found = best(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portfolio, "Guard", InProcess)
        patch.setattr(portfolio, "EVENT_OPS", 0)
        result = solve(problem, seed=0, time_limit_s=0.2)
    event(f"{result.status} {result.certificate}")
    assert result.notes == () or not any("internal error" in note for note in result.notes)
    if result.status == "INFEASIBLE":
        assert found is None
    if result.schedule is not None:
        assert found is not None
        assert result.schedule.lower_bound <= found.ticks <= result.schedule.makespan
        assert result.status != "OPTIMAL" or result.schedule.makespan == found.ticks


@given(problems())
def test_what_a_solve_proves_is_true(problem: Problem) -> None:
    compare_whole(problem)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(problems())
def test_the_optimum_on_many(problem: Problem) -> None:
    compare(problem, presolve=True)
    compare(problem, presolve=False)


@pytest.mark.slow
@settings(max_examples=60)
@given(problems())
def test_what_many_solves_prove_is_true(problem: Problem) -> None:
    compare_whole(problem)
