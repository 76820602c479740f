"""A modulo schedule without a solver: ops one after the other, each as early as its engines have room modulo II.

Where it succeeds at a bound, the bound is the answer. No op is moved again, so that it fails where cycles are tight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.periodic.cycles import arcs_of
from hexloom.formulations.periodic.place import place
from hexloom.formulations.periodic.schedule import ModuloSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.periodic.cycles import Arc
    from hexloom.formulations.periodic.loop import Loop


class _Hold(NamedTuple):
    slot: int
    ticks: int
    amount: int
    units: tuple[int, ...]


class _Ask(NamedTuple):
    what: str
    ticks: int
    amount: int
    units: tuple[int, ...] | None
    concrete: bool


def earliest_starts(loop: Loop, ii: int, arcs: Sequence[Arc]) -> list[int] | None:
    """Return the least starts from 0 on that satisfy the arcs alone, None if a cycle asks for more than ``ii``."""
    starts = [0] * len(loop.ops)
    for _ in range(len(loop.ops) + 1):
        changed = False
        for arc in arcs:
            least = starts[arc.before] + arc.delay - ii * arc.distance
            if least > starts[arc.after]:
                starts[arc.after], changed = least, True
        if not changed:
            return starts
    return None


def least_length(loop: Loop, ii: int) -> int:
    """Return below which length no iteration is over at interval ``ii``, by dependencies alone."""
    starts = earliest_starts(loop, ii, arcs_of(loop))
    assert starts is not None
    return max(start + op.latency_ticks for start, op in zip(starts, loop.ops, strict=True))


def list_schedule(loop: Loop, ii: int) -> ModuloSchedule | None:
    """Return a schedule of interval ``ii``, None where the list fails."""
    arcs = arcs_of(loop)
    earliest = earliest_starts(loop, ii, arcs)
    if earliest is None:
        return None
    room = {engine.name: engine.units for engine in loop.engines}
    room |= {channel.name: channel.capacity for channel in loop.channels}
    held: dict[str, list[_Hold]] = {name: [] for name in room}
    starts: dict[int, int] = {}
    units: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {}
    tails = _tails(loop, ii, arcs)
    for i in sorted(range(len(loop.ops)), key=lambda i: (earliest[i], -tails[i])):
        asks = list(_asks(loop, i))
        if any(ask.ticks > ii for ask in asks):
            return None
        low, high = _window(i, earliest[i], ii, arcs, starts)
        for start in _candidates(low, high, ii, asks, held):
            chosen = [_fit(ask, start % ii, ii, room[ask.what], held[ask.what]) for ask in asks]
            if all(hold is not None for hold in chosen):
                break
        else:
            return None
        starts[i] = start
        for ask, hold in zip(asks, chosen, strict=True):
            assert hold is not None
            held[ask.what].append(hold)
            if ask.concrete:
                units.setdefault(loop.ops[i].name, {})[ask.what] = (hold.units,)
    first = min(starts.values())
    named = {op.name: starts[i] - first for i, op in enumerate(loop.ops)}
    return place(loop, ModuloSchedule(ii_ticks=ii, starts=named, units=units))


def _tails(loop: Loop, ii: int, arcs: Sequence[Arc]) -> list[int]:
    """Return for each op the ticks from its start to the end of what depends on it; cycles must fit into ``ii``."""
    tails = [op.latency_ticks for op in loop.ops]
    for _ in loop.ops:
        for arc in arcs:
            tails[arc.before] = max(tails[arc.before], arc.delay - ii * arc.distance + tails[arc.after])
    return tails


def _asks(loop: Loop, i: int) -> Iterable[_Ask]:
    engines = {engine.name: engine for engine in loop.engines}
    mode = loop.ops[i].mode
    for use in loop.ops[i].uses:
        yield _Ask(use.engine, use.ticks, use.units, use.unit_ids, loop.needs_units(engines[use.engine]))
    for pull in mode.pulls if loop.rule == "rigid" else ():
        if pull.rate and mode.latency_ticks:
            yield _Ask(pull.channel, mode.latency_ticks, pull.rate, None, False)


def _window(i: int, low: int, ii: int, arcs: Sequence[Arc], starts: dict[int, int]) -> tuple[int, int]:
    """Return the first and the last start that what has been placed leaves; one interval is as good as all."""
    high: int | None = None
    for arc in arcs:
        if arc.after == i and arc.before in starts:
            low = max(low, starts[arc.before] + arc.delay - ii * arc.distance)
        if arc.before == i and arc.after in starts:
            last = starts[arc.after] + ii * arc.distance - arc.delay
            high = last if high is None else min(high, last)
    return low, low + ii - 1 if high is None else min(high, low + ii - 1)


def _candidates(low: int, high: int, ii: int, asks: Iterable[_Ask], held: dict[str, list[_Hold]]) -> Iterable[int]:
    """Return the starts worth a try: the first one, and those at which something is released."""
    ends = {low} | {low + (hold.slot + hold.ticks - low) % ii for ask in asks for hold in held[ask.what]}
    return [start for start in sorted(ends) if start <= high]


def _fit(ask: _Ask, slot: int, ii: int, room: int, held: Sequence[_Hold]) -> _Hold | None:
    """Return what is held from ``slot`` on if there is room for it, on the first units that are free throughout."""
    beside = [hold for hold in held if _overlap(slot, ask.ticks, hold, ii)]
    if not ask.concrete:
        for now in [slot, *(hold.slot for hold in beside if (hold.slot - slot) % ii < ask.ticks)]:
            amount = sum(hold.amount for hold in beside if (now - hold.slot) % ii < hold.ticks)
            if amount + ask.amount > room:
                return None
        return _Hold(slot, ask.ticks, ask.amount, ())
    taken = {unit for hold in beside for unit in hold.units}
    free = [u for u in (range(room) if ask.units is None else ask.units) if u not in taken]
    return _Hold(slot, ask.ticks, ask.amount, tuple(free[: ask.amount])) if len(free) >= ask.amount else None


def _overlap(slot: int, ticks: int, hold: _Hold, ii: int) -> bool:
    return (hold.slot - slot) % ii < ticks or (slot - hold.slot) % ii < hold.ticks
