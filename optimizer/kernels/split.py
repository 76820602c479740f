"""How the work of one stage is shared out: whole, or one part per worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Region
    from hexloom.optimizer.draft import Builder, ModeDraft


class Part(NamedTuple):
    """An op of one stage: all of its chunk, or one worker's part of it."""

    modes: tuple[ModeDraft, ...]
    regions: tuple[Region, ...] = ()
    part: tuple[int, ...] = ()


def add_parts(
    out: Builder,
    stage: str,
    tile: int,
    parts: Sequence[Part],
    after: tuple[str, ...],
    buffers: tuple[str, ...],
    regions: tuple[Region, ...] = (),
) -> tuple[str, ...]:
    """Add one stage of a tile, in one op or in one per part, and return the names; ``regions`` are touched by each."""
    return tuple(
        out.op(
            f"{stage}.{tile}" if len(parts) == 1 else f"{stage}.{tile}.{p}",
            part.modes,
            stage=stage,
            tile=tile,
            after=after,
            buffers=buffers,
            regions=part.regions + regions,
            part=part.part,
        )
        for p, part in enumerate(parts)
    )


def shared_out(count: int, parts: int) -> list[int]:
    """Return ``count`` in at most so many parts, none of them empty, the larger ones first."""
    each, more = divmod(count, parts)
    return [each + (p < more) for p in range(parts) if each + (p < more)]


def in_turn(counts: list[int]) -> list[tuple[int, int]]:
    """Return each count with the sum of those before it."""
    return [(sum(counts[:k]), count) for k, count in enumerate(counts)]
