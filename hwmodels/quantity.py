"""Numbers as people write them: sizes in bytes, and decimals kept exact."""

from __future__ import annotations

import math
import re
from fractions import Fraction

_BINARY_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_BYTES = re.compile(r"(?P<number>0[xX][0-9a-fA-F]+|[0-9]+)\s*(?P<unit>[A-Za-z]*)")
_EXPONENT = re.compile(r"[eE][+-]?0*(?P<digits>[0-9_]*)\s*")
_LONGEST = 400  # characters and exponent of a number written as text; floats end at 1e308
_RATE = re.compile(r"(?P<number>[0-9.eE+-]+)\s*(?P<unit>[A-Za-z/]+)")
_RATE_UNITS = {"GB/s": 1000, "MB/s": 1}
_AMBIGUOUS_UNITS = {"k": "KiB", "kb": "KiB", "m": "MiB", "mb": "MiB", "g": "GiB", "gb": "GiB", "b": "B"}


def parse_bytes(value: int | str) -> int:
    """
    Return a size in bytes.

    Accepted are integers, decimal and hexadecimal strings, and strings that end in ``B``, ``KiB``,
    ``MiB`` or ``GiB``.

    Parameters
    ----------
    value
        The size: ``196608``, ``"196608"``, ``"0x30000"``, ``"192KiB"``, ``"8 MiB"``.

    Raises
    ------
    ValueError
        If the size is negative, not whole, or its unit can be read in two ways (``192K``, ``3MB``).
    """
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{value!r} is not a size: write whole bytes, such as 196608 or '192KiB'")

    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{value} is negative: a size is 0 or more bytes")
        return value

    text = value.strip()
    match = _BYTES.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        if text.startswith("-"):
            raise ValueError(f"{value!r} is negative: a size is 0 or more bytes")
        raise ValueError(f"{value!r} is not a size: write whole bytes, such as 196608 or '192KiB'")

    number, unit = int(match["number"], 0 if match["number"][1:2] in {"x", "X"} else 10), match["unit"]
    if not unit:
        return number
    if unit in _BINARY_UNITS:
        return number * _BINARY_UNITS[unit]
    if (meant := _AMBIGUOUS_UNITS.get(unit.lower())) is not None:
        size = number * _BINARY_UNITS[meant]
        example = f"{match['number']}{meant}" + (f" ({size} B)" if meant != "B" else "")
        raise ValueError(f"{value!r} is ambiguous: write {example}, or whole bytes without a unit")
    raise ValueError(f"{value!r} has unknown unit {unit!r}: write B, KiB, MiB or GiB")


def parse_rate(value: int | float | str) -> Fraction:
    """
    Return a rate in MB/s, which are bytes per microsecond, exact.

    Parameters
    ----------
    value
        The rate with its unit: ``"20GB/s"``, ``"27.5 GB/s"``, ``"800MB/s"``.

    Raises
    ------
    ValueError
        If the rate has no unit or another one, or is negative.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a rate: write one with its unit, such as '20GB/s'")
    text = str(value).strip()
    match = _RATE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        try:
            exact(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a rate: write one with its unit, such as '20GB/s'") from None
        raise ValueError(f"rate {value!r} has no unit: write '{text}GB/s' or '{text}MB/s'")
    if match["unit"] not in _RATE_UNITS:
        raise ValueError(f"{value!r} has unknown unit {match['unit']!r}: write GB/s (10^9 bytes a second) or MB/s")
    rate = exact(match["number"]) * _RATE_UNITS[match["unit"]]
    if rate < 0:
        raise ValueError(f"{value!r} is negative: a rate is 0 or more")
    return rate


def format_bytes(n: int) -> str:
    """
    Return a size for people: bytes with thousands separators, and KiB from 1 KiB on.

    Parameters
    ----------
    n
        The size in bytes; ``384000`` gives ``384,000 B (375 KiB)``.
    """
    text = f"{n:,} B"
    if abs(n) < 1024:
        return text
    kib = f"{n // 1024:,}" if n % 1024 == 0 else f"{n / 1024:,.1f}"
    return f"{text} ({kib} KiB)"


def exact(value: int | float | str | Fraction) -> Fraction:
    """
    Return the decimal that was written, not the binary number nearest to it.

    Parameters
    ----------
    value
        A number, or its decimal text: ``0.1`` gives 1/10, ``"1e6"`` gives 1000000.

    Raises
    ------
    ValueError
        If the value is not a finite number.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    if isinstance(value, str):
        exponent = _EXPONENT.search(value)
        if len(value) > _LONGEST or (exponent and len(exponent["digits"]) > 3):
            raise ValueError(f"{value[:20]!r}... is too long a number: write at most 3 digits of exponent")
    try:
        return Fraction(value.strip() if isinstance(value, str) else repr(value))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{value!r} is not a finite number: write a decimal such as 39.5625") from None
