"""What ops demand of channels, and the unit of each channel in which capacity and demands are whole numbers.

A rate that the user wrote is exact, as is a capacity. One that comes from bytes and a time is rounded to whole MB/s
where that is fine enough, else to a finer unit: up under rule ``rigid``, which never lets demands exceed a capacity,
else down, so that an op alone is never slower than its own time.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import DMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hexloom.optimizer.draft import ModeDraft

COARSE = 1000
"""Units from which on a computed demand may be rounded to the unit at hand: that is less than what is measured."""

FINE = 10**6
"""Units of a computed demand that would be fewer than `COARSE`, if the channel allows it."""

MOST_UNITS = 10**10
"""Units of a capacity or demand where the unit is finer than MB/s: times ticks they are added up in 64 bits."""


class Demand(NamedTuple):
    """``mb_s`` of ``channel``; ``written`` says that the user wrote the rate itself."""

    channel: str
    mb_s: Fraction
    written: bool


def demands_of(draft: ModeDraft, work_us: Fraction, pipe_mb_s: int | None) -> tuple[Demand, ...]:
    """Return what a mode that works for ``work_us`` demands; with ``pipe_mb_s`` a transfer pulls the pipe too.

    A rate that was written stands in the draft as a fraction of bytes, what moves bytes as their number.
    """
    if not work_us:
        return ()
    found = [
        Demand(channel, Fraction(n_bytes / draft.latency_us), written=True)
        if isinstance(n_bytes, Fraction)
        else Demand(channel, n_bytes / work_us, written=False)
        for channel, n_bytes in draft.moves
        if n_bytes
    ]
    held = sum((use.us for use in draft.uses if use.engine == DMA), start=Fraction(0))
    if pipe_mb_s is not None and draft.owner is not None and held:
        found.append(Demand(DMA, pipe_mb_s * held / draft.latency_us, written=False))
    return tuple(found)


def units_of(capacity: Mapping[str, Fraction], demands: Iterable[Demand], room: int) -> dict[str, int]:
    """Return for each channel that someone demands how many of its units are one MB/s; ``room`` is for so many units.

    Raises
    ------
    InvalidInputError
        What was written needs so fine a unit that the numbers become too large.
    """
    asked: dict[str, set[tuple[Fraction, bool]]] = {}
    for demand in demands:
        asked.setdefault(demand.channel, set()).add((demand.mb_s, demand.written))
    units, most_units = {}, min(MOST_UNITS, room)
    for channel, of in asked.items():
        most = max(capacity[channel], *(mb_s for mb_s, _ in of))
        unit = math.lcm(capacity[channel].denominator, *(mb_s.denominator for mb_s, written in of if written))
        if unit > 1 and unit * most > most_units:
            raise InvalidInputError(
                f"channel {channel!r}: its capacity and what ops demand of it are whole in units of 1/{unit} MB/s, and "
                f"{float(most):g} MB/s are more than {most_units:,} of these; write rates with fewer digits"
            )
        least = min((mb_s for mb_s, written in of if not written), default=Fraction(COARSE))
        if least * unit < COARSE:
            while least * unit < FINE and 10 * unit * most <= most_units:
                unit *= 10
        units[channel] = unit
    return units
