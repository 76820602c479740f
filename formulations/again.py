"""A claim of the search proven once more: CP-SAT is asked for anything shorter, with other seeds, presolve on and off.

CP-SAT 9.15 has certified wrong optima, and the search over events is a program of our own. A claim that is contradicted
by a solution that keeps all rules is withdrawn; the solution is the better plan.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import STATES_PER_SECOND, SearchLimits, search_events
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.flat.search import refute
from hexloom.formulations.shared_portfolio import EVENT_OPS
from hexloom.formulations.shared_search import CLOSE

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Evaluate
    from hexloom.formulations.events.search import Best
    from hexloom.formulations.portfolio import Found
    from hexloom.formulations.problem import Problem, Rule

WITHDRAWN = "internal error: a second search contradicts a proof of the first, which is withdrawn"


NO_SECOND_WAY = (
    "there is no second way to prove this: the search over events does so for few ops without transfers, and not by "
    "priority"
)


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
    close = CLOSE * makespan if isinstance(makespan, float) else 0
    if max(found.search_bound, found.plan_bound) >= makespan > lower + close:
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
                return _withdrawn(found, said.solution), False
            proven = proven or said.refuted
    return found, proven


def prove_again_by_events(
    problem: Problem, rule: Rule, evaluate: Evaluate, found: Found, seconds: float, seed: int | None
) -> tuple[Found, bool]:
    """Do the same where ops slow each other: the search over events from nothing, with the ops in reverse order.

    Under ``priority``, and where transfers are issued at one instant, the order of the ops is part of the problem, and
    many ops are too many; a note then says so.
    """
    transfers = any(mode.dma is not None for op in problem.ops for mode in op.modes)
    if rule == "priority" or transfers or len(problem.ops) > EVENT_OPS:
        return replace(found, notes=(*found.notes, NO_SECOND_WAY)), False
    turned = problem.changed(ops=problem.ops[::-1])
    bounds = lower_bounds(turned, rule)
    limit = SearchLimits(seconds=seconds) if seed is None else SearchLimits(states=int(seconds * STATES_PER_SECOND) + 1)
    again = search_events(turned, bounds.heads_tails, evaluate, None, float(bounds.best.ticks), limit, rule)
    least = 0.0 if again.best is None else again.best[1].makespan
    claimed = None if found.best is None else found.best[1].makespan
    if again.best is not None and (claimed is None or least < claimed * (1 - CLOSE)):
        return _withdrawn(found, found.best), False
    if claimed is None:
        return found, again.infeasible
    return found, again.proven and least <= claimed * (1 + CLOSE)


def _withdrawn(found: Found, best: Best | None) -> Found:
    return replace(
        found,
        best=best,
        search_bound=0,
        plan_bound=0,
        proven_infeasible=False,
        no_order=False,
        notes=(*found.notes, WITHDRAWN),
    )
