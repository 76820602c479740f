"""The dearest feasible set: branch and bound over parts that may run together."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.configuration.all_sets import AllSets
from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.configuration.classes import Configurations, Rate, Set

NODES_PER_SECOND = 20_000
"""Nodes that count as a second of a deterministic budget."""


MOST_SETS = 50_000
"""Up to so many sets they are listed: with speeds that depend on all of a set, bounds on parts of it are weak."""

SETS_PER_NODE = 200
"""Sets of a list that are looked at in the time of a node."""

NOT_ASKED = object()


class SearchLimitError(Exception):
    """The search was stopped: nothing is proven."""


class NodeLimitError(SearchLimitError):
    """One set has too many rivals."""


class _Filling(NamedTuple):
    """The items that use a channel, with what a byte of each costs, the dearest first."""

    capacity: int
    items: list[tuple[int, Rate | float]]


def _by_worth(item: tuple[int, Rate | float]) -> Rate | float:
    return -item[1]


class _EnoughError(Exception):
    """The search may be given up."""


class Budget:
    """Seconds on the clock, or, deterministic, as many nodes as count for them: the same on every machine."""

    def __init__(self, seconds: float, deterministic: bool, whole: Budget | None = None) -> None:
        self._seconds = seconds
        self._deadline = None if deterministic else time.monotonic() + seconds
        self._nodes = seconds * NODES_PER_SECOND
        self._whole = whole

    def spend(self, nodes: int) -> None:
        """Count work; raises `SearchLimitError` when the budget is used up."""
        if self._whole is not None:
            self._whole.spend(nodes)
        self._nodes -= nodes
        over = self._nodes < 0 if self._deadline is None else time.monotonic() > self._deadline
        if over:
            raise SearchLimitError

    def part(self, share: float) -> Budget:
        """Return a share of this budget; what is spent of it is spent of this one too."""
        return Budget(self._seconds * share, self._deadline is None, self)


@dataclass(frozen=True, slots=True)
class Dearest:
    """A feasible set and what a tick of it costs."""

    cost: Rate | float
    chosen: Set


class SetSearch:
    """Finds the dearest feasible set for given prices: those of its parts times the speeds they leave each other.

    A part that joins slows others, so the dearest set need not be a full one; every set on the way counts.

    Parameters
    ----------
    given
        What may run together.
    budget
        Its end raises `SearchLimitError`.
    node_limit
        Nodes per call after which it is raised too.
    exact
        Whether costs are exact where parts slow each other; else they are floats, which is fast.
    """

    def __init__(self, given: Configurations, budget: Budget, node_limit: int, *, exact: bool = False) -> None:
        self._given = given
        self._budget = budget
        self._node_limit = node_limit
        self._class = [item.op_class for item in given.items]
        self._slowed = any(item.load != NOT_SHARING for item in given.items)
        self._exact = exact
        self._joiners = frozenset(given.joiners)
        self._all: AllSets | object | None = NOT_ASKED
        self._speeds: dict[tuple[int, ...], list[float]] = {}
        self._pulls = [
            {k: rate for k, item in enumerate(given.items) for channel, rate in item.pulls if channel == c}
            for c, _ in enumerate(given.channels)
        ]
        self._width = [one.width for one in given.classes]
        self._clique = _cliques(given)
        self._part = {b: size // self._sharers(b) for b, size in given.shared_bytes.items()}
        self._heavy = [bool(one.own_bytes or one.shared) for one in given.classes]
        self._main = [
            max(item.takes, key=lambda take: take[1] / given.capacity[take[0]], default=(-1, 1)) for item in given.items
        ]
        self._rooms = [given.capacity[lane] if lane >= 0 else 1 for lane, _ in self._main]
        # Whole engines come before their named units.
        self._named = any(len(item.takes) > 1 for item in given.items)
        self._wide = [
            max(
                ((lane, units) for lane, units in item.takes if given.whole[lane]),
                key=lambda take: take[1] / given.capacity[take[0]],
                default=(-1, 1),
            )
            for item in given.items
        ]
        # Masks of items: those that a class excludes, and per lane, in falling order, those that need so many units.
        of_class = [0] * len(given.classes)
        needs: dict[tuple[int, int], int] = {}
        for k, item in enumerate(given.items):
            of_class[item.op_class] |= 1 << k
            for lane, units in item.takes:
                needs[lane, units] = needs.get((lane, units), 0) | 1 << k
        self._excludes = [
            sum(mask for d, mask in enumerate(of_class) if conflicts >> d & 1) for conflicts in given.conflicts
        ]
        self._of_class = of_class
        self._needs: list[list[tuple[int, int]]] = [[] for _ in given.capacity]
        for (lane, units), mask in sorted(needs.items(), reverse=True):
            self._needs[lane].append((units, mask))

    def dearest(
        self, prices: Sequence[int], allowed: Iterable[int], above: Rate | float = 0, nodes: int | None = None
    ) -> Dearest:
        """Return the dearest set of ``allowed`` items, or an empty one if none costs more than ``above``.

        With ``nodes`` the search is given up after so many: it may miss a set, or the dearest.
        """
        if self._slowed and self._all is NOT_ASKED:
            self._all = self._enumerated()
        if isinstance(self._all, AllSets):
            self._budget.spend(1 + len(self._all) // SETS_PER_NODE)
            found = Dearest(*self._all.dearest(prices, allowed, exact=self._exact))
            return found if found.cost > above else Dearest(above, ())
        self._enough = nodes
        self._prices = prices
        # What an item costs at the speed that it has alone, which is its highest.
        alone = (price * item.full for price, item in zip(prices, self._given.items, strict=True))
        self._full: list[Rate | float] = list(alone) if self._exact or not self._slowed else [float(f) for f in alone]
        if self._slowed:
            number = Fraction if self._exact else float
            self._dearest_bytes = [
                _Filling(capacity, sorted(((k, number(prices[k]) / rate) for k, rate in rates.items()), key=_by_worth))
                for capacity, rates in zip(self._given.channels, self._pulls, strict=True)
            ]
        self._reset()
        self._best = Dearest(above, ())
        self._nodes = 0
        candidates = [k for k in allowed if prices[k] > 0 or k in self._joiners]
        candidates.sort(key=lambda k: -prices[k] / self._main[k][1] * self._rooms[k])
        with suppress(_EnoughError):
            self._grow(self._open(candidates, ~0), 0, [])
        return self._best

    def dearest_or_more(self, prices: Sequence[int], items: Iterable[int]) -> Rate | float:
        """Return what the dearest set costs, or what the scarcest lane of each item alone allows if that is hard."""
        items = tuple(items)
        try:
            return self.dearest(prices, items).cost
        except NodeLimitError:
            return self._by_scarcest(prices, items)

    def _by_scarcest(self, prices: Sequence[int], items: Iterable[int]) -> int:
        lanes: dict[int, int] = {}
        afloat = 0
        for k in items:
            lane, units = self._main[k]
            if lane < 0:
                afloat += prices[k] * self._width[self._class[k]]
            else:
                lanes[lane] = max(lanes.get(lane, 0), prices[k] * self._given.capacity[lane] // units)
        return afloat + sum(lanes.values())

    def filled(self, seed: int, rank: Sequence[int]) -> Set:
        """Return ``seed`` with as many others as fit, in the order of ``rank``; empty if it does not fit itself."""
        self._reset()
        chosen: list[tuple[int, int]] = []
        candidates = self._open([seed, *(k for k in rank if k != seed)], ~0)
        if seed not in candidates:
            return ()
        while candidates:
            k = candidates[0]
            copies = self._most(k)
            self._take(k, copies)
            chosen.append((k, copies))
            candidates = self._open(candidates[1:], ~self._barred(self._class[k]))
        return tuple(sorted(chosen))

    def _enumerated(self) -> AllSets | None:
        """Return all sets if there are few."""
        self._reset()
        found: list[Set] = []

        def grow(candidates: list[int], chosen: Set) -> bool:
            while candidates:
                k, candidates = candidates[0], candidates[1:]
                for copies in range(self._most(k), 0, -1):
                    self._budget.spend(1)
                    self._take(k, copies)
                    found.append((*chosen, (k, copies)))
                    few = len(found) <= MOST_SETS and grow(
                        self._open(candidates, ~self._barred(self._class[k])), found[-1]
                    )
                    self._take(k, -copies)
                    if not few:
                        return False
            return True

        return AllSets(self._given, found) if grow(self._open(list(range(len(self._given.items))), ~0), ()) else None

    def _reset(self) -> None:
        given = self._given
        self._room = list(given.capacity)
        self._bytes = given.room_bytes
        self._used = [0] * len(given.classes)
        self._alive = dict.fromkeys(given.shared_bytes, 0)

    def _barred(self, c: int) -> int:
        """Mask of the items that cannot join once class ``c`` is in the set as often as it is."""
        return self._excludes[c] | (self._of_class[c] if self._used[c] >= self._width[c] else 0)

    def _grow(self, candidates: list[int], cost: Rate | float, chosen: list[tuple[int, int]]) -> None:
        self._nodes += 1
        self._budget.spend(1)
        if self._enough is not None and self._nodes > self._enough:
            raise _EnoughError
        if self._nodes > self._node_limit:
            raise NodeLimitError
        while candidates:
            if cost + self._bound(candidates) <= self._best.cost:
                return
            if self._slowed and self._by_channels(chosen, candidates) <= self._best.cost:
                return
            k, candidates = candidates[0], candidates[1:]
            c = self._class[k]
            for copies in range(self._most(k), 0, -1):
                self._take(k, copies)
                now = cost + copies * self._full[k]
                chosen.append((k, copies))
                if now > self._best.cost:
                    worth = self._worth(chosen) if self._slowed else now
                    if worth > self._best.cost:
                        self._best = Dearest(worth, tuple(sorted(chosen)))
                self._grow(self._open(candidates, ~self._barred(c)), now, chosen)
                chosen.pop()
                self._take(k, -copies)

    def _worth(self, chosen: list[tuple[int, int]]) -> Rate | float:
        """Return what a tick of ``chosen`` costs at the speeds that its parts leave each other."""
        if self._exact:
            rates = self._given.rates(tuple(sorted(chosen)))
            return sum((self._prices[k] * rate for k, rate in rates), start=Fraction(0))
        working = self._given.working(tuple(sorted(chosen)))
        loads = tuple([self._given.items[k].load for k in working])
        speeds = self._speeds.get(loads)
        if speeds is None:
            speeds = self._speeds[loads] = [float(speed) for speed in self._given.speeds.speeds(loads)]
        free = sum(self._full[k] * copies for k, copies in chosen if self._given.items[k].load == NOT_SHARING)
        return free + sum([self._prices[k] * speed for k, speed in zip(working, speeds, strict=True)])

    def _by_channels(self, chosen: list[tuple[int, int]], candidates: Sequence[int]) -> Rate | float:
        """Bound the cost of ``chosen`` with any candidates: what uses a channel shares its capacity, at best cleverly.

        Of each channel it is filled with what costs most per byte; what does not use it works at full speed.
        """
        best: Rate | float | None = None
        copies = dict(chosen)
        for k in candidates:
            copies[k] = self._width[self._class[k]] - self._used[self._class[k]]
        for rates, order in zip(self._pulls, self._dearest_bytes, strict=True):
            total: Rate | float = self._bound([k for k in candidates if k not in rates])
            for k, count in chosen:
                if k not in rates:
                    total += count * self._full[k]
            left: int = order.capacity
            for k, worth in order.items:
                if k in copies:
                    taken = min(left, rates[k] * copies[k])
                    total += worth * taken
                    left -= taken
                    if left <= 0:
                        break
            if best is None or total < best:
                best = total
        return self._best.cost + 1 if best is None else best

    def _open(self, candidates: list[int], mask: int) -> list[int]:
        """Return those of ``candidates`` in ``mask`` that still fit."""
        for lane, room in enumerate(self._room):
            for units, items in self._needs[lane]:
                if units <= room:
                    break
                mask &= ~items
        heavy = self._heavy
        return [k for k in candidates if mask >> k & 1 and (not heavy[self._class[k]] or self._has_bytes(k))]

    def _has_bytes(self, k: int) -> bool:
        one = self._given.classes[self._class[k]]
        return self._bytes >= one.own_bytes + sum(self._given.shared_bytes[b] for b in one.shared if not self._alive[b])

    def _most(self, k: int) -> int:
        """Count how many of item ``k``, which fits, still fit."""
        item = self._given.items[k]
        one = self._given.classes[item.op_class]
        most = one.width - self._used[item.op_class]
        for lane, units in item.takes:
            most = min(most, self._room[lane] // units)
        if one.own_bytes:
            left = self._bytes - sum(self._given.shared_bytes[b] for b in one.shared if not self._alive[b])
            most = min(most, left // one.own_bytes)
        return most

    def _take(self, k: int, copies: int) -> None:
        item = self._given.items[k]
        self._used[item.op_class] += copies
        for lane, units in item.takes:
            self._room[lane] -= copies * units
        if not self._heavy[item.op_class]:
            return
        one = self._given.classes[item.op_class]
        self._bytes -= copies * one.own_bytes
        for b in one.shared:
            before = self._alive[b]
            self._alive[b] = before + copies
            if before == 0:
                self._bytes -= self._given.shared_bytes[b]
            elif before + copies == 0:
                self._bytes += self._given.shared_bytes[b]

    def _bound(self, candidates: Sequence[int]) -> int:
        """Bound what candidates can add: by the room in lanes, by bytes, or by cliques of ordered classes.

        Candidates come in order of their price per unit of their scarcest lane: each lane is filled with the first.
        """
        room = self._room.copy()
        cliques: dict[int, int] = {}
        by_lanes = by_bytes = afloat = 0
        wide: list[tuple[float, int, int, int]] = []
        heavy: list[tuple[float, int, int]] = []
        for k in candidates:
            price = self._prices[k]
            c = self._class[k]
            copies = self._width[c] - self._used[c]
            lane, units = self._main[k]
            if lane < 0:
                afloat += price * copies
            elif room[lane] > 0:
                taken = min(copies * units, room[lane])
                room[lane] -= taken
                by_lanes += price * taken // units
            worth = price * copies
            if self._named and lane >= 0:
                lane, units = self._wide[k]
                wide.append((price / units, lane, worth, copies * units))
            q = self._clique[c]
            if cliques.get(q, 0) < worth:
                cliques[q] = worth
            share = self._share(c) if self._heavy[c] else 0
            if share:
                heavy.append((price / share, worth, share * copies))
            else:
                by_bytes += worth
        best = min(by_lanes + afloat, sum(cliques.values()))
        if self._named and best > afloat:
            best = min(best, afloat + self._by_engines(wide))
        if not heavy or by_bytes >= best:
            return best
        heavy.sort(reverse=True)
        left = self._bytes
        for _, worth, needed in heavy:
            if needed > left:
                return min(best, by_bytes + worth * left // needed + 1)
            left -= needed
            by_bytes += worth
        return min(best, by_bytes)

    def _by_engines(self, wide: list[tuple[float, int, int, int]]) -> int:
        """Fill engines as wholes with (price per unit, lane, price, units): named units do not count by themselves."""
        room = self._room.copy()
        total = 0
        wide.sort(reverse=True)
        for _, lane, worth, units in wide:
            if room[lane] > 0:
                taken = min(units, room[lane])
                room[lane] -= taken
                total += -(-worth * taken // units)
        return total

    def _share(self, c: int) -> int:
        """Bytes that an op of class ``c`` still needs, those of a shared buffer in equal parts for all who share it."""
        one = self._given.classes[c]
        return one.own_bytes + sum(self._part[b] for b in one.shared if not self._alive[b])

    def _sharers(self, b: int) -> int:
        """Most ops that share buffer ``b`` at once: one class of each clique."""
        most: dict[int, int] = {}
        for c, one in enumerate(self._given.classes):
            if b in one.shared:
                most[self._clique[c]] = max(most.get(self._clique[c], 0), one.width)
        return sum(most.values())


def _cliques(given: Configurations) -> list[int]:
    """Group classes so that any two of a group are ordered; one number per class."""
    masks: list[int] = []
    found: list[int] = []
    for c, conflicts in enumerate(given.conflicts):
        for q, mask in enumerate(masks):
            if not mask & ~conflicts:
                masks[q] |= 1 << c
                found.append(q)
                break
        else:
            found.append(len(masks))
            masks.append(1 << c)
    return found
