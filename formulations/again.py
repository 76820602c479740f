"""A claim of the search proven once more: CP-SAT is asked for anything shorter, with other seeds, presolve on and off.

CP-SAT 9.15 has certified wrong optima, and the search over events is a program of our own. A claim that is contradicted
by a solution that keeps all rules is withdrawn; the solution is the better plan.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.flat.search import Refutation, refute

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Evaluate
    from hexloom.formulations.portfolio import Found
    from hexloom.formulations.problem import Problem

WITHDRAWN = "internal error: a second search contradicts a proof of the first, which is withdrawn"


class Claim(NamedTuple):
    """What search claims: nothing is at most ``upper`` ticks. ``by_solver``: CP-SAT has been asked twice already."""

    upper: int
    by_solver: bool


def claim_of(problem: Problem, found: Found, lower: int | Fraction) -> Claim | None:
    """Return what ``found`` claims beyond the bound ``lower`` of arithmetic, or None when it claims nothing."""
    if found.best is None:
        if found.proven_infeasible or found.no_order:
            return Claim(problem.horizon_ticks, found.proven_infeasible and not found.by_events)
        return None
    makespan = found.best[1].makespan
    if max(found.search_bound, found.plan_bound) >= makespan > lower:
        return Claim(int(makespan) - 1, not found.by_events and found.search_bound >= makespan)
    return None


def prove_again(
    problem: Problem, bounds: Bounds, evaluate: Evaluate, found: Found, seconds: float, seed: int | None
) -> tuple[Found, bool]:
    """Return ``found`` and whether its claim was proven once more; without its proofs where that was contradicted.

    For whole ticks only. Takes up to ``seconds``.
    """
    claim = claim_of(problem, found, bounds.best.ticks)
    if claim is None:
        return found, False
    started, proven = time.monotonic(), False
    with Guard() as guard:
        for turn, presolve in enumerate((True, False)):
            left = seconds / 2 if seed is not None else seconds - (time.monotonic() - started)
            if left <= 0:
                break
            other = (seed or 0) + 2 + turn
            said = refute(guard, problem, bounds, evaluate, claim.upper, left, other, presolve, seed is not None)
            if said.solution is not None:
                return _withdrawn(found, said), False
            proven = proven or said.refuted
    return found, proven


def _withdrawn(found: Found, said: Refutation) -> Found:
    return replace(
        found,
        best=said.solution,
        search_bound=0,
        plan_bound=0,
        proven_infeasible=False,
        no_order=False,
        notes=(*found.notes, WITHDRAWN),
    )
