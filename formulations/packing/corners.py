"""Where the search goes on: the end of a valley at which the fewest choices are left, and what these are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hexloom.formulations.packing.skyline import FULL

if TYPE_CHECKING:
    from hexloom.formulations.packing.skyline import Skyline

CornerRule = Literal["fewest", "fewest_high", "fewest_wide", "lowest", "floor", "slack", "wide"]
"""What comes first among corners with several choices. Fewest choices, then low or high floors or wide valleys; the
lowest floor, then fewest choices; or, from left to right, the lowest floor, where fewest bytes can still be lost, or
the widest valley."""


class Corner(NamedTuple):
    """Section ``section`` at an end of a valley on ``level``, where one of ``blocks`` lies, or else nothing.

    If nothing, the floor rises to ``next_floor``, None where the section cannot lose that much. ``cause``: the
    choices because of which there are no other alternatives.
    """

    section: int
    level: int
    blocks: list[int]
    next_floor: int | None
    cause: int

    @property
    def alternatives(self) -> int:
        """How many choices there are."""
        return len(self.blocks) + (self.next_floor is not None)


class _Valley:
    __slots__ = ("end", "left", "level", "right", "start")

    def __init__(self, start: int, end: int, level: int) -> None:
        self.start, self.end, self.level = start, end, level
        self.left: list[int] = []
        self.right: list[int] = []


def choose_corners(
    sky: Skyline, blocks: list[int], lows: list[int], low: int, high: int, rule: CornerRule
) -> list[Corner]:
    """Return where ``[low, high)`` goes on; ``lows``: the lowest address of each block.

    A corner without any alternative alone; else all with a single one, at most one per valley: what is forced in one
    valley stays so whatever is done in another; else the corner that comes first by ``rule``.
    """
    valleys, above = _sort_in(sky, blocks, lows, low, high)
    forced: list[Corner] = []
    best: tuple[tuple[int, ...], int, _Valley, list[int]] | None = None
    for valley in valleys:
        for section, fitting in ((valley.start, valley.left), (valley.end - 1, valley.right)):
            if len(fitting) > 1 and forced:
                continue
            room = valley.level + sky.slack[section]
            may_stay = above[section - low] <= room
            # Who could be stood on is asked where it decides whether there is a choice.
            if len(fitting) == 1 and not may_stay:
                may_stay = _support(sky, blocks, lows, section, fitting) <= room
            alternatives = len(fitting) + may_stay
            if alternatives < 2:
                corner = _corner(sky, blocks, lows, section, valley.level, fitting, above[section - low])
                if alternatives == 0:
                    return [corner]
                forced.append(corner)
                break
            key = _key(rule, alternatives, valley, sky.slack[section])
            if best is None or key < best[0]:
                best = key, section, valley, fitting
    if forced:
        return forced
    assert best is not None
    _, section, valley, fitting = best
    return [_corner(sky, blocks, lows, section, valley.level, fitting, above[section - low])]


def _corner(
    sky: Skyline, blocks: list[int], lows: list[int], section: int, level: int, fitting: list[int], above: int
) -> Corner:
    rise = min(above, _support(sky, blocks, lows, section, fitting))
    cause = _cause(sky, blocks, lows, section, fitting, rise)
    return Corner(section, level, fitting, rise if rise - level <= sky.slack[section] else None, cause)


def _sort_in(sky: Skyline, blocks: list[int], lows: list[int], low: int, high: int) -> tuple[list[_Valley], list[int]]:
    """Return the valleys with the blocks that fit at their ends, and per section the lowest of all other blocks."""
    span = sky.span
    valleys, valley_of = _valleys(sky.floor, low, high)
    others: list[int] = []
    theirs: list[int] = []
    for b, at in zip(blocks, lows, strict=True):
        first, last = span[b]
        valley = valley_of[first - low]
        if valley is None or last > valley.end:
            others.append(b)
            theirs.append(at)
            continue
        if first == valley.start:
            valley.left.append(b)
        if last == valley.end:
            valley.right.append(b)
    above = sky.lowest_above(others, theirs, low, high)
    return valleys, above


def _key(rule: CornerRule, alternatives: int, valley: _Valley, slack: int) -> tuple[int, ...]:
    level, width = valley.level, valley.end - valley.start
    keys: dict[CornerRule, tuple[int, ...]] = {
        "fewest": (alternatives, level),
        "fewest_high": (alternatives, -level),
        "fewest_wide": (alternatives, -width),
        "lowest": (level, alternatives),
        "floor": (level,),
        "slack": (slack,),
        "wide": (-width,),
    }
    return keys[rule]


def _valleys(floor: list[int], low: int, high: int) -> tuple[list[_Valley], list[_Valley | None]]:
    """Return the valleys from left to right, and for every section the one that it lies in, if it does."""
    found: list[_Valley] = []
    where: list[_Valley | None] = [None] * (high - low)
    k, before = low, FULL + 1
    while k < high:
        level, end = floor[k], k + 1
        while end < high and floor[end] == level:
            end += 1
        if before > level and (end == high or floor[end] > level) and level < FULL:
            found.append(_Valley(k, end, level))
            where[k - low : end - low] = [found[-1]] * (end - k)
        before, k = level, end
    return found, where


def _support(sky: Skyline, blocks: list[int], lows: list[int], section: int, fitting: list[int]) -> int:
    """Return the lowest top on which one of ``fitting`` can lie, if not on the valley: an open block beside it."""
    span, size = sky.span, sky.size
    lowest = FULL
    if not fitting:
        return lowest
    start, end = min(span[b][0] for b in fitting), max(span[b][1] for b in fitting)
    for c, at in zip(blocks, lows, strict=True):
        first, last = span[c]
        if first >= end:
            break
        if last > start and not first <= section < last and at + size[c] < lowest:
            lowest = at + size[c]
    return lowest


def _cause(sky: Skyline, blocks: list[int], lows: list[int], section: int, fitting: list[int], rise: int) -> int:
    """Return the choices that leave no other alternatives: what keeps blocks off the valley, and what lies below."""
    span = sky.span
    cause = sky.cause[section] | sky.wall_cause(set(blocks).difference(fitting), section, rise)
    if fitting:
        start, end = min(span[b][0] for b in fitting), max(span[b][1] for b in fitting)
        cause |= sky.causes(start, end)
        for c, at in zip(blocks, lows, strict=True):
            first, last = span[c]
            if last > start and first < end and not first <= section < last:
                cause |= sky.reason(c, min(at, rise))
    return cause
