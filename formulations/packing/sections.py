"""Time cut into sections: one per maximal set of blocks that are alive together.

Two blocks are alive together exactly when they share a section, and the sections of a block follow each other. What
lies between two such sets adds nothing: its blocks are a part of one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Block


@dataclass(frozen=True, slots=True)
class Sections:
    """``spans[b]``: half-open range of the sections of block b, ``(0, 0)`` for an empty one."""

    count: int
    spans: tuple[tuple[int, int], ...]


def cut(blocks: Sequence[Block]) -> Sections:
    """Return the sections of ``blocks``."""
    events: list[tuple[int, bool, int]] = []
    for b, block in enumerate(blocks):
        if not block.is_empty:
            events += [(block.born, True, b), (block.died, False, b)]
    first, spans = [0] * len(blocks), [(0, 0)] * len(blocks)
    section, grown = 0, False
    # Ends (False) come before births at one moment; a set is maximal when an end follows a birth.
    for _, is_birth, b in sorted(events):
        if is_birth:
            first[b], grown = section, True
            continue
        if grown:
            section, grown = section + 1, False
        spans[b] = first[b], section
    return Sections(section, tuple(spans))
