"""Placement one block after the other: first fit and best fit, in several orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.packing.gaps import is_free, lowest_gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hexloom.formulations.packing.block import Block
    from hexloom.formulations.packing.gaps import Piece

    Fit = Callable[[int, int, Iterable[Piece], int], int | None]
    """Takes size, alignment, taken pieces and capacity; returns an address or None."""

ORDERS: dict[str, Callable[[Block], tuple[int, ...]]] = {
    "life": lambda b: (b.born - b.died, -b.size),
    "size": lambda b: (-b.size, b.born - b.died),
    "area": lambda b: (b.size * (b.born - b.died),),
    "align": lambda b: (-b.align, -b.size, b.born - b.died),
    "birth": lambda b: (b.born, -b.size),
}
"""Keys of the orders, longest-lived first, and so on; what comes first is placed first."""


def ordered(blocks: Sequence[Block], name: str) -> list[int]:
    """Return the positions of ``blocks`` by the order ``name``, pinned ones first."""
    key = ORDERS[name]
    return sorted(range(len(blocks)), key=lambda b: (blocks[b].pin is None, *key(blocks[b]), b))


def neighbours(blocks: Sequence[Block]) -> list[list[int]]:
    """For each block those of some bytes that are alive while it is."""
    beside: list[list[int]] = [[] for _ in blocks]
    alive: list[int] = []
    for b in sorted(range(len(blocks)), key=lambda b: (blocks[b].born, b)):
        if blocks[b].is_empty:
            continue
        alive = [other for other in alive if blocks[other].died > blocks[b].born]
        for other in alive:
            beside[b].append(other)
            beside[other].append(b)
        alive.append(b)
    return beside


def place_in_order(
    blocks: Sequence[Block], beside: list[list[int]], capacity: int, order: Iterable[int], fit: Fit = lowest_gap
) -> tuple[int, ...] | None:
    """Return offsets, each where ``fit`` finds room beside those placed before; None when one finds none."""
    placed: dict[int, Piece] = {}
    for b in order:
        _, _, size, align, pin = blocks[b]
        taken = [placed[other] for other in beside[b] if other in placed]
        at = fit(size, align, taken, capacity) if pin is None else pin
        if at is None or (pin is not None and not is_free(pin, size, taken, capacity)):
            return None
        placed[b] = at, at + size
    return tuple(placed[b][0] for b in range(len(blocks)))
