"""Times in ticks: whole numbers, and under a rule that slows ops fractions. In JSON a fraction is text, "144/5"."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

Moment = int | Fraction
"""A point in time, or a length of time, in ticks; exact."""

FARTHEST = 10**100
"""Times beyond it are no plan's, and no float's either once two of them meet."""

PATTERN = r"^-?[0-9]{1,200}/[1-9][0-9]{0,199}$"


def whole(time: Any) -> Any:
    """Return ``time`` as an int where it is a fraction that is one."""
    if type(time) is int:  # nearly all are, and to ask whether it is a fraction takes long
        return time
    return int(time) if isinstance(time, Fraction) and time.denominator == 1 else time


def _read(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a time is a number of ticks")
    if isinstance(value, int | Fraction):
        if not -FARTHEST <= value <= FARTHEST:
            raise ValueError("a time is at most 10^100 ticks")
        return whole(value)
    if isinstance(value, str) and len(value) <= 401:
        top, slash, bottom = value.partition("/")
        if slash and top.removeprefix("-").isdecimal() and bottom.isdecimal() and int(bottom) > 0:
            return _read(Fraction(int(top), int(bottom)))
    raise ValueError("a time is a whole number of ticks, or a fraction as text")


def _write(value: int | Fraction) -> int | str:
    return value if isinstance(value, int) else f"{value.numerator}/{value.denominator}"


Ticks = Annotated[
    int | Fraction,
    BeforeValidator(_read),
    PlainSerializer(_write),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "pattern": PATTERN}]}),
]
"""A time in a schedule file."""
