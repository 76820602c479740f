"""Who is asked for a packing when: first fit, then exact search and CP-SAT beside each other."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.packing.bounds import least_need
from hexloom.formulations.packing.first_fit import ORDERS, neighbours, ordered, place_in_order
from hexloom.formulations.packing.gaps import lowest_gap, tightest_gap
from hexloom.formulations.packing.rectangles import RectanglesJob
from hexloom.formulations.packing.views import ENDLESS, VIEWS, ViewSearch, ViewsJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Block
    from hexloom.formulations.packing.views import Found

WORK_PER_SECOND = 100_000
"""Blocks that the exact search looks at in a second on a slow core; with a seed a limit in seconds is counted so."""

TURN_S = 2.0
"""Length of the first turn of CP-SAT; with a seed the exact search comes first, with once through its views."""

SECOND = 2.0
"""How much longer than a turn of CP-SAT one of a second exact search is, where two processes search."""

BY_RECTANGLES = ("life", "area")
"""Orders of CP-SAT, by turns: each closes instances that the other leaves open."""

GROWTH = 2

ALONE = 100_000
"""Blocks that the exact search looks at before another process is started: about 0.3 s."""

LONGEST_S = 86_400.0
"""A day: longer limits are cut to it."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Offsets and who found them; or None, ``impossible`` if that is proven, and by whom."""

    offsets: tuple[int, ...] | None
    by: str
    impossible: bool = False


class Clock:
    """What is left of a limit in seconds, by the wall or, with a seed, by counted work."""

    def __init__(self, seconds: float, counted: bool) -> None:
        self.counted = counted
        self._left = min(seconds, LONGEST_S)
        self._started = time.monotonic()
        self._spent = 0.0

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._left - (self._spent if self.counted else time.monotonic() - self._started)

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        return self.left <= 0

    def spend(self, seconds: float) -> None:
        """Count work that was done."""
        self._spent += seconds


def heuristic(blocks: Sequence[Block], capacity: int) -> tuple[int, ...] | None:
    """Return the offsets of the first order of first fit or best fit that places all blocks, or None."""
    beside = neighbours(blocks)
    for fit in (lowest_gap, tightest_gap):
        for name in ORDERS:
            offsets = place_in_order(blocks, beside, capacity, ordered(blocks, name), fit)
            if offsets is not None:
                return offsets
    return None


def lowest_heuristic(blocks: Sequence[Block]) -> tuple[int, ...] | None:
    """Return the offsets of the order of first fit that needs the fewest bytes; None when pins overlap."""
    beside = neighbours(blocks)
    endless = sum(block.size + block.align for block in blocks) + max((height(blocks, [b.pin or 0 for b in blocks]), 0))
    found = [place_in_order(blocks, beside, endless, ordered(blocks, name)) for name in ORDERS]
    return min((f for f in found if f is not None), key=lambda f: height(blocks, f), default=None)


def height(blocks: Sequence[Block], offsets: Sequence[int]) -> int:
    """Return the end of the topmost block that takes anything."""
    return max((at + b.size for b, at in zip(blocks, offsets, strict=True) if not b.is_empty), default=0)


def find_packing(blocks: Sequence[Block], capacity: int, clock: Clock, seed: int | None = None) -> Packing:
    """Search for offsets below ``capacity`` until ``clock`` is over."""
    need = least_need(blocks)
    if need.bytes > capacity:
        return Packing(None, "arithmetic", impossible=True)
    offsets = heuristic(blocks, capacity)
    if offsets is not None:
        return Packing(offsets, "first fit")
    search = ViewSearch(blocks, capacity, seed or 0)
    return _in_turn(blocks, capacity, search, clock, seed) if clock.counted else _race(blocks, capacity, search, clock)


def _race(blocks: Sequence[Block], capacity: int, search: ViewSearch, clock: Clock) -> Packing:
    """Search exactly, alone for a moment, then with a second process beside it."""
    found = search.advance(ALONE, lambda: clock.over)
    if found.offsets is not None or found.impossible or clock.over:
        return _said(found)
    with Guard(lazy=True) as guard, ThreadPoolExecutor(1) as pool:
        try:
            asked = pool.submit(_beside, guard, blocks, capacity, clock)
            found = search.advance(ENDLESS, lambda: clock.over or asked.done())
            if found.offsets is None and not found.impossible:
                packing = asked.result()
                if packing is not None:
                    return packing
                found = search.advance(ENDLESS, lambda: clock.over)
        finally:
            guard.stop()
    return _said(found)


def _beside(guard: Guard, blocks: Sequence[Block], capacity: int, clock: Clock) -> Packing | None:
    """Ask CP-SAT and a second exact search in turns that grow longer: what one does not find the other often does."""
    turn = TURN_S
    seed = 1
    while not clock.over and not guard.stopped:
        order = BY_RECTANGLES[(seed - 1) % len(BY_RECTANGLES)]
        packing = _by_rectangles(guard, blocks, capacity, min(turn, clock.left), clock, None, order)
        if packing is not None or clock.over:
            return packing
        status, _, found = guard.run(ViewsJob(tuple(blocks), capacity, min(SECOND * turn, clock.left), seed))
        if found is not None or status == "INFEASIBLE":
            return Packing(found, "exact search", impossible=found is None)
        if status == "DIED":
            return None  # Who cannot run a second process would start one after the other.
        turn, seed = turn * GROWTH, seed + 1
    return None


def _said(found: Found) -> Packing:
    open_end = found.offsets is None and not found.impossible
    return Packing(found.offsets, "limit" if open_end else "exact search", found.impossible)


def _in_turn(blocks: Sequence[Block], capacity: int, search: ViewSearch, clock: Clock, seed: int | None) -> Packing:
    """Search exactly and with CP-SAT in turns that grow longer, by counted work: always the same."""
    work, turn = len(VIEWS) * search.first_share, TURN_S
    with Guard(lazy=True) as guard:
        while not clock.over:
            share = min(work, int(clock.left * WORK_PER_SECOND) + 1)
            found = search.advance(share)
            clock.spend(share / WORK_PER_SECOND)
            if found.offsets is not None or found.impossible:
                return _said(found)
            if clock.over:
                break
            packing = _by_rectangles(guard, blocks, capacity, min(turn, clock.left), clock, seed)
            if packing is not None:
                return packing
            work, turn = work * GROWTH, turn * GROWTH
    return Packing(None, "limit")


def _by_rectangles(
    guard: Guard,
    blocks: Sequence[Block],
    capacity: int,
    seconds: float,
    clock: Clock,
    seed: int | None,
    order: str = BY_RECTANGLES[0],
) -> Packing | None:
    """Ask CP-SAT; that there is nothing counts when a run without presolve says so too: it has erred before."""
    places = [b for b, block in enumerate(blocks) if not block.is_empty]
    active = tuple(blocks[b] for b in places)
    job = RectanglesJob(active, capacity, seconds, seed or 0, 1, clock.counted, order=order)
    status, _, found = guard.run(job)
    clock.spend(seconds)
    if found is not None:
        offsets = [block.pin or 0 for block in blocks]
        for b, at in zip(places, found, strict=True):
            offsets[b] = at
        return Packing(tuple(offsets), "CP-SAT")
    if status == "INFEASIBLE" and not clock.over:
        again = RectanglesJob(active, capacity, clock.left, (seed or 0) + 1, 2, clock.counted, presolve=False)
        status, _, found = guard.run(again)
        if status == "INFEASIBLE":
            return Packing(None, "CP-SAT, twice", impossible=True)
    return None
