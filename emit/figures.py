"""Numbers as programs and people read them; without what draws tables, for who prints a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction


def number(value: Fraction) -> int | float:
    """Return a JSON number: whole when it is whole."""
    return int(value) if value.denominator == 1 else float(value)


def short(value: Fraction) -> str:
    """Return ``value`` with at most three decimals and a thousands separator: 0.6 stays 0.6."""
    text = f"{float(value):,.3f}"
    return text.rstrip("0").rstrip(".")
