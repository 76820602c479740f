"""What a plan must respect in the scratchpad: addresses, and the order of buffers that share bytes.

Every function takes ``report(kind, parties, message)`` and calls it once per violation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexloom.formulations.problem import Buffer, Problem
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.happens_before import HappensBefore
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.schedule import OpRow

Report = Callable[[str, tuple[str, ...], str], None]
"""Takes the kind of a violation, its parties and one line of text."""


class Placed(NamedTuple):
    """A buffer in bytes ``[low, high)`` of the scratchpad or of its pool."""

    buffer: Buffer
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.buffer.name!r} [{self.low}, {self.high})"


def check_addresses(problem: Problem, plan: Plan, report: Report) -> None:
    """Every buffer has one address: aligned, inside what is available, pinned where pinned, right behind the part of
    its range before it.

    What is alive at the start, or at the end, shares no bytes with what is alive then too.
    """
    room: dict[str | None, int] = {None: problem.scratchpad.available_bytes}
    room |= {pool.name: pool.available_bytes for pool in problem.pools}
    known = {buffer.name for buffer in problem.buffers}
    for name in plan.addresses:
        if name not in known:
            report("address_unknown", (name,), f"address {plan.addresses[name]} is given to {name!r}, not a buffer")
    for buffer in problem.buffers:
        at = plan.addresses.get(buffer.name)
        if at is None:
            report("address_missing", (buffer.name,), f"buffer {buffer.name!r} has no address")
        else:
            _check_address(buffer, at, room[buffer.pool], report)
    _check_parts(problem, plan, report)
    if not any(buffer.resident for buffer in problem.buffers):
        return
    for one, other in _sharing(_placed(problem, plan)):
        why = _never_apart(one.buffer, other.buffer)
        if why is not None:
            text = f"buffers {one} and {other} share {_shared(one, other)} B, but {why}"
            report("resident_overlap", (one.buffer.name, other.buffer.name), text)


def _check_parts(problem: Problem, plan: Plan, report: Report) -> None:
    before: dict[str, Placed] = {}
    for buffer in problem.buffers:
        at = plan.addresses.get(buffer.name)
        if buffer.part_of is None or at is None:
            continue
        here = Placed(buffer, at, at + buffer.occupied_bytes)
        last = before.get(buffer.part_of)
        if last is not None and last.high != at:
            text = f"buffer {here} does not begin where the part of {buffer.part_of!r} before it ends, {last}"
            report("address_part", (last.buffer.name, buffer.name), text)
        before[buffer.part_of] = here


def _never_apart(one: Buffer, other: Buffer) -> str | None:
    """Return why two buffers are alive together in any schedule, if their lives alone say so."""
    # A buffer that nobody uses is never alive, and one that is always resident always is.
    if (one.always and _lives(other)) or (other.always and _lives(one)):
        return f"{(one if one.always else other).name!r} is resident"
    if one.from_start and other.from_start:
        return "both are alive from the start"
    if one.to_end and other.to_end:
        return "both are alive to the end"
    return None


def _check_address(buffer: Buffer, at: int, available: int, report: Report) -> None:
    parties = (buffer.name,)
    if buffer.address is not None and at != buffer.address:
        text = f"buffer {buffer.name!r} is pinned at {buffer.address} B, but lies at {at} B"
        report("address_pin", parties, text)
    if at % buffer.align_bytes:
        text = f"buffer {buffer.name!r} lies at {at} B, not a multiple of its alignment {buffer.align_bytes} B"
        report("address_alignment", parties, text)
    if at < 0 or at + buffer.occupied_bytes > available:
        place = "" if buffer.pool is None else f" of pool {buffer.pool!r}"
        text = f"buffer {buffer.name!r} [{at}, {at + buffer.occupied_bytes}) is not inside [0, {available}) B{place}"
        report("address_range", parties, text)


def check_packing(
    buffers: Sequence[Buffer],
    lifetimes: Sequence[tuple[int, int]],
    offsets: Sequence[int],
    available: int,
    report: Report,
) -> None:
    """Every buffer of fixed lifetime lies where it may, and none shares bytes with another that is alive with it."""
    alive: dict[str, tuple[Moment, Moment]] = {}
    placed: list[Placed] = []
    for buffer, life, at in zip(buffers, lifetimes, offsets, strict=True):
        if buffer.occupied_bytes and life[0] < life[1]:
            _check_address(buffer, at, available, report)
            alive[buffer.name] = life
            placed.append(Placed(buffer, at, at + buffer.occupied_bytes))
    _check_overlaps(placed, alive, report)
    _check_peak(buffers, available, alive, report)


def check_reuse(problem: Problem, plan: Plan, order: HappensBefore, report: Report) -> None:
    """Of two buffers that share bytes, all users of one are observed before any user of the other starts.

    The second is none that is alive from the start, and the first none that stays to the end.
    """
    starts: dict[str, int] = {}
    after: dict[str, int] = {}
    for buffer in problem.buffers:
        starts[buffer.name] = order.mask(set(buffer.ops))
        common = -1
        for op in set(buffer.ops):
            common &= order.after(op)
        after[buffer.name] = common
    for one, other in _sharing(_placed(problem, plan)):
        if not one.buffer.ops or not other.buffer.ops or _never_apart(one.buffer, other.buffer) is not None:
            continue
        a, b = one.buffer.name, other.buffer.name
        if _takes_over(one, other, order) or _takes_over(other, one, order):
            continue
        first = not starts[b] & ~after[a] and not one.buffer.to_end and not other.buffer.from_start
        second = not starts[a] & ~after[b] and not other.buffer.to_end and not one.buffer.from_start
        if not first and not second:
            early = _too_soon(one, other, order) or _too_soon(other, one, order)
            op, rival, why = early or _unordered(one.buffer, other.buffer, order)
            text = f"buffers {one} and {other} share {_shared(one, other)} B, but {why}"
            report("buffer_unordered", (a, b, op, rival), text)


def check_lifetimes(problem: Problem, plan: Plan, rows: Mapping[str, OpRow], report: Report) -> None:
    """In the predicted times no two buffers share bytes while both are alive, and what is alive fits."""
    end = max((row.observed for row in rows.values()), default=0)
    alive: dict[str, tuple[Moment, Moment]] = {}
    for buffer in problem.buffers:
        users = [rows[op] for op in buffer.ops]
        if _lives(buffer):
            since = 0 if buffer.from_start else min(row.start for row in users)
            until = end if buffer.to_end else max(row.observed for row in users)
            alive[buffer.name] = (since, until)
    placed = [p for p in _placed(problem, plan) if p.buffer.name in alive]
    at = {p.buffer.name: p for p in placed}
    for new in placed:
        old = at.get(new.buffer.overwrites or "")
        both = _reader(old, new) if old is not None else None
        if both is not None:
            # While the op that reads the old and writes the new runs, the bytes count once.
            others = [rows[op].start for op in new.buffer.ops if op != both]
            alive[new.buffer.name] = (min([rows[both].observed, *others]), alive[new.buffer.name][1])
    _check_overlaps(placed, alive, report)
    for name, pad in ((None, problem.scratchpad), *((pool.name, pool) for pool in problem.pools)):
        _check_peak([b for b in problem.buffers if b.pool == name], pad.available_bytes, alive, report)


def _reader(old: Placed, new: Placed) -> str | None:
    """Return the op that may read ``old`` and write ``new`` at the same address, if they lie there."""
    common = set(old.buffer.ops).intersection(new.buffer.ops)
    return (
        common.pop() if new.buffer.overwrites == old.buffer.name and old.low == new.low and len(common) == 1 else None
    )


def _takes_over(old: Placed, new: Placed, order: HappensBefore) -> bool:
    """Whether ``new`` lies on ``old``, which its first op was allowed to read last, and did."""
    both = _reader(old, new)
    if both is None or new.high > old.high or old.buffer.to_end or new.buffer.from_start:
        return False
    last = all(order.after(op) & order.bit[both] for op in old.buffer.ops if op != both)
    return last and all(order.after(both) & order.bit[op] for op in new.buffer.ops if op != both)


def _too_soon(old: Placed, new: Placed, order: HappensBefore) -> tuple[str, str, str] | None:
    """Return who reads ``old`` when it is overwritten, or uses ``new`` before it is written, and the reason."""
    both = _reader(old, new)
    if both is None:
        return None
    for op in old.buffer.ops:
        if op != both and not order.after(op) & order.bit[both]:
            return op, both, f"{both!r} overwrites {old.buffer.name!r} without waiting for {op!r}, which uses it"
    for op in new.buffer.ops:
        if op != both and not order.after(both) & order.bit[op]:
            return (
                both,
                op,
                f"{op!r} uses {new.buffer.name!r} without waiting for {both!r}, which writes it over the other",
            )
    return None


def _check_overlaps(placed: Sequence[Placed], alive: Mapping[str, tuple[Moment, Moment]], report: Report) -> None:
    lives = [alive[p.buffer.name] for p in placed]
    for one, other in _sharing(placed, lives):
        a, b = one.buffer.name, other.buffer.name
        since, until = max(alive[a][0], alive[b][0]), min(alive[a][1], alive[b][1])
        shared = _shared(one, other)
        text = f"buffers {one} and {other} share {shared} B while both are alive in [{since}, {until}) ticks"
        report("buffer_overlap", (a, b), text)


def _check_peak(
    buffers: Sequence[Buffer], available: int, alive: Mapping[str, tuple[Moment, Moment]], report: Report
) -> None:
    changes: list[tuple[Moment, int]] = []
    for buffer in buffers:
        since, until = alive.get(buffer.name, (0, 0))
        if since < until:
            # An end frees its bytes before a start at the same instant takes them.
            changes += [(since, buffer.occupied_bytes), (until, -buffer.occupied_bytes)]
    used = peak = 0
    at: Moment = 0
    for time, size in sorted(changes):
        used += size
        if used > peak:
            peak, at = used, time
    if peak > available:
        held = tuple(b.name for b in buffers if b.name in alive and alive[b.name][0] <= at < alive[b.name][1])
        pool = buffers[0].pool
        place = "" if pool is None else f" in pool {pool!r}"
        text = (
            f"{len(held)} buffers hold {peak} B{place} at tick {at}, {peak - available} B above the {available} B "
            "available"
        )
        report("scratchpad_peak", held, text)


def _lives(buffer: Buffer) -> bool:
    return buffer.always or bool(buffer.ops)


def _placed(problem: Problem, plan: Plan) -> list[Placed]:
    """Return the buffers that have an address and a size."""
    return [
        Placed(buffer, plan.addresses[buffer.name], plan.addresses[buffer.name] + buffer.occupied_bytes)
        for buffer in problem.buffers
        if buffer.name in plan.addresses and buffer.occupied_bytes
    ]


def _shared(one: Placed, other: Placed) -> int:
    return min(one.high, other.high) - max(one.low, other.low)


def _sharing(
    placed: Sequence[Placed], lives: Sequence[tuple[Moment, Moment]] | None = None
) -> Iterator[tuple[Placed, Placed]]:
    """Yield every pair that shares bytes (and, with ``lives``, time): all against all, one row at a time."""
    low, high = _array([p.low for p in placed]), _array([p.high for p in placed])
    if lives is not None:
        rank = {moment: k for k, moment in enumerate(sorted({moment for life in lives for moment in life}))}
        since, until = _array([rank[life[0]] for life in lives]), _array([rank[life[1]] for life in lives])
    for k in range(len(placed)):
        rest = slice(k + 1, None)
        meets = (low[rest] < high[k]) & (low[k] < high[rest])
        if lives is not None:
            both = np.minimum(until[rest], until[k]) > np.maximum(since[rest], since[k])
            meets = meets & both
        for j in np.flatnonzero(meets):
            other = placed[k + 1 + int(j)]
            if other.buffer.pool == placed[k].buffer.pool:
                yield placed[k], other


def _array(values: Sequence[int]) -> npt.NDArray[Any]:
    """Whole numbers as an array; those beyond 64 bits (a broken file) stay exact as objects."""
    wide = any(not -(2**63) <= value < 2**63 for value in values)
    return np.array(values, dtype=object if wide else np.int64)


def _unordered(one: Buffer, other: Buffer, order: HappensBefore) -> tuple[str, str, str]:
    """Return two users that show why neither buffer is finished before the other begins, and the reason."""
    pairs = [(a, b) for a in dict.fromkeys(one.ops) for b in dict.fromkeys(other.ops)]
    for a, b in pairs:
        if a == b:
            return a, b, f"op {a!r} uses both"
    for a, b in pairs:
        if not order.after(a) & order.bit[b] and not order.after(b) & order.bit[a]:
            return a, b, f"nothing orders their users {a!r} and {b!r}"
    late = next(((a, b) for a, b in pairs if order.after(b) & order.bit[a]), None)
    early = next(((a, b) for a, b in pairs if order.after(a) & order.bit[b]), None)
    if late is None or early is None:
        # One comes wholly before the other, which its life does not allow.
        a, b = pairs[0]
        before, behind = (one, other) if late is None else (other, one)
        stays = f"{before.name!r} stays to the end" if before.to_end else f"{behind.name!r} is there from the start"
        return a, b, f"{before.name!r} has the earlier users, and {stays}"
    why = f"{early[0]!r} comes before {early[1]!r} and {late[0]!r} after {late[1]!r}"
    return late[0], late[1], why
