"""A modulo schedule without a solver: ops one after the other, each as early as its engines have room modulo II.

Where it succeeds at a bound, the bound is the answer. No op is moved again, so that it fails where cycles are tight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hexloom.formulations.periodic.cycles import arcs_of
from hexloom.formulations.periodic.place import place
from hexloom.formulations.periodic.schedule import ModuloSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.periodic.loop import Loop

Ints = npt.NDArray[np.int64]

NEVER = -(2**60)
"""Of a path that there is none; sums of two still fit into 64 bits."""

EJECTIONS = 8
"""How often an op is placed on average until a list that takes room from others is given up."""


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


def closure(loop: Loop, ii: int) -> Ints | None:
    """Return n x n longest paths: op j starts at least ``[i, j]`` ticks after op i; None if a cycle asks for more.

    Where no path leads from i to j the entry is ``NEVER`` or near it.
    """
    n = len(loop.ops)
    paths = np.full((n, n), NEVER, dtype=np.int64)
    np.fill_diagonal(paths, 0)
    for arc in arcs_of(loop):
        paths[arc.before, arc.after] = max(paths[arc.before, arc.after], arc.delay - ii * arc.distance)
    for via in range(n):
        into = np.flatnonzero(paths[:, via] > NEVER // 2)
        paths[into] = np.maximum(paths[into], paths[into, via, None] + paths[via])
        if paths[via, via] > 0:
            return None
    return None if (paths.diagonal() > 0).any() else np.maximum(paths, NEVER)


def least_length(loop: Loop, ii: int) -> int:
    """Return below which length no iteration is over at interval ``ii``, by dependencies alone."""
    paths = closure(loop, ii)
    assert paths is not None
    return int((paths.max(axis=0) + _latencies(loop)).max())


def list_schedule(loop: Loop, ii: int) -> ModuloSchedule | None:
    """Return a schedule of interval ``ii``, None where the list fails.

    Ops come in the order in which they are ready, each where there is room; where that fails, they come with the widest
    first, and an op that finds no room takes it from those that have it, which come once more.
    """
    paths = closure(loop, ii)
    if paths is None:
        return None
    lists = _Lists(loop, ii, paths)
    if any(ask.ticks > ii for of in lists.asks for ask in of):
        return None
    return lists.in_order() or lists.with_ejections()


class _Lists:
    def __init__(self, loop: Loop, ii: int, paths: Ints) -> None:
        self.loop, self.ii, self.paths = loop, ii, paths
        self.asks = [list(_asks(loop, i)) for i in range(len(loop.ops))]
        self.room = {engine.name: engine.units for engine in loop.engines}
        self.room |= {channel.name: channel.capacity for channel in loop.channels}
        self.earliest = np.maximum(paths.max(axis=0), 0)
        self.tails = (paths + _latencies(loop)).max(axis=1)
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.starts: dict[int, int] = {}
        self.holds: dict[int, list[_Hold]] = {}
        self.held: dict[str, dict[int, _Hold]] = {name: {} for name in self.room}

    def in_order(self) -> ModuloSchedule | None:
        """Give every op the first start at which there is room, as they become ready."""
        self.clear()
        order = sorted(range(len(self.loop.ops)), key=lambda i: (int(self.earliest[i]), -int(self.tails[i])))
        return self.scheduled() if all(self.put(i, *self.window(i)) for i in order) else None

    def with_ejections(self) -> ModuloSchedule | None:
        """Force ops in where there is no room, and do once more those that had it (Rau, 1996), for a while."""
        self.clear()
        n = len(self.loop.ops)
        area = [sum(ask.ticks * ask.amount for ask in of if ask.ticks) for of in self.asks]
        least = [NEVER] * n
        left = set(range(n))
        for _ in range(EJECTIONS * n):
            if not left:
                return self.scheduled()
            i = min(left, key=lambda i: (-area[i], int(self.earliest[i]), i))
            left.discard(i)
            low, high = self.window(i)
            if not self.put(i, max(low, least[i]), high):
                left |= self.force(i, self.next_try(i, low, least[i]))
            least[i] = self.starts[i] + 1
        return None

    def next_try(self, i: int, low: int, least: int) -> int:
        """Return where to force op ``i`` in: at ``low``, or where something is released after its last place."""
        if least <= low:
            return low
        held = {ask.what: list(self.held[ask.what].values()) for ask in self.asks[i]}
        return _candidates(least, least + self.ii - 1, self.ii, self.asks[i], held)[:2][-1]

    def window(self, i: int) -> tuple[int, int]:
        """Return the first and the last start that what has been placed leaves; one interval is as good as all."""
        low, high = int(self.earliest[i]), -NEVER
        if self.starts:
            placed = np.fromiter(self.starts, dtype=np.int64)
            at = np.fromiter(self.starts.values(), dtype=np.int64)
            after, before = int((at + self.paths[placed, i]).max()), int((at - self.paths[i, placed]).min())
            low, high = max(after, min(low, before)), before
        return low, min(high, low + self.ii - 1)

    def put(self, i: int, low: int, high: int) -> bool:
        """Place op ``i`` at the first start from ``low`` to ``high`` at which there is room, if there is one."""
        held = {ask.what: list(self.held[ask.what].values()) for ask in self.asks[i]}
        for start in _candidates(low, high, self.ii, self.asks[i], held):
            chosen = [_fit(ask, start % self.ii, self.ii, self.room[ask.what], held[ask.what]) for ask in self.asks[i]]
            if all(hold is not None for hold in chosen):
                self.place(i, start, [hold for hold in chosen if hold is not None])
                return True
        return False

    def force(self, i: int, start: int) -> set[int]:
        """Place op ``i`` at ``start`` whatever is there; return the ops that had to go."""
        gone: set[int] = set()
        chosen = []
        for ask in self.asks[i]:
            held = self.held[ask.what]
            hold = _fit(ask, start % self.ii, self.ii, self.room[ask.what], list(held.values()))
            while hold is None:
                slot = start % self.ii
                beside = [k for k, other in held.items() if _overlap(slot, ask.ticks, other, self.ii)]
                if ask.units is not None:
                    beside = [k for k in beside if not set(held[k].units).isdisjoint(ask.units)]
                gone.add(beside[-1])
                self.remove(beside[-1])
                hold = _fit(ask, slot, self.ii, self.room[ask.what], list(held.values()))
            chosen.append(hold)
        for k, at in list(self.starts.items()):
            if at + self.paths[k, i] > start or start + self.paths[i, k] > at:
                gone.add(k)
                self.remove(k)
        self.place(i, start, chosen)
        return gone

    def place(self, i: int, start: int, holds: list[_Hold]) -> None:
        self.starts[i], self.holds[i] = start, holds
        for ask, hold in zip(self.asks[i], holds, strict=True):
            self.held[ask.what][i] = hold

    def remove(self, i: int) -> None:
        del self.starts[i], self.holds[i]
        for ask in self.asks[i]:
            self.held[ask.what].pop(i, None)

    def scheduled(self) -> ModuloSchedule | None:
        """Return what was placed, with addresses, None where there are none."""
        first = min(self.starts.values())
        units: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {}
        for i, holds in self.holds.items():
            for ask, hold in zip(self.asks[i], holds, strict=True):
                if ask.concrete:
                    units.setdefault(self.loop.ops[i].name, {})[ask.what] = (hold.units,)
        starts = {op.name: self.starts[i] - first for i, op in enumerate(self.loop.ops)}
        return place(self.loop, ModuloSchedule(ii_ticks=self.ii, starts=starts, units=units))


def _latencies(loop: Loop) -> Ints:
    return np.array([op.latency_ticks for op in loop.ops], dtype=np.int64)


def _asks(loop: Loop, i: int) -> Iterable[_Ask]:
    engines = {engine.name: engine for engine in loop.engines}
    mode = loop.ops[i].mode
    for use in loop.ops[i].uses:
        yield _Ask(use.engine, use.ticks, use.units, use.unit_ids, loop.needs_units(engines[use.engine]))
    for pull in mode.pulls if loop.rule == "rigid" else ():
        if pull.rate and mode.latency_ticks:
            yield _Ask(pull.channel, mode.latency_ticks, pull.rate, None, False)


def _candidates(low: int, high: int, ii: int, asks: Iterable[_Ask], held: dict[str, list[_Hold]]) -> list[int]:
    """Return the starts worth a try: the first one, and those at which something is released."""
    ends = {low} | {low + (hold.slot + hold.ticks - low) % ii for ask in asks for hold in held[ask.what]}
    return sorted(start for start in ends if start <= high)


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
