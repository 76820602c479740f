"""The order in which the ways of solving are tried: list schedules and local search, then CP-SAT from the best.

Small problems go to the exact search over events before CP-SAT. Where ops slow each other,
`hexloom.formulations.shared_portfolio` is asked instead.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from hexloom.formulations.events.search import STATES_PER_SECOND, SearchLimits, search_events
from hexloom.formulations.fixed_order import drop_useless_guards
from hexloom.formulations.flat.beside import FRESH_OPS
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.flat.search import search_flat
from hexloom.formulations.flat.windows import WindowSearch
from hexloom.formulations.local_search import Limit, LocalSearch
from hexloom.formulations.tile_beam import TileBeam, has_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.problem import Problem

LOCAL_SHARE, LOCAL_SHARE_LARGE, LARGE_OPS = 0.5, 0.8, 1000
"""Share of the time for local search, for problems of up to and above so many ops; CP-SAT starts from its best."""

LOCAL_SHARE_FEW, FEW_OPS = 0.2, 64
"""The same for problems that CP-SAT sees through as a whole."""

EVENT_OPS = 10
"""Up to so many ops the search over events is tried before CP-SAT."""

EVENT_SHARE = 0.25
"""Share of the time for the search over events."""

LOCAL_SHARE_SMALL = 0.03
"""The same where the search over events, which is exact, comes next, or where CP-SAT begins from nothing."""

WINDOWS_OPS, WINDOWS_SHARE = 64, 0.85
"""From so many ops on buffers that do not all fit get their addresses window by window, in this part of the time."""

BEAM_SHARE, BEAM_OPS = 0.3, 1000
"""Share of the time for the beam search over tile counters, after all else, for problems of up to so many ops."""

LOST_GAP = Fraction(1, 20)
"""Where windows end with a larger gap, list schedules that know addresses are tried too."""

LOCAL_ROOMY_S, TWICE_OPS = 0.1, 300
"""Most seconds for list schedules where buffers fit side by side, up to so many ops: CP-SAT is sooner at the end there.

