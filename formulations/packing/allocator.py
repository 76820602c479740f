"""Addresses while ops are dispatched: one buffer at a time, for what is alive now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.packing.gaps import highest_gap, is_free, lowest_gap

if TYPE_CHECKING:
    from hexloom.formulations.parts import Whole
    from hexloom.formulations.problem import Problem


class Allocator:
    """Addresses of the buffers alive now, handed out one at a time: lowest gap, or highest for small buffers.

    Parameters
    ----------
    problem
        Pinned and resident buffers keep their places; what is alive from the start is placed at once, without a pin
        largest first.
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
        early = [b for b, buffer in enumerate(problem.buffers) if buffer.from_start]
        early.sort(key=lambda b: (problem.buffers[b].address is None, -problem.buffers[b].occupied_bytes))
        self.fits = sum(map(self.place, early)) == len(early)
        """Whether what is alive from the start found its places."""
        if not self.fits:
            # One after the other they do not fit; side by side they may, with a search.
            found = pack(problem, [(0, int(buffer.from_start)) for buffer in problem.buffers])
            self.fits = found is not None
            self._live.clear()
            for b, at in enumerate(found or ()):
                if problem.buffers[b].from_start:
                    self.put(b, at)

    def top_of(self, b: int) -> int:
        """Return where buffer ``b`` would end if it were placed now as low as possible; all bytes if it cannot be."""
        buffer = self._problem.buffers[b]
        at = buffer.address
        if at is None:
            at = lowest_gap(buffer.occupied_bytes, buffer.align_bytes, self._live.values(), self._capacity)
        return self._capacity if at is None else at + buffer.occupied_bytes

    def place(self, b: int, floor: int = 0) -> bool:
        """Give buffer ``b`` its address, at ``floor`` or above if it is free; False when there is no gap now.

        The first part of a range brings all others that are ever used with it.
        """
        whole = self._problem.wholes.get(b)
        if whole is not None:
            return not self._live.keys().isdisjoint(whole.parts) or self._place_whole(whole, floor)
        buffer = self._problem.buffers[b]
        taken = [*self._live.values(), (0, floor)] if floor and buffer.address is None else list(self._live.values())
        at = buffer.address
        if at is None:
            fit = highest_gap if buffer.occupied_bytes < self._from_top_below else lowest_gap
            # A gap in which a pinned buffer is still to come may be used: the pin waits until it is free again.
            at = fit(buffer.occupied_bytes, buffer.align_bytes, taken, self._capacity)
            if at is None:
                return False
        return self.put(b, at)

    def put(self, b: int, at: int) -> bool:
        """Give buffer ``b`` the address ``at``; False when something is alive there."""
        size = self._problem.buffers[b].occupied_bytes
        if not is_free(at, size, self._live.values(), self._capacity):
            return False
        whole = self._problem.wholes.get(b)
        self.offsets.update({b: at} if whole is None else whole.placed(b, at))
        if size:
            self._live[b] = (at, at + size)
        return True

    def _place_whole(self, whole: Whole, floor: int) -> bool:
        head = self._problem.buffers[whole.head]
        at = head.address
        if at is None:
            at = lowest_gap(whole.size, head.align_bytes, [*self._live.values(), (0, floor)], self._capacity)
        if at is None or not is_free(at, whole.size, self._live.values(), self._capacity):
            return False
        for b, place in whole.placed(whole.head, at).items():
            if self._problem.buffers[b].ops or self._problem.buffers[b].always:
                self.put(b, place)
        self.offsets.update(whole.placed(whole.head, at))
        return True

    def release(self, b: int) -> None:
        """End the life of buffer ``b``."""
        self._live.pop(b, None)
