"""Addresses for buffers whose lifetimes are known: first fit in several orders, and placement one at a time."""

from __future__ import annotations

from itertools import chain, permutations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hexloom.formulations.problem import Buffer, Problem

HANDFUL = 5

REPAIRS = 150
"""Orders of first fit that are tried beside the plain ones, each in answer to what failed in the one before."""

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
    pinned = [b for b in range(len(buffers)) if buffers[b].address is not None]
    free = [b for b in range(len(buffers)) if buffers[b].address is None]
    beside = _alive_together(problem, lifetimes)
    tried: Iterable[list[int]] = (sorted(free, key=lambda b, key=key: (*key(b), b)) for key in orders)  # type: ignore[misc]
    if len(free) <= HANDFUL:
        tried = chain(tried, map(list, permutations(free)))
    for order in tried:
        offsets = _first_fit(problem, beside, [*pinned, *order])
        if isinstance(offsets, tuple):
            return offsets
    if len(free) <= HANDFUL:
        return None
    return _repaired(problem, beside, pinned, sorted(free, key=lambda b: (-size(b), -life(b), b)))


def _repaired(problem: Problem, beside: list[list[int]], pinned: list[int], order: list[int]) -> tuple[int, ...] | None:
    """Place what found no gap earlier the next time, in front of what stood in its way, again and again."""
    order = list(order)
    for attempt in range(REPAIRS):
        found = _first_fit(problem, beside, [*pinned, *order])
        if isinstance(found, tuple):
            return found
        if found not in order:
            return None
        at = order.index(found)
        rivals = [k for k, b in enumerate(order[:at]) if b in beside[found]]
        if not rivals:
            return None
        # Every other time only half way to the front: going all the way alone soon runs in circles.
        order.insert(rivals[len(rivals) // 2 if attempt % 2 else 0], order.pop(at))
    return None


def _alive_together(problem: Problem, lifetimes: Sequence[Lifetime]) -> list[list[int]]:
    """For each buffer those of some bytes that are alive while it is."""
    beside: list[list[int]] = [[] for _ in lifetimes]
    alive: list[int] = []
    for b in sorted(range(len(lifetimes)), key=lambda b: (lifetimes[b][0], b)):
        born, died = lifetimes[b]
        if problem.buffers[b].occupied_bytes == 0 or died <= born:
            continue
        alive = [other for other in alive if lifetimes[other][1] > born]
        for other in alive:
            beside[b].append(other)
            beside[other].append(b)
        alive.append(b)
    return beside


def _first_fit(problem: Problem, beside: list[list[int]], order: list[int]) -> tuple[int, ...] | int:
    """Return the offsets, or the first buffer for which there is no gap."""
    buffers = problem.buffers
    capacity = problem.scratchpad.available_bytes
    placed: dict[int, tuple[int, int]] = {}
    for b in order:
        taken = [placed[other] for other in beside[b] if other in placed]
        offset = buffers[b].address
        if offset is None:
            offset = lowest_gap(buffers[b], taken, capacity)
        elif not is_free(offset, buffers[b].occupied_bytes, taken, capacity):
            return b
        if offset is None:
            return b
        placed[b] = offset, offset + buffers[b].occupied_bytes
    return tuple(placed[b][0] for b in range(len(buffers)))


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
