"""Dependencies in the flat model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hexloom.formulations.flat.variables import FlatVars
    from hexloom.formulations.problem import Problem


def add_precedences(model: cp_model.CpModel, problem: Problem, variables: FlatVars) -> None:
    """Ensure ``start(after) >= known(before)`` for every dependency."""
    for after, befores in enumerate(problem.predecessors):
        for before in befores:
            model.add(variables.ops[after].start >= variables.ops[before].known)


def add_deadlines(model: cp_model.CpModel, problem: Problem, variables: FlatVars) -> None:
    """Ensure ``known(op) <= deadline(op)``."""
    for op, of in zip(problem.ops, variables.ops, strict=True):
        if op.deadline_ticks is not None:
            model.add(of.known <= op.deadline_ticks)
