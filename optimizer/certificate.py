"""The checker of dual certificates: prices are believed only after every set that may run together has been tried.

It reads the problem and the certificate, computes in whole numbers and fractions, and knows no solver. What runs
together is found by its own branch and bound; heads, tails, demands and parts are derived here once more.

Notes
-----
Why it is a proof. At every instant of a schedule some parts run, at most one per op and none of two ordered ops; they
share the units, and their buffers the bytes. Let T be a whole number of ticks below the bound and assume a schedule
that ends by T. An op that needs ``h`` ticks before and ``t`` after a part runs it inside ``[h, T - t)``. So what all
instants pay is at most the sum, over the slices of ``[entry, T)`` between such times, of the length times the dearest
set of parts whose window meets the slice; and every op pays at least the cheapest of its ways to run. If that is
more, there is no such schedule. Where nobody slows anybody times are whole, so the makespan is at least T + 1.

Else T is any number. Between whole ticks what can be paid grows in a straight line, because windows open and close at
whole distances from both ends. So a bound is proven if in that time no more can be paid than must be, and less at the
whole tick before: in all shorter times still less can be paid. A part pays for the work it does, at its speed beside
the others.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from hexloom.formulations.configuration.certificate import RATIONAL
from hexloom.formulations.problem import slows
from hexloom.optimizer.arithmetic import check_arithmetic
from hexloom.optimizer.certificate_order import Ancestry
from hexloom.optimizer.certificate_parts import Units
from hexloom.optimizer.certificate_sets import Member, Priced, Sets, count_bytes
from hexloom.optimizer.sharing import UNTOUCHED
from hexloom.optimizer.windows import windows

if TYPE_CHECKING:
    from hexloom.formulations.configuration.certificate import Certificate
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment

__all__ = ["check_arithmetic", "check_certificate"]


def check_certificate(problem: Problem, certificate: Certificate, rule: Rule = "none") -> list[str]:
    """Return every reason not to believe ``certificate``; none if its bound holds for all schedules under ``rule``."""
    bound = _fraction(certificate.bound)
    if bound is None:
        return [f"bound {certificate.bound!r} is not a fraction"]
    messages = _check_names(problem, certificate)
    if messages:
        return messages
    units = Units(problem, certificate.merged, rule)
    prices = _check_shapes(problem, certificate, units, messages)
    if rule == "priority" and any(len(one.ops) > 1 for one in certificate.classes):
        messages.append("under rule priority ops of one class may be served differently; price every op by itself")
    messages += _left_out(problem, certificate, units)
    if messages:
        return messages
    return _Payments(problem, certificate, units, prices).check(bound, rule)


def _fraction(text: str) -> Fraction | None:
    return Fraction(text) if re.fullmatch(RATIONAL, text, re.ASCII) else None


def _check_names(problem: Problem, certificate: Certificate) -> list[str]:
    """Ops and engines exist, and each is named once."""
    messages = []
    seen: set[str] = set()
    for one in certificate.classes:
        for name in one.ops:
            if name not in problem.op_index:
                messages.append(f"the certificate prices {name!r}, not an op of the problem")
            elif name in seen:
                messages.append(f"op {name!r} is priced twice")
            seen.add(name)
    merged = [name for group in certificate.merged or () for name in group]
    for name in merged:
        if name not in problem.engine_index:
            messages.append(f"the certificate merges {name!r}, not an engine of the problem")
    if len(set(merged)) != len(merged) or not all(certificate.merged or ()):
        messages.append("the certificate merges an engine twice, or none")
    return messages


def _check_shapes(
    problem: Problem, certificate: Certificate, units: Units, messages: list[str]
) -> list[list[list[Fraction]]]:
    """Return the prices per class, way and part; the ops of a class run in the same ways, each part has a price."""
    found: list[list[list[Fraction]]] = []
    for one in certificate.classes:
        ways = units.ways(problem.ops[problem.op_index[one.ops[0]]])
        for name in one.ops[1:]:
            if units.ways(problem.ops[problem.op_index[name]]) != ways:
                messages.append(f"ops {one.ops[0]!r} and {name!r} pay the same prices, but run in different ways")
        if [len(row) for row in one.prices] != [len(way) for way in ways]:
            parts = [len(way) for way in ways]
            messages.append(f"op {one.ops[0]!r} has ways of {parts} parts, but other numbers of prices")
        if not ways:
            messages.append(f"op {one.ops[0]!r} cannot run in any way")
        rows = [[_fraction(price) for price in row] for row in one.prices]
        for price in {text for row in one.prices for text in row if _fraction(text) is None}:
            messages.append(f"op {one.ops[0]!r} has price {price!r}, not a fraction of at least zero")
        found.append([[price or Fraction(0) for price in row] for row in rows])
    return found


def _left_out(problem: Problem, certificate: Certificate, units: Units) -> list[str]:
    """Who slows others must have a price, if only 0: beside it third ones may be faster than without it."""
    if not units.sharing.may_lift():
        return []
    named = {name for one in certificate.classes for name in one.ops}
    return [
        f"op {op.name!r} may lift those beside it, and has no price; give it one, if only 0"
        for op in problem.ops
        if op.name not in named
        and any(mode.latency_ticks and units.sharing.load_of(mode) != UNTOUCHED for mode in op.modes)
    ][:1]


class _Payments:
    """What all ops must pay, and what can be paid in a time."""

    def __init__(
        self, problem: Problem, certificate: Certificate, units: Units, prices: list[list[list[Fraction]]]
    ) -> None:
        self.entry = problem.entry_ticks
        self.one = math.lcm(*(price.denominator for rows in prices for row in rows for price in row))
        classes = [[problem.op_index[name] for name in c.ops] for c in certificate.classes]
        window = windows(problem, units.sharing.rule)
        self.due = 0
        lifting = units.sharing.may_lift()
        parts: list[Priced] = []
        self.around: list[tuple[int, int]] = []
        for c, ops in enumerate(classes):
            head, tail = int(window.head[ops].min()), int(window.tail[ops].min())
            ways = units.ways(problem.ops[ops[0]])
            whole = [[int(price * self.one) for price in row] for row in prices[c]]
            self.due += len(ops) * min(
                sum(part.ticks * price for part, price in zip(way, row, strict=True))
                for way, row in zip(ways, whole, strict=True)
            )
            for way, row in zip(ways, whole, strict=True):
                for part, price in zip(way, row, strict=True):
                    if price or (lifting and part.load != UNTOUCHED):
                        parts.append(Priced(price, c, tuple(part.needs), part.load, part.pulls))
                        self.around.append((head + part.before, tail + part.behind))
        ancestry = Ancestry(problem)
        held = count_bytes(problem, ancestry, classes)
        excludes: list[set[int]] = [set() for _ in classes]
        for a in range(len(classes)):
            for b in range(a):
                if ancestry.ordered(classes[a], classes[b]):
                    excludes[a].add(b)
                    excludes[b].add(a)
        members = [
            Member(ancestry.width(ops), held.each[c], frozenset(held.whole[c]), frozenset(excludes[c]), min(ops))
            for c, ops in enumerate(classes)
        ]
        capacity = {channel.name: channel.capacity for channel in problem.channels}
        self.sets = Sets(parts, members, dict(units.offered), held, units.sharing, capacity)
        self.dearest: dict[tuple[int, ...], Moment] = {}

    def check(self, bound: Fraction, rule: Rule) -> list[str]:
        """Return why the payments do not prove ``bound``."""
        tick_before = Fraction(math.ceil(bound) - 1)
        horizon = bound if slows(rule) else tick_before
        if horizon < self.entry:
            return []
        paid = self.paid(horizon)
        holds = self.due > paid
        if slows(rule):
            holds = self.due >= paid > self.paid(max(Fraction(self.entry), tick_before))
        for cost in self.dearest.values():
            if cost > self.one:
                return [f"parts that may run together cost {float(cost / Fraction(self.one))} per tick, more than 1"]
        if holds:
            return []
        return [
            f"the certificate claims {bound} ticks, but its ops pay {Fraction(self.due, self.one)} and in {horizon} "
            f"ticks as much as {Fraction(paid) / self.one} can be paid"
        ]

    def paid(self, horizon: Fraction) -> Moment:
        """Return the most that can be paid in ``horizon`` ticks."""
        spans = [(head, horizon - tail) for head, tail in self.around]
        inner = {mark for span in spans for mark in span if self.entry < mark < horizon}
        total: Moment = 0
        for low, high in pairwise(sorted({Fraction(self.entry), horizon} | inner)):
            open_parts = tuple(k for k, (first, last) in enumerate(spans) if first < high and last > low)
            if open_parts not in self.dearest:
                self.dearest[open_parts] = self.sets.dearest(open_parts)
            total += (high - low) * self.dearest[open_parts]
        return total
