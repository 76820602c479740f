"""Whether a workload is solved op by op or as loops."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.periodic.bounds import recurrence_ticks, shares_of
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.roll import ImpossibleLoopError, NotALoopError
from hexloom.optimizer.periodic.trial import Source, iterations_of

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop
    from hexloom.formulations.problem import Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.workload import Workload

FLAT_OPS = 8000
"""Up to so many ops every op gets a place of its own: the search then knows beginnings and ends as well."""


LEAST_FILLS = 2
"""Times the stage count, below which iterations are mostly beginning and end: a steady state is not worth its while."""


def stage_count(loop: Loop) -> int:
    """Return the stages of a pipeline of ``loop`` at its shortest interval: iterations that are under way at once."""
    away: dict[str, int] = {op.name: 0 for op in loop.ops}
    inside = [edge for edge in loop.dependencies if edge.distance == 0]
    for _ in loop.ops:
        longer = False
        for edge in inside:
            ticks = away[edge.before] + loop.delay_ticks(edge)
            if ticks > away[edge.after]:
                away[edge.after], longer = ticks, True
        if not longer:
            break
    path = max(away[op.name] + op.latency_ticks for op in loop.ops)
    interval = max([Fraction(1), recurrence_ticks(loop), *shares_of(loop).values()])
    return ceil(path / interval)


def formulation_for(workload: Workload, machine: Machine, rule: Rule) -> tuple[Literal["flat", "periodic"], str]:
    """Return ``flat`` or ``periodic``, and why."""
    source, why = source_for(workload, machine, rule)
    return ("flat" if source is None else "periodic"), why


def source_for(workload: Workload, machine: Machine, rule: Rule) -> tuple[Source | None, str]:
    """Return what loops are made from, None where ops are better solved one by one; and why."""
    try:
        trips = iterations_of(workload, machine)
        task, least = min(trips.items(), key=lambda item: item[1])
        if least < FEW:
            return None, f"task {task!r} has {least} iterations, fewer than {FEW}"
        source = Source(workload, machine, rule, FEW)
        ops = source.ops()
        if ops <= FLAT_OPS:
            return None, f"about {ops:,} ops, up to {FLAT_OPS:,} are solved one by one"
        for name, loop in _loops(source).items():
            few, stages = trips[name], stage_count(loop)
            if few < LEAST_FILLS * stages:
                return None, f"task {name!r} has {few:,} iterations, under {LEAST_FILLS} x its {stages:,} stages"
    except NotALoopError as why:
        return None, str(why)
    return source, f"about {ops:,} ops in loops of {', '.join(f'{n:,}' for n in trips.values())} iterations"


def _loops(source: Source) -> dict[str, Loop]:
    """Return the loop of every task; none where an iteration can never run, as whoever makes the plan will say."""
    try:
        return source.small(dict.fromkeys(source.trips, FEW)).rolled.loops
    except ImpossibleLoopError:
        return {}
