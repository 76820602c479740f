"""Free pieces between taken ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Piece = tuple[int, int]
"""Bytes ``[low, high)``."""


def is_free(at: int, size: int, taken: Iterable[Piece], capacity: int) -> bool:
    """Whether ``size`` bytes at ``at`` lie inside the capacity and touch nothing taken."""
    return size == 0 or (at + size <= capacity and not any(start < at + size and at < end for start, end in taken))


def lowest_gap(size: int, align: int, taken: Iterable[Piece], capacity: int) -> int | None:
    """Return the lowest multiple of ``align`` at which ``size`` bytes are free beside ``taken``, or None."""
    if size == 0:
        return 0
    at = 0
    for start, end in sorted(taken):
        if at + size <= start:
            break
        if end > at:
            at = -(-end // align) * align
    return at if at + size <= capacity else None


def highest_gap(size: int, align: int, taken: Iterable[Piece], capacity: int) -> int | None:
    """Return the highest multiple of ``align`` at which ``size`` bytes are free beside ``taken``, or None."""
    if size == 0:
        return 0
    at = (capacity - size) // align * align
    for start, end in sorted(taken, key=lambda piece: -piece[1]):
        if at >= end:
            break
        if start < at + size:
            at = (start - size) // align * align
    return at if at >= 0 else None


def tightest_gap(size: int, align: int, taken: Iterable[Piece], capacity: int) -> int | None:
    """Return the lowest fitting address in the smallest gap that is large enough, or None."""
    best: Piece | None = None
    at = 0
    for start, end in [*sorted(taken), (capacity, capacity)]:
        begin = -(-at // align) * align
        if begin + size <= start and (best is None or start - at < best[0]):
            best = start - at, begin
        at = max(at, end)
    return 0 if size == 0 else None if best is None else best[1]
