"""The floor of every section of time during a search, what each can still lose, and why it is as high as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        self.size = [block.size for block in blocks]
        self.tight = [0] * sections.count
        """How often each section was where it failed."""
        self._align = [block.align for block in blocks]
        self._slice = [slice(s, e) for s, e in sections.spans]
        self._count = sections.count
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
        end = -1
        for b in blocks:
            first, last = self.span[b]
            if first >= end:
                part: list[int] = []
                parts.append(part)
            part.append(b)
            end = max(end, last)
        parts.sort(key=len, reverse=True)
        return parts

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
                    self.tight[k] += 1
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
            self.tight[k] += 1
            return self.cause[k]
        return -1

    def settle(self, blocks: list[int], low: int, high: int) -> tuple[list[int] | None, int]:
        """Raise every floor to the lowest address of its open ``blocks``, until nothing moves.

        Return the lowest address of each block; or None and the conflict.
        """
        floor, span, slices = self.floor, self.span, self._slice
        while True:
            lows = [max(floor[slices[b]]) for b in blocks]
            if not self.plain:
                lows = [self.lowest(b, at) for b, at in zip(blocks, lows, strict=True)]
                for b, at in zip(blocks, lows, strict=True):
                    if at + self.size[b] > self.capacity:
                        return None, self.reason(b, at)
            new = [FULL] * (high - low)
            for i in sorted(range(len(blocks)), key=lows.__getitem__, reverse=True):
                first, last = span[blocks[i]]
                new[first - low : last - low] = [lows[i]] * (last - first)
            old = floor[low:high]
            if new == old:
                return lows, -1
            moved = False
            for k, (before, after) in enumerate(zip(old, new, strict=True), start=low):
                if after == FULL:
                    floor[k] = FULL
                elif after > before:
                    moved = True
                    cause = 0
                    for b in blocks:
                        first, last = span[b]
                        if first <= k < last:
                            cause |= self.reason(b, after)
                    conflict = self.lift(k, after, cause)
                    if conflict >= 0:
                        return None, conflict
            if not moved:
                return lows, -1

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
