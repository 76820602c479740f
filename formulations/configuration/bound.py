"""The configuration bound: an LP over the sets of parts that may run together, proven by rational prices.

For a horizon of T ticks the LP asks for the time that is missing. Its prices, made rational, are evaluated exactly:
if the ops must spend more than can be spent in T ticks, no schedule ends by T. The horizon is raised until no time
is missing; the bound is one tick above the last horizon refuted, or, where ops slow each other and times are no whole
ticks, the horizon up to which all are refuted. Columns are generated: the dearest set of each slice
of the axis is found exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import lcm
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import Bound
from hexloom.formulations.configuration.axis import cut_axis
from hexloom.formulations.configuration.budget import Budget, SearchLimitError
from hexloom.formulations.configuration.certificate import Certificate, PricedClass
from hexloom.formulations.configuration.classes import Configurations, configurations
from hexloom.formulations.configuration.master import Master
from hexloom.formulations.configuration.order import Order
from hexloom.formulations.configuration.partition import alike_pipes, split, stages, twins
from hexloom.formulations.configuration.sets import SetSearch
from hexloom.formulations.configuration.weight import heaviest
from hexloom.formulations.problem import slows
from hexloom.formulations.speeds import Speeds
from hexloom.formulations.ticks import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hexloom.formulations.configuration.classes import Rate, Set
    from hexloom.formulations.configuration.parts import Merged
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment

SINGLE_LIMIT = 64
"""Up to so many ops every op is a class of its own in the end."""

CLASS_SHARE = 0.4
"""Part of the budget for each partition into classes of several ops."""

EASY_LIMIT = 16
"""Up to so many ops nothing else is tried."""

CLASS_LIMITS = (24, 64)
"""Ops of one stage are split by head and tail as long as there are not more classes; first few, then more."""

SLICE_LIMITS = (8, 24, 48)
"""The LP cuts the axis so often, more often where fewer cuts prove nothing; prices are evaluated with every cut."""

LP_NODES = 50
"""Nodes that an LP counts for in a deterministic budget."""

QUICK_NODES, CAREFUL_NODES = 60, 400
"""Nodes of a search for a column: as long as quick ones are found, and then."""

NODE_LIMIT = 3_000
"""Nodes of one search for the dearest set: what takes longer would also take the checker longer."""

FINE = 10**9
"""Prices are whole numbers of this part of the dearest one while columns are generated."""

DENOMINATORS = (60, 5040, 10**6)
"""Prices are rounded to fractions with denominators up to each of these; the best result counts."""

PROOF_SECONDS = 5.0
"""Work that the last evaluation of the prices may take: what takes longer would also take the checker longer."""

STARTS = (100_000, 100, 20, 4)
"""Parts of the longest way through an op by which the first horizons to try are shorter."""

ROUNDING = 1e-7
"""Missing time below this share of the horizon may be rounding."""


@dataclass(frozen=True)
class Prices:
    """A whole-number price per item, and the first horizon that they do not refute."""

    per_item: tuple[int, ...]
    ticks: int


def configuration_bound(
    problem: Problem,
    heads_tails: HeadsTails,
    rule: Rule = "none",
    *,
    time_limit_s: float = 1.0,
    deterministic: bool = False,
    single_limit: int = SINGLE_LIMIT,
    at_least: Moment = 0,
) -> tuple[Bound, Certificate] | None:
    """Return the configuration bound and its certificate.

    Parameters
    ----------
    problem
        Any problem that arithmetic does not refute.
    heads_tails
        Its heads and tails, in whole ticks.
    rule
        How channels are shared.
    time_limit_s
        Seconds after which the best prices found so far count.
    deterministic
        Count seconds in work instead of wall time.
    single_limit
        Up to so many ops every op is a class of its own in the end; for more, classes are tiles of one stage.
    at_least
        A bound known already: shorter horizons are not looked at.

    Returns
    -------
    tuple or None
        None if no prices were found in time, or an op cannot run.
    """
    budget = Budget(time_limit_s, deterministic)
    order = Order(problem)
    start = int((heads_tails.head + heads_tails.duration + heads_tails.tail).max())
    best: tuple[Bound, Certificate] | None = None
    speeds = Speeds(problem, rule, exact=True)
    for merged, partition in _partitions(problem, heads_tails, single_limit, speeds):
        given = configurations(problem, order, heads_tails, partition, merged, speeds)
        if not all(one.items for one in given.classes):
            return None
        rising = _Rising(given, budget if merged is None else budget.part(CLASS_SHARE))
        known = math.floor(at_least if best is None else max(at_least, best[0].ticks))
        found = rising.run(max(start, known), known >= start)
        priced = None if found is None else proven(problem, order, heads_tails, given, merged, found)
        if priced is not None and (best is None or priced[0].ticks > best[0].ticks):
            best = priced
    return best


def _partitions(
    problem: Problem, ht: HeadsTails, single_limit: int, speeds: Speeds
) -> Iterator[tuple[Merged | None, list[tuple[int, ...]]]]:
    """Yield classes to try, from few to many: every next one is harder to solve and proves no less."""
    n = len(problem.ops)
    known = 0
    if speeds.rule == "priority":
        # Who comes first is served first: ops of a class differ by that.
        if n <= single_limit:
            yield None, [(i,) for i in range(n)]
        return
    if n > EASY_LIMIT or n > single_limit:
        merged = alike_pipes(problem)
        groups = stages(problem, merged, speeds)
        for most in CLASS_LIMITS:
            partition = split(groups, ht, most)
            if len(partition) > known:
                known = len(partition)
                yield merged, partition
    if n <= single_limit:
        yield None, twins(problem, speeds)


class _Rising:
    """Raises the horizon as long as the LP says that time is missing."""

    def __init__(self, given: Configurations, budget: Budget) -> None:
        self._given = given
        self._budget = budget
        self._search = SetSearch(given, budget, NODE_LIMIT)
        self._joiners = frozenset(given.joiners)
        self._level = 0
        self._priced: set[int] = set()
        self._pool: dict[Set, None] = {((k, 1),): None for k in range(len(given.items))}
        longest = sorted(range(len(given.items)), key=lambda k: -given.items[k].ticks)
        self._pool.update((self._search.filled(k, longest), None) for k in longest)
        self._pool.pop((), None)

    def run(self, start: int, known: bool) -> Prices | None:
        """Return the best prices found in time that refute ``start`` (or more, or if it is not ``known``, less)."""
        best: Prices | None = None
        # Classes know less than their ops, and the LP rounds: the first horizons to try lie below what is known.
        lower = [start] if known else [start - 1 - start // share for share in STARTS]
        horizon = lower.pop(0)
        try:
            for lane, capacity in enumerate(self._given.capacity):
                prices = tuple(sum(units for at, units in item.takes if at == lane) for item in self._given.items)
                ticks, _, _ = first_open(self._given, prices, horizon, partial(_full, capacity))
                if ticks > horizon:
                    best, horizon = Prices(prices, ticks), ticks
            while True:
                found = self._prices(horizon)
                if found is None and self._level + 1 < len(SLICE_LIMITS):
                    self._level += 1
                    continue
                if found is None and best is None and lower:
                    horizon = lower.pop(0)
                    continue
                if found is None or (best is not None and found.ticks <= best.ticks):
                    return best
                best = found
                horizon = best.ticks
        except SearchLimitError:
            pass
        return best

    def _prices(self, horizon: int) -> Prices | None:
        """Return prices that refute ``horizon``, or None if the LP finds none."""
        given, items = self._given, range(len(self._given.items))
        slices = cut_axis(given, horizon, items, SLICE_LIMITS[self._level], self._priced)
        master = Master(given, slices, horizon)
        inside = [frozenset(one.items) for one in slices]
        for chosen in self._pool:
            for k, allowed in enumerate(inside):
                if all(item in allowed for item, _ in chosen):
                    master.add(k, chosen)
        quick = True
        while True:
            self._budget.spend(LP_NODES)
            duals = master.solve()
            if duals is None:
                return None
            top = max(duals.prices, default=0.0)
            if top <= 0.0:
                return None
            prices = [round(price / top * FINE) for price in duals.prices]
            # Slices in which the same parts have a price are searched once.
            alike: dict[tuple[int, ...], int] = {}
            for k, one in enumerate(slices):
                key = tuple(i for i in one.items if prices[i] > 0 or i in self._joiners)
                above = int((duals.slices[k] + ROUNDING) / top * FINE) + 1
                alike[key] = min(above, alike.get(key, above))
            grew = False
            for key, above in alike.items():
                found = self._search.dearest(prices, key, above, QUICK_NODES if quick else CAREFUL_NODES)
                if found.chosen:
                    self._pool[found.chosen] = None
                    for j, allowed in enumerate(inside):
                        if allowed.issuperset(item for item, _ in found.chosen):
                            grew = master.add(j, found.chosen) or grew
            if not grew:
                self._priced.update(k for k, price in enumerate(prices) if price > 0)
                refuted = self._refute(horizon, duals.prices, duals.missing) if duals.missing > ROUNDING else None
                if refuted is not None or not quick:
                    return refuted
            quick = grew

    def _refute(self, horizon: int, duals: Sequence[float], missing: float) -> Prices | None:
        top = max(duals)
        best: Prices | None = None
        for bottom in DENOMINATORS:
            rounded = [Fraction(price / top).limit_denominator(bottom) for price in duals]
            scale = lcm(*(price.denominator for price in rounded))
            if scale > FINE:
                rounded, scale = [Fraction(round(price / top * bottom), bottom) for price in duals], bottom
            whole = tuple(int(price * scale) for price in rounded)
            ticks, _, _ = first_open(self._given, whole, horizon, partial(self._search.dearest_or_more, whole))
            if ticks > horizon and (best is None or ticks > best.ticks):
                best = Prices(whole, ticks)
            if ticks - horizon >= missing * horizon - 1:
                break
        return best


def _full(capacity: int, items: tuple[int, ...]) -> int:
    return capacity if items else 0


def first_open(
    given: Configurations, prices: Sequence[int], start: int, dearest: Callable[[tuple[int, ...]], Rate | float]
) -> tuple[int, Rate | float, Fraction]:
    """Return a horizon from ``start`` on that ``prices`` do not refute although they refute the one before, what the
    dearest set costs, and between the two the horizon at which nothing is missing any more: between whole ticks what
    is missing falls in a straight line. Nothing shorter than a refuted horizon exists, so steps may double.

    ``dearest`` tells what the dearest set of some items costs, or more.
    """
    known: dict[tuple[int, ...], Rate | float] = {}
    priced = [k for k, price in enumerate(prices) if price > 0]
    due = 0
    for one in given.classes:
        cheapest = min(sum(given.items[k].ticks * prices[k] for k in items) for items in one.items)
        due += len(one.ops) * cheapest

    def excess(horizon: int) -> Rate | float:
        total: Rate | float = due
        for one in cut_axis(given, horizon, priced):
            if one.items not in known:
                known[one.items] = dearest(one.items)
            total -= one.ticks * known[one.items]
        return total

    def top() -> Rate | float:
        return max(known.values(), default=0)

    low, left = start, excess(start)
    if left <= 0:
        return start, top(), Fraction(start)
    step = 0
    while low < given.longest:
        # One tick more lets the ops pay at most what the dearest set costs, as long as no window opens.
        step = max(1, 2 * step, int(-(-left // max(1, top()))) - 1)
        left = excess(low + step)
        if left <= 0:
            break
        low += step
    else:
        return low, top(), Fraction(low)
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    more, less = excess(low), excess(high)
    return high, top(), low + Fraction(more) / Fraction(more - less)


def proven(
    problem: Problem, order: Order, ht: HeadsTails, given: Configurations, merged: Merged | None, found: Prices
) -> tuple[Bound, Certificate] | None:
    """Write the certificate of the classes that have a price, evaluated once more as the checker will."""
    joiners = frozenset(given.joiners)
    priced = [
        c
        for c, one in enumerate(given.classes)
        if any(found.per_item[k] or k in joiners for row in one.items for k in row)
    ]
    kept = configurations(problem, order, ht, [given.classes[c].ops for c in priced], merged, given.speeds)
    prices = [found.per_item[k] for c in priced for row in given.classes[c].items for k in row]
    search = SetSearch(kept, Budget(PROOF_SECONDS, deterministic=True), NODE_LIMIT, exact=True)
    # What floats refuted is one tick less in doubt.
    start = max(problem.entry_ticks, found.ticks - (2 if slows(given.speeds.rule) else 1))
    try:
        whole_ticks, top, exact = first_open(kept, prices, start, partial(search.dearest_or_more, prices))
    except SearchLimitError:
        return None
    if top == 0 or (slows(given.speeds.rule) and exact <= start):
        return None
    ticks = whole(exact) if slows(given.speeds.rule) else whole_ticks
    classes = tuple(
        PricedClass(
            ops=tuple(problem.ops[i].name for i in one.ops),
            prices=tuple(tuple(str(Fraction(prices[k]) / Fraction(top)) for k in row) for row in one.items),
        )
        for one in kept.classes
    )
    detail = f"prices of {len(classes)} classes over what can run together"
    engine = heaviest(problem, kept, prices, merged)
    return Bound("configuration", ticks, engine, detail), Certificate(classes=classes, merged=merged, bound=str(ticks))
