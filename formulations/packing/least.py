"""The least capacity that blocks fit into: what first fit needs, brought down towards the bound by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from hexloom.formulations.packing.bounds import least_need
from hexloom.formulations.packing.portfolio import Clock, Packing, find_packing, height, lowest_heuristic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Block


@dataclass(frozen=True, slots=True)
class Least:
    """Offsets that end at ``height``, and a ``bound`` below which there are none; offsets None: pins overlap."""

    offsets: tuple[int, ...] | None
    height: int
    bound: int
    by: str


def step_of(blocks: Sequence[Block]) -> int:
    """Bytes that all ends have in common in packings where every block lies as low as it can."""
    active = [b for b in blocks if not b.is_empty]
    return gcd(*(n for b in active for n in (b.size, b.pin or 0, 0 if b.align == 1 else b.align))) or 1


def least_capacity(blocks: Sequence[Block], clock: Clock, seed: int | None = None) -> Least:
    """Ask for the bound itself for a third of the time, then for what lies between in halves, half of the rest each."""
    step = step_of(blocks)
    bound = -(-least_need(blocks).bytes // step) * step
    offsets = lowest_heuristic(blocks)
    if offsets is None:
        return Least(None, 0, bound, "arithmetic")
    best = Least(offsets, height(blocks, offsets), bound, "first fit")
    tried, ask, part = bound - step, bound, 3
    while ask < best.height and not clock.over:
        found = _ask(blocks, ask, clock, part, seed)
        if found.offsets is not None:
            best = Least(found.offsets, height(blocks, found.offsets), bound, found.by)
        else:
            tried = ask
            if found.impossible and ask >= bound:
                bound = ask + step
        # Between what was tried in vain and what was found, in whole steps: what is not proven may be asked again.
        ask, part = max(bound, (tried + best.height) // 2 // step * step), 2
        if ask <= tried or ask >= best.height:
            if tried < bound:
                break
            ask, tried = bound, bound - step
    return Least(best.offsets, best.height, bound, best.by)


def _ask(blocks: Sequence[Block], capacity: int, clock: Clock, part: int, seed: int | None) -> Packing:
    share = Clock(clock.left / part, clock.counted)
    before = share.left
    found = find_packing(blocks, capacity, share, seed)
    clock.spend(before - share.left)
    return found
