"""The transitive precedence, as the checker of certificates sees it.

Nothing here is shared with the formulations but the problem.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem

FAMILY_LIMIT = 20_000
"""In a connected family of more ops only direct precedences count."""

CHAIN_LIMIT = 32
"""Ops that need more chains than this count as unordered."""

BETWEEN_LIMIT = 512
"""Up to so many ops a buffer also counts for the ops that run between two of its users."""


class Ancestry:
    """Which op comes before which, through any number of others."""

    def __init__(self, problem: Problem) -> None:
        n = len(problem.ops)
        self.problem = problem
        root = list(range(n))

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        for i in range(n):
            for p in problem.predecessors[i]:
                root[find(p)] = find(i)
        self.family = [find(i) for i in range(n)]
        self.place = [0] * n
        self.turn = [0] * n
        size: dict[int, int] = defaultdict(int)
        for k, i in enumerate(problem.topological_order):
            self.turn[i] = k
            self.place[i] = size[self.family[i]]
            size[self.family[i]] += 1
        self.large = {family for family, members in size.items() if members > FAMILY_LIMIT}
        self._earlier = [0] * n
        for i in problem.topological_order:
            if self.family[i] not in self.large:
                for p in problem.predecessors[i]:
                    self._earlier[i] |= self._earlier[p] | (1 << self.place[p])

    def precedes(self, a: int, b: int) -> bool:
        """Say whether op a is known to come before op b."""
        if self.family[a] != self.family[b]:
            return False
        if self.family[a] in self.large:
            return a in self.problem.predecessors[b]
        return (self._earlier[b] >> self.place[a]) & 1 == 1

    def ordered(self, one: Sequence[int], other: Sequence[int]) -> bool:
        """Say whether no op of ``one`` can run beside an op of ``other``."""
        families = {self.family[i] for i in (*one, *other)}
        if len(families) > 1:
            return False
        if not families.isdisjoint(self.large):
            return len(one) == len(other) == 1 and (self.precedes(one[0], other[0]) or self.precedes(other[0], one[0]))
        ones = sum(1 << self.place[i] for i in one)
        # Ops of the other set with all of the first before them are done; the rest must come before what is left.
        for b in other:
            missing = ones & ~self._earlier[b]
            if missing and not all(
                (self._earlier[a] >> self.place[b]) & 1 for a in one if (missing >> self.place[a]) & 1
            ):
                return False
        return True

    def width(self, ops: Sequence[int]) -> int:
        """At most so many of ``ops`` run at once: the number of chains they are put in, one by one in file order."""
        ends: list[int] = []
        for i in sorted(ops, key=self.turn.__getitem__):
            chain = next((k for k, end in enumerate(ends) if self.precedes(end, i)), None)
            if chain is None:
                ends.append(i)
            else:
                ends[chain] = i
            if len(ends) > CHAIN_LIMIT:
                return len(ops)
        return len(ends)

    def keepers(self, users: set[int]) -> set[int]:
        """Return the ops that cannot run unless a buffer of ``users`` is alive."""
        if len(self.problem.ops) > BETWEEN_LIMIT:
            return users
        every = range(len(self.problem.ops))
        later = {i for i in every if i in users or any(self.precedes(u, i) for u in users)}
        return {i for i in later if i in users or any(self.precedes(i, u) for u in users)}