It is asked twice at the same time, and knows what excludes each other.
"""

BESIDE_OPS = 400
"""Up to so many ops on buffers that do not all fit are solved by bytes and with addresses at the same time."""

FLAT_OPS = 4000
"""Above so many ops the flat model is not built: it would not leave its presolve in the time of a solve."""


class Sharpen(Protocol):
    """Gives better bounds than the first ones, or the same; ``quick`` in a moment."""

    def __call__(self, *, quick: bool = False) -> Bounds:
        """Return them."""


@dataclass(frozen=True, slots=True)
class Found:
    """The best decision with its simulated times, and what was proven by search: a bound (0: none), infeasibility.

    ``no_order`` is the stronger proof that no order of the ops fits in bytes. ``notes`` tell where the solver erred.
    ``plan_bound`` (0: none) holds for event-driven plans only, ``search_bound`` for any start times. ``by_events`` says
    that the search over events proved them.
    """

    best: tuple[Decision, Simulated] | None
    search_bound: float | Fraction
    evaluations: int
    proven_infeasible: bool
    interrupted: bool
    no_order: bool = False
    notes: tuple[str, ...] = ()
    plan_bound: float | Fraction = 0
    by_events: bool = False


def search(
    problem: Problem,
    bounds: Bounds,
    evaluate: Evaluate,
    incumbents: tuple[Decision, ...],
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None = None,
    sharpen: Sharpen | None = None,
    enough_gap: Fraction = Fraction(0),
    *,
    solver: bool = True,
) -> Found:
    """Search for at most ``seconds`` (counted in work when there is a ``seed``), or until a decision meets a bound.

    ``sharpen`` is asked for better bounds when the first list schedules do not meet these. A decision that is at most
    ``enough_gap`` of its makespan above the bound ends the search too. Without ``solver`` CP-SAT is not asked.
    """
    flat = solver and len(problem.ops) <= FLAT_OPS and seconds > 0
    started, known = time.monotonic(), bounds
    beam = seconds * BEAM_SHARE if flat and len(problem.ops) <= BEAM_OPS and has_lines(problem) else 0.0

    def sharper(*, quick: bool = False) -> Bounds:
        nonlocal known
        if sharpen is not None:
            known = sharpen(quick=quick)
        return known

    with contextlib.ExitStack() as stack:
        found = _search(
            stack, flat, problem, bounds, evaluate, incumbents, seconds - beam, seed, on_progress, sharper, enough_gap
        )
    over = found.interrupted or found.proven_infeasible or found.no_order
    proven = max(known.best.ticks, found.search_bound, found.plan_bound)
    if not beam or over or _met(found.best, proven, enough_gap):
        return found
    # What ends soon has ended; whatever CP-SAT has left open may still be shorter in an order of tiles.
    left = beam if seed is not None else seconds - (time.monotonic() - started)
    return _by_beam(problem, known, evaluate, found, left, seed, on_progress)


def _search(
    stack: contextlib.ExitStack,
    flat: bool,
    problem: Problem,
    bounds: Bounds,
    evaluate: Evaluate,
    incumbents: tuple[Decision, ...],
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None,
    sharpen: Sharpen | None,
    enough_gap: Fraction,
) -> Found:
    started = time.monotonic()
    guards: tuple[Guard, ...] = ()
    tight = not problem.fits_side_by_side
    fresh = tight and len(problem.ops) <= FRESH_OPS
    twice = flat and not tight and EVENT_OPS < len(problem.ops) <= TWICE_OPS

    def not_yet() -> Bounds:
        # The solver loads while bounds are sharpened and the local search runs; easy problems need neither.
        nonlocal guards
        if flat:
            both = twice or (tight and len(problem.ops) <= BESIDE_OPS)
            more = range(len(guards), 2 if both else 1)
            guards = (*guards, *(stack.enter_context(Guard(lazy=True)) for _ in more))
            for guard in guards:
                guard.prepare()
        return bounds if sharpen is None else sharpen(quick=twice and seed is None)

    share = 1.0 if not flat else LOCAL_SHARE if len(problem.ops) <= LARGE_OPS else LOCAL_SHARE_LARGE
    if flat and len(problem.ops) <= FEW_OPS:
        share = LOCAL_SHARE_SMALL if len(problem.ops) <= EVENT_OPS or fresh else LOCAL_SHARE_FEW
    if flat and _needs_windows(problem):
        guards = (stack.enter_context(Guard(lazy=True)),)
        windows = WindowSearch(guards[0], problem, bounds, evaluate, seconds * WINDOWS_SHARE, seed, on_progress)
        begun = _shortest([(decision, evaluate(problem, decision)) for decision in incumbents])
        if _met(begun, bounds.best.ticks, enough_gap):
            return Found(begun, 0, len(incumbents), False, False)
        placed = _shortest([best for best in (begun, windows.run(enough_gap)) if best is not None])
        left = seconds * (1 - WINDOWS_SHARE) + max(0.0, windows.budget.left)
        left = left if seed is not None else seconds - (time.monotonic() - started)
        if placed is not None and not windows.interrupted and not _met(placed, bounds.best.ticks, enough_gap):
            bounds, sharpen = not_yet(), None
        so_far = Found(placed, 0, windows.evaluations, False, windows.interrupted)
        if windows.interrupted or _met(placed, bounds.best.ticks, enough_gap):
            return so_far
        if _met(placed, bounds.best.ticks, LOST_GAP):
            if left <= 0:
                return so_far
            return _by_solver(guards, problem, bounds, evaluate, so_far, left, seed, on_progress)
        incumbents = (*incumbents, *(() if placed is None or placed is begun else (placed[0],)))
        seconds, started, share = left, time.monotonic(), LOCAL_SHARE_LARGE
    if twice:
        share = min(share, LOCAL_ROOMY_S / seconds)
    limit = Limit(seconds * share, deterministic=twice or seed is not None)
    local = LocalSearch(problem, bounds, evaluate, limit, seed or 0, on_progress, enough_gap)
    found = local.run(incumbents, not_yet, climb=not twice)
    best = found.best
    lower = local.bounds.best.ticks
    proven = _met(best, lower, enough_gap)
    left = seconds * (1 - share) if seed is not None else seconds - (time.monotonic() - started)
    if seed is not None and fresh:
        left = seconds  # these searches begin from nothing, and have what they would have alone
    if not guards or proven or found.proven_infeasible or limit.interrupted or left <= 0:
        return Found(best, 0, found.evaluations, False, limit.interrupted, no_order=found.proven_infeasible)
    plan_bound: float = 0
    if len(problem.ops) <= EVENT_OPS:
        share = left * EVENT_SHARE
        counted = int(share * STATES_PER_SECOND) + 1
        limits = SearchLimits(seconds=share) if seed is None else SearchLimits(states=counted)
        events = search_events(problem, bounds.heads_tails, evaluate, best, int(lower), limits)
        if events.best is not None and events.best is not best:
            best = drop_useless_guards(problem, events.best[0], evaluate)
            if on_progress is not None:
                on_progress(best[1].makespan, float(lower))
        if events.infeasible:
            return Found(None, 0, found.evaluations, True, False, by_events=True)
        if events.proven and best is not None:
            plan_bound = best[1].makespan
            if events.free_start or plan_bound <= lower:
                bound = plan_bound if plan_bound > lower else 0
                return Found(best, bound, found.evaluations, False, False, plan_bound=plan_bound, by_events=True)
        if events.interrupted:
            return Found(best, 0, found.evaluations, False, True, plan_bound=plan_bound)
        left = left - share if seed is not None else seconds - (time.monotonic() - started)
    so_far = Found(best, 0, found.evaluations, False, False, plan_bound=plan_bound)
    later = sharpen if twice and seed is None else None
    return _by_solver(guards, problem, local.bounds, evaluate, so_far, left, seed, on_progress, later)


def _by_beam(
    problem: Problem,
    bounds: Bounds,
    evaluate: Evaluate,
    found: Found,
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None,
) -> Found:
    """Improve what was found with the beam search over tile counters, for ``seconds``."""
    if seconds <= 0:
        return found
    best = found.best
    lower = float(max(bounds.best.ticks, found.search_bound))
    beam = TileBeam(problem, bounds.heads_tails, float("inf") if best is None or best[1].late else best[1].makespan)
    decision = beam.run(seconds, lower, counted=seed is not None)
    if decision is not None:
        simulated = evaluate(problem, decision)
        if best is None or (simulated.late, simulated.makespan) < (best[1].late, best[1].makespan):
            best = decision, simulated
            if on_progress is not None:
                on_progress(simulated.makespan, lower)
    return replace(found, best=best, interrupted=beam.interrupted)


def _by_solver(
    guards: tuple[Guard, ...],
    problem: Problem,
    bounds: Bounds,
    evaluate: Evaluate,
    found: Found,
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None,
    sharpen: Sharpen | None = None,
) -> Found:
    """Improve what was found with CP-SAT on the whole problem, for ``seconds``."""
    lower = int(bounds.best.ticks)
    guard, beside = guards[0], guards[1] if len(guards) > 1 else None
    improved = search_flat(
        guard,
        problem,
        bounds.heads_tails,
        evaluate,
        found.best,
        lower,
        seconds,
        seed,
        on_progress,
        beside=beside,
        sharpen=None if sharpen is None else lambda: int(sharpen().best.ticks),
    )
    best = found.best
    if improved.decision is not None and improved.simulated is not None:
        best = improved.decision, improved.simulated
    return replace(
        found,
        best=best,
        search_bound=improved.bound if improved.bound > lower else 0,
        proven_infeasible=improved.infeasible,
        interrupted=improved.interrupted,
        notes=improved.notes,
    )


def _shortest(plans: Sequence[tuple[Decision, Simulated]]) -> tuple[Decision, Simulated] | None:
    return min(plans, key=lambda plan: (plan[1].late, plan[1].makespan), default=None)


def _met(best: tuple[Decision, Simulated] | None, lower: float | Fraction, enough_gap: Fraction) -> bool:
    return best is not None and not best[1].late and best[1].makespan - lower <= enough_gap * best[1].makespan


def _needs_windows(problem: Problem) -> bool:
    """Whether the problem is too large to be solved as a whole, and its buffers do not fit side by side.

    A window holds a part of the buffers, so not one that may overwrite another, and knows no pools.
    """
    if problem.takeovers or problem.pools:
        return False
    return len(problem.ops) >= WINDOWS_OPS and not problem.fits_side_by_side
