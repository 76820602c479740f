"""The exact search through several views in turn, each for a while and then longer: restarts, all of them exact.

How long a view takes on an instance has a heavy tail, and which view is the quick one differs: of those below, each is
the first to find a packing for some instance of minimalloc or of ``benchmarks/packing.py``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.packing.canonical import CanonicalSearch, View
from hexloom.formulations.packing.first_fit import ORDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hexloom.formulations.packing.block import Block
    from hexloom.formulations.packing.corners import CornerRule

VIEWS: tuple[tuple[str, CornerRule], ...] = (
    ("life", "fewest"),
    ("life", "floor"),
    ("size", "floor"),
    ("area", "fewest"),
    ("size", "fewest"),
    ("area", "tightest"),
    ("life", "lowest"),
    ("life", "fewest_high"),
    ("area", "lowest"),
    ("area", "floor"),
)
"""Orders of choices and of corners, the most successful first."""

GROWTH = 2
"""How much longer a view may search in the next round."""

NOISE = 0.5
"""From the second round on blocks are sorted as if they were up to this part larger or smaller, by chance."""

LEAST_SHARE = 100_000
"""Blocks looked at, at least, in the first run of a view where there is time: about half a second."""


@dataclass(frozen=True, slots=True)
class Found:
    """Offsets, or None; then ``impossible`` says whether there are none."""

    offsets: tuple[int, ...] | None
    impossible: bool = False


class ViewSearch:
    """A search for offsets that can be continued: `advance` until it finds some, or proves that there are none."""

    def __init__(self, blocks: Sequence[Block], capacity: int, seed: int = 0, least_share: int = LEAST_SHARE) -> None:
        self._blocks = blocks
        self._places = [b for b, block in enumerate(blocks) if not block.is_empty]
        self._active = [blocks[b] for b in self._places]
        self._search = CanonicalSearch(self._active, capacity)
        self._turns = self._views(random.Random(seed))
        # Twice what it takes to the last block if every choice is right and time never falls apart.
        self.first_share = max(least_share, len(self._active) ** 2)

    def advance(self, work: int, stop: Callable[[], bool] = lambda: False) -> Found:
        """Search on for as much ``work``, counted in blocks looked at, or until ``stop`` says so."""
        until = self._search.spent + work
        while self._search.spent < until:
            view, share = next(self._turns)
            offsets = self._search.run(view, min(share, until - self._search.spent), stop)
            if offsets is not None:
                return Found(self._whole(offsets))
            if self._search.impossible:
                return Found(None, impossible=True)
            if stop():
                break
        return Found(None)

    def _views(self, rng: random.Random) -> Iterator[tuple[View, int]]:
        share = self.first_share
        noisy = False
        while True:
            for order, rule in VIEWS:
                yield View(self._rank(order, rng if noisy else None), rule), share
            noisy, share = True, share * GROWTH

    def _rank(self, order: str, rng: random.Random | None) -> list[int]:
        blocks = self._active
        if rng is not None:
            blocks = [_stretched(block, rng.uniform(1 - NOISE, 1 + NOISE)) for block in blocks]
        rank = [0] * len(blocks)
        for k, b in enumerate(sorted(range(len(blocks)), key=lambda b: (*ORDERS[order](blocks[b]), b))):
            rank[b] = k
        return rank

    def _whole(self, offsets: tuple[int, ...]) -> tuple[int, ...]:
        found = [block.pin or 0 for block in self._blocks]
        for b, at in zip(self._places, offsets, strict=True):
            found[b] = at
        return tuple(found)


def _stretched(block: Block, factor: float) -> Block:
    """Return a block that sorts as if life and size were ``factor`` times what they are."""
    life, size = (max(1, round(amount * 64 * factor)) for amount in (block.died - block.born, block.size))
    return block._replace(died=block.born + life, size=size)
