"""Maintenance of the cache as ops of their own, between an op that writes through the cache and one that goes past it.

A write through the cache is cleaned before DMA reads it, or writes into its lines: else DMA reads what memory had, or a
dirty line comes back over what DMA wrote. What DMA wrote is invalidated before anyone reads or writes its lines through
the cache: else an old line is seen, or written back. There is one op per writer and kind, and all that follow wait for
it; an invalidate that came later could meet lines that others have made dirty meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.draft import ModeDraft, OpDraft, UseDraft
from hexloom.optimizer.kernels.engines import HVX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from hexloom.formulations.problem import Region
    from hexloom.optimizer.draft import TaskDraft
    from hexloom.optimizer.hazards import Hazard

Kind = Literal["clean", "invalidate"]
STAGES: dict[Kind, str] = {"clean": "clean_range", "invalidate": "invalidate"}


class Upkeep:
    """What one maintenance op does: the regions that ``writer`` left, for the ops ``followers``; ops by position."""

    def __init__(self, writer: int, kind: Kind) -> None:
        self.writer, self.kind = writer, kind
        self.regions: dict[Region, None] = {}
        self.followers: dict[int, None] = {}


def needed(crossing: Iterable[Hazard]) -> list[Upkeep]:
    """Return the maintenance for ops that meet in this order: a write, then an access on the other path."""
    found: dict[tuple[int, Kind], Upkeep] = {}
    for hazard in crossing:
        earlier = hazard.regions[0]
        kind: Kind = "invalidate" if earlier.bypass else "clean"
        upkeep = found.setdefault((hazard.first, kind), Upkeep(hazard.first, kind))
        upkeep.regions[earlier] = None
        upkeep.followers[hazard.second] = None
    return [found[key] for key in sorted(found)]


def inserted(draft: TaskDraft, upkeeps: Sequence[tuple[str, Upkeep]], us: Fraction) -> tuple[TaskDraft, list[str]]:
    """Return ``draft`` with the maintenance behind each writer, named inside the task, and the names of its ops."""
    taken = {op.name for op in draft.ops}
    behind: dict[str, list[OpDraft]] = {}
    writers = {op.name: op for op in draft.ops}
    mode = ModeDraft((UseDraft(HVX, us),), us)
    names = []
    for writer, upkeep in upkeeps:
        name = f"{writer}.{upkeep.kind}"
        while name in taken:
            name += "+"
        taken.add(name)
        names.append(name)
        regions = tuple(r.model_copy(update={"kind": upkeep.kind, "bypass": False}) for r in upkeep.regions)
        tile = writers[writer].tile
        op = OpDraft(name, (mode,), STAGES[upkeep.kind], tile, after=(writer,), regions=regions)
        behind.setdefault(writer, []).append(op)
    ops = tuple(each for op in draft.ops for each in (op, *behind.get(op.name, ())))
    loop = tuple(each for name in draft.loop for each in (name, *(op.name for op in behind.get(name, ()))))
    return replace(draft, ops=ops, loop=loop), names
