"""Numbers of a file as exact integers: a time with decimals is scaled before anything is rounded, never a float."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from typing import Any

from hexloom.optimizer.traces.trace import LARGEST

EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN, traps=[])
LONGEST_NUMBER = 60
"""Characters of a number that are looked at."""

NOT_A_NUMBER = Decimal("NaN")


def decimal(text: str) -> Decimal:
    """Return the number that ``text`` writes, not a number when it is none or too long to be a time."""
    if len(text) > LONGEST_NUMBER:
        return NOT_A_NUMBER
    try:
        return EXACT.create_decimal(text)
    except (DecimalException, ValueError):
        return NOT_A_NUMBER


def integer(text: str) -> int | Decimal:
    """Return a whole number of a JSON file; one that is too long is none."""
    return int(text) if len(text) <= LONGEST_NUMBER else NOT_A_NUMBER


def number_of(value: Any) -> int | Decimal | None:
    """Return a JSON value as a finite number; text that writes one counts too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str):
        value = decimal(value.strip())
    if not isinstance(value, Decimal) or not value.is_finite() or value.adjusted() > 25:
        return None
    return value


def scaled(value: Any, factor: int = 1) -> int | None:
    """Return ``value`` times ``factor`` as the nearest integer; None when it is no number or no time."""
    number = number_of(value)
    if number is None:
        return None
    if isinstance(number, Decimal):
        number = int(EXACT.multiply(number, factor).to_integral_value(ROUND_HALF_EVEN))
    else:
        number *= factor
    return number if -LARGEST < number < LARGEST else None


def total(a: Any, b: Any) -> int | Decimal | None:
    """Return the exact sum of two JSON numbers; None where one is none."""
    x, y = number_of(a), number_of(b)
    if x is None or y is None:
        return None
    return x + y if isinstance(x, int) and isinstance(y, int) else EXACT.add(Decimal(x), Decimal(y))


def whole(value: Any) -> int | None:
    """Return an integer value of a file; None when it is none or beyond all counters."""
    number = number_of(value)
    if isinstance(number, Decimal):
        number = int(number) if number == number.to_integral_value() else None
    return number if number is not None and -LARGEST < number < LARGEST else None


def label(value: Any, longest: int = 400) -> str:
    """Return a JSON value as a name on one line."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    return text[:longest]
