"""All sets that may run together, where they are few: the dearest one is then the largest entry of a matrix product."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.configuration.classes import Configurations, Rate, Set

Flags = npt.NDArray[np.bool_]

CLOSE = 1e-9
"""Costs closer than this part to the largest, in floats, are compared exactly: rounding is far below."""

KEPT = 256
"""For so many choices of items it is remembered which sets they allow."""


class AllSets:
    """``sets`` with the work that each item gets in them per tick."""

    def __init__(self, given: Configurations, sets: Sequence[Set]) -> None:
        self._given = given
        self._sets = sets
        self._rates = np.zeros((len(sets), len(given.items)))
        for s, chosen in enumerate(sets):
            for k, rate in given.rates(chosen):
                self._rates[s, k] = float(rate)
        self._member = np.zeros(self._rates.shape, dtype=bool)
        for s, chosen in enumerate(sets):
            self._member[s, [k for k, _ in chosen]] = True
        self._barred: dict[tuple[int, ...], Flags] = {}

    def __len__(self) -> int:
        return len(self._sets)

    def dearest(self, prices: Sequence[int], allowed: Iterable[int], *, exact: bool) -> tuple[Rate | float, Set]:
        """Return what the dearest set of ``allowed`` items costs, and the set; 0 and no set if all cost nothing."""
        costs = self._rates @ np.array(prices, dtype=float)
        costs[self._with_others(tuple(allowed))] = -1.0
        best = int(costs.argmax())
        if costs[best] <= 0:
            return 0, ()
        if not exact:
            return float(costs[best]), self._sets[best]
        near = np.flatnonzero(costs >= costs[best] * (1 - CLOSE))
        return max((self._cost(prices, self._sets[s]), self._sets[s]) for s in near.tolist())

    def _cost(self, prices: Sequence[int], chosen: Set) -> Rate:
        return sum((prices[k] * rate for k, rate in self._given.rates(chosen)), start=Fraction(0))

    def _with_others(self, allowed: tuple[int, ...]) -> Flags:
        if allowed not in self._barred:
            if len(self._barred) >= KEPT:
                self._barred.clear()
            others = np.ones(self._member.shape[1], dtype=bool)
            others[list(allowed)] = False
            self._barred[allowed] = np.any(self._member[:, others], axis=1)
        return self._barred[allowed]
