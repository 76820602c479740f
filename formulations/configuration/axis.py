"""The time axis of a schedule of at most T ticks, cut where parts can begin or must have ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.configuration.classes import Configurations


@dataclass(frozen=True, slots=True)
class Slice:
    """``ticks`` long in all; ``items`` are those that can run in it, ascending. Slices with the same items are one."""

    ticks: int
    items: tuple[int, ...]


def cut_axis(
    given: Configurations, horizon: int, items: Sequence[int], most: int | None = None, keep: Iterable[int] = ()
) -> list[Slice]:
    """Cut ``[entry, horizon)`` at heads and tails of ``items``; joiners are in every slice in which they can run.

    In ``[low, high)`` a part can run if its head is below ``high`` and ``horizon`` minus its tail above ``low``. When
    there are more than ``most`` cuts, those next to another are dropped first, those of ``keep`` last.
    """
    cuts = sorted(_ends(given, horizon, items))
    if most is not None and len(cuts) > most:
        cuts = _spread(cuts, most, _ends(given, horizon, keep))
    inside_of = sorted({*items, *given.joiners}) if given.joiners else items
    of = [given.items[k] for k in inside_of]
    low = given.entry
    length: dict[tuple[int, ...], int] = {}
    for high in [*cuts, horizon]:
        inside = tuple(
            k for k, item in zip(inside_of, of, strict=True) if item.head < high and horizon - item.tail > low
        )
        length[inside] = length.get(inside, 0) + high - low
        low = high
    return [Slice(ticks, inside) for inside, ticks in length.items()]


def _ends(given: Configurations, horizon: int, items: Iterable[int]) -> set[int]:
    ends = {given.items[k].head for k in items} | {horizon - given.items[k].tail for k in items}
    return {end for end in ends if given.entry < end < horizon}


def _spread(cuts: list[int], most: int, keep: set[int]) -> list[int]:
    """Drop cuts one by one, each time the one that leaves the shortest slice behind."""
    left = list(cuts)
    while len(left) > most:
        dull = [k for k in range(1, len(left) - 1) if left[k] not in keep]
        if not dull:
            break
        del left[min(dull, key=lambda k: left[k + 1] - left[k - 1])]
    return left
