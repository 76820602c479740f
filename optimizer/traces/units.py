"""Units of times in a file, and which engine a name speaks of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.numbers import decimal, scaled

if TYPE_CHECKING:
    from hexloom.optimizer.traces.trace import Clock


class Unit(NamedTuple):
    """What one unit of a file's times is: ``factor`` units of ``clock``; ``khz`` is the rate of a cycles clock."""

    clock: Clock
    factor: int
    khz: int | None


MICROSECONDS = Unit("ns", 1000, None)

UNITS = "us, ns, cycles, cycles@MHZ or ticks19.2"


def unit_of(text: str) -> Unit:
    """Return the unit that a user names: us, ns, cycles, cycles@1943.6 or ticks19.2."""
    if text == "us":
        return MICROSECONDS
    if text == "ns":
        return Unit("ns", 1, None)
    if text == "ticks19.2":
        return Unit("ticks_19m2", 1, 19_200)
    name, at, mhz = text.partition("@")
    if name == "cycles" and not at:
        return Unit("cycles", 1, None)
    khz = scaled(decimal(mhz), 1000)
    if name == "cycles" and khz is not None and 0 < khz < 10**8:
        return Unit("cycles", 1, khz)
    raise InvalidInputError(f"--unit {text!r}: write {UNITS}")


ENGINES = (
    ("hmx", re.compile(r"\bhmx|matrix|tensor.?core|\baic\b|\bcube\b", re.IGNORECASE)),
    ("hvx", re.compile(r"\bhvx|vector|cuda.?core|\baiv\b", re.IGNORECASE)),
    ("dma", re.compile(r"dma\b|memcpy|copy.?engine|transfer|\bmte\b", re.IGNORECASE)),
)


def engine_of(text: str) -> str:
    """Return the engine that the name of a track speaks of, "other" when it names none."""
    return next((engine for engine, pattern in ENGINES if pattern.search(text)), "other")
