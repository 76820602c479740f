"""A dual certificate: prices that prove a lower bound, checked without any solver.

Data only: the configuration bound makes it, the checker reads it, a schedule file carries it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field

from hexloom.formulations.problem import Frozen
from hexloom.formulations.ticks import whole

RATIONAL = r"^[0-9]{1,400}(/[1-9][0-9]{0,399})?$"


class PricedClass(Frozen):
    """Ops that run in the same ways and pay the same prices.

    ``prices`` has one row per way to run, and one price per part of it, in the order of time. Of a run the parts are
    the intervals between the ends of its uses, and the rest until its result; of a transfer the issue, then the same
    intervals of the transfer, then the poll; those of no length do not count. Where others can slow the work, the
    overhead before it is a part of its own. The ways are the modes whose units
    exist, of several with equal parts the first.
    """

    ops: tuple[str, ...] = Field(min_length=1)
    prices: tuple[tuple[str, ...], ...]


class Certificate(Frozen):
    """The makespan is at least ``bound`` ticks, a fraction as text.

    Every tick that a part runs costs its price. A schedule of T ticks must spend, for each op, at least the cheapest
    of its ways to run; at no instant can it spend more than the dearest set of parts that may run together there, given
    heads and tails. The bound holds if for all T below it (all whole ones, where nobody slows anybody) the first sum
    exceeds what can be spent in T. What parts spend falls with the speed at which they work beside each other.
    Prices are scaled so that no set costs more than one. Ops of no class have price zero.

    ``merged`` None: every unit of a worker or resource counts by itself where a mode fixes it. Otherwise units have
    no names, and each group of engines counts as one engine with all their units.
    """

    kind: Literal["dual"] = "dual"
    classes: tuple[PricedClass, ...]
    merged: tuple[tuple[str, ...], ...] | None = None
    bound: str = Field(pattern=RATIONAL)

    @property
    def ticks(self) -> int | Fraction:
        """The bound in ticks."""
        ticks: int | Fraction = whole(Fraction(self.bound))
        return ticks
