"""The order in which the ways of solving are tried where ops slow each other.

Plans that know nothing of it, and those that never let demands exceed a capacity, are found as fast as ever; they are
where the search for a plan that lives with contention begins. Small problems are solved exactly; for any other start
times CP-SAT then raises the bound.
"""

from __future__ import annotations

import contextlib
import time
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import STATES_PER_SECOND, SearchLimits, search_events
from hexloom.formulations.feasibility import channel_shortfall, first_shortfall
from hexloom.formulations.fixed_order import drop_useless_guards
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.flat.slowed_search import search_contended
from hexloom.formulations.flows import without_shares
from hexloom.formulations.local_search import Limit, LocalSearch
from hexloom.formulations.portfolio import Found, search
from hexloom.formulations.shared_search import CLOSE, SharedSearch
from hexloom.formulations.speeds import Speeds
from hexloom.formulations.steady import steadied

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate
    from hexloom.formulations.problem import Problem, Rule

UNAWARE_SHARE, RIGID_SHARE, AWARE_SHARE, EVENT_SHARE = 0.15, 0.1, 0.4, 0.5
"""Shares of the time for a plan that ignores contention, for one without it, for one made by policies that know how
transfers share channels, and of the rest for the exact search."""

UNAWARE_TIGHT_SHARE = 0.6
"""The first of these where not all buffers fit together: then CP-SAT gives them addresses."""

MANY_OPS = 150
"""From so many ops on list schedules are judged under the rule from the start."""

EVENT_OPS = 14
"""Up to so many ops the exact search over events is tried."""

SLOWED_OPS, SLOWED_SHARE = 12, 0.3
"""Up to so many ops CP-SAT is asked what can be gained, for a share of the time: of more it proves nothing."""

MOST_GUARD_WORK = 50_000
"""Guards times ops up to which it is tried which of them can be left out: each costs a simulation."""


def search_shared(
    problem: Problem,
    rule: Rule,
    bounds: Bounds,
    evaluators: Callable[[Rule], Evaluate],
    incumbents: tuple[Decision, ...],
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None = None,
    enough_gap: Fraction = Fraction(0),
) -> Found:
    """Search for at most ``seconds`` (counted in work when there is a ``seed``), or until a plan meets a bound.

    A plan that is at most ``enough_gap`` of its makespan above it ends the search too. ``evaluators`` gives the
    simulator of a rule.
    """
    with contextlib.ExitStack() as stack:
        # The solver loads while others search.
        guard = stack.enter_context(Guard()) if len(problem.ops) <= SLOWED_OPS and seconds > 0 else None
        return _search(guard, problem, rule, bounds, evaluators, incumbents, seconds, seed, on_progress, enough_gap)


