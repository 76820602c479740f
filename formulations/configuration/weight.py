"""Which engine or channel a configuration bound names: one that carries what its prices pay for."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.configuration.parts import lanes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.configuration.classes import Configurations
    from hexloom.formulations.configuration.parts import Merged
    from hexloom.formulations.problem import Problem

LEAST = Fraction(1, 2)
"""Part of all that is paid which an engine or channel carries before the bound is said to be its."""


def heaviest(problem: Problem, given: Configurations, prices: Sequence[int], merged: Merged | None) -> str | None:
    """Return the engine or channel that limits: of those that carry half of what ops pay, the one with most work.

    A part of an op loads an engine by the share of its units that it holds, and a channel by that of its capacity, as
    long as it works. Engines that count as one have no name. None where none carries half.
    """
    channels = [(one.name, one.capacity) for one in problem.channels]
    several = {name for group in merged or () if len(group) > 1 for name in group}
    lanes = lanes_of(problem, merged, given.speeds).capacity
    named = [None if unit is not None or name in several else (name, units) for (name, unit), units in lanes.items()]
    work: dict[str, Fraction] = {}
    carried: dict[str, Fraction] = {}
    paid = 0
    for one in given.classes:
        way = min(one.items, key=lambda items: sum(given.items[k].ticks * prices[k] for k in items))
        for k in way:
            part = given.items[k]
            ticks = len(one.ops) * part.ticks
            paid += ticks * prices[k]
            loads = [(named[lane], amount) for lane, amount in part.takes]
            loads += [(channels[channel], rate) for channel, rate in part.pulls]
            for of, amount in loads:
                if of is not None:
                    load = ticks * Fraction(amount, of[1])
                    work[of[0]] = work.get(of[0], Fraction(0)) + load
                    carried[of[0]] = carried.get(of[0], Fraction(0)) + load * prices[k]
    heavy = [name for name in work if carried[name] >= paid * LEAST]
    return max(heavy, key=lambda name: work[name], default=None)
