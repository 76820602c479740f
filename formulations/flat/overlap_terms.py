"""Terms by which overlaps lengthen ops: whole numbers c_T that no set of ops at work contradicts.

An op that works for a base time alone takes ``base + sum over sets S of (1 - x_i(S)) * time that exactly S works``
where x_i(S) is its speed as a part of the one it has alone. So ``duration >= base + sum over T of c_T * overlap_T``
holds for every schedule if, and in general only if, for every set S that can work with op i

    sum of c_T over the sets T of ops of S without i  <=  1 - x_i(S).

Terms of pairs alone can break that although each of them is true: where a third op leaves i more of a channel, or
where two partners together slow it less than the sum of both. So terms are made from the smallest sets up, what pairs
say too much is taken back by triples, and all of them are checked before they are used.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, floor, prod
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.configuration.order import Order
from hexloom.formulations.speeds import NOT_SHARING, Speeds

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem, Rule

GRID = 360
"""Coefficients are rounded down to parts of this."""

SET_LIMIT = 1_000
"""Sets of kinds that are looked at; where there are more no op gets terms."""

MOST_PARTNERS = 2
"""Ops of one term beside the one that it lengthens: each has a variable for every group of so many that overlap."""

Kinds = tuple[int, ...]
"""Kinds that work together, ascending, each as often as it does."""


class Kind(NamedTuple):
    """What decides who can work beside an op, and what it does to them: its load, units per engine, its place.

    The place is -1 but for rule priority, where ops are served in their order.
    """

    load: int
    takes: tuple[tuple[int, int], ...]
    place: int


class Worker(NamedTuple):
    """A mode of an op that others can slow."""

    op: int
    mode: int


@dataclass(frozen=True, slots=True)
class Terms:
    """Coefficients in parts of `GRID`, by partners, of one kind of op. A group of partners not named has 0."""

    of: dict[Kinds, int]

    def claimed(self, partners: Kinds) -> int:
        """Return what the terms say of an op beside ``partners``: the sum over all groups of these ops."""
        have = Counter(partners)
        return sum(
            c * prod(comb(have[kind], count) for kind, count in Counter(group).items()) for group, c in self.of.items()
        )


class OverlapTerms:
    """Who can work together in ``problem`` under ``rule``, how slow that is, and terms that say so.

    Parameters
    ----------
    problem, rule
        What runs, and how channels are shared.

    Attributes
    ----------
    workers
        By kind, the modes of ops that are of it.
    complete
        Whether all sets were looked at; if not, there are no terms.
    """

    def __init__(self, problem: Problem, rule: Rule) -> None:
        self._speeds = Speeds(problem, rule, exact=True)
        engine = {one.name: e for e, one in enumerate(problem.engines)}
        self._capacity = [one.units for one in problem.engines]
        self._until_known = {e for e, one in enumerate(problem.engines) if one.kind in ("resource", "share")}
        found: dict[Kind, list[Worker]] = {}
        for i, op in enumerate(problem.ops):
            for m, mode in enumerate(op.modes):
                load = self._speeds.load_of(mode)
                if load != NOT_SHARING and mode.latency_ticks:
                    takes = self._takes(mode, engine)
                    if all(units <= self._capacity[e] for e, units in takes):
                        kind = Kind(load, takes, i if rule == "priority" else -1)
                        found.setdefault(kind, []).append(Worker(i, m))
        self.kinds = sorted(found, key=lambda kind: (kind.place, kind))
        self.workers = [tuple(found[kind]) for kind in self.kinds]
        self.kind_of = {worker: k for k, mine in enumerate(self.workers) for worker in mine}
        order = Order(problem)
        groups = [tuple(sorted({worker.op for worker in mine})) for mine in self.workers]
        self._width = [order.width(ops) for ops in groups]
        self._apart = {
            (a, b) for a, b in combinations(range(len(groups)), 2) if order.all_ordered(groups[a], groups[b])
        }
        self.together: list[Kinds] = []
        self.complete = self._enumerate()
        self._sets = set(self.together)
        self._partners: dict[int, list[Kinds]] = {k: [] for k in range(len(self.kinds))}
        for chosen in self.together:
            for k in set(chosen):
                at = chosen.index(k)
                self._partners[k].append(chosen[:at] + chosen[at + 1 :])
        self._known: dict[tuple[int, Kinds], Fraction] = {}
        self.alone = [Fraction(self._speeds.speeds((kind.load,))[0]) for kind in self.kinds]

    def _takes(self, mode: Mode, engine: dict[str, int]) -> tuple[tuple[int, int], ...]:
        """Return the units that ``mode`` holds for as long as it works."""
        held = [(engine[use.engine], use) for use in mode.uses if use.ticks]
        return tuple(
            sorted((e, use.units) for e, use in held if e in self._until_known or use.ticks == mode.latency_ticks)
        )

    def _enumerate(self) -> bool:
        """List every set of kinds that can work together; a few that cannot are in it too, which is safe."""

        def grow(chosen: Kinds, first: int, free: list[int]) -> bool:
            for k in range(first, len(self.kinds)):
                if chosen.count(k) == self._width[k] or any((other, k) in self._apart for other in chosen):
                    continue
                left = free[:]
                for e, units in self.kinds[k].takes:
                    left[e] -= units
                if min(left, default=0) < 0:
                    continue
                self.together.append((*chosen, k))
                if len(self.together) > SET_LIMIT or not grow((*chosen, k), k, left):
                    return False
            return True

        return grow((), 0, self._capacity)

    def slowed(self, kind: int, partners: Kinds) -> Fraction:
        """Return 1 - x: the part of its speed that an op of ``kind`` loses beside ``partners``."""
        found = self._known.get((kind, partners))
        if found is None:
            order = sorted((*partners, kind))
            # Under priority the order of kinds is the order of ops, else only what works together counts.
            speeds = self._speeds.speeds(tuple(self.kinds[k].load for k in order))
            found = self._known[kind, partners] = 1 - Fraction(speeds[order.index(kind)]) / self.alone[kind]
        return found

    def least_speed(self, kind: int) -> Fraction:
        """Return the smallest x of an op of ``kind``: it never works for longer than its base over this."""
        return min(1 - self.slowed(kind, partners) for partners in self._partners[kind])

    def terms(self, kind: int) -> Terms:
        """Return terms of pairs and triples of ops of ``kind``, as exact as the grid allows.

        Partners are kinds of which never more than two work at once, those with most to say first: of any set only
        they count, with the least that an op of ``kind`` loses beside exactly these of them. The term of a group is
        that, less what its smaller groups say already.
        """
        if not self.complete:
            return Terms({})
        ranked = sorted(range(len(self.kinds)), key=lambda k: (-self._weight(kind, k), k))
        admitted: set[int] = set()
        for k in ranked:
            wider = admitted | {k}
            most = max((sum(p in wider for p in partners) for partners in self._partners[kind]), default=0)
            if self._weight(kind, k) > 0 and most <= MOST_PARTNERS:
                admitted = wider
        least: dict[Kinds, Fraction] = {}
        for partners in self._partners[kind]:
            mine = tuple(k for k in partners if k in admitted)
            loss = self.slowed(kind, partners)
            least[mine] = min(loss, least.get(mine, loss))
        terms = Terms({})
        for group in sorted(least, key=lambda group: (len(group), group)):
            if group:
                terms.of[group] = floor(least[group] * GRID) - terms.claimed(group)
        return self._checked(kind, terms.of)

    def can_pair(self, a: int, b: int) -> bool:
        """Whether two ops of these kinds can work at one time."""
        return (min(a, b), max(a, b)) in self._sets

    def _weight(self, kind: int, other: int) -> Fraction:
        """Return how much partners of kind ``other`` can matter: the most that one changes, times their number."""
        most = Fraction(0)
        for partners in self._partners[kind]:
            if other in partners:
                at = partners.index(other)
                less = self.slowed(kind, partners[:at] + partners[at + 1 :])
                most = max(most, abs(self.slowed(kind, partners) - less))
        return most * len(self.workers[other])

    def _checked(self, kind: int, of: dict[Kinds, int]) -> Terms:
        """Return terms without those of 0, or none at all if any set contradicts them."""
        terms = Terms({group: c for group, c in of.items() if c})
        return terms if self.admits(kind, terms) else Terms({})

    def admits(self, kind: int, terms: Terms) -> bool:
        """Whether every set that can work with an op of ``kind`` loses it at least what ``terms`` say."""
        return all(terms.claimed(p) <= self.slowed(kind, p) * GRID for p in self._partners[kind])
