"""Who can never run at the same time as whom: the transitive precedence, as bit masks per connected component."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.problem import Problem

CLOSURE_LIMIT = 20_000
"""In a component of more ops only direct precedences are seen: the closure takes n^2 bits."""

WIDTH_LIMIT = 32
"""Sets that need more chains than this count as unordered."""


class Order:
    """The transitive precedence of a problem, with fewer pairs where it would be too large (which is safe)."""

    def __init__(self, problem: Problem) -> None:
        n = len(problem.ops)
        self._predecessors = problem.predecessors
        self.rank = [0] * n
        for k, i in enumerate(problem.topological_order):
            self.rank[i] = k
        self.component = _components(problem)
        size = [0] * n
        self.bit = [0] * n
        for i in problem.topological_order:
            self.bit[i] = size[self.component[i]]
            size[self.component[i]] += 1
        self.exact = [size[self.component[i]] <= CLOSURE_LIMIT for i in range(n)]
        self.ancestors = [0] * n
        for i in problem.topological_order:
            if self.exact[i]:
                mask = 0
                for p in problem.predecessors[i]:
                    mask |= self.ancestors[p] | 1 << self.bit[p]
                self.ancestors[i] = mask

    def before(self, i: int, j: int) -> bool:
        """Say whether op i is known to precede op j."""
        if self.component[i] != self.component[j]:
            return False
        if self.exact[j]:
            return bool(self.ancestors[j] >> self.bit[i] & 1)
        return i in self._predecessors[j]

    def all_ordered(self, first: Sequence[int], second: Sequence[int]) -> bool:
        """Say whether every op of one set is ordered against every op of the other."""
        home = self.component[first[0]]
        if not self.exact[first[0]] or any(self.component[i] != home for ops in (first, second) for i in ops):
            return len(first) == len(second) == 1 and (
                self.before(first[0], second[0]) or self.before(second[0], first[0])
            )
        if len(first) == len(second) == 1:
            return self.before(first[0], second[0]) or self.before(second[0], first[0])
        mask = self.mask(first)
        unordered = [(j, mask & ~self.ancestors[j]) for j in second]
        late = [(j, left) for j, left in unordered if left]
        if not late:
            return True
        late_mask = self.mask([j for j, _ in late])
        for i in first:
            if late_mask & ~self.ancestors[i]:
                break
        else:
            return True
        after = {self.bit[i]: self.ancestors[i] for i in first}
        for j, left in late:
            while left:
                low = left & -left
                if not after[low.bit_length() - 1] >> self.bit[j] & 1:
                    return False
                left ^= low
        return True

    def mask(self, ops: Iterable[int]) -> int:
        """Bits of ops of one component."""
        found = 0
        for i in ops:
            found |= 1 << self.bit[i]
        return found

    def width(self, ops: Sequence[int]) -> int:
        """At most so many of ``ops`` can run together.

        Ops in topological order, each put at the end of the first chain whose last op precedes it. When more than
        `WIDTH_LIMIT` chains are needed, the number of ops.
        """
        tails: list[int] = []
        for i in sorted(ops, key=lambda i: self.rank[i]):
            for k, tail in enumerate(tails):
                if self.before(tail, i):
                    tails[k] = i
                    break
            else:
                tails.append(i)
                if len(tails) > WIDTH_LIMIT:
                    return len(ops)
        return len(tails)


def _components(problem: Problem) -> list[int]:
    """Name of the weakly connected component of each op: its first op in topological order."""
    home = [-1] * len(problem.ops)
    for root in problem.topological_order:
        if home[root] >= 0:
            continue
        home[root] = root
        stack = [root]
        while stack:
            i = stack.pop()
            for j in (*problem.predecessors[i], *problem.successors[i]):
                if home[j] < 0:
                    home[j] = root
                    stack.append(j)
    return home
