"""Offsets for fixed lifetimes where some blocks lie at fixed distances from each other: ranges in parts.

First fit in several orders, a range placed with all its parts at once; then a search over touching places, which for a
few ranges tries all that can matter. The exact search over canonical offsets knows no distances, so it is not asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.packing.block import Block
from hexloom.formulations.packing.first_fit import ORDERS, neighbours, ordered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexloom.formulations.parts import Whole

WORK = 2_000
"""Places that the search may try: what a packing may cost inside a search for schedules."""


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

    def in_order(self, order: Sequence[int]) -> bool:
        """Place every shape as low as it can lie beside those before it."""
        self._at.clear()
        for k in order:
            shape = self._shapes[k]
            at = shape.outline.pin if shape.outline.pin is not None else 0
            while (hit := self._hit(shape, at)) is not None and shape.outline.pin is None:
                at = hit
            if hit is not None or at + shape.outline.size > self._capacity:
                return False
            self._put(shape, at)
        return True

    def by_search(self) -> bool:
        """Place the shapes so that each lies at the bottom, or right above a part of one placed before it."""
        self._at.clear()
        return self._descend([*range(len(self._shapes))])

    def _descend(self, left: list[int]) -> bool:
        if not left:
            return True
        pinned = [k for k in left if self._shapes[k].outline.pin is not None]
        for k in pinned[:1] or left:
            shape = self._shapes[k]
            rest = [other for other in left if other != k]
            for at in self._places(shape):
                self._work -= 1
                if self._work < 0:
                    return False
                self._put(shape, at)
                if self._descend(rest):
                    return True
                for b in shape.parts:
                    del self._at[b]
        return False

    def _places(self, shape: _Shape) -> Iterator[int]:
        if shape.outline.pin is not None:
            tried = {shape.outline.pin}
        else:
            tried = {0}
            for b, shift in zip(shape.parts, shape.shifts, strict=True):
                ends = (self._at[o] + self._blocks[o].size for o in self._beside[b] if o in self._at)
                tried.update(_up(end - shift, shape.outline.align) for end in ends if end > shift)
        for at in sorted(tried):
            if at + shape.outline.size <= self._capacity and self._hit(shape, at) is None:
                yield at

    def _hit(self, shape: _Shape, at: int) -> int | None:
        """Return the lowest base above ``at`` that clears a block in the way of the shape, or None: nothing is."""
        for b, shift in zip(shape.parts, shape.shifts, strict=True):
            low, high = at + shift, at + shift + self._blocks[b].size
            for other in self._beside[b]:
                there = self._at.get(other)
                if there is not None and there < high and low < there + self._blocks[other].size:
                    return _up(there + self._blocks[other].size - shift, shape.outline.align)
        return None

    def _put(self, shape: _Shape, at: int) -> None:
        self._at.update((b, at + shift) for b, shift in zip(shape.parts, shape.shifts, strict=True))


def _up(at: int, align: int) -> int:
    return -(-at // align) * align
