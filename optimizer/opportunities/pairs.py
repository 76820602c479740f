"""Pairs and sets of operators: how many are independent, ready and complementary, and why the others are not.

Two operators together take at least as long as the longer one, and as long as any resource both need; what is left of
their times is the most that they save.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from hexloom.optimizer.opportunities.graph import RESOURCES
from hexloom.optimizer.opportunities.reach import positions
from hexloom.optimizer.opportunities.report import PairFound, Pairs, Reason, SetFound

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexloom.optimizer.opportunities.graph import Graph
    from hexloom.optimizer.opportunities.reach import Reach

LEAST = 10
"""A pair is complementary where it saves at least one part in so many of its shorter operator."""

MOST_PAIRS = 10
"""Pairs that are named, the best first."""

MOST_SETS = 5
DDR = RESOURCES.index("ddr")


class Finder:
    """Pairs of one graph, each looked at once."""

    def __init__(self, graph: Graph, reach: Reach) -> None:
        self.graph, self.reach = graph, reach
        self.ns: NDArray[np.int64] = np.array([node.ns for node in graph.nodes], np.int64)
        self.needs: NDArray[np.int64] = np.array([node.needs for node in graph.nodes], np.int64).reshape(-1, 3)
        self.vtcm: NDArray[np.int64] = np.array([node.vtcm_bytes for node in graph.nodes], np.int64)
        self.best: list[tuple[int, int, int, bool]] = []
        self.partnered = np.zeros(len(graph.nodes), bool)
        self.partnered_ready = np.zeros(len(graph.nodes), bool)
        self.met: dict[Reason, NDArray[np.bool_]] = {}

    def saving(self, i: int, others: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the most that node ``i`` and each of ``others`` save together, in nanoseconds."""
        together = np.maximum(self.ns[i], self.ns[others])
        busiest = (self.needs[i] + self.needs[others]).max(axis=1)
        found: NDArray[np.int64] = self.ns[i] + self.ns[others] - np.maximum(together, busiest)
        return np.maximum(found, 0)

    def pairs(self) -> Pairs:
        """Count all pairs of operators that take time."""
        counts = {"independent": 0, "ready": 0, "complementary": 0, "complementary_ready": 0}
        reasons: dict[Reason, int] = dict.fromkeys(("dependency", "same engine", "bandwidth", "vtcm", "too little"), 0)
        self.met = {reason: np.zeros(len(self.ns), bool) for reason in reasons}
        work = self.ns > 0
        bits = int.from_bytes(np.packbits(work, bitorder="little").tobytes(), "little")
        last = np.array([self.reach.last_before(i) for i in range(len(self.ns))], np.int64)
        for i in (int(k) for k in np.flatnonzero(work)):
            later = i + positions((self.reach.independent(i) & bits) >> i)
            counts["independent"] += len(later)
            if not len(later):
                continue
            ready = last[later] < i
            counts["ready"] += int(ready.sum())
            saved = self.saving(i, later)
            pays = saved * LEAST >= np.minimum(self.ns[i], self.ns[later])
            fits = self.vtcm[i] + self.vtcm[later] <= self.graph.vtcm_bytes
            good = pays & fits
            counts["complementary"] += int(good.sum())
            counts["complementary_ready"] += int((good & ready).sum())
            self._partners(i, later, good, ready)
            for reason, mask in self._reasons(i, later, pays, fits).items():
                reasons[reason] += int(mask.sum())
                self.met[reason][later[mask]] = True
                self.met[reason][i] |= bool(mask.any())
            self._keep(i, later, saved, good, ready)
        n = int(work.sum())
        pairs = n * (n - 1) // 2
        reasons["dependency"] = pairs - counts["independent"]
        total = int(self.ns.sum())
        return Pairs(
            nodes=n,
            pairs=pairs,
            **counts,
            reasons=reasons,
            coverage=int(self.ns[self.partnered].sum()) / total,
            coverage_ready=int(self.ns[self.partnered_ready].sum()) / total,
            uncovered=self._uncovered(total),
        )

    def _partners(self, i: int, later: NDArray[np.int64], good: NDArray[np.bool_], ready: NDArray[np.bool_]) -> None:
        for found, mask in ((self.partnered, good), (self.partnered_ready, good & ready)):
            found[later[mask]] = True
            found[i] |= bool(mask.any())

    def _reasons(
        self, i: int, later: NDArray[np.int64], pays: NDArray[np.bool_], fits: NDArray[np.bool_]
    ) -> dict[Reason, NDArray[np.bool_]]:
        """Say of each independent pair that is none why: what is busiest, or that little overlaps at all."""
        busiest = self.needs[i] + self.needs[later]
        limiting = busiest.argmax(axis=1)
        full = busiest.max(axis=1) * LEAST >= (self.ns[i] + self.ns[later]) * (LEAST - 1)
        crowded = ~pays & (full | (busiest.max(axis=1) > np.maximum(self.ns[i], self.ns[later])))
        return {
            "vtcm": pays & ~fits,
            "bandwidth": crowded & (limiting == DDR),
            "same engine": crowded & (limiting != DDR),
            "too little": ~pays & ~crowded,
        }

    def _uncovered(self, total: int) -> dict[Reason, float]:
        """Return the share of time without a partner by the first reason that holds for some pair of it."""
        left = ~self.partnered & (self.ns > 0)
        found: dict[Reason, float] = {}
        order: tuple[Reason, ...] = ("vtcm", "bandwidth", "same engine", "too little")
        for reason in order:
            mine = left & self.met[reason]
            found[reason] = int(self.ns[mine].sum()) / total
            left &= ~mine
        found["dependency"] = int(self.ns[left].sum()) / total
        return found

    def _keep(
        self,
        i: int,
        later: NDArray[np.int64],
        saved: NDArray[np.int64],
        good: NDArray[np.bool_],
        ready: NDArray[np.bool_],
    ) -> None:
        least = self.best[0][0] if len(self.best) >= MOST_PAIRS else 0
        for k in np.flatnonzero(good & (saved > least)):
            entry = (int(saved[k]), -i, -int(later[k]), bool(ready[k]))
            if len(self.best) < MOST_PAIRS:
                heapq.heappush(self.best, entry)
            else:
                heapq.heappushpop(self.best, entry)

    def named(self) -> tuple[PairFound, ...]:
        """Return the pairs that save most, the best first."""
        return tuple(self.pair(-i, -j, saved, ready) for saved, i, j, ready in sorted(self.best, reverse=True))

    def pair(self, i: int, j: int, saved: int, ready: bool, overlap_us: float | None = None) -> PairFound:
        """Return one pair in words."""
        a, b = self.graph.nodes[i], self.graph.nodes[j]
        return PairFound(
            first=a.name,
            second=b.name,
            resources=(a.resource or "none", b.resource or "none"),
            saves_us=saved / 1000,
            ready=ready,
            overlap_us=overlap_us,
        )

    def sets(self) -> tuple[SetFound, ...]:
        """Return sets of three around the best pairs, each of three resources, that save more than their pairs do."""
        found: dict[tuple[int, ...], int] = {}
        for saved, a, b, _ in sorted(self.best, reverse=True):
            i, j = -a, -b
            third = self.reach.independent(i) & self.reach.independent(j)
            for k in (int(k) for k in positions(third)):
                members = tuple(sorted((i, j, k)))
                names = {self.graph.nodes[m].resource for m in members}
                if len(names) == 3 and None not in names and members not in found:
                    total = self._saves(members)
                    if total > saved:
                        found[members] = total
        best = sorted(found, key=lambda members: (-found[members], members))[:MOST_SETS]
        return tuple(
            SetFound(
                names=tuple(self.graph.nodes[m].name for m in members),
                resources=tuple(self.graph.nodes[m].resource or "none" for m in members),
                saves_us=found[members] / 1000,
            )
            for members in best
        )

    def _saves(self, members: tuple[int, ...]) -> int:
        if sum(int(self.vtcm[m]) for m in members) > self.graph.vtcm_bytes:
            return 0
        at = list(members)
        longest = max(int(self.ns[at].max()), int(self.needs[at].sum(axis=0).max()))
        return int(self.ns[at].sum()) - longest


def saves_together(graph: Graph, i: int, j: int) -> int:
    """Return the most that two nodes save, the plain way."""
    a, b = graph.nodes[i], graph.nodes[j]
    busiest = max(x + y for x, y in zip(a.needs, b.needs, strict=True))
    return max(0, a.ns + b.ns - max(a.ns, b.ns, busiest))
