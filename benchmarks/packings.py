"""Packing instances: minimalloc's, and others made from them; a name and a seed give the same buffers everywhere."""

from __future__ import annotations

import csv
import random
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "minimalloc"

LETTERS = "ABCDEFGHIJK"

CAPACITY_BYTES = 1 << 20
"""Of minimalloc's instances: the number in the names of its files."""

GRANULE_BYTES = 512
"""All sizes are multiples of this, as in minimalloc's instances."""


class Row(NamedTuple):
    """A buffer alive in ``[lower, upper)`` of ``size`` bytes; in a known packing it lies at ``offset``."""

    lower: int
    upper: int
    size: int
    offset: int


def minimalloc(letter: str) -> list[Row]:
    """Return an instance of minimalloc with a packing that hexloom found."""
    with (FOLDER / f"{letter}.{CAPACITY_BYTES}.csv").open(encoding="utf-8") as file:
        return [Row(*(int(row[key]) for key in Row._fields)) for row in csv.DictReader(file)]


def warped_packing(seed: int) -> list[Row]:
    """Return an instance that fits into 1 MiB by construction: one of minimalloc's with all sizes changed.

    Addresses are stretched here and squeezed there, by factors of up to about e in order, which keeps a packing one
    and a full moment full; time is mirrored for every other seed; one buffer in twenty is dropped or shortened. So
    it is about as full as its origin, and as hard, but no order of its sizes, and so of its areas, is the same.
    """
    rng = random.Random(f"warped_packing/{seed}")
    rows = minimalloc(LETTERS[seed % len(LETTERS)])
    warp = _warp(
        sorted({at for row in rows for at in (row.offset, row.offset + row.size) if at} | {CAPACITY_BYTES}), rng
    )
    end = max(row.upper for row in rows)
    found = []
    for lower, upper, size, offset in rows:
        if seed % 2:
            lower, upper = end - upper, end - lower
        if rng.random() < 0.05:
            if rng.random() < 0.5:
                continue
            upper = lower + max(1, (upper - lower) // 2)
        low, high = warp[offset], warp[offset + size]
        found.append(Row(lower, upper, high - low, low))
    rng.shuffle(found)
    return found


def _warp(points: list[int], rng: random.Random) -> dict[int, int]:
    """Map addresses to others in the same order, the first to 0 and the last to the capacity, in whole granules."""
    lengths = [(high - low) * rng.lognormvariate(0, 0.5) for low, high in pairwise([0, *points])]
    scale = (CAPACITY_BYTES // GRANULE_BYTES - len(lengths)) / sum(lengths)
    warp, at, total = {0: 0}, 0, 0.0
    for k, (point, length) in enumerate(zip(points, lengths, strict=True), start=1):
        total += length * scale
        at = k + int(total) if k < len(lengths) else CAPACITY_BYTES // GRANULE_BYTES
        warp[point] = at * GRANULE_BYTES
    return warp
