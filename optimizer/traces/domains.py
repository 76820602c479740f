"""Clocks of a trace that has several: core, matrix unit, DDR; each with a rate, and a zero that may be unknown.

Importers turn all readings into nanoseconds. Where a clock does not say what it read when the others were zero, its
readings begin at 0, and the plan says the rest: nothing begins before what it waits for has ended, so every dependency
across two clocks bounds how far apart their zeros are, from one side or the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.numbers import label, scaled, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

MOST_KHZ = 10**8
DOMAINS = ("core", "hmx", "ddr")


class Domain(NamedTuple):
    """A clock: its name, kilohertz (0 for one that counts nanoseconds), reading at zero, and whether that is known."""

    name: str
    khz: int
    zero: int
    aligned: bool

    def to_ns(self, reading: int) -> int:
        """Return a reading as whole nanoseconds since zero, to the nearest."""
        since = reading - self.zero
        return since if not self.khz else (2 * since * 10**6 + self.khz) // (2 * self.khz)


class Offset(NamedTuple):
    """By how many nanoseconds the zero of a clock lies after that of the others, and the bounds that say so."""

    ns: int
    low: int | None
    high: int | None


def domain_of(data: Any, engine: str, source: str) -> Domain | None:
    """Return the clock that a record of a trace states for ``engine``; None where it states none.

    Raises
    ------
    InvalidInputError
        If its unit, rate or domain is none.
    """
    if not isinstance(data, dict):
        return None
    usual = "hmx" if engine == "hmx" else "ddr" if engine == "dma" else "core"
    name, unit = label(data.get("domain", usual), 20), data.get("unit", "cycles")
    khz = whole(data.get("khz")) if "khz" in data else scaled(data.get("mhz"), 1000)
    if name not in DOMAINS:
        raise InvalidInputError(f"{source}: clock domain {name!r}; write {', '.join(DOMAINS)}")
    if unit not in ("ns", "cycles") or (unit == "cycles" and (khz is None or not 0 < khz < MOST_KHZ)):
        raise InvalidInputError(
            f"{source}: the clock of {engine} has unit {label(unit, 20)!r} and no rate; state its khz"
        )
    zero = whole(data.get("zero"))
    return Domain(name, (khz or 0) if unit == "cycles" else 0, zero or 0, zero is not None)


def offsets(
    domains: Iterable[Domain],
    spans: Iterable[Mapping[str, tuple[Domain | None, int, int]]],
    edges: Iterable[tuple[str, str]],
) -> dict[Domain, Offset]:
    """Return by how much to move each clock whose zero is unknown.

    ``spans`` are, for each run, the domain, start and end of every op that lies in one domain only; ``edges`` are pairs
    of ops of which the second waits for the first. A clock that nothing bounds stays where it is.
    """
    loose = [domain for domain in domains if not domain.aligned]
    low: dict[Domain, int] = {}
    high: dict[Domain, int] = {}
    pairs = list(edges)
    for run in spans:
        for before, after in pairs:
            if before not in run or after not in run:
                continue
            (first, _, end), (second, start, _) = run[before], run[after]
            if first == second:
                continue
            if first in loose and (second is None or second.aligned):
                assert first is not None
                high[first] = min(high.get(first, start - end), start - end)
            elif second in loose and (first is None or first.aligned):
                assert second is not None
                low[second] = max(low.get(second, end - start), end - start)
    return {domain: _between(low.get(domain), high.get(domain)) for domain in loose}


def _between(low: int | None, high: int | None) -> Offset:
    if low is None and high is None:
        return Offset(0, None, None)
    if low is None or high is None:
        only = low if high is None else high
        assert only is not None
        return Offset(only, low, high)
    return Offset((low + high) // 2, low, high)
