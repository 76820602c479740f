"""Places that move with the loop, such as ``S[i+1]``, and guards, such as ``i+2 < n``.

``i`` is the iteration, from 0; ``n`` is the trip count. Nothing else is needed of a loop that is written down, and so
little keeps every state of the loop the same when all iterations are renamed by the same number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Base = Literal["", "i", "n"]
PLACE = re.compile(r"\s*([A-Za-z_][\w.\-]*)\s*(?:\[\s*([^\[\]]*?)\s*\])?\s*")
SUM = re.compile(r"([in]?)\s*(?:([+-]?)\s*(\d{1,9}))?")
COMPARISON = re.compile(r"(.+?)(<=|>=|==|!=|<|>)(.+)")
REST = re.compile(r"i\s*%\s*(\d{1,4})")
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}


class Undecided(Exception):
    """Whether the trip count is above ``value`` has not been said yet."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Trips(NamedTuple):
    """What is known of the trip count: exactly ``least``, or ``least`` or more."""

    least: int
    exact: bool

    def above(self, value: int) -> bool:
        """Whether n > ``value``.

        Raises
        ------
        Undecided
            Both are still possible.
        """
        if self.least > value:
            return True
        if self.exact:
            return False
        raise Undecided(value)

    def moved(self, by: int) -> Trips:
        """Return the same where iterations are counted from ``by``."""
        return Trips(self.least - by, self.exact)


class Index(NamedTuple):
    """``base`` + ``add``: a number, or one that moves with the iteration or with the trip count."""

    base: Base
    add: int

    def at(self, i: int, n: int) -> int:
        """Return the number in iteration ``i`` of ``n``."""
        return self.add + (i if self.base == "i" else n if self.base == "n" else 0)


class Place(NamedTuple):
    """A name with an index: a value in a buffer, or a job."""

    name: str
    where: Index


def parse_index(text: str) -> Index:
    """Read ``i``, ``i+1``, ``n-1`` or ``0``."""
    match = SUM.fullmatch(text.strip())
    base, sign, digits = match.groups() if match else ("", "", None)
    if match is None or not (base or digits) or (base and digits and not sign):
        raise ValueError(f"index {text!r} is none; write a number, i, i+1, i-1, n or n-1")
    number = int(digits or 0)
    if base == "n":
        return Index("n", -number if sign == "-" else number)
    return Index("i" if base else "", -number if sign == "-" else number)


def parse_place(text: str) -> Place:
    """Read ``S[i+1]``; without an index it is number 0."""
    match = PLACE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no place; write a name and an index, such as S[i+1]")
    return Place(match[1], Index("", 0) if match[2] is None else parse_index(match[2]))


class Comparison(NamedTuple):
    """``left`` ``sign`` ``right``; with ``rest`` above 0 the left side is ``i % rest``."""

    left: Index
    sign: str
    right: Index
    rest: int

    def holds(self, i: int, trips: Trips) -> bool:
        """Whether it holds in iteration ``i``, if the trip count is known well enough."""
        if self.rest:
            return SIGNS[self.sign](i % self.rest, self.right.add)
        if self.right.base != "n":
            return SIGNS[self.sign](self.left.at(i, 0), self.right.at(i, 0))
        value = self.left.at(i, 0) - self.right.add
        if self.sign in ("==", "!="):
            return (trips.above(value - 1) and not trips.above(value)) == (self.sign == "==")
        bound = value if self.sign in ("<", ">=") else value - 1
        return trips.above(bound) == (self.sign in ("<", "<="))


SIGNS: dict[str, Callable[[int, int], bool]] = {
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "==": int.__eq__,
    "!=": int.__ne__,
}


class Guard(NamedTuple):
    """All of ``parts`` hold."""

    parts: tuple[Comparison, ...]

    def holds(self, i: int, trips: Trips) -> bool:
        """Whether the action is done in iteration ``i``."""
        return all(part.holds(i, trips) for part in self.parts)


def parse_guard(text: str) -> Guard:
    """Read ``i+1 < n``, ``i >= 2``, ``n > 1``, ``i % 2 == 0``, or several of these joined by ``and``."""
    return Guard(tuple(_comparison(part) for part in text.split(" and "))) if text else Guard(())


def _comparison(text: str) -> Comparison:
    match = COMPARISON.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"guard {text!r} is none; write i+1 < n, i >= 2, n > 1 or i % 2 == 0, joined by ' and '")
    rest = REST.fullmatch(match[1].strip())
    right = parse_index(match[3])
    if rest is not None:
        if right.base or int(rest[1]) < 1:
            raise ValueError(f"guard {text!r}: compare i % m, m above 0, with a number")
        return Comparison(Index("i", 0), match[2], right, int(rest[1]))
    left, sign = parse_index(match[1]), match[2]
    if left.base == "n":
        left, sign, right = right, FLIPPED[sign], left
    if left.base == "n":
        raise ValueError(f"guard {text!r} compares n with n; write a number or i on one side")
    return Comparison(left, sign, right, 0)


def largest_number(guards: Iterable[Guard]) -> int:
    """Return the number from which on no guard tells iterations or trip counts apart but for rests.

    A guard that compares i with n is the same for all of them.
    """
    numbers = [
        abs(part.left.add) + abs(part.right.add)
        for guard in guards
        for part in guard.parts
        if not part.rest and (part.left.base, part.right.base) != ("i", "n")
    ]
    return max(numbers, default=-1) + 1
