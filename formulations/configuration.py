"""The configuration bound: an LP over the sets of parts that may run together, proven by rational prices.

For a horizon of T ticks the LP asks for the time that is missing. Its prices, made rational, are evaluated exactly:
if the ops must spend more than can be spent in T ticks, no schedule ends by T. The horizon is raised until no time
is missing; the bound is one tick above the last horizon refuted. Columns are generated: the dearest set of each slice
of the axis is found exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import Bound
from hexloom.formulations.certificate_data import Certificate, PricedClass
from hexloom.formulations.config_axis import cut_axis
from hexloom.formulations.config_classes import Configurations, configurations
from hexloom.formulations.config_master import Master
from hexloom.formulations.config_order import Order
from hexloom.formulations.config_partition import alike_pipes, partition_by_way
from hexloom.formulations.config_sets import Budget, SearchLimitError, SetSearch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.config_parts import Merged
    from hexloom.formulations.config_sets import Set
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem

SINGLE_LIMIT = 64
"""Up to so many ops every op is a class of its own."""

SLICE_LIMIT = 48
"""The LP cuts the axis so often; its prices are evaluated with every cut."""

SINGLE_SHARE = 0.7
"""Part of the budget after which classes of single ops are given up."""

LP_NODES = 50
"""Nodes that an LP counts for in a deterministic budget."""

NODE_LIMIT = 50_000
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
    *,
    time_limit_s: float = 1.0,
    deterministic: bool = False,
    single_limit: int = SINGLE_LIMIT,
) -> tuple[Bound, Certificate] | None:
    """Return the configuration bound and its certificate.

    Parameters
    ----------
    problem
        Any problem that arithmetic does not refute.
    heads_tails
        Its heads and tails.
    time_limit_s
        Seconds after which the best prices found so far count.
    deterministic
        Count seconds in work instead of wall time.
    single_limit
        Up to so many ops every op is a class of its own. If that takes too long, and for more ops, classes are tiles
        of one stage.

    Returns
    -------
    tuple or None
        None if no prices were found in time, or an op cannot run.
    """
    budget = Budget(time_limit_s, deterministic)
    order = Order(problem)
    best: tuple[Bound, Certificate] | None = None
    for single in (True, False):
        if single:
            if len(problem.ops) > single_limit:
                continue
            merged: Merged | None = None
            partition: list[tuple[int, ...]] = [(i,) for i in range(len(problem.ops))]
        else:
            merged = alike_pipes(problem)
            partition = partition_by_way(problem, heads_tails, merged)
        given = configurations(problem, order, heads_tails, partition, merged)
        if not all(one.items for one in given.classes):
            return None
        rising = _Rising(given, budget.part(SINGLE_SHARE) if single else budget)
        found = rising.run(_longest(heads_tails))
        proven = None if found is None else _proven(problem, order, heads_tails, given, merged, found)
        if proven is not None and (best is None or proven[0].ticks > best[0].ticks):
            best = proven
        if rising.finished:
            break
    return best


def _longest(ht: HeadsTails) -> int:
    """Return the longest way through one op: no schedule is shorter."""
    return int((ht.head + ht.duration + ht.tail).max())


class _Rising:
    """Raises the horizon as long as the LP says that time is missing."""

    def __init__(self, given: Configurations, budget: Budget) -> None:
        self._given = given
        self._budget = budget
        self._search = SetSearch(given, budget, NODE_LIMIT)
        self.finished = False
        self._priced: set[int] = set()
        self._pool: dict[Set, None] = {((k, 1),): None for k in range(len(given.items))}

    def run(self, start: int) -> Prices | None:
        """Return the best prices found in time; ``finished`` says that there are no better ones."""
        best: Prices | None = None
        # Classes know less than their ops, and the LP rounds: the first horizons to try lie below what is known.
        lower = [start - 1 - start // share for share in STARTS]
        horizon = lower.pop(0)
        try:
            while True:
                found = self._prices(horizon)
                if found is None and best is None and lower:
                    horizon = lower.pop(0)
                    continue
                if found is None or (best is not None and found.ticks <= best.ticks):
                    self.finished = True
                    return best
                best = found
                horizon = best.ticks
        except SearchLimitError:
            pass
        return best

    def _prices(self, horizon: int) -> Prices | None:
        """Return prices that refute ``horizon``, or None if the LP finds none."""
        given, items = self._given, range(len(self._given.items))
        slices = cut_axis(given, horizon, items, SLICE_LIMIT, self._priced)
        master = Master(given, slices, horizon)
        inside = [frozenset(one.items) for one in slices]
        for chosen in self._pool:
            for k, allowed in enumerate(inside):
                if all(item in allowed for item, _ in chosen):
                    master.add(k, chosen)
        while True:
            self._budget.spend(LP_NODES)
            duals = master.solve()
            if duals is None:
                return None
            top = max(duals.prices, default=0.0)
            if top <= 0.0:
                return None
            prices = [round(price / top * FINE) for price in duals.prices]
            grew = False
            for k, one in enumerate(slices):
                above = int((duals.slices[k] + ROUNDING) / top * FINE) + 1
                found = self._search.dearest(prices, one.items, above, int(ROUNDING * FINE))
                if found.chosen:
                    self._pool[found.chosen] = None
                    grew = master.add(k, found.chosen) or grew
            if not grew:
                break
        self._priced.update(k for k, price in enumerate(prices) if price > 0)
        if duals.missing <= ROUNDING:
            return None
        return self._refute(horizon, duals.prices)

    def _refute(self, horizon: int, duals: Sequence[float]) -> Prices | None:
        top = max(duals)
        best: Prices | None = None
        for bottom in DENOMINATORS:
            rounded = [Fraction(price / top).limit_denominator(bottom) for price in duals]
            scale = lcm(*(price.denominator for price in rounded))
            if scale > FINE:
                rounded, scale = [Fraction(round(price / top * bottom), bottom) for price in duals], bottom
            whole = tuple(int(price * scale) for price in rounded)
            ticks = first_open(self._given, whole, self._search, horizon)
            if ticks > horizon and (best is None or ticks > best.ticks):
                best = Prices(whole, ticks)
        return best


def first_open(given: Configurations, prices: Sequence[int], search: SetSearch, start: int) -> int:
    """Return the first horizon from ``start`` on that ``prices`` do not refute."""
    known: dict[tuple[int, ...], int] = {}
    priced = [k for k, price in enumerate(prices) if price > 0]
    due = 0
    for one in given.classes:
        cheapest = min(sum(given.items[k].ticks * prices[k] for k in items) for items in one.items)
        due += len(one.ops) * cheapest

    def excess(horizon: int) -> int:
        total = due
        for one in cut_axis(given, horizon, priced):
            if one.items not in known:
                known[one.items] = search.dearest(prices, one.items).cost
            total -= one.ticks * known[one.items]
        return total

    low, left = start, excess(start)
    if left <= 0 or start >= given.longest:
        return start
    dearest = max(known.values(), default=1) or 1
    step = max(1, -(-left // dearest) - 1)
    while (left := excess(low + step)) > 0:
        low += step
        if low >= given.longest:
            return low
        dearest = max(known.values(), default=1) or 1
        step = max(1, -(-left // dearest) - 1)
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    return high


def _proven(
    problem: Problem, order: Order, ht: HeadsTails, given: Configurations, merged: Merged | None, found: Prices
) -> tuple[Bound, Certificate] | None:
    """Write the certificate of the classes that have a price, evaluated once more as the checker will."""
    priced = [c for c, one in enumerate(given.classes) if any(found.per_item[k] for row in one.items for k in row)]
    kept = configurations(problem, order, ht, [given.classes[c].ops for c in priced], merged)
    prices = [found.per_item[k] for c in priced for row in given.classes[c].items for k in row]
    search = SetSearch(kept, Budget(PROOF_SECONDS, deterministic=True), NODE_LIMIT)
    try:
        ticks = first_open(kept, prices, search, found.ticks - 1)
        top = search.dearest(prices, range(len(kept.items))).cost
    except SearchLimitError:
        return None
    if top == 0:
        return None
    classes = tuple(
        PricedClass(
            ops=tuple(problem.ops[i].name for i in one.ops),
            prices=tuple(tuple(str(Fraction(prices[k], top)) for k in row) for row in one.items),
        )
        for one in kept.classes
    )
    detail = f"prices of {len(classes)} classes over what can run together"
    return Bound("configuration", ticks, None, detail), Certificate(classes=classes, merged=merged, bound=str(ticks))
