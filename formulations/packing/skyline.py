"""The floor of every section of time during a search, what each can still lose, and why it is as high as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hexloom.formulations.packing.piles import Piles
from hexloom.formulations.packing.ranges import FEW, Ranges
from hexloom.formulations.packing.sections import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Block

FULL = 1 << 62
"""Floor of a section in which nothing is left to place: above every address."""

Kept = tuple[list[int], list[int], list[int]]


class Skyline:
    """``floor[k]``: no block still open in section k lies lower. ``slack[k]``: bytes that k can still lose.

    ``cause[k]``: the choices, as bits, that all of this rests on.
    """

    def __init__(self, blocks: Sequence[Block], capacity: int) -> None:
        sections = cut(blocks)
        self.capacity = capacity
        self.span = sections.spans
        self._last = [last for _, last in sections.spans]
        self.ranges = Ranges.from_spans(sections.spans)
        self.size = [block.size for block in blocks]
        self._align = [block.align for block in blocks]
        self._count = sections.count
        self._piles = Piles(sections.spans, self.size, sections.count)
        self._pins: list[list[tuple[int, int]]] = [[] for _ in range(sections.count)]
        self._pins_of: list[list[tuple[int, int]]] = [[] for _ in blocks]
        pinned = sorted((block.pin, b) for b, block in enumerate(blocks) if block.pin is not None)
        load = [0] * sections.count
        for b, block in enumerate(blocks):
            for k in range(*self.span[b]):
                load[k] += block.size
        for pin, p in pinned:
            for k in range(*self.span[p]):
                self._pins[k].append((pin, pin + self.size[p]))
            for b in range(len(blocks)):
                if self.span[b][0] < self.span[p][1] and self.span[p][0] < self.span[b][1]:
                    self._pins_of[b].append((pin, pin + self.size[p]))
        self._over: list[list[int]] = [[] for _ in range(sections.count)]
        for b, (first, last) in enumerate(sections.spans):
            for k in range(first, last):
                self._over[k].append(b)
        self._has_pins = bool(pinned)
        self.plain = not pinned and all(block.align == 1 for block in blocks)
        """Whether every block fits at every address: nothing is pinned, nothing aligned."""
        self._spare = [capacity - used for used in load]
        self.floor: list[int] = []
        self.slack: list[int] = []
        self.cause: list[int] = []

    def reset(self) -> bool:
        """Begin anew; False when bytes alone say that nothing fits, or pins overlap or stick out."""
        self.floor, self.slack, self.cause = [0] * self._count, list(self._spare), [0] * self._count
        for taken in self._pins:
            ends = [0, *(end for _, end in taken)]
            starts = [*(start for start, _ in taken), self.capacity]
            if any(end > start for end, start in zip(ends, starts, strict=True)):
                return False
        return min(self._spare, default=0) >= 0

    def copy(self, low: int, high: int) -> Kept:
        """Return the state of sections ``[low, high)``."""
        return self.floor[low:high], self.slack[low:high], self.cause[low:high]

    def restore(self, low: int, high: int, kept: Kept) -> None:
        """Bring back what `copy` returned."""
        self.floor[low:high], self.slack[low:high], self.cause[low:high] = kept

    def causes(self, low: int, high: int) -> int:
        """Return all choices that the sections ``[low, high)`` rest on."""
        found = 0
        for cause in self.cause[low:high]:
            found |= cause
        return found

    def parts(self, blocks: list[int]) -> list[list[int]]:
        """Split ``blocks``, ordered by their first section, where no block bridges; the smallest part comes last."""
        parts: list[list[int]] = []
        part: list[int] = []
        span, end = self.span, -1
        for b in blocks:
            first, last = span[b]
            if first >= end:
                part = []
                parts.append(part)
            part.append(b)
            if last > end:
                end = last
        parts.sort(key=len, reverse=True)
        return parts

    def end_of(self, blocks: list[int]) -> int:
        """Return the end of the last section of ``blocks``."""
        return max(map(self._last.__getitem__, blocks))

    def lowest(self, b: int, floor: int) -> int:
        """Return the lowest address of block ``b`` at ``floor`` or above, by its alignment and beside the pins."""
        align = self._align[b]
        at = -(-floor // align) * align
        for start, end in self._pins_of[b]:
            if at + self.size[b] <= start:
                break
            if end > at:
                at = -(-end // align) * align
        return at

    def place(self, b: int, at: int, cause: int) -> int:
        """Put block ``b`` at ``at``; return the conflict when a section loses more than it can, else -1."""
        top = at + self.size[b]
        for k in range(*self.span[b]):
            if at != self.floor[k]:
                self.slack[k] -= self._lost(k, self.floor[k], at)
                if self.slack[k] < 0:
                    return self.cause[k] | cause
            self.floor[k] = top
            self.cause[k] |= cause
        return -1

    def lift(self, k: int, floor: int, cause: int) -> int:
        """Raise the floor of section ``k``; return the conflict when it loses more than it can, else -1."""
        self.slack[k] -= self._lost(k, self.floor[k], floor)
        self.floor[k] = floor
        self.cause[k] |= cause
        if self.slack[k] < 0:
            return self.cause[k]
        return -1

    def settle(self, blocks: list[int], low: int, high: int) -> tuple[list[int] | None, int]:
        """Raise every floor to the lowest address of its open ``blocks``, until nothing moves.

        Return the lowest address of each block; or None and the conflict.
        """
        floor = self.floor
        while True:
            old = floor[low:high]
            lows, new = self._lowest_all(blocks, old, low)
            if not self.plain:
                for b, at in zip(blocks, lows, strict=True):
                    if at + self.size[b] > self.capacity:
                        return None, self.reason(b, at)
            if new == old:
                return self._pile(blocks, lows, low, high)
            moved = False
            still_open = set(blocks)
            for k, (before, after) in enumerate(zip(old, new, strict=True), start=low):
                if after == FULL:
                    floor[k] = FULL
                elif after > before:
                    moved = True
                    cause = self.wall_cause(still_open, k, after)
                    conflict = self.lift(k, after, cause)
                    if conflict >= 0:
                        return None, conflict
            if not moved:
                return self._pile(blocks, lows, low, high)

    def _pile(self, blocks: list[int], lows: list[int], low: int, high: int) -> tuple[list[int] | None, int]:
        """Return ``lows`` if blocks piled up from them end below the capacity everywhere; or None and the conflict."""
        found = self._piles.too_high(blocks, lows, low, high, self.capacity)
        if found is None:
            return lows, -1
        section, at, held = found
        return None, self.wall_cause(held, section, at)

    def _lowest_all(self, blocks: list[int], floors: list[int], low: int) -> tuple[list[int], list[int]]:
        """Return the lowest address of each block, and the lowest of those of each section, `FULL` if none.

        ``floors`` are those from section ``low`` on.
        """
        if len(blocks) >= FEW and self.plain:
            ranges = self.ranges.of(blocks, low)
            found = ranges.maxima(np.array(floors))
            return found.tolist(), ranges.minima(len(floors), found, FULL).tolist()
        span = self.span
        lows = [max(floors[span[b][0] - low : span[b][1] - low]) for b in blocks]
        if not self.plain:
            lows = [self.lowest(b, at) for b, at in zip(blocks, lows, strict=True)]
        return lows, self.lowest_above(blocks, lows, low, low + len(floors))

    def lowest_above(self, blocks: Sequence[int], lows: Sequence[int], low: int, high: int) -> list[int]:
        """Return for each section of ``[low, high)`` the lowest of the ``lows`` of its ``blocks``, `FULL` if none."""
        if len(blocks) >= FEW:
            found: list[int] = self.ranges.of(blocks, low).minima(high - low, np.array(lows), FULL).tolist()
            return found
        found = [FULL] * (high - low)
        for i in sorted(range(len(blocks)), key=lows.__getitem__, reverse=True):
            first, last = self.span[blocks[i]]
            found[first - low : last - low] = [lows[i]] * (last - first)
        return found

    def wall_cause(self, blocks: set[int], k: int, at: int) -> int:
        """Return choices because of which none of ``blocks`` in section ``k`` can lie below ``at``.

        Each reaches a section whose floor is at least that high: the nearest one to the left or to the right.
        """
        span, floor = self.span, self.floor
        mine = [b for b in self._over[k] if b in blocks]
        if not mine:
            return 0
        if not self.plain:
            cause = 0
            for b in mine:
                cause |= self.reason(b, at)
            return cause
        left, right = k, k
        leftmost, rightmost = min(span[b][0] for b in mine), max(span[b][1] for b in mine)
        while left >= leftmost and floor[left] < at:
            left -= 1
        while right < rightmost and floor[right] < at:
            right += 1
        if all(span[b][0] <= left for b in mine):
            return self.cause[left]
        if all(span[b][1] > right for b in mine):
            return self.cause[right]
        return self.cause[left] | self.cause[right]

    def reason(self, b: int, at: int) -> int:
        """Return choices because of which block ``b`` cannot lie below ``at``: those of one section high enough."""
        for k in range(*self.span[b]):
            if self.floor[k] >= at or (not self.plain and self.lowest(b, self.floor[k]) >= at):
                return self.cause[k]
        return self.causes(*self.span[b])

    def _lost(self, k: int, low: int, high: int) -> int:
        """Bytes of section ``k`` in ``[low, high)`` that no pin holds."""
        lost = high - low
        if self._has_pins:
            for start, end in self._pins[k]:
                lost -= max(0, min(end, high) - max(start, low))
        return lost
