"""What may run together, as the checker of certificates sees it: units, order, bytes; and the dearest set.

Nothing here is shared with the formulations but the problem.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.optimizer.sharing import UNTOUCHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.certificate_order import Ancestry
    from hexloom.optimizer.certificate_parts import Place
    from hexloom.optimizer.sharing import Sharing

STEP_LIMIT = 30_000
"""Steps of one search after which a bound must do."""

FINE = 2**64
"""Rates are compared as whole numbers of this part: prices can have any size."""


class TooHardError(Exception):
    """The sets are too many to be tried all."""


@dataclass(frozen=True)
class Member:
    """A class in sets: at most ``width`` ops at once, ``each`` bytes per op, ``whole`` buffers once; who bars it.

    ``first`` is the position of its first op.
    """

    width: int
    each: int
    whole: frozenset[int]
    excludes: frozenset[int]
    first: int = 0


@dataclass
class Bytes:
    """The bytes that moving buffers may take, and what each class takes of them."""

    room: int
    each: list[int]
    whole: list[set[int]]
    size: dict[int, int] = field(default_factory=dict)


def count_bytes(problem: Problem, ancestry: Ancestry, classes: Sequence[Sequence[int]]) -> Bytes:
    """Return the least bytes that classes keep alive.

    A buffer whose keepers are whole classes counts once for them all, any other in equal shares for its keepers. Only
    the scratchpad is counted, not other pools.
    """
    here = {b: buffer for b, buffer in enumerate(problem.buffers) if buffer.pool is None}
    room = problem.scratchpad.available_bytes - sum(b.occupied_bytes for b in here.values() if b.always)
    found = Bytes(room, [0] * len(classes), [set() for _ in classes])
    moving = {b: buffer for b, buffer in here.items() if not buffer.always}
    if sum(buffer.occupied_bytes for buffer in moving.values()) <= room:
        return found
    shares: dict[int, int] = defaultdict(int)
    home = {i: c for c, ops in enumerate(classes) for i in ops}
    for b, buffer in moving.items():
        if not buffer.ops or not buffer.occupied_bytes:
            continue
        old = next((b for b in moving.values() if b.name == buffer.overwrites), None)
        keepers = ancestry.keepers({problem.op_index[n] for n in buffer.ops if old is None or n not in old.ops})
        met = Counter(home[i] for i in keepers if i in home)
        if all(len(classes[c]) == members for c, members in met.items()):
            found.size[b] = buffer.occupied_bytes
            for c in met:
                found.whole[c].add(b)
        else:
            share = buffer.occupied_bytes // ancestry.width(sorted(keepers))
            for i in keepers:
                shares[i] += share
    found.each = [min(shares[i] for i in ops) for ops in classes]
    return found


@dataclass(frozen=True)
class Priced:
    """A part with a price, of the class ``member``; ``load`` is what others notice of its work."""

    price: int
    member: int
    needs: tuple[tuple[Place, int], ...]
    load: int = UNTOUCHED
    pulls: tuple[tuple[str, int], ...] = ()


class Sets:
    """All sets of priced parts that may run together; they pay for the work done, at the speeds of ``sharing``."""

    def __init__(
        self,
        parts: Sequence[Priced],
        members: Sequence[Member],
        offered: dict[Place, int],
        held: Bytes,
        sharing: Sharing,
        capacity: dict[str, int],
    ) -> None:
        self._parts = parts
        self._sharing = sharing
        self._capacity = capacity
        self._slowed = any(part.load != UNTOUCHED for part in parts)
        # The most that a tick of a part can pay: alone its work is fastest.
        self._alone = [part.price * self._speeds((part.load,))[0] for part in parts]
        self._members = members
        self._offered = offered
        self._room = held.room
        self._size = held.size
        self._clique = _grouped(members)
        # A buffer counts in equal portions for those who share it; of a clique only one does.
        self._portion: dict[int, int] = {}
        for b, size in held.size.items():
            widest: dict[int, int] = {}
            for m, member in enumerate(members):
                if b in member.whole:
                    widest[self._clique[m]] = max(widest.get(self._clique[m], 0), member.width)
            self._portion[b] = size // max(1, sum(widest.values()))
        # What a part is short of first; parts that need no units are bounded by their number alone.
        self._scarce = [
            min(part.needs, key=lambda need: (-need[1] / offered[need[0]], need[0]), default=None) for part in parts
        ]

    def dearest(self, among: Sequence[int]) -> Moment:
        """Return the price of the dearest set of the parts at the positions ``among``.

        After `STEP_LIMIT` steps the answer is what the scarcest units of each part allow, which is not less.
        """
        try:
            return self._dearest(among)
        except (TooHardError, RecursionError):
            most: dict[Place, int] = {}
            unbound = 0
            for k in among:
                part, need = self._parts[k], self._scarce[k]
                if need is None:
                    unbound += part.price * self._members[part.member].width
                else:
                    place, units = need
                    most[place] = max(most.get(place, 0), part.price * self._offered[place] // units)
            return unbound + sum(most.values())

    def _dearest(self, among: Sequence[int]) -> Moment:
        self._best: Moment = 0
        self._steps = 0
        self._free = dict(self._offered)
        self._left = self._room
        self._count = [0] * len(self._members)
        self._alive: dict[int, int] = defaultdict(int)

        def worth(k: int) -> int:
            need = self._scarce[k]
            share = self._offered[need[0]] * FINE // need[1] if need is not None else len(self._parts) * FINE
            return self._parts[k].price * share

        self._choose([k for k in sorted(among, key=worth, reverse=True) if self._fits(k)], 0, {})
        return self._best

    def _choose(self, open_parts: list[int], price: Moment, taken: dict[int, int]) -> None:
        """Try every set that adds parts of ``open_parts`` to the one at hand: some of the first, or none of it."""
        if price > self._best:
            self._best = max(self._best, self._paid(taken) if self._slowed else price)
        while open_parts and price + self._most(open_parts) > self._best:
            if self._slowed and self._by_capacity(taken, open_parts) <= self._best:
                break
            self._steps += 1
            if self._steps > STEP_LIMIT:
                raise TooHardError
            first, open_parts = open_parts[0], open_parts[1:]
            part = self._parts[first]
            member = self._members[part.member]
            copies = 0
            while self._fits(first):
                self._change(part, 1)
                copies += 1
            while copies:
                others = [k for k in open_parts if self._parts[k].member not in member.excludes and self._fits(k)]
                taken[first] = copies
                self._choose(others, price + copies * self._alone[first], taken)
                self._change(part, -1)
                copies -= 1
            taken.pop(first, None)

    def _speeds(self, loads: tuple[int, ...]) -> Sequence[Fraction | int]:
        """Return the speeds of parts side by side; what nobody can slow goes at full speed."""
        found = iter(self._sharing.speeds(tuple(load for load in loads if load != UNTOUCHED)))
        return [1 if load == UNTOUCHED else Fraction(next(found)) for load in loads]

    def _paid(self, taken: dict[int, int]) -> Moment:
        """Return what a tick of the parts in ``taken`` pays, at the speeds that they leave each other."""
        rows = sorted((self._members[self._parts[k].member].first, k) for k, n in taken.items() for _ in range(n))
        speeds = self._speeds(tuple(self._parts[k].load for _, k in rows))
        return sum(
            (self._parts[k].price * speed for (_, k), speed in zip(rows, speeds, strict=True)), start=Fraction(0)
        )

    def _by_capacity(self, taken: dict[int, int], open_parts: Sequence[int]) -> Moment:
        """At most so much can ``taken`` and ``open_parts`` pay: of every channel no more than its capacity is used."""
        rows = list(taken.items())
        rows += [(k, self._members[self._parts[k].member].width) for k in open_parts]
        found: list[Moment] = []
        for channel, capacity in self._capacity.items():
            total: Moment = 0
            users: list[tuple[Fraction, int]] = []
            for k, n in rows:
                rate = dict(self._parts[k].pulls).get(channel, 0)
                if rate:
                    users.append((Fraction(self._parts[k].price, rate), rate * n))
                elif k in taken:
                    total += n * self._alone[k]
            total += self._most([k for k in open_parts if channel not in dict(self._parts[k].pulls)])
            left = capacity
            for worth, demand in sorted(users, reverse=True):
                total += worth * min(left, demand)
                left -= min(left, demand)
            found.append(total)
        return min(found, default=self._best + 1)

    def _fits(self, k: int) -> bool:
        part = self._parts[k]
        member = self._members[part.member]
        born = sum(self._size[b] for b in member.whole if not self._alive[b])
        return (
            self._count[part.member] < member.width
            and all(self._free[name] >= units for name, units in part.needs)
            and self._left >= born + member.each
        )

    def _change(self, part: Priced, by: int) -> None:
        member = self._members[part.member]
        self._count[part.member] += by
        self._left -= by * member.each
        for name, units in part.needs:
            self._free[name] -= by * units
        for b in member.whole:
            was = self._alive[b] > 0
            self._alive[b] += by
            if (self._alive[b] > 0) != was:
                self._left -= by * self._size[b]

    def _most(self, open_parts: Sequence[int]) -> int:
        """At most so much can ``open_parts`` add: by free units, by free bytes, or by cliques of classes."""
        by_unit: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        by_byte: list[tuple[int, int]] = []
        by_clique: dict[int, int] = defaultdict(int)
        by_engine: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        unbound = weightless = 0
        for k in open_parts:
            part = self._parts[k]
            member = self._members[part.member]
            copies = member.width - self._count[part.member]
            need = self._scarce[k]
            if need is None:
                unbound += part.price * copies
            else:
                by_unit[need[0]].append((part.price * copies, need[1] * copies))
                place, held = next(other for other in part.needs if other[0][1] < 0)
                by_engine[place].append((part.price * copies, held * copies))
            needed = member.each + sum(self._portion[b] for b in member.whole if not self._alive[b])
            if needed:
                by_byte.append((part.price * copies, needed * copies))
            else:
                weightless += part.price * copies
            clique = self._clique[part.member]
            by_clique[clique] = max(by_clique[clique], part.price * copies)
        units = sum(_knapsack(of, self._free[place]) for place, of in by_unit.items())
        engines = sum(_knapsack(of, self._free[place]) for place, of in by_engine.items())
        return min(
            unbound + units, unbound + engines, weightless + _knapsack(by_byte, self._left), sum(by_clique.values())
        )


def _knapsack(items: list[tuple[int, int]], room: int) -> int:
    """Return the most of (price, size) that fits into ``room`` if the last may be cut, rounded up.

    Rates are rounded down, which may swap two that differ by less: that costs less than what is rounded up.
    """
    total = 0
    for price, size in sorted(items, key=lambda item: item[0] * FINE // item[1], reverse=True):
        if size > room:
            return total + -(-price * room // size)
        room -= size
        total += price
    return total


def _grouped(members: Sequence[Member]) -> list[int]:
    """Return a number per class such that any two with one number exclude each other."""
    groups: list[set[int]] = []
    found = []
    for m, member in enumerate(members):
        group = next((g for g, others in enumerate(groups) if others <= member.excludes), len(groups))
        if group == len(groups):
            groups.append(set())
        groups[group].add(m)
        found.append(group)
    return found
