"""What must end too high: the open blocks of each section, piled up in the order of their lowest addresses.

A section is a machine for one block at a time whose release dates are the lowest addresses. Piled in that order, each
at its lowest address or on those before it, blocks end as low as they can (Jackson's rule): a section whose pile ends
above the capacity has no packing, although it has not lost too many bytes yet.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.ranges import Numbers

MANY = 50
"""Blocks from which on one table for all sections is faster than one block after the other."""

MOST_CELLS = 4_000_000
"""Numbers in that table, at most: 32 MB; where there would be more, piles are made one block after the other."""


class Piles:
    """The piles of blocks of ``sizes`` over the sections ``spans``."""

    def __init__(self, spans: Sequence[tuple[int, int]], sizes: Sequence[int], count: int) -> None:
        self._span, self._size, self._count = spans, sizes, count

    @cached_property
    def _bytes(self) -> Numbers | None:
        """Bytes by block and section, None where that is too large a table."""
        if len(self._span) * self._count > MOST_CELLS:
            return None
        table = np.zeros((len(self._span), self._count), dtype=np.int64)
        for b, (first, last) in enumerate(self._span):
            table[b, first:last] = self._size[b]
        return table

    def too_high(
        self, blocks: Sequence[int], lows: Sequence[int], low: int, high: int, capacity: int
    ) -> tuple[int, int, set[int]] | None:
        """Return a section of ``[low, high)`` whose pile ends above ``capacity``, if there is one.

        With it comes an address, and those of ``blocks`` in the section that cannot lie below it: they alone take
        more than what is above it.
        """
        table = self._bytes if len(blocks) >= MANY else None
        if table is not None:
            order = np.argsort(lows, kind="stable")[::-1]
            starts = np.array(lows, dtype=np.int64)[order]
            # What lies at the start of a block or above it; where the block is not itself, this is no more than
            # what the next one says that is.
            ends = np.cumsum(table[np.array(blocks)[order], low:high], axis=0)
            ends += starts[:, np.newaxis]
            if ends.max() <= capacity:
                return None
            section = low + int(ends.max(axis=0).argmax())
        else:
            tops = [0] * (high - low)
            for i in sorted(range(len(blocks)), key=lows.__getitem__):
                first, last = self._span[blocks[i]]
                at, size = lows[i], self._size[blocks[i]]
                for k in range(first - low, last - low):
                    top = tops[k]
                    tops[k] = (top if top > at else at) + size
            if max(tops) <= capacity:
                return None
            section = low + tops.index(max(tops))
        return self._why(blocks, lows, section, capacity)

    def _why(
        self, blocks: Sequence[int], lows: Sequence[int], section: int, capacity: int
    ) -> tuple[int, int, set[int]]:
        held: set[int] = set()
        total = 0
        for i in sorted(range(len(blocks)), key=lows.__getitem__, reverse=True):
            first, last = self._span[blocks[i]]
            if first <= section < last:
                held.add(blocks[i])
                total += self._size[blocks[i]]
                if lows[i] + total > capacity:
                    return section, lows[i], held
        raise AssertionError("the pile of a section ends where its blocks do")
