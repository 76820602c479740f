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
more, there is no such schedule. Times are whole, so the makespan is at least T + 1.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from hexloom.formulations.configuration.certificate import RATIONAL
from hexloom.optimizer.arithmetic import check_arithmetic, windows
from hexloom.optimizer.certificate_order import Ancestry
from hexloom.optimizer.certificate_parts import Units
from hexloom.optimizer.certificate_sets import Member, Priced, Sets, count_bytes

if TYPE_CHECKING:
    from hexloom.formulations.configuration.certificate import Certificate
    from hexloom.formulations.problem import Problem

__all__ = ["check_arithmetic", "check_certificate"]


def check_certificate(problem: Problem, certificate: Certificate) -> list[str]:
    """Return every reason not to believe ``certificate``; none if its bound holds for all schedules of ``problem``."""
    bound = _fraction(certificate.bound)
    if bound is None:
        return [f"bound {certificate.bound!r} is not a fraction"]
    messages = _check_names(problem, certificate)
    if messages:
        return messages
    units = Units(problem, certificate.merged)
    prices = _check_shapes(problem, certificate, units, messages)
    if messages:
        return messages
    return _check_bound(problem, certificate, units, prices, math.ceil(bound))


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


def _check_bound(
    problem: Problem, certificate: Certificate, units: Units, prices: list[list[list[Fraction]]], ticks: int
) -> list[str]:
    """Compare what all ops must pay with what can be paid in one tick less than the bound."""
    horizon = ticks - 1
    entry = problem.entry_ticks
    if horizon < entry:
        return []
    one = math.lcm(*(price.denominator for rows in prices for row in rows for price in row))
    classes = [[problem.op_index[name] for name in c.ops] for c in certificate.classes]
    window = windows(problem)
    due = 0
    parts: list[Priced] = []
    spans: list[tuple[int, int]] = []
    for c, ops in enumerate(classes):
        head, tail = int(window.head[ops].min()), int(window.tail[ops].min())
        ways = units.ways(problem.ops[ops[0]])
        whole = [[int(price * one) for price in row] for row in prices[c]]
        due += len(ops) * min(
            sum(part.ticks * price for part, price in zip(way, row, strict=True))
            for way, row in zip(ways, whole, strict=True)
        )
        for way, row in zip(ways, whole, strict=True):
            for part, price in zip(way, row, strict=True):
                if price:
                    parts.append(Priced(price, c, tuple(part.needs)))
                    spans.append((head + part.before, horizon - tail - part.behind))
    ancestry = Ancestry(problem)
    held = count_bytes(problem, ancestry, classes)
    excludes: list[set[int]] = [set() for _ in classes]
    for a in range(len(classes)):
        for b in range(a):
            if ancestry.ordered(classes[a], classes[b]):
                excludes[a].add(b)
                excludes[b].add(a)
    members = [
        Member(ancestry.width(ops), held.each[c], frozenset(held.whole[c]), frozenset(excludes[c]))
        for c, ops in enumerate(classes)
    ]
    sets = Sets(parts, members, dict(units.offered), held)
    marks = sorted({entry, horizon} | {mark for span in spans for mark in span if entry < mark < horizon})
    paid = 0
    dearest: dict[tuple[int, ...], int] = {}
    for low, high in pairwise(marks):
        open_parts = tuple(k for k, (first, last) in enumerate(spans) if first < high and last > low)
        if open_parts not in dearest:
            dearest[open_parts] = sets.dearest(open_parts)
        if dearest[open_parts] > one:
            cost = Fraction(dearest[open_parts], one)
            return [f"parts that may run together in [{low}, {high}) ticks cost {cost} per tick, more than 1"]
        paid += (high - low) * dearest[open_parts]
    if due > paid:
        return []
    return [
        f"the certificate claims {certificate.bound} ticks, but its ops pay {Fraction(due, one)} and in {horizon} "
        f"ticks as much as {Fraction(paid, one)} can be paid"
    ]
