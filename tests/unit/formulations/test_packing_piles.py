from __future__ import annotations

import random

import pytest

from hexloom.formulations.packing import piles
from hexloom.formulations.packing.piles import Piles


def highest(members: list[tuple[int, int]]) -> int:
    """Return where a pile of (lowest address, size) ends, the lowest first."""
    top = 0
    for low, size in sorted(members):
        top = max(top, low) + size
    return top


@pytest.mark.parametrize(("many", "cells"), [(0, 1000), (0, 0), (1000, 1000)])
@pytest.mark.parametrize("seed", range(40))
def test_both_ways_to_pile_find_the_section_that_ends_too_high(
    seed: int, many: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piles, "MANY", many)
    monkeypatch.setattr(piles, "MOST_CELLS", cells)
    chance = random.Random(seed)
    count = chance.randint(1, 6)
    spans = []
    for _ in range(chance.randint(1, 12)):
        first = chance.randrange(count)
        spans.append((first, chance.randint(first + 1, count)))
    sizes = [chance.randint(1, 9) for _ in spans]
    open_blocks = sorted(chance.sample(range(len(spans)), chance.randint(1, len(spans))))
    lows = [chance.randint(0, 20) for _ in open_blocks]
    over = [
        [(low, sizes[b]) for b, low in zip(open_blocks, lows, strict=True) if spans[b][0] <= k < spans[b][1]]
        for k in range(count)
    ]
    most = max(map(highest, over))
    whole = Piles(spans, sizes, count)
    assert whole.too_high(open_blocks, lows, 0, count, most) is None
    found = whole.too_high(open_blocks, lows, 0, count, most - 1)
    assert found is not None
    section, at, held = found
    assert highest(over[section]) == most
    lowest = dict(zip(open_blocks, lows, strict=True))
    assert all(spans[b][0] <= section < spans[b][1] and lowest[b] >= at for b in held)
    assert at + sum(sizes[b] for b in held) > most - 1


def test_a_part_of_time_is_piled_alone() -> None:
    whole = Piles([(0, 2), (2, 4), (3, 4)], [5, 3, 4], 4)
    assert whole.too_high([1, 2], [2, 0], 2, 4, 7) is None
    assert whole.too_high([1, 2], [2, 3], 2, 4, 8) == (3, 2, {1, 2})
