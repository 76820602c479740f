"""Short ways to ask the flat model where ops slow each other a question in this process."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hexloom.formulations.flat.slowed_model import SlowedModel
from hexloom.formulations.flat.slowing import BLUR, Slowing
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.problem import Problem, Rule


def slowed_model(
    p: Problem,
    *,
    rule: Rule = "fluid",
    scale: int | Fraction = 4,
    events: bool = False,
    upper: int | None = None,
    seconds: float = 20,
    presolve: bool = True,
) -> SlowedModel:
    options = FlatOptions(
        addresses=False,
        upper=floor(p.horizon_ticks * 4 * scale) if upper is None else upper,
        lower=0,
        seconds=seconds,
        deterministic=True,
        seed=0,
        workers=1,
        presolve=presolve,
    )
    return SlowedModel(p, options, Slowing(rule, Fraction(scale), events))


def least_makespan(p: Problem, *, rule: Rule = "fluid", scale: int | Fraction = 4, events: bool = False) -> Fraction:
    """Return what the model says is the least makespan, in ticks."""
    solutions: list[FlatSolution] = []
    status, bound = slowed_model(p, rule=rule, scale=scale, events=events).solve(solutions.append)
    assert status == "OPTIMAL" and bound == solutions[-1].makespan
    return Fraction(bound) / scale


def accepts(p: Problem, decision: Decision, simulated: Simulated, *, rule: Rule, scale: Fraction, events: bool) -> bool:
    """Whether the decision's own times, every variable hinted, solve the model as they stand."""
    upper = floor(float(simulated.makespan * scale) + BLUR)
    flat = slowed_model(p, rule=rule, scale=scale, events=events, upper=upper)
    flat.hint(decision, simulated)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    return bool(solver.solve(flat.model) == cp_model.OPTIMAL)
