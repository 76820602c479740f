"""The configuration LP of a horizon: how much time is missing, and the prices that say so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.configuration.axis import Slice
    from hexloom.formulations.configuration.classes import Configurations, Set


@dataclass(frozen=True)
class Duals:
    """``missing`` time as a share of the horizon; the price of an item's tick, and of a slice's."""

    missing: float
    prices: list[float]
    slices: list[float]


@dataclass
class Master:
    """Minimise the time e_k added to the slices so that every op of a class gets done in one of its ways.

    ``sum_S y_Sk <= length_k + e_k`` per slice, ``sum_k sum_S rate_i(S) y_Sk >= ticks_i z_m`` per part i of way m,
    ``sum_m z_m = number of ops`` per class. All times are shares of the horizon. A part that can run nowhere is
    bought at one per tick.
    """

    given: Configurations
    slices: Sequence[Slice]
    horizon: int
    _known: set[tuple[int, Set]] = field(default_factory=set)

    def __post_init__(self) -> None:
        given, scale = self.given, max(1, self.horizon)
        # Imported here: it takes longer to load than all the rest, and most problems are closed without an LP.
        from ortools.linear_solver import pywraplp

        self._lp: Any = pywraplp.Solver.CreateSolver("GLOP")
        lp, infinity = self._lp, self._lp.infinity()
        self._lp.Objective().SetMinimization()
        self._parts = [lp.Constraint(0.0, infinity) for _ in given.items]
        self._slices = []
        somewhere: set[int] = set()
        for one in self.slices:
            row = lp.Constraint(-infinity, one.ticks / scale)
            added = lp.NumVar(0.0, infinity, "")
            row.SetCoefficient(added, -1.0)
            lp.Objective().SetCoefficient(added, 1.0)
            self._slices.append(row)
            somewhere.update(one.items)
        for k in range(len(given.items)):
            if k not in somewhere:
                bought = lp.NumVar(0.0, infinity, "")
                self._parts[k].SetCoefficient(bought, 1.0)
                lp.Objective().SetCoefficient(bought, 1.0)
        for one_class in given.classes:
            chosen = lp.Constraint(1.0, 1.0)
            for items in one_class.items:
                share = lp.NumVar(0.0, infinity, "")
                chosen.SetCoefficient(share, 1.0)
                for k in items:
                    work = len(one_class.ops) * given.items[k].ticks / scale
                    self._parts[k].SetCoefficient(share, -work)

    def add(self, k: int, chosen: Set) -> bool:
        """Offer a set in slice ``k``; False if it is known there."""
        if (k, chosen) in self._known:
            return False
        self._known.add((k, chosen))
        column = self._lp.NumVar(0.0, self._lp.infinity(), "")
        self._slices[k].SetCoefficient(column, 1.0)
        for item, rate in self.given.rates(chosen):
            self._parts[item].SetCoefficient(column, float(rate))
        return True

    def solve(self) -> Duals | None:
        """Return the missing time and the prices, None if the LP has no solution."""
        if self._lp.Solve() != self._lp.OPTIMAL:
            return None
        return Duals(
            self._lp.Objective().Value(),
            [max(0.0, row.dual_value()) for row in self._parts],
            [max(0.0, -row.dual_value()) for row in self._slices],
        )
