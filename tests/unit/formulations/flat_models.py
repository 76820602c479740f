"""Short ways to ask the flat model a question in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.problem import Problem


def flat_model(
    p: Problem,
    *,
    addresses: bool = False,
    upper: int | None = None,
    lower: int = 0,
    presolve: bool = True,
    seconds: float = 20,
    workers: int = 1,
) -> FlatModel:
    options = FlatOptions(
        addresses=addresses,
        upper=p.horizon_ticks if upper is None else upper,
        lower=lower,
        seconds=seconds,
        deterministic=workers == 1,
        seed=0,
        workers=workers,
        presolve=presolve,
    )
    return FlatModel(p, lower_bounds(p).heads_tails, options)


def best_of(flat: FlatModel) -> tuple[str, FlatSolution | None]:
    """Return the status and the last solution."""
    solutions: list[FlatSolution] = []
    status, bound = flat.solve(solutions.append)
    if status == "OPTIMAL":
        assert bound == solutions[-1].makespan
    return status, solutions[-1] if solutions else None


def optimum_of(p: Problem, *, addresses: bool = False, presolve: bool = True) -> int | None:
    """Return the optimum of the model, None when it has no solution."""
    status, solution = best_of(flat_model(p, addresses=addresses, presolve=presolve))
    assert status in ("OPTIMAL", "INFEASIBLE")
    return None if solution is None else solution.makespan


def admits(p: Problem, starts: dict[str, int], addresses: dict[str, int] | None = None, **known: int) -> bool:
    """Whether the model has a solution with these starts (``known`` and ``moved_NAME`` for transfers)."""
    flat = flat_model(p, addresses=addresses is not None, upper=p.horizon_ticks + 20)
    for i, op in enumerate(p.ops):
        of = flat.variables.ops[i]
        if op.name in starts:
            flat.model.add(of.start == starts[op.name])
        if op.name in known:
            flat.model.add(of.known == known[op.name])
        if f"moved_{op.name}" in known:
            assert of.moved is not None
            flat.model.add(of.moved == known[f"moved_{op.name}"])
    for b, unit in (flat.addresses or {}).items():
        buffer = p.buffers[b]
        if addresses and buffer.name in addresses:
            flat.model.add(unit * buffer.align_bytes == addresses[buffer.name])
    status, _ = best_of(flat)
    return status in ("OPTIMAL", "FEASIBLE")


def accepts(p: Problem, decision: Decision, simulated: Simulated, *, addresses: bool) -> bool:
    """Whether the decision's own times, every variable hinted, solve the model as they stand."""
    flat = flat_model(p, addresses=addresses, upper=simulated.makespan)
    flat.hint(decision, simulated)
    assert len(set(flat.model.proto.solution_hint.vars)) == len(flat.model.proto.variables), "a variable has no hint"
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.fix_variables_to_their_hinted_value = True
    return bool(solver.solve(flat.model) == cp_model.OPTIMAL)
