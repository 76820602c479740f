"""Many ranges of sections at once, by tables of powers of two: the maximum over each, the minimum of those over one.

For the hundreds of ranges of a whole instance these are ten times as fast as one range after the other; for less than
`FEW` the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

Numbers = npt.NDArray[np.int64]

FEW = 40
"""Ranges from which on the tables pay."""


class Ranges:
    """Half-open ranges ``[first, last)``, none of them empty; ``of`` selects and shifts some of them."""

    def __init__(self, first: Numbers, last: Numbers, level: Numbers | None = None) -> None:
        self.first, self.last = first, last
        # The largest power of two that a range holds: two such pieces, which may overlap, make the range.
        self._level = np.frexp(last - first)[1].astype(np.int64) - 1 if level is None else level

    @classmethod
    def from_spans(cls, spans: Sequence[tuple[int, int]]) -> Ranges:
        """Return the ranges of ``spans``."""
        table = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return cls(table[:, 0].copy(), table[:, 1].copy())

    def of(self, which: Sequence[int], shift: int = 0) -> Ranges:
        """Return those at the positions ``which``, moved down by ``shift``."""
        index = np.array(which)
        return Ranges(self.first[index] - shift, self.last[index] - shift, self._level[index])

    def maxima(self, values: Numbers) -> Numbers:
        """Return the largest of ``values`` in each range."""
        table = [values]
        for k in range(int(self._level.max())):
            step = 1 << k
            wider = table[-1].copy()
            np.maximum(wider[:-step], wider[step:], out=wider[:-step])
            table.append(wider)
        stacked = np.concatenate(table)
        base = self._level * len(values)
        found: Numbers = np.maximum(stacked[base + self.first], stacked[base + self.last - (1 << self._level)])
        return found

    def minima(self, count: int, values: Numbers, otherwise: int) -> Numbers:
        """Return for each of ``count`` sections the smallest of the ``values`` whose ranges hold it."""
        levels = int(self._level.max()) + 1 if len(values) else 1
        table = np.full(levels * count, otherwise, dtype=np.int64)
        base = self._level * count
        np.minimum.at(table, base + self.first, values)
        np.minimum.at(table, base + self.last - (1 << self._level), values)
        rows = table.reshape(levels, count)
        for k in range(levels - 1, 0, -1):
            step = 1 << (k - 1)
            np.minimum(rows[k - 1], rows[k], out=rows[k - 1])
            np.minimum(rows[k - 1, step:], rows[k, :-step], out=rows[k - 1, step:])
        found: Numbers = rows[0]
        return found
