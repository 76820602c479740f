"""Few iterations: nothing repeats long enough to be left out, so all of them are written down, and ends matter most.

A plan of loops keeps the order of its bodies where an op could begin earlier, at the beginning, at the end and
where bodies change. That costs the same whatever the trip counts: much of a short run, and nothing of a long
one. So where all iterations come to few ops, the plan of the loops is where a search over single ops begins.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexloom.optimizer.periodic.schedule import RECURRENCE, WRITTEN
from hexloom.optimizer.periodic.trial import run
from hexloom.optimizer.schedule import BoundRow
from hexloom.optimizer.solve import solve

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.periodic.solve import Reduced
    from hexloom.optimizer.periodic.trial import Source

ENDS_OPS = 300
"""Up to so many ops of all iterations ends are looked at."""


def whole_decision(source: Source, reduced: Reduced) -> Decision | None:
    """Return the decision that the phases of ``reduced`` are for all iterations, None where hand-overs fail."""
    begun = [
        replace(phase, later_parts=moved.later_parts)
        for phase, moved in zip(reduced.phases, reduced.ran.phases, strict=True)
    ]
    full = run(source.small(source.trips), begun, moved=True)
    return None if full is None else full.decision


def with_better_ends(
    schedule: PeriodicSchedule, source: Source, reduced: Reduced, seconds: float, seed: int | None
) -> PeriodicSchedule:
    """Return ``schedule`` with all iterations written down and, where that is shorter, in a better order."""
    start = whole_decision(source, reduced)
    work = source.cut(source.trips)
    found = solve(
        work,
        source.machine,
        time_limit_s=seconds,
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
