"""The least capacity by arithmetic: bytes alive at once, with what alignment must waste, and where pins end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Block


@dataclass(frozen=True, slots=True)
class Need:
    """No capacity below ``bytes`` holds the blocks ``live`` (positions), all alive at ``moment``.

    ``rounding`` is the part of it that comes from alignment.
    """

    bytes: int
    moment: int
    live: tuple[int, ...]
    rounding: int = 0


def least_need(blocks: Sequence[Block]) -> Need:
    """Return the largest need of any moment, the first one where several ask for as much."""
    best = Need(0, 0, ())
    alive: set[int] = set()
    events: list[tuple[int, bool, int]] = []
    for b, block in enumerate(blocks):
        if not block.is_empty:
            events += [(block.born, True, b), (block.died, False, b)]
    events.sort()
    for k, (moment, is_birth, b) in enumerate(events):
        if not is_birth:
            alive.discard(b)
            continue
        alive.add(b)
        if k + 1 < len(events) and events[k + 1][1]:
            continue  # not a maximal set yet: the need only grows
        live = tuple(sorted(alive))
        total = sum(blocks[i].size for i in live)
        need = max(total, _aligned(blocks, live), *(_top(blocks[i]) for i in live))
        if need > best.bytes:
            best = Need(need, moment, live, max(0, need - total))
    return best


def _top(block: Block) -> int:
    return block.pin + block.size if block.pin is not None else block.size


def _aligned(blocks: Sequence[Block], live: Sequence[int]) -> int:
    """Bytes of those that lie on multiples of one grain: each but the topmost takes whole grains."""
    most = 0
    for grain in {blocks[i].align for i in live if blocks[i].align > 1}:
        sizes = [blocks[i].size for i in live if blocks[i].align % grain == 0]
        waste = [-size % grain for size in sizes]
        most = max(most, sum(sizes) + sum(waste) - max(waste))
    return most
