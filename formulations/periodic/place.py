"""Addresses of ring copies whose lives are known: first fit on what is alive together."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hexloom.formulations.periodic.loop import Loop, LoopBuffer
    from hexloom.formulations.periodic.schedule import ModuloSchedule


class Ring(NamedTuple):
    """Copies of one buffer; that of iteration 0 lives in ``[born, died)``."""

    buffer: LoopBuffer
    born: int
    died: int
    copies: int


ORDERS: tuple[Callable[[Ring], tuple[int, ...]], ...] = (
    lambda ring: (-ring.buffer.occupied_bytes, ring.born - ring.died),
    lambda ring: (ring.born - ring.died, -ring.buffer.occupied_bytes),
    lambda ring: (ring.buffer.occupied_bytes * (ring.born - ring.died),),
    lambda ring: (ring.born,),
)
"""In which order copies take the lowest bytes that are free for them; the first order that fits counts."""


def rings_of(loop: Loop, ii: int, starts: Mapping[str, int]) -> list[Ring]:
    """Return the rings of all buffers; one of free depth has the copies that are alive at once."""
    found = []
    for buffer in loop.buffers:
        begins = [(starts[user.op] + ii * user.distance, user.op) for user in buffer.users]
        born = min(begin for begin, _ in begins)
        died = max(begin + loop.ops[loop.op_index[op]].latency_ticks for begin, op in begins)
        found.append(Ring(buffer, born, died, buffer.depth or -(-(died - born) // ii)))
    return found


def meet(one: Ring, k: int, two: Ring, j: int, ii: int) -> bool:
    """Whether copy ``k`` of ``one`` is ever alive together with copy ``j`` of ``two``; of one ring they must differ.

    Iterations ``a`` and ``b`` with ``a - b`` congruent to ``k - j`` modulo the greatest common divisor of the rings
    have them; they overlap where ``two.born - one.died < (a - b) * II < two.died - one.born``.
    """
    common = gcd(one.copies, two.copies)
    least = (two.born - one.died) // ii + 1
    most = -(-(two.died - one.born) // ii) - 1
    return least + (k - j - least) % common <= most


def place(loop: Loop, schedule: ModuloSchedule) -> ModuloSchedule | None:
    """Return ``schedule`` with an address for every copy, None if no order of first fit finds them."""
    ii = schedule.ii_ticks
    rings = rings_of(loop, ii, schedule.starts)
    for order in ORDERS:
        addresses = _first_fit(sorted(rings, key=order), loop.scratchpad.available_bytes, ii)
        if addresses is not None:
            return schedule.model_copy(update={"addresses": {b.name: addresses[b.name] for b in loop.buffers}})
    return None


def _first_fit(rings: list[Ring], available: int, ii: int) -> dict[str, tuple[int, ...]] | None:
    placed: list[tuple[Ring, int, int]] = []
    addresses: dict[str, tuple[int, ...]] = {}
    for ring in rings:
        size, align = ring.buffer.occupied_bytes, ring.buffer.align_bytes
        mine = []
        for k in range(ring.copies):
            at = 0
            for low, high in sorted(
                (there, there + other.buffer.occupied_bytes)
                for other, j, there in placed
                if meet(ring, k, other, j, ii)
            ):
                if low < at + size and at < high:
                    at = -(-high // align) * align
            if at + size > available:
                return None
            placed.append((ring, k, at))
            mine.append(at)
        addresses[ring.buffer.name] = tuple(mine)
    return addresses
