"""Addresses for a schedule whose times are known."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING

from hexloom.formulations.memory import Takeover
from hexloom.formulations.packing.block import Block, blocks_of
from hexloom.formulations.packing.first_fit import ORDERS, neighbours, ordered, place_in_order
from hexloom.formulations.packing.rigid import pack_rigid
from hexloom.formulations.packing.views import ViewSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Lifetime
    from hexloom.formulations.problem import Problem

WORK = 20_000
"""Blocks that the exact search may look at, about 0.1 s: what a packing may cost inside a search for schedules."""


def possible_takeovers(problem: Problem, start: Sequence[int], known: Sequence[int]) -> list[Takeover]:
    """Return who can lie on whom when ops start, and their ends are known, at these times; in the order of the ops.

    The op that uses both starts when no other still uses the old buffer, and ends before others use the new one.
    """
    found: list[Takeover] = []
    for one in sorted(problem.takeovers, key=lambda one: start[one.op]):
        olds = {problem.op_index[name] for name in problem.buffers[one.old].ops} - {one.op}
        news = {problem.op_index[name] for name in problem.buffers[one.new].ops} - {one.op}
        last = all(known[x] <= start[one.op] for x in olds)
        if last and all(known[one.op] <= start[y] for y in news) and one.old not in {other.old for other in found}:
            found.append(one)
    return found


def pack_over(problem: Problem, lifetimes: Sequence[Lifetime], taken: Sequence[Takeover]) -> tuple[int, ...] | None:
    """Return an offset for every buffer where each of ``taken`` has that of the buffer which it overwrites.

    The two are packed as one: with the bytes of the older, from its birth to the death of the newer. ``taken`` is in
    the order of the ops; lives of the newer are not looked at before these ops.
    """
    if not taken:
        return pack(problem, lifetimes)
    if problem.pools:
        return _per_pool(problem, lifetimes, taken)
    blocks = blocks_of(problem.buffers, lifetimes)
    home = list(range(len(blocks)))
    for new, old, _ in taken:
        home[new] = first = home[old]
        one, other = blocks[first], blocks[new]
        pins = {block.pin for block in (one, other)} - {None}
        if len(pins) > 1:
            return None
        blocks[first] = Block(
            one.born, max(one.died, other.died), one.size, lcm(one.align, other.align), next(iter(pins), None)
        )
        blocks[new] = Block(0, 0, 0)
        if blocks[first].pin is not None and (blocks[first].pin or 0) % blocks[first].align:
            return None
    offsets = _packed(blocks, problem)
    return None if offsets is None else tuple(offsets[first] for first in home)


def pack(problem: Problem, lifetimes: Sequence[Lifetime]) -> tuple[int, ...] | None:
    """Return an offset for every buffer, or None when none was found.

    First fit in each of its orders, pinned buffers first; then the exact search for a short time, which for few
    buffers comes to its end: then None means that there is no packing. Where buffers are in parts, None says nothing.
    """
    if problem.pools:
        return _per_pool(problem, lifetimes, ())
    return _packed(blocks_of(problem.buffers, lifetimes), problem)


def _per_pool(problem: Problem, lifetimes: Sequence[Lifetime], taken: Sequence[Takeover]) -> tuple[int, ...] | None:
    found = [0] * len(problem.buffers)
    for mine, view in problem.per_pool:
        place = {b: k for k, b in enumerate(mine)}
        over = [Takeover(place[new], place[old], op) for new, old, op in taken if new in place]
        part = pack_over(view, [lifetimes[b] for b in mine], over)
        if part is None:
            return None
        for b, at in zip(mine, part, strict=True):
            found[b] = at
    return tuple(found)


def _packed(blocks: list[Block], problem: Problem) -> tuple[int, ...] | None:
    capacity = problem.scratchpad.available_bytes
    if problem.wholes:
        return pack_rigid(blocks, problem.wholes, capacity)
    beside = neighbours(blocks)
    for name in ORDERS:
        offsets = place_in_order(blocks, beside, capacity, ordered(blocks, name))
        if offsets is not None:
            return offsets
    return ViewSearch(blocks, capacity, least_share=WORK // 20).advance(WORK).offsets
