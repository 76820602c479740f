"""Lower bounds on the interval of a loop, by name; the best one names the bottleneck.

All but the last are arithmetic. They hold for any schedule, also for one that repeats only after several iterations:
then for its ticks per iteration, on average. A 1-periodic one of whole ticks needs the next whole number at least.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from hexloom.formulations.exact_lp import minimise
from hexloom.formulations.periodic.cycles import arcs_of, impossible_cycle, worst_cycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.formulations.exact_lp import Row
    from hexloom.formulations.periodic.cycles import Arc, Cycle
    from hexloom.formulations.periodic.loop import Loop, LoopBuffer

MOST_LP_VARIABLES = 150
"""Above so many ops and buffers the linear program is left out: exact arithmetic would take seconds."""


@dataclass(frozen=True, slots=True)
class RateBound:
    """No schedule takes fewer than ``ticks`` per iteration.

    ``name``: ``engine``, ``channel``, ``recurrence``, ``scratchpad`` or ``rate`` (all together, as a linear program);
    ``gangs`` bounds the interval alone, at which every iteration is like the one before.
    ``bottleneck`` names the engine, the channel, or the ops around the cycle; ``detail`` says it in words.
    """

    name: str
    ticks: Fraction
    bottleneck: tuple[str, ...]
    detail: str

    @property
    def ii_ticks(self) -> int:
        """The least interval of whole ticks."""
        return max(1, ceil(self.ticks))


def impossible(loop: Loop) -> str | None:
    """Return why no interval at all can do, as far as arithmetic sees it."""
    cycle = impossible_cycle(loop, arcs_of(loop))
    if cycle is not None:
        lever = f"; give {' or '.join(map(repr, cycle.buffers))} more copies or bytes" if cycle.buffers else ""
        return f"no interval is long enough for {cycle.in_words(loop)}{lever}"
    for op in loop.ops:
        mine = [buffer for buffer in loop.buffers if any(user.op == op.name for user in buffer.users)]
        at_once = sum(buffer.occupied_bytes for buffer in mine)
        if op.latency_ticks and at_once > loop.scratchpad.available_bytes:
            names = ", ".join(repr(buffer.name) for buffer in mine)
            return (
                f"op {op.name!r} needs {names} at once, {at_once} B, the scratchpad has "
                f"{loop.scratchpad.available_bytes} B available; make them smaller"
            )
    kept = [(b, _least_life(loop, b)) for b in loop.buffers if b.occupied_bytes]
    always = sum(b.occupied_bytes * iterations for b, (iterations, _) in kept)
    available = loop.scratchpad.available_bytes
    if always > available or (always == available and any(ticks for _, (_, ticks) in kept)):
        needed = "more than " if always == available else ""
        return (
            f"buffers that live across iterations need {needed}{always} B at any time, the scratchpad has "
            f"{available} B available; make them smaller or their distances shorter"
        )
    return None


def lower_bounds(loop: Loop) -> tuple[RateBound, ...]:
    """Return all bounds of a loop that is not `impossible`, the best first; of equal ones the simplest."""
    arcs = arcs_of(loop)
    cycle = worst_cycle(loop, arcs)
    found = [*_engines(loop), *_channels(loop), *_recurrence(loop, cycle), *_scratchpad(loop)]
    found = [bound for bound in found if bound.ticks > 0]
    best = max((bound.ticks for bound in found), default=Fraction(0))
    found += _rate(loop, arcs, best)
    found += _gangs(loop)
    return tuple(sorted(found, key=lambda bound: -bound.ticks))


def shares_of(loop: Loop) -> dict[tuple[str, ...], Fraction]:
    """Return the ticks that an iteration asks of every engine, pinned unit and channel: side by side they add up."""
    return {bound.bottleneck: bound.ticks for bound in (*_engines(loop), *_channels(loop)) if bound.ticks > 0}


def recurrence_ticks(loop: Loop) -> Fraction:
    """Return the ticks between iterations that cycles of dependencies and rings ask for."""
    return max((bound.ticks for bound in _recurrence(loop, worst_cycle(loop, arcs_of(loop)))), default=Fraction(0))


def least_ii(bounds: Sequence[RateBound]) -> int:
    """Return the smallest interval in whole ticks that ``bounds`` leave."""
    return max((bound.ii_ticks for bound in bounds), default=1)


def _engines(loop: Loop) -> Iterator[RateBound]:
    """Units times ticks of an engine, over its units; and of every unit what is fixed to it."""
    for engine in loop.engines:
        uses = [use for op in loop.ops for use in op.uses if use.engine == engine.name]
        work = sum(use.units * use.ticks for use in uses)
        share = f" over {engine.units} units" if engine.units > 1 else ""
        detail = f"{engine.name}: {work} ticks of work{share}"
        yield RateBound("engine", Fraction(work, engine.units), (engine.name,), detail)
        pinned: dict[int, int] = {}
        for use in uses:
            for unit in use.unit_ids or ():
                pinned[unit] = pinned.get(unit, 0) + use.ticks
        if pinned and engine.units > 1:
            unit, ticks = max(pinned.items(), key=lambda item: (item[1], -item[0]))
            name = f"{engine.name}[{unit}]"
            yield RateBound("engine", Fraction(ticks), (name,), f"{name}: {ticks} ticks of work that is fixed to it")


def _gangs(loop: Loop) -> Iterator[RateBound]:
    """Ops on all units part the time of every other op there: it has to fit between two of them.

    With another order of iterations they need not: this bounds intervals, and not the rate of all schedules.
    """
    for engine in loop.engines:
        uses = [use for op in loop.ops for use in op.uses if use.engine == engine.name]
        gangs = sum(use.ticks for use in uses if use.units == engine.units)
        longest = max((use.ticks for use in uses if use.units < engine.units), default=0)
        if gangs and longest:
            detail = f"{engine.name}: {gangs} ticks on all units, and {longest} between two of them on some"
            yield RateBound("gangs", Fraction(gangs + longest), (engine.name,), detail)


def _channels(loop: Loop) -> Iterator[RateBound]:
    for channel in loop.channels if loop.rule != "none" else ():
        moved = sum(p.rate * op.latency_ticks for op in loop.ops for p in op.mode.pulls if p.channel == channel.name)
        detail = f"{channel.name}: {moved} to move at {channel.capacity} a tick"
        yield RateBound("channel", Fraction(moved, channel.capacity), (channel.name,), detail)


def _recurrence(loop: Loop, cycle: Cycle | None) -> Iterator[RateBound]:
    if cycle is not None:
        names = tuple(loop.ops[arc.before].name for arc in cycle.arcs)
        ticks = Fraction(cycle.delay, cycle.distance)
        yield RateBound("recurrence", ticks, (*names, *cycle.buffers), cycle.in_words(loop))


def _scratchpad(loop: Loop) -> Iterator[RateBound]:
    """Bytes times the least life of each buffer, over the bytes that buffers across iterations leave."""
    room, work = loop.scratchpad.available_bytes, 0
    for buffer in loop.buffers:
        iterations, ticks = _least_life(loop, buffer)
        room -= buffer.occupied_bytes * iterations
        work += buffer.occupied_bytes * ticks
    if work:
        detail = f"buffers need {work} bytes times ticks of {room} B"
        yield RateBound("scratchpad", Fraction(work, room), ("scratchpad",), detail)


def _least_life(loop: Loop, buffer: LoopBuffer) -> tuple[int, int]:
    """Return whole iterations, and ticks beside them, for which ``buffer`` lives at least."""
    best = (0, 0)
    for first in buffer.users:
        away = _longest_within(loop, loop.op_index[first.op])
        for last in buffer.users:
            v = loop.op_index[last.op]
            if v in away and last.distance >= first.distance:
                best = max(best, (last.distance - first.distance, away[v] + loop.ops[v].latency_ticks))
    return best


def _longest_within(loop: Loop, start: int) -> dict[int, int]:
    """Return for every op that depends on op ``start`` within an iteration by how many ticks it starts later."""
    found = {start: 0}
    edges = [e for e in loop.dependencies if e.distance == 0]
    changed = True
    while changed:
        changed = False
        for edge in edges:
            u, v = loop.op_index[edge.before], loop.op_index[edge.after]
            if u in found and found[u] + loop.delay_ticks(edge) > found.get(v, -1):
                found[v] = found[u] + loop.delay_ticks(edge)
                changed = True
    return found


def _rate(loop: Loop, arcs: Sequence[Arc], best: Fraction) -> Iterator[RateBound]:
    """Everything together: least ``rate`` with start times and lives in fractions, averages of any schedule.

    ``start(after) + rate * distance >= start(before) + delay`` per arc; ``life >= start(v) + rate * distance(v) +
    latency(v) - start(u) - rate * distance(u)`` for any two users; ``sum bytes * life <= capacity * rate``. Without
    buffers it is the maximum of the other bounds.
    """
    buffers = [b for b in loop.buffers if b.occupied_bytes]
    if not buffers or 1 + len(loop.ops) + len(buffers) > MOST_LP_VARIABLES:
        return
    rows: list[Row] = [({0: 1}, best)]
    for arc in arcs:
        row: dict[int, int] = {0: arc.distance}
        if arc.before != arc.after:
            row |= {1 + arc.after: 1, 1 + arc.before: -1}
        rows.append((row, arc.delay))
    byte_row = {0: loop.scratchpad.available_bytes}
    for b, buffer in enumerate(buffers, start=1 + len(loop.ops)):
        byte_row[b] = -buffer.occupied_bytes
        for first in buffer.users:
            for last in buffer.users:
                u, v = loop.op_index[first.op], loop.op_index[last.op]
                row = {b: 1, 0: first.distance - last.distance}
                if u != v:
                    row |= {1 + v: -1, 1 + u: 1}
                rows.append((row, loop.ops[v].latency_ticks))
    rows.append((byte_row, 0))
    optimum = minimise([1, *(0 for _ in range(len(loop.ops) + len(buffers)))], rows)
    if optimum is not None and optimum.value > best:
        yield RateBound(
            "rate",
            optimum.value,
            ("scratchpad",),
            f"buffers, cycles and engines together: {optimum.value} ticks per iteration in fractions of ticks",
        )
