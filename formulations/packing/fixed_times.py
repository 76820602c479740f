"""Addresses for a schedule whose times are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.packing.block import blocks_of
from hexloom.formulations.packing.first_fit import ORDERS, neighbours, ordered, place_in_order
from hexloom.formulations.packing.views import ViewSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Lifetime
    from hexloom.formulations.problem import Problem

WORK = 20_000
"""Blocks that the exact search may look at, about 0.1 s: what a packing may cost inside a search for schedules."""


def pack(problem: Problem, lifetimes: Sequence[Lifetime]) -> tuple[int, ...] | None:
    """Return an offset for every buffer, or None when none was found.

    First fit in each of its orders, pinned buffers first; then the exact search for a short time, which for few
    buffers comes to its end: then None means that there is no packing.
    """
    blocks = blocks_of(problem.buffers, lifetimes)
    capacity = problem.scratchpad.available_bytes
    beside = neighbours(blocks)
    for name in ORDERS:
        offsets = place_in_order(blocks, beside, capacity, ordered(blocks, name))
        if offsets is not None:
            return offsets
    return ViewSearch(blocks, capacity, least_share=WORK // 20).advance(WORK).offsets
