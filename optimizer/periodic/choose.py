"""Whether a workload is solved op by op or as loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.periodic.solve import FEW
from hexloom.optimizer.periodic.trial import Source, iterations_of

if TYPE_CHECKING:
    from hexloom.formulations.problem import Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.workload import Workload

FLAT_OPS = 8000
"""Up to so many ops every op gets a place of its own: the search then knows beginnings and ends as well."""


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
    except NotALoopError as why:
        return None, str(why)
    ops = source.ops()
    if ops <= FLAT_OPS:
        return None, f"about {ops:,} ops, up to {FLAT_OPS:,} are solved one by one"
    return source, f"about {ops:,} ops in loops of {', '.join(f'{n:,}' for n in trips.values())} iterations"
