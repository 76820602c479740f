"""Offsets for buffers whose lifetimes are fixed, checked; or why there are none."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hexloom.formulations.feasibility import Shortfall, first_shortfall
from hexloom.formulations.mode import Mode
from hexloom.formulations.packing.block import blocks_of, peak
from hexloom.formulations.packing.bounds import least_need
from hexloom.formulations.packing.least import least_capacity, step_of
from hexloom.formulations.packing.portfolio import Clock, find_packing, height
from hexloom.formulations.problem import Op, Problem, Scratchpad
from hexloom.hwmodels import format_bytes
from hexloom.optimizer.check_memory import check_packing
from hexloom.optimizer.errors import CheckFailedError, InvalidInputError
from hexloom.optimizer.infeasibility import Holder, Infeasibility, Lever, shortfall_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.block import Block
    from hexloom.formulations.problem import Buffer

MAX_BYTES = 2**53 - 1
"""Largest address: above it a number is no longer exact in JSON readers that use doubles."""


@dataclass(frozen=True)
class PackResult:
    """What `pack` found.

    ``status`` is ``PACKED`` (``offsets`` in bytes, one per buffer, checked), ``INFEASIBLE`` (proven; see
    ``infeasibility``) or ``LIMIT`` (no packing was found and none is excluded). ``height_bytes``: end of the topmost
    buffer. ``lower_bound_bytes``: no smaller capacity suffices. ``found_by``: first fit, exact search or CP-SAT.
    """

    status: Literal["PACKED", "INFEASIBLE", "LIMIT"]
    offsets: tuple[int, ...] | None
    capacity_bytes: int | None
    height_bytes: int | None
    lower_bound_bytes: int
    found_by: str
    infeasibility: Infeasibility | None
    wall_s: float

    @property
    def gap(self) -> Fraction | None:
        """(height - lower bound) / height, None without a packing."""
        if self.height_bytes is None:
            return None
        return Fraction(self.height_bytes - self.lower_bound_bytes, max(1, self.height_bytes))


def pack(
    buffers: Sequence[Buffer],
    lifetimes: Sequence[tuple[int, int]],
    capacity_bytes: int | None = None,
    *,
    time_limit_s: float = 10.0,
    seed: int | None = None,
) -> PackResult:
    """Find an offset for every buffer, such that no two that are alive at once share bytes.

    Parameters
    ----------
    buffers
        Size, alignment, granule (in bytes) and pinned address are honoured; ``ops`` and ``resident`` are not read.
    lifetimes
        Per buffer a half-open interval ``[lower, upper)`` in any unit of time; an empty one takes no bytes.
    capacity_bytes
        What is available. None asks for the least capacity that can be found, with its lower bound.
    time_limit_s
        Seconds to search; first fit alone takes what it takes.
    seed
        Makes the search deterministic (the limit then counts work): same input and seed, same offsets.

    Raises
    ------
    InvalidInputError
        A lifetime that ends before it begins, a pin off its alignment, two buffers of one name, a pool, a number out of
        range.
    CheckFailedError
        The offsets found did not pass the independent checker; a fault of hexloom.
    """
    started = time.monotonic()
    _refuse(buffers, lifetimes, capacity_bytes, time_limit_s)
    blocks = blocks_of(buffers, lifetimes)
    clock = Clock(time_limit_s, counted=seed is not None)
    bound = least_need(blocks).bytes
    why: Infeasibility | None = None
    if capacity_bytes is None:
        least = least_capacity(blocks, clock, seed)
        offsets, by, bound = least.offsets, least.by, least.bound
        if offsets is None:
            why = _explain(buffers, blocks, MAX_BYTES)
    else:
        why = _explain(buffers, blocks, capacity_bytes)
        found = None if why is not None else find_packing(blocks, capacity_bytes, clock, seed)
        offsets, by = (None, "arithmetic") if found is None else (found.offsets, found.by)
        if found is not None and found.impossible:
            why = _searched(blocks, capacity_bytes, found.by)
            bound = max(bound, why.need)
    top = None
    if offsets is not None:
        top = height(blocks, offsets)
        _check(buffers, lifetimes, offsets, top if capacity_bytes is None else capacity_bytes)
    status: Literal["PACKED", "INFEASIBLE", "LIMIT"] = (
        "PACKED" if offsets is not None else "INFEASIBLE" if why is not None else "LIMIT"
    )
    return PackResult(status, offsets, capacity_bytes, top, bound, by, why, time.monotonic() - started)


def _refuse(
    buffers: Sequence[Buffer], lifetimes: Sequence[tuple[int, int]], capacity: int | None, seconds: float
) -> None:
    if len(buffers) != len(lifetimes):
        raise InvalidInputError(f"{len(buffers)} buffers, but {len(lifetimes)} lifetimes; give one per buffer")
    if capacity is not None and not 0 <= capacity <= MAX_BYTES:
        raise InvalidInputError(f"capacity {capacity} B is not between 0 and {MAX_BYTES}")
    if not seconds >= 0:
        raise InvalidInputError(f"time_limit_s {seconds} is not a number of seconds, 0 or more")
    names = set()
    for buffer, (lower, upper) in zip(buffers, lifetimes, strict=True):
        if buffer.name in names:
            raise InvalidInputError(f"two buffers are named {buffer.name!r}; names must differ")
        names.add(buffer.name)
        if buffer.pool is not None:
            raise InvalidInputError(
                f"buffer {buffer.name!r} lies in pool {buffer.pool!r}; pack the buffers of one place at a time, "
                "without their pool"
            )
        if upper < lower:
            raise InvalidInputError(f"buffer {buffer.name!r} ends at {upper}, before it begins at {lower}; swap them")
        if buffer.address is not None and buffer.address % buffer.align_bytes:
            raise InvalidInputError(
                f"buffer {buffer.name!r} is pinned at {buffer.address}, not a multiple of its alignment "
                f"{buffer.align_bytes}; move the pin"
            )
    ends = sum(b.occupied_bytes + b.align_bytes for b in buffers) + max((b.address or 0 for b in buffers), default=0)
    if ends > MAX_BYTES:
        raise InvalidInputError(f"the buffers could end at {ends} B, above the limit {MAX_BYTES}; use smaller sizes")


def _explain(buffers: Sequence[Buffer], blocks: Sequence[Block], capacity: int) -> Infeasibility | None:
    """Return why the buffers of one moment do not fit, who holds what, and what would help; None when all do."""
    need = least_need(blocks)
    for moment, live in _moments(blocks, first=need.moment if need.bytes > capacity else None):
        mine = sorted((buffers[b] for b in live), key=lambda b: -b.occupied_bytes)
        # One op that uses all of them asks what the buffers of an op are asked.
        op = Op(name="moment", modes=(Mode(latency_ticks=1),))
        together = tuple(b.model_copy(update={"ops": ("moment",), "resident": False}) for b in mine)
        alone = Problem(ops=(op,), buffers=together, scratchpad=Scratchpad(total_bytes=capacity))
        found = first_shortfall(alone)
        if found is None and moment == need.moment and need.bytes > capacity:
            rows = tuple((b.name, b.occupied_bytes, b.address) for b in mine)
            found = Shortfall("bytes", "moment", "scratchpad", need.bytes, capacity, "B", rows, need.rounding)
        if found is not None:
            return _told(alone, found, moment, need.bytes)
    return None


def _told(problem: Problem, found: Shortfall, moment: int, least: int) -> Infeasibility:
    """Return why the buffers alive at ``moment`` do not fit."""
    levers: tuple[Lever, ...] = ()
    if found.kind == "bytes":
        enough = Lever(text=f"give at least {format_bytes(least)}", need=least, have=found.have, unit="B", least=True)
        levers = (enough, Lever(text="or make a buffer smaller, or its life shorter"))
    return Infeasibility(
        kind=found.kind,
        op=None,
        resource=found.resource,
        need=found.need,
        have=found.have,
        short=found.short,
        unit=found.unit,
        holders=tuple(Holder(buffer=n, size_bytes=s, address=a) for n, s, a in found.holders),
        rounding_bytes=found.rounding,
        message="; ".join([shortfall_message(problem, found, f"moment {moment}"), *(v.text for v in levers)]),
        levers=levers,
    )


def _moments(blocks: Sequence[Block], first: int | None) -> list[tuple[int, list[int]]]:
    """Return moments at which blocks are born with who is alive then, ``first`` in front; all who matter are seen."""
    moments = sorted({block.born for block in blocks if not block.is_empty})
    if first is not None:
        moments = [first]
    elif all(block.pin is None for block in blocks):
        return []
    return [(at, [b for b, k in enumerate(blocks) if k.born <= at < k.died and k.size]) for at in moments]


def _searched(blocks: Sequence[Block], capacity: int, by: str) -> Infeasibility:
    step = step_of(blocks)
    most, moment = peak(blocks)
    need = capacity // step * step + step
    message = (
        f"no packing into {format_bytes(capacity)} exists, although no moment needs more than {format_bytes(most)} "
        f"(at {moment}): searched to the end ({by}); give at least {format_bytes(need)}, "
        "or change a lifetime, a size or a pin"
    )
    return Infeasibility(
        kind="search",
        op=None,
        resource="scratchpad",
        need=need,
        have=capacity,
        short=need - capacity,
        unit="B",
        message=message,
    )


def _check(
    buffers: Sequence[Buffer], lifetimes: Sequence[tuple[int, int]], offsets: Sequence[int], capacity: int
) -> None:
    faults: list[str] = []
    check_packing(buffers, lifetimes, offsets, capacity, lambda _kind, _parties, text: faults.append(text))
    if faults:
        raise CheckFailedError(faults[0])
