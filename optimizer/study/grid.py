"""The points of a sweep: every combination of the values of all fields, or as many as asked, drawn at random.

A SPEC is ``V1,V2,...``; ``LO..HI:N`` (N values from LO to HI), ``LO..HI:logN`` (in equal ratios); ``LO..HI/STEP``; or,
only where points are drawn, ``LO..HI`` and ``LO..HI:log``. Between whole numbers all values are whole, but those of
`PARTS_OF`, which are fractions by nature.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.hwmodels import parse_bytes
from hexloom.hwmodels.quantity import exact
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from hexloom.optimizer.study.fields import Value

RANGE = re.compile(
    r"(?P<low>-?\d[\d.]*(?:e-?\d+)?)\.\.(?P<high>-?\d[\d.]*(?:e-?\d+)?)(?:/(?P<step>\d[\d.]*)|:(?P<log>log)?(?P<n>\d*))?"
)
SIZE = re.compile(r"[\d.]+\s*[A-Za-z]*B")
MOST_POINTS = 1_000_000
LARGEST = Fraction(10) ** 18
"""Farthest end of a range: what lies between is computed in floating point."""
PARTS_OF = ("work_ratio", "jitter")
"""Fields whose values between whole numbers are fractions: rounding would drop what was asked for."""
DIGITS = 6
"""Significant digits of values between others: a value stands in the results as it was used."""


@dataclass(frozen=True)
class Field:
    """One field: its values, or the ends between which they are drawn."""

    name: str
    values: tuple[Value, ...] = ()
    ends: tuple[Fraction, Fraction] | None = None
    log: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Place:
    """One point: its number, what makes it another one than all others, and its values by field."""

    number: int
    key: str
    values: dict[str, Value]


def field_of(text: str) -> Field:
    """Read ``FIELD=SPEC``.

    Raises
    ------
    InvalidInputError
        It is not one.
    """
    name, sign, spec = text.partition("=")
    if not name.strip() or not sign or not spec.strip():
        raise InvalidInputError(
            f"--sweep {text!r}: write FIELD=V1,V2 or FIELD=LO..HI:N, such as work_ratio=0.1..10:log9"
        )
    match = RANGE.fullmatch(spec.strip())
    if match is None:
        if ".." in spec:
            raise InvalidInputError(f"--sweep {text!r}: a range is LO..HI:N, LO..HI:logN or LO..HI/STEP")
        return Field(name.strip(), tuple(_value(text, part.strip()) for part in spec.split(",")))
    try:
        low, high = Fraction(match["low"]), Fraction(match["high"])
        step = None if match["step"] is None else Fraction(match["step"])
    except (ValueError, ZeroDivisionError):
        raise InvalidInputError(f"--sweep {text!r}: {spec} has an end that is no number") from None
    if max(abs(low), abs(high)) > LARGEST:
        raise InvalidInputError(f"--sweep {text!r}: an end of {spec} is beyond 1e18; write smaller ones")
    if not low < high:
        raise InvalidInputError(f"--sweep {text!r}: {match['low']} is not below {match['high']}")
    log = match["log"] is not None
    if log and low <= 0:
        raise InvalidInputError(f"--sweep {text!r}: equal ratios need ends above 0")
    whole = name.strip() not in PARTS_OF and not any(mark in match["low"] + match["high"] for mark in ".e")
    if step is not None:
        return Field(name.strip(), _stepped(text, low, high, step))
    if not match["n"]:
        return Field(name.strip(), ends=(low, high), log=log, whole=whole)
    return Field(name.strip(), _between(text, low, high, int(match["n"]), log=log, whole=whole))


def _value(spec: str, text: str) -> Value:
    if not text:
        raise InvalidInputError(f"--sweep {spec!r}: nothing stands between two commas; drop one of them")
    if text in ("true", "false"):
        return text == "true"
    if SIZE.fullmatch(text):
        try:
            return parse_bytes(text)
        except ValueError as error:
            raise InvalidInputError(f"--sweep {spec!r}: {error}") from None
    try:
        return _plain(exact(text))
    except ValueError:
        return text
    except OverflowError:
        raise InvalidInputError(f"--sweep {spec!r}: {text} is too large; write a smaller number") from None


def _plain(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _rounded(value: float, *, whole: bool) -> Value:
    return round(value) if whole else _plain(Fraction(f"{value:.{DIGITS}g}"))


def _stepped(text: str, low: Fraction, high: Fraction, step: Fraction) -> tuple[Value, ...]:
    if not step or (high - low) / step > MOST_POINTS:
        raise InvalidInputError(f"--sweep {text!r}: a step of {float(step):g} makes too many values; use a larger one")
    return tuple(_plain(low + k * step) for k in range(int((high - low) / step) + 1))


def _between(text: str, low: Fraction, high: Fraction, n: int, *, log: bool, whole: bool) -> tuple[Value, ...]:
    if not 2 <= n <= MOST_POINTS:
        raise InvalidInputError(f"--sweep {text!r}: {n} values; write 2 to {MOST_POINTS}")
    a, b = (math.log(low), math.log(high)) if log else (float(low), float(high))
    inner = [a + (b - a) * k / (n - 1) for k in range(1, n - 1)]
    values = [_rounded(math.exp(v) if log else v, whole=whole) for v in inner]
    return tuple(dict.fromkeys((_plain(low), *values, _plain(high))))


def places_of(fields: list[Field], samples: int | None, seed: int) -> list[Place]:
    """Return the points: the grid of all fields, or ``samples`` of them drawn with ``seed``.

    Raises
    ------
    InvalidInputError
        A field comes twice, a range has no values, or there are too many points.
    """
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError(f"--sweep {name}: it is named twice; write all its values in one")
    if samples is not None:
        draw = random.Random(seed)
        points = [{field.name: _drawn(field, draw) for field in fields} for _ in range(samples)]
    else:
        for field in fields:
            if field.ends is not None:
                raise InvalidInputError(
                    f"--sweep {field.name}: a range without a number of values is for --samples; write LO..HI:N"
                )
        if math.prod(len(field.values) for field in fields) > MOST_POINTS:
            raise InvalidInputError(f"--sweep: more than {MOST_POINTS:,} points; use fewer values or --samples")
        points = [dict(zip(names, of, strict=True)) for of in itertools.product(*(field.values for field in fields))]
    found: dict[str, Place] = {}
    for values in points:
        key = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
        found.setdefault(key, Place(len(found), key, values))
    return list(found.values())


def _drawn(field: Field, draw: random.Random) -> Value:
    if field.ends is None:
        return draw.choice(field.values)
    low, high = field.ends
    if field.log:
        return _rounded(math.exp(draw.uniform(math.log(low), math.log(high))), whole=field.whole)
    return _rounded(draw.uniform(float(low), float(high)), whole=field.whole)
