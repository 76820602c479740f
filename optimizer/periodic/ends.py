"""Few iterations: nothing repeats long enough to be left out, so all of them are written down, and ends matter most.

A plan of loops keeps the order of its bodies where an op could begin earlier, at the beginning, at the end and
where bodies change. That costs the same whatever the trip counts: much of a short run, and nothing of a long
one. So where all iterations come to few ops, the plan of the loops is where a search over single ops begins, or what
a beam search over their tiles finds, if that is shorter.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.problem import slows
from hexloom.formulations.tile_beam import NARROW, WIDTHS, TileBeam, has_lines
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.periodic.schedule import RECURRENCE, WRITTEN
from hexloom.optimizer.schedule import BoundRow
from hexloom.optimizer.solve import solve

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.optimizer.periodic.reduced import Reduced
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.periodic.trial import Small, Source

ENDS_OPS = 300
"""Up to so many ops of all iterations ends are looked at."""

BEAM_SHARE, BEAM_SHARE_ROOMY = 0.7, 0.15
"""Part of the time for the search over tiles; and where buffers fit side by side, which CP-SAT sees through sooner."""


def by_tiles(small: Small, known: Decision | None, seconds: float, seed: int | None) -> Decision | None:
    """Return a decision for all iterations that ends before ``known`` does, which comes back where none is found."""
    problem = small.problem
    if slows(small.rule) or not has_lines(problem):
        return known
    below = float("inf") if known is None else evaluator(small.rule)(problem, known).makespan
    bounds = lower_bounds(problem, small.rule)
    beam = TileBeam(problem, bounds.heads_tails, below)
    lower = float(bounds.best.ticks)
    found = beam.run(seconds, lower, counted=seed is not None, widths=(*NARROW, *WIDTHS))
    return known if found is None else found


def with_better_ends(
    schedule: PeriodicSchedule, source: Source, reduced: Reduced, seconds: float, seed: int | None
) -> PeriodicSchedule:
    """Return ``schedule`` with all iterations written down and, where that is shorter, in a better order."""
    started = time.monotonic()
    small = source.small(source.trips)
    beam = seconds * (BEAM_SHARE_ROOMY if small.problem.fits_side_by_side else BEAM_SHARE)
    start = by_tiles(small, reduced.whole(), beam, seed)
    work = source.cut(source.trips)
    spent = beam if seed is not None else time.monotonic() - started
    found = solve(
        work,
        source.machine,
        time_limit_s=max(0.0, seconds - spent),
        contention=source.rule,
        seed=seed,
        start=start,
        explained=False,
    )
    written = found.schedule
    if written is None or written.makespan > schedule.makespan:
        return schedule
    best = written.bounds[0]
    row = BoundRow(
        name=WRITTEN, ticks=best.ticks, engine=best.engine, detail=f"all iterations are written down: {best.detail}"
    )
    # What iterations that were left out wait for stands in it, too.
    kept = (bound for bound in schedule.bounds if bound.name != RECURRENCE)
    rows = tuple(sorted((*kept, row), key=lambda bound: -bound.ticks))
    return schedule.model_copy(
        update={
            "stretches": tuple(
                stretch.model_copy(update={"first": 0, "period": 1, "period_ticks": 0, "left_out": 0})
                for stretch in schedule.stretches
            ),
            "makespan": written.makespan,
            "lower_bound": rows[0].ticks,
            "bounds": rows,
            "written": written,
            "grown": tuple(None for _ in schedule.stretches),
        }
    )