def _search(
    guard: Guard | None,
    problem: Problem,
    rule: Rule,
    bounds: Bounds,
    evaluators: Callable[[Rule], Evaluate],
    incumbents: tuple[Decision, ...],
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None,
    enough_gap: Fraction,
) -> Found:
    started = time.monotonic()

    def left(spent: float) -> float:
        """Return the seconds that are left, after shares of ``spent`` where time is counted."""
        return seconds * (1 - spent) if seed is not None else seconds - (time.monotonic() - started)

    if len(problem.ops) >= MANY_OPS:
        return _of_many(problem, rule, bounds, evaluators(rule), incumbents, seconds, seed, on_progress, enough_gap)
    free, tight = lower_bounds(problem), not problem.fits_side_by_side
    spent = UNAWARE_TIGHT_SHARE if tight else UNAWARE_SHARE
    unaware = search(problem, free, evaluators("none"), incumbents, seconds * spent, seed, solver=tight)
    if unaware.best is None and not unaware.interrupted and not unaware.no_order and seconds > 0:
        # Slowed ops only take longer: what has no schedule without contention has none with it.
        unaware = search(problem, free, evaluators("none"), incumbents, left(spent) / 2, seed)
    if unaware.best is None:
        return unaware
    starts = [*incumbents, unaware.best[0]]
    if not unaware.interrupted:
        rigid = _rigid(problem, evaluators, seconds * RIGID_SHARE, seed)
        starts += [] if rigid is None else [rigid]
    spent += RIGID_SHARE
    if not unaware.interrupted and _transfers_share(problem):
        share = min(AWARE_SHARE, (1 - spent) / 2)
        aware = _of_many(problem, rule, bounds, evaluators(rule), (), seconds * share, seed, on_progress, enough_gap)
        starts += [] if aware.best is None else [aware.best[0]]
        spent += share
    limit = Limit(0.0, deterministic=seed is not None)
    local = SharedSearch(problem, rule, bounds, evaluators(rule), limit, seed or 0, on_progress, enough_gap)
    local.run(starts)
    best, proven, states = local.best, local.proven, 0
    interrupted = unaware.interrupted
    if len(problem.ops) <= EVENT_OPS and not local.done and not interrupted:
        share = left(spent) * EVENT_SHARE
        limits = SearchLimits(states=int(share * STATES_PER_SECOND) + 1)
        if seed is None:
            limits = SearchLimits(seconds=share)
        at_least = float(bounds.best.ticks)
        events = search_events(problem, bounds.heads_tails, evaluators(rule), best, at_least, limits, rule)
        best, proven, states, interrupted = events.best, events.proven, events.states, events.interrupted
        spent += (1 - spent) * EVENT_SHARE
        if events.infeasible:
            tried = unaware.evaluations + local.evaluations + states
            return Found(None, 0, tried, True, False, notes=unaware.notes, by_events=True)
    if not (proven or local.done) and not interrupted and left(spent) > 0:
        share = left(spent) * (1.0 if guard is None else 1 - SLOWED_SHARE)
        limit = Limit(share, deterministic=seed is not None)
        local = SharedSearch(problem, rule, bounds, evaluators(rule), limit, seed or 0, on_progress, enough_gap)
        local.run(starts if best is None else [best[0]])
        best, proven, interrupted = local.best or best, local.proven, limit.interrupted
    bound, plan_bound, notes = Fraction(0), Fraction(0), unaware.notes
    met = (
        best is None or best[1].makespan - float(bounds.best.ticks) <= max(CLOSE, float(enough_gap)) * best[1].makespan
    )
    if guard is not None and best is not None and not met and not interrupted:
        share = seconds * SLOWED_SHARE
        if seed is None:
            share = min(share, left(spent))
        lower = Fraction(bounds.best.ticks)
        slowed = search_contended(
            guard, problem, rule, bounds, evaluators(rule), best, lower, share, seed, on_progress, plan_proven=proven
        )
        best, bound, plan_bound, interrupted = slowed.best, slowed.bound, slowed.plan_bound, slowed.interrupted
        notes += slowed.notes
    if best is not None and len(best[0].guards) * len(problem.ops) <= MOST_GUARD_WORK:
        best = drop_useless_guards(problem, best[0], evaluators(rule))
    if best is not None:
        best = steadied(problem, best, evaluators(rule))
    evaluations = unaware.evaluations + local.evaluations + states
    if best is not None and proven:
        plan_bound = Fraction(best[1].makespan)
    return Found(best, bound, evaluations, False, interrupted, notes=notes, plan_bound=plan_bound)


def _transfers_share(problem: Problem) -> bool:
    return any(
        mode.dma is not None and any(pull.rate for pull in mode.pulls) for op in problem.ops for mode in op.modes
    )


def _of_many(
    problem: Problem,
    rule: Rule,
    bounds: Bounds,
    evaluate: Evaluate,
    incumbents: tuple[Decision, ...],
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None,
    enough_gap: Fraction,
) -> Found:
    """Search where a try takes long: by policies for all ops, on a clock that knows the rule."""
    limit = Limit(seconds, deterministic=seed is not None)
    local = LocalSearch(
        problem, bounds, evaluate, limit, seed or 0, on_progress, enough_gap, speeds=Speeds(problem, rule)
    )
    found = local.run(incumbents)
    return Found(found.best, 0, found.evaluations, False, limit.interrupted, no_order=found.proven_infeasible)


def _rigid(
    problem: Problem, evaluators: Callable[[Rule], Evaluate], seconds: float, seed: int | None
) -> Decision | None:
    """Return a plan in which demands never exceed a capacity, its order told by guards; None if there is none."""
    if not problem.channels or channel_shortfall(problem) is not None:
        return None
    view = problem.with_rigid_channels()
    bounds = lower_bounds(view)
    if first_shortfall(view, bounds.heads_tails) is not None:
        return None
    found = search(view, bounds, evaluators("rigid"), (), seconds, seed, solver=False)
    if found.best is None:
        return None
    return without_shares(problem, found.best[0])
