"""Addresses for buffers whose lifetimes are known: first fit in several orders, and placement one at a time."""

from __future__ import annotations

from itertools import chain, permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hexloom.formulations.problem import Buffer, Problem

HANDFUL = 5

Lifetime = tuple[int, int]
"""Half-open interval in any strictly ordered measure: ticks or event ranks."""


def pack(problem: Problem, lifetimes: Sequence[Lifetime]) -> tuple[int, ...] | None:
    """Return an offset for every buffer, or None when no order of first fit places all of them.

    Pinned buffers are placed first. The others are tried longest-lived first, then largest first, largest area
    first, strictest alignment first, and in order of birth; each at the lowest address at which nothing alive
    overlaps it. A handful of buffers is tried in every order.
    """
    buffers = problem.buffers

    def life(b: int) -> int:
        return lifetimes[b][1] - lifetimes[b][0]

    def size(b: int) -> int:
        return buffers[b].occupied_bytes

    orders: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda b: (-life(b), -size(b)),
        lambda b: (-size(b), -life(b)),
        lambda b: (-size(b) * life(b),),
        lambda b: (-buffers[b].align_bytes, -size(b), -life(b)),
        lambda b: (lifetimes[b][0], -size(b)),
    )
    free = [b for b in range(len(buffers)) if buffers[b].address is None]
    tried: Iterable[list[int]] = (sorted(free, key=lambda b, key=key: (*key(b), b)) for key in orders)  # type: ignore[misc]
    if len(free) <= HANDFUL:
        tried = chain(tried, map(list, permutations(free)))
    for order in tried:
        offsets = _first_fit(problem, lifetimes, order)
        if offsets is not None:
            return offsets
    return None


def _first_fit(problem: Problem, lifetimes: Sequence[Lifetime], order: list[int]) -> tuple[int, ...] | None:
    buffers = problem.buffers
    capacity = problem.scratchpad.available_bytes
    size = [buffer.occupied_bytes for buffer in buffers]
    offsets: dict[int, int] = {}
    for b in [*(b for b, buffer in enumerate(buffers) if buffer.address is not None), *order]:
        taken = [
            (offset, offset + size[other])
            for other, offset in offsets.items()
            if size[other] > 0 and lifetimes[other][0] < lifetimes[b][1] and lifetimes[b][0] < lifetimes[other][1]
        ]
        offset = buffers[b].address
        if offset is None:
            offset = lowest_gap(buffers[b], taken, capacity)
        elif not is_free(offset, size[b], taken, capacity):
            return None
        if offset is None:
            return None
        offsets[b] = offset
    return tuple(offsets[b] for b in range(len(buffers)))


def is_free(at: int, size: int, taken: Iterable[tuple[int, int]], capacity: int) -> bool:
    """Whether ``size`` bytes at ``at`` lie inside the capacity and touch nothing taken."""
    return size == 0 or (at + size <= capacity and not any(start < at + size and at < end for start, end in taken))


def lowest_gap(buffer: Buffer, taken: Iterable[tuple[int, int]], capacity: int) -> int | None:
    """Return the lowest aligned address of ``buffer`` beside the ``taken`` intervals, or None."""
    align, size = buffer.align_bytes, buffer.occupied_bytes
    if size == 0:
        return 0
    at = 0
    for start, end in sorted(taken):
        if at + size <= start:
            break
        if end > at:
            at = -(-end // align) * align
    return at if at + size <= capacity else None


def highest_gap(buffer: Buffer, taken: Iterable[tuple[int, int]], capacity: int) -> int | None:
    """Return the highest aligned address of ``buffer`` beside the ``taken`` intervals, or None."""
    align, size = buffer.align_bytes, buffer.occupied_bytes
    if size == 0:
        return 0
    at = (capacity - size) // align * align
    for start, end in sorted(taken, key=lambda piece: -piece[1]):
        if at >= end:
            break
        if start < at + size:
            at = (start - size) // align * align
    return at if at >= 0 else None


class Allocator:
    """Addresses of the buffers alive now, handed out one at a time: lowest gap, or highest for small buffers.

    Parameters
    ----------
    problem
        Pinned and resident buffers keep their places; resident ones without a pin are placed at once, largest
        first.
    from_top_below
        Buffers smaller than this many bytes are placed from the top, so that they do not split large gaps.
    """

    has_slots = False
    """Whether a buffer waits for a slot of its own: that one finds none says nothing of the bytes that others need."""

    def __init__(self, problem: Problem, from_top_below: int = 0) -> None:
        self._problem = problem
        self._capacity = problem.scratchpad.available_bytes
        self._from_top_below = from_top_below
        self.turn = 0
        self.offsets: dict[int, int] = {}
        self._live: dict[int, tuple[int, int]] = {}
        residents = [b for b, buffer in enumerate(problem.buffers) if buffer.resident]
        for b in sorted(
            residents, key=lambda b: (problem.buffers[b].address is None, -problem.buffers[b].occupied_bytes)
        ):
            self.place(b)

    def top_of(self, b: int) -> int:
        """Return where buffer ``b`` would end if it were placed now as low as possible; all bytes if it cannot be."""
        buffer = self._problem.buffers[b]
        at = buffer.address
        if at is None:
            at = lowest_gap(buffer, self._live.values(), self._capacity)
        return self._capacity if at is None else at + buffer.occupied_bytes

    def place(self, b: int, floor: int = 0) -> bool:
        """Give buffer ``b`` its address, at ``floor`` or above if it is free; False when there is no gap now."""
        buffer = self._problem.buffers[b]
        taken = [*self._live.values(), (0, floor)] if floor and buffer.address is None else list(self._live.values())
        at = buffer.address
        if at is None:
            fit = highest_gap if buffer.occupied_bytes < self._from_top_below else lowest_gap
            # A gap in which a pinned buffer is still to come may be used: the pin waits until it is free again.
            at = fit(buffer, taken, self._capacity)
            if at is None:
                return False
        return self.put(b, at)

    def put(self, b: int, at: int) -> bool:
        """Give buffer ``b`` the address ``at``; False when something is alive there."""
        size = self._problem.buffers[b].occupied_bytes
        if not is_free(at, size, self._live.values(), self._capacity):
            return False
        self.offsets[b] = at
        if size:
            self._live[b] = (at, at + size)
        return True

    def release(self, b: int) -> None:
        """End the life of buffer ``b``."""
        self._live.pop(b, None)
