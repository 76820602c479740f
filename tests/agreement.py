"""One random problem, every way of solving it: what they prove must agree with the oracle, channels rigid."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from oracle import OracleLimit, optimum
from plan_rules import faults

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.configuration.bound import configuration_bound
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution
from hexloom.formulations.milp import accepts, cross_check
from hexloom.optimizer.certificate import check_arithmetic, check_certificate
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import BoundRow
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem

SECONDS = 20.0
"""Deterministic seconds of CP-SAT, wall seconds of the MILP: these problems take a hundredth."""

MOST_STATES = 20_000
"""States after which the search over events is given up."""

MOST_STARTS = 600
"""The MILP is asked about problems with at most so many ops times ticks."""


def compare(problem: Problem) -> list[str]:
    """Assert that all ways agree on ``problem``; return which of them had their say.

    The oracle reads channels and demands as they are written, all others the shares that stand for them.
    """
    try:
        witness = optimum(problem, rigid=True)
    except OracleLimit:
        return ["oracle gave up"]
    view = problem.under("rigid")
    best = None if witness is None else witness.ticks
    heads_tails = lower_bounds(view).heads_tails
    if first_shortfall(view, heads_tails) is not None:
        assert best is None
        return ["arithmetic"]
    said = ["none fits" if best is None else "rigid channels" if view.shares else "no channels"]
    said += _by_events(problem, view, best)
    said += _by_cp_sat(problem, view, best)
    said += _by_milp(view, best)
    if best is not None:
        said += _bounds(view, best)
    return said


def _by_events(problem: Problem, view: Problem, best: int | None) -> list[str]:
    bounds = lower_bounds(view)
    limits = SearchLimits(MOST_STATES)
    found = search_events(view, bounds.heads_tails, evaluate, None, bounds.best.ticks, limits)
    if found.best is not None:
        assert best is not None
        assert found.best[1].makespan >= best
        _keeps_all_rules(problem, view, found.best[0])
    if not (found.proven or found.infeasible):
        return ["events gave up"]
    assert (None if found.best is None else found.best[1].makespan) == best
    return ["events"]


def _by_cp_sat(problem: Problem, view: Problem, best: int | None) -> list[str]:
    """Exact without pipes; with them a relaxation, because the hardware chooses who is served first."""
    bounds = lower_bounds(view)
    options = FlatOptions(
        addresses=True,
        upper=view.horizon_ticks,
        lower=bounds.best.ticks,
        seconds=SECONDS,
        deterministic=True,
        seed=0,
        workers=1,
    )
    solutions: list[FlatSolution] = []
    status, bound = FlatModel(view, bounds.heads_tails, options).solve(solutions.append)
    assert status in ("OPTIMAL", "INFEASIBLE")
    for solution in solutions:
        decision = decision_of(view, solution)
        assert decision is not None
        _keeps_all_rules(problem, view, decision)
    pipes = {engine.name for engine in view.engines if engine.kind == "pipe"}
    if any(use.engine in pipes and use.ticks for op in view.ops for mode in op.modes for use in mode.uses):
        assert best is None or (status == "OPTIMAL" and bound <= best)
        return ["CP-SAT, pipes relaxed"]
    assert (bound if status == "OPTIMAL" else None) == best
    return ["CP-SAT"]


def _by_milp(view: Problem, best: int | None) -> list[str]:
    if accepts(view) is not None or len(view.ops) * view.horizon_ticks > MOST_STARTS:
        return []
    found = cross_check(view, seconds=SECONDS)
    if not found.proven:
        return ["MILP gave up"]
    assert found.value == best
    return ["MILP"]


def _bounds(view: Problem, best: int) -> list[str]:
    found = lower_bounds(view)
    rows = [BoundRow(name=b.name, ticks=b.ticks, engine=b.engine, detail=b.detail) for b in found.found]
    assert all(row.ticks <= best for row in rows)
    assert check_arithmetic(view, rows) == []
    priced = configuration_bound(view, found.heads_tails, time_limit_s=SECONDS)
    if priced is None:
        return []
    assert priced[0].ticks <= best
    assert check_certificate(view, priced[1]) == []
    raised = Fraction(priced[1].bound) * (1 + Fraction(1, 10**9))
    assert check_certificate(view, priced[1].model_copy(update={"bound": str(raised)}))
    return ["certificate"]


def _keeps_all_rules(problem: Problem, view: Problem, decision: Decision) -> None:
    """Assert that the plan is sound for the checker, which sees shares, and for the oracle, which sees channels."""
    plan = make_plan(view, decision)
    assert check_plan(view, plan) == []
    assert faults(problem, plan, simulate(problem, plan).times, rigid=True) == []
