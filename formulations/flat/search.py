"""The flat formulation as a search: bytes first, then addresses; every solution goes through the simulator."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.beside import Beside, Result
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job
from hexloom.formulations.flat.lane import BROKEN, CONTRADICTED, Lane, Task
from hexloom.formulations.flat.solution import FlatOptions
from hexloom.formulations.flat.twice import Twice
from hexloom.formulations.flat.verify import broken_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem

__all__ = ["BROKEN", "CONTRADICTED", "FlatFound", "Refutation", "refute", "search_flat"]

MOST_WORKERS = 8


@dataclass(frozen=True, slots=True)
class FlatFound:
    """Best decision, what the simulator says of it, and the bound proven by search (0: none).

    ``infeasible`` says that the model has no solution at all. ``notes`` tell where the solver was caught in error;
    nothing that it says of such a problem counts as proven.
    """

    decision: Decision | None
    simulated: Simulated | None
    bound: int
    infeasible: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def search_flat(
    guard: Guard,
    problem: Problem,
    ht: HeadsTails,
    evaluate: Evaluate,
    incumbent: tuple[Decision, Simulated] | None,
    lower: int,
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None = None,
    *,
    first: bool = False,
    beside: Guard | None = None,
    sharpen: Callable[[], int] | None = None,
) -> FlatFound:
    """Improve ``incumbent`` with CP-SAT for at most ``seconds``; with ``first`` only until any plan is found.

    First the scratchpad is only counted: a relaxation, whose bound holds for the whole problem. Its solutions are
    packed; only when that fails are fewer bytes counted, and then the model with addresses solved: with a second guard
    ``beside`` it is solved from the beginning, at the same time. That nothing is shorter counts only when a second run
    without presolve and with another seed says so too, and when the same model, asked for the incumbent itself, does
    not deny it: CP-SAT 9.15 has certified wrong optima. Where bytes do not matter, the second guard is for asking twice
    at the same time; ``sharpen`` then gives a better bound when that takes longer.
    """
    task = Task(problem, ht, evaluate, lower, seconds, seed, first)
    workers = max(1, min(MOST_WORKERS, os.cpu_count() or 1))
    if beside is not None and problem.fits_side_by_side:
        both = (guard, beside)
        return _found(Twice(both, task, incumbent, max(1, workers // 2), on_progress, sharpen).run(), lower)
    if beside is not None:
        return _found(Beside(guard, beside, task, incumbent, max(1, workers // 2), on_progress).run(), lower)

    def tell(lane: Lane) -> None:
        if on_progress is not None and lane.best is not None:
            on_progress(lane.best[1].makespan, lane.bound)

    lane = Lane(guard, task, incumbent, workers, tell)
    interrupted = False
    try:
        lane.by_bytes()
    except KeyboardInterrupt:
        interrupted = True
    return _found(Result(lane.best, lane.bound, lane.exhausted, interrupted, tuple(lane.notes)), lower)


def _found(result: Result, lower: int) -> FlatFound:
    best, bound, exhausted, notes = result.best, result.bound, result.exhausted, result.notes
    if notes:
        exhausted, bound = False, lower
    if best is None:
        return FlatFound(None, None, 0, exhausted, result.interrupted, notes)
    return FlatFound(*best, min(bound, int(best[1].makespan)), interrupted=result.interrupted, notes=notes)


@dataclass(frozen=True, slots=True)
class Refutation:
    """Whether the model has no solution within a window, or else one that is a plan within it; maybe neither."""

    refuted: bool
    solution: tuple[Decision, Simulated] | None = None


def refute(
    guard: Guard,
    problem: Problem,
    bounds: Bounds,
    evaluate: Evaluate,
    upper: int,
    seconds: float,
    seed: int,
    presolve: bool,
    deterministic: bool,
) -> Refutation:
    """Ask CP-SAT for any plan of at most ``upper`` ticks: first with bytes only counted, then with addresses.

    That a makespan is below the bounds of arithmetic is for these to exclude, so the window begins at zero.
    """
    if upper < 0:
        return Refutation(True)
    found: list[FlatSolution] = []
    workers = max(1, min(MOST_WORKERS, os.cpu_count() or 1))
    for addresses in (False, True):
        options = FlatOptions(addresses, upper, 0, seconds / 2, deterministic, seed, workers, presolve, True)
        outcome = guard.solve(Job(problem, bounds.heads_tails, options, None), found.append)
        if outcome.status == "INFEASIBLE" and not found:
            return Refutation(True)
        for solution in found:
            decision = decision_of(problem, solution) if broken_rule(problem, solution) is None else None
            simulated = None if decision is None else evaluate(problem, decision)
            if decision is not None and simulated is not None and not simulated.late and simulated.makespan <= upper:
                return Refutation(False, (decision, simulated))
        found.clear()
    return Refutation(False)
