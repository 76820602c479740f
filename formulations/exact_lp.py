"""Small linear programs, exactly: the dual simplex method in whole numbers.

``min cost x`` subject to ``rows x >= least`` and ``x >= 0`` with ``cost >= 0``. Then the slacks are a dual feasible
basis to begin with, and there is no first phase. All entries of the tableau have one denominator, the last pivot, so
they stay whole (the determinants of Cramer's rule), and nothing is rounded. Of the rows and columns that qualify the
first is taken, which cannot go in a circle.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = tuple["Mapping[int, Fraction | int]", "Fraction | int"]
"""Coefficients by variable, and what they must come to at least."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The least cost, variables that reach it, and per row by how much it grows with the row's right side."""

    value: Fraction
    variables: tuple[Fraction, ...]
    prices: tuple[Fraction, ...]


def minimise(cost: Sequence[int], rows: Sequence[Row]) -> Optimum | None:
    """Return an optimum, None if no ``x`` satisfies the rows.

    Raises
    ------
    ValueError
        If a cost is negative.
    """
    if min(cost, default=0) < 0:
        raise ValueError(f"cost {min(cost)} is negative; this method needs costs of at least 0")
    scales = [lcm(*(Fraction(v).denominator for v in (*row.values(), least))) for row, least in rows]
    # A row of the table reads: denominator x basic = table[0] - sum of table[1 + j] x nonbasic j. The last is the cost.
    table = [
        [int(-least * scale), *(int(-row.get(j, 0) * scale) for j in range(len(cost)))]
        for (row, least), scale in zip(rows, scales, strict=True)
    ]
    table.append([0, *(-c for c in cost)])
    tableau = _Tableau(table, len(cost))
    if not tableau.solve():
        return None
    variables, prices = tableau.variables(), tableau.prices()
    return Optimum(
        tableau.value(), variables, tuple(price * scale for price, scale in zip(prices, scales, strict=True))
    )


class _Tableau:
    """``outside[j]`` is the variable of column 1 + j, ``inside[i]`` that of row i; slacks follow the variables."""

    def __init__(self, table: list[list[int]], n: int) -> None:
        self.table = table
        self.n = n
        self.denominator = 1
        self.outside = list(range(n))
        self.inside = list(range(n, n + len(table) - 1))

    def solve(self) -> bool:
        """Pivot until all basic variables are at least 0; False if one never can be."""
        while True:
            short = [(self.inside[i], i) for i in range(len(self.inside)) if self.table[i][0] < 0]
            if not short:
                return True
            _, r = min(short)
            row, costs = self.table[r], self.table[-1]
            able = [(Fraction(costs[j], row[j]), self.outside[j - 1], j) for j in range(1, len(row)) if row[j] < 0]
            if not able:
                return False
            self._pivot(r, min(able)[2])

    def _pivot(self, r: int, c: int) -> None:
        pivot, old, mine = self.table[r][c], self.denominator, self.table[r]
        for i, row in enumerate(self.table):
            if i == r:
                continue
            factor = row[c]
            if factor:
                row[:] = [(pivot * a - factor * b) // old for a, b in zip(row, mine, strict=True)]
            else:
                row[:] = [pivot * a // old for a in row]
            row[c] = -factor
        mine[c] = old
        self.denominator = pivot
        if pivot < 0:
            self.denominator = -pivot
            for row in self.table:
                row[:] = [-a for a in row]
        self.inside[r], self.outside[c - 1] = self.outside[c - 1], self.inside[r]

    def value(self) -> Fraction:
        """Return the cost."""
        return Fraction(self.table[-1][0], self.denominator)

    def variables(self) -> tuple[Fraction, ...]:
        """Return the values of the variables."""
        found = [Fraction(0)] * self.n
        for i, name in enumerate(self.inside):
            if name < self.n:
                found[name] = Fraction(self.table[i][0], self.denominator)
        return tuple(found)

    def prices(self) -> tuple[Fraction, ...]:
        """Return the reduced cost of every slack."""
        found = [Fraction(0)] * len(self.inside)
        for j, name in enumerate(self.outside):
            if name >= self.n:
                found[name - self.n] = Fraction(-self.table[-1][1 + j], self.denominator)
        return tuple(found)
