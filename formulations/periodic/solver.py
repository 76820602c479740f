"""How the models of loops are handed to CP-SAT: seed, workers and limit of an errand, and the time it took."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from hexloom.formulations.periodic.fixed_starts import FixedStarts
    from hexloom.formulations.periodic.model import ModuloJob
    from hexloom.formulations.periodic.range_model import RangeJob

    Job: TypeAlias = ModuloJob | FixedStarts | RangeJob


def solver_for(job: Job, *, presolve: bool = True) -> cp_model.CpSolver:
    """Return a solver that keeps to the limits of ``job``."""
    from ortools.sat.python import cp_model  # loads long: only where it solves

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = job.seed
    parameters.num_workers = 1 if job.deterministic else job.workers
    parameters.cp_model_presolve = presolve
    if job.deterministic:
        parameters.max_deterministic_time = job.seconds
    else:
        parameters.max_time_in_seconds = job.seconds
    return solver


def spent_s(job: Job, solver: cp_model.CpSolver) -> float:
    """Return the seconds that the search took, of the kind that ``job`` counts."""
    return solver.response_proto.deterministic_time if job.deterministic else solver.wall_time
