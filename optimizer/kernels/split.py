"""How the work of one stage is shared out: whole, or one part per worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hexloom.formulations.problem import Region
    from hexloom.optimizer.draft import ModeDraft


class Part(NamedTuple):
    """An op of one stage: all of its chunk, or one worker's part of it."""

    modes: tuple[ModeDraft, ...]
    regions: tuple[Region, ...] = ()
    part: tuple[int, ...] = ()


def shared_out(count: int, parts: int) -> list[int]:
    """Return ``count`` in at most so many parts, none of them empty, the larger ones first."""
    each, more = divmod(count, parts)
    return [each + (p < more) for p in range(parts) if each + (p < more)]


def in_turn(counts: list[int]) -> list[tuple[int, int]]:
    """Return each count with the sum of those before it."""
    return [(sum(counts[:k]), count) for k, count in enumerate(counts)]
