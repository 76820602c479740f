"""Offsets for fixed lifetimes where some blocks lie at fixed distances from each other: ranges in parts.

First fit in several orders, a range placed with all its parts at once; then a search over touching places, which for a
few ranges tries all that can matter. The exact search over canonical offsets knows no distances, so it is not asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.packing.block import Block
from hexloom.formulations.packing.first_fit import ORDERS, neighbours, ordered
from hexloom.formulations.packing.gaps import is_free, lowest_gap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hexloom.formulations.packing.gaps import Piece
    from hexloom.formulations.parts import Whole

WORK = 2_000
"""Places that the search may try: what a packing may cost inside a search for schedules."""

MOST_SEARCHED = 12
"""Shapes beside others above which the search is left out: it would not come far."""


class _Shape(NamedTuple):
    """Blocks at fixed distances from a base."""

    parts: tuple[int, ...]
    shifts: tuple[int, ...]
    outline: Block


def pack_rigid(blocks: Sequence[Block], wholes: Mapping[int, Whole], capacity: int) -> tuple[int, ...] | None:
    """Return an offset for every block, those of a whole at its distances; None when none was found."""
    shapes = [_shape(blocks, b, wholes.get(b)) for b in range(len(blocks)) if b not in wholes or wholes[b].head == b]
    packer = _Packer(blocks, shapes, capacity)
    outlines = [shape.outline for shape in shapes]
    for name in ORDERS:
        if packer.in_order(ordered(outlines, name)):
            return packer.offsets()
    return packer.offsets() if packer.by_search() else None


def _shape(blocks: Sequence[Block], b: int, whole: Whole | None) -> _Shape:
    if whole is None:
        return _Shape((b,), (0,), blocks[b])
    lives = [blocks[part] for part in whole.parts if not blocks[part].is_empty]
    born, died = min((one.born for one in lives), default=0), max((one.died for one in lives), default=0)
    return _Shape(whole.parts, whole.shifts, Block(born, died, whole.size, blocks[b].align, blocks[b].pin))


class _Packer:
    def __init__(self, blocks: Sequence[Block], shapes: Sequence[_Shape], capacity: int) -> None:
        self._blocks, self._shapes, self._capacity = blocks, shapes, capacity
        self._beside = neighbours(blocks)
        self._at: dict[int, int] = {}
        self._work = WORK

    def offsets(self) -> tuple[int, ...]:
        return tuple(self._at[b] for b in range(len(self._blocks)))

    def in_order(self, order: Iterable[int]) -> bool:
        """Place every shape as low as it can lie beside those before it."""
        self._at.clear()
        return self._lowest(order)

    def by_search(self) -> bool:
        """Place the shapes so that each lies at the bottom, or right above a part of one placed before it."""
        self._at.clear()
        shapes = sorted(range(len(self._shapes)), key=lambda k: self._shapes[k].outline.pin is None)
        crowded = [k for k in shapes if any(self._beside[b] for b in self._shapes[k].parts)]
        if len(crowded) > MOST_SEARCHED or not self._descend(crowded):
            return False
        return self._lowest(k for k in shapes if k not in crowded)

    def _lowest(self, order: Iterable[int]) -> bool:
        for k in order:
            shape = self._shapes[k]
            at, (taken, end) = shape.outline.pin, self._taken(shape)
            if at is None:
                at = lowest_gap(1, shape.outline.align, taken, end)
            if at is None or not is_free(at, 1, taken, end):
                return False
            self._put(shape, at)
        return True

    def _descend(self, left: list[int]) -> bool:
        if not left:
            return True
        for k in left[:1] if self._shapes[left[0]].outline.pin is not None else left:
            shape = self._shapes[k]
            for at in self._places(shape):
                self._work -= 1
                if self._work < 0:
                    return False
                self._put(shape, at)
                if self._descend([other for other in left if other != k]):
                    return True
                for b in shape.parts:
                    del self._at[b]
        return False

    def _places(self, shape: _Shape) -> list[int]:
        taken, end = self._taken(shape)
        align = shape.outline.align
        tried = {0, *(-(-high // align) * align for _, high in taken if high > 0)}
        if shape.outline.pin is not None:
            tried = {shape.outline.pin}
        return sorted(at for at in tried if is_free(at, 1, taken, end))

    def _taken(self, shape: _Shape) -> tuple[list[Piece], int]:
        """Return where the shape may not begin, as pieces, and the end of where it may: a byte for every begin."""
        taken = [
            (self._at[other] - shift - self._blocks[b].size + 1, self._at[other] + self._blocks[other].size - shift)
            for b, shift in zip(shape.parts, shape.shifts, strict=True)
            for other in self._beside[b]
            if other in self._at
        ]
        return taken, self._capacity - shape.outline.size + 1

    def _put(self, shape: _Shape, at: int) -> None:
        self._at.update((b, at + shift) for b, shift in zip(shape.parts, shape.shifts, strict=True))
