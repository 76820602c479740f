"""The clock behind cycles and microseconds that were recorded together.

Microseconds are whole, so the ratio of one short op says little: sums are divided, never ratios averaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TOLERANCE = 20
"""Clocks agree within one part in so many."""


def ratio_khz(pairs: Iterable[tuple[int, int]]) -> int | None:
    """Return the clock of ``(cycles, microseconds)`` pairs in kHz; pairs of 0 us are left out, None when all are."""
    cycles = us = 0
    for c, u in pairs:
        if u > 0:
            cycles, us = cycles + c, us + u
    return (cycles * 2000 + us) // (us * 2) if us else None


def odd_ones(pairs: Sequence[tuple[int, int]], khz: int) -> list[int]:
    """Return the positions of pairs that no rounding of their microseconds brings within 5 % of ``khz``."""
    found = []
    for i, (cycles, us) in enumerate(pairs):
        if us == 0:
            continue
        slowest, fastest = cycles * 1000 // (us + 1), cycles * 1000 // max(us - 1, 1) if us > 1 else None
        low, high = khz - khz // TOLERANCE, khz + khz // TOLERANCE
        if slowest > high or (fastest is not None and fastest < low):
            found.append(i)
    return found
