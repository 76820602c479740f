"""Who must precede whom, as one row of bits per node, and the parts of a graph that only follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexloom.optimizer.opportunities.graph import Graph


class Reach:
    """Bits of ancestors and of independent nodes; node i is bit i."""

    def __init__(self, graph: Graph) -> None:
        self.count = len(graph.nodes)
        self.every = (1 << self.count) - 1
        self.before: list[int] = []
        for node in graph.nodes:
            bits = 0
            for p in node.after:
                bits |= self.before[p] | 1 << p
            self.before.append(bits)
        below = [0] * self.count
        for i in range(self.count - 1, -1, -1):
            mine = below[i] | 1 << i
            for p in graph.nodes[i].after:
                below[p] |= mine
        self.below = below

    def independent(self, i: int) -> int:
        """Return the nodes that neither precede nor follow node ``i``."""
        return self.every & ~(self.before[i] | self.below[i] | 1 << i)

    def last_before(self, i: int) -> int:
        """Return the latest node, in today's order, that must precede node ``i``; -1 where none does.

        A node could start beside an earlier one, nothing else moved, where all that it follows comes before that one.
        """
        return self.before[i].bit_length() - 1

    def components(self) -> list[tuple[int, ...]]:
        """Return the nodes in groups of which each wholly precedes the next; inside one, independence connects them.

        No schedule overlaps two groups, so the best for all is the best of each, one after the other.
        """
        groups: list[tuple[int, ...]] = []
        first, reached = 0, 0
        for i in range(self.count):
            later = self.independent(i) >> i
            reached = max(reached, i + later.bit_length() - 1 if later else i)
            if reached == i:
                groups.append(tuple(range(first, i + 1)))
                first = i + 1
        return groups


def positions(bits: int) -> NDArray[np.int64]:
    """Return which bits are set, ascending."""
    if not bits:
        return np.empty(0, np.int64)
    packed = np.frombuffer(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(packed, bitorder="little"))
