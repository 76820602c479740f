"""The exact search through several views in turn, each for a while and then longer: restarts, all of them exact.

How long a view takes on an instance has a heavy tail, and which view is the quick one differs: of those below, each is
the first to find a packing for some instance, of minimalloc or of ``benchmarks/packing.py`` with seeds up to 39. Most
that find one do so in less than one look per pair of blocks, which is why the first turn of each is that short.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.packing.canonical import CanonicalSearch, View
from hexloom.formulations.packing.first_fit import ORDERS
from hexloom.formulations.packing.sections import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hexloom.formulations.packing.block import Block
    from hexloom.formulations.packing.corners import CornerRule

Order = Literal["life", "size", "area", "cover", "crowd"]
"""Which blocks come first: the longest-lived, the largest, those of the largest area over time, or over sections, or
those that are alive when most bytes are."""

VIEWS: tuple[tuple[Order, CornerRule], ...] = (
    ("life", "fewest_high"),
    ("life", "floor"),
    ("size", "slack"),
    ("area", "lowest"),
    ("life", "lowest"),
    ("crowd", "lowest"),
    ("cover", "wide"),
    ("crowd", "floor"),
    ("area", "fewest_wide"),
    ("area", "slack"),
    ("size", "fewest"),
    ("cover", "fewest"),
)
"""Orders of choices and of corners, the most successful first."""

ENDLESS = 1 << 60

GROWTH = 1.5
"""How much longer a view may search in the next round."""

NOISE = 0.5
"""From the second round on blocks are sorted as if they were up to this part larger or smaller, by chance."""

SHARE = 1.1
"""Blocks that a view looks at in its first run, in squares of the number of blocks."""

LEAST_SHARE = 10_000
"""The same, at least: a few hundredths of a second."""


@dataclass(frozen=True, slots=True)
class ViewsJob:
    """Blocks to pack below ``capacity`` by a noisy search, in a process beside another one."""

    blocks: tuple[Block, ...]
    capacity: int
    seconds: float
    seed: int
    deterministic: bool = False

    @property
    def label(self) -> str:
        """What it is, for people."""
        return f"{len(self.blocks)} blocks"

    def work(self, found: Callable[[tuple[int, ...]], None]) -> tuple[str, int]:
        """Search; give the offsets to ``found``, and return what came of it in the solver's words."""
        ends = time.monotonic() + self.seconds
        search = ViewSearch(self.blocks, self.capacity, self.seed, noisy=True)
        seen = search.advance(ENDLESS, lambda: time.monotonic() >= ends)
        if seen.offsets is not None:
            found(seen.offsets)
            return "FEASIBLE", 0
        return "INFEASIBLE" if seen.impossible else "UNKNOWN", 0


@dataclass(frozen=True, slots=True)
class Found:
    """Offsets, or None; then ``impossible`` says whether there are none."""

    offsets: tuple[int, ...] | None
    impossible: bool = False


class ViewSearch:
    """A search for offsets that can be continued: `advance` until it finds some, or proves that there are none."""

    def __init__(
        self,
        blocks: Sequence[Block],
        capacity: int,
        seed: int = 0,
        *,
        least_share: int = LEAST_SHARE,
        noisy: bool = False,
    ) -> None:
        self._blocks = blocks
        self._places = [b for b, block in enumerate(blocks) if not block.is_empty]
        self._active = [blocks[b] for b in self._places]
        spans = cut(self._active).spans
        self._sections = [
            block._replace(born=first, died=last) for block, (first, last) in zip(self._active, spans, strict=True)
        ]
        bytes_of: dict[int, int] = {}
        for block, (first, last) in zip(self._active, spans, strict=True):
            for k in range(first, last):
                bytes_of[k] = bytes_of.get(k, 0) + block.size
        self._crowds = [max(bytes_of[k] for k in range(first, last)) for first, last in spans]
        self._search = CanonicalSearch(self._active, capacity)
        self._turns = self._views(random.Random(seed), noisy)
        # It takes about half of this to the last block if every choice is right and time never falls apart.
        self.first_share = max(least_share, round(SHARE * len(self._active) ** 2))

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

    def _views(self, rng: random.Random, noisy: bool) -> Iterator[tuple[View, int]]:
        share = self.first_share
        # Who has noise from the start searches beside somebody who has none: it begins with what comes there last.
        views = VIEWS[::-1] if noisy else VIEWS
        while True:
            for order, rule in views:
                yield View(self._rank(order, rng if noisy else None), rule), share
            noisy, share = True, int(share * GROWTH)

    def _rank(self, order: Order, rng: random.Random | None) -> list[int]:
        blocks = self._sections if order == "cover" else self._active
        if rng is not None:
            blocks = [_stretched(block, rng.uniform(1 - NOISE, 1 + NOISE)) for block in blocks]
        if order == "crowd":
            crowds = [crowd * (rng.uniform(1 - NOISE / 5, 1) if rng is not None else 1) for crowd in self._crowds]
            keys: list[tuple[float, ...]] = [(-crowd, -block.size) for crowd, block in zip(crowds, blocks, strict=True)]
        else:
            keys = list(map(ORDERS["area" if order == "cover" else order], blocks))
        rank = [0] * len(blocks)
        for k, b in enumerate(sorted(range(len(blocks)), key=lambda b: (*keys[b], b))):
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
