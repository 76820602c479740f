"""The dearest feasible set: branch and bound over parts that may run together."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.config_classes import Configurations

NODES_PER_SECOND = 20_000
"""Nodes that count as a second of a deterministic budget."""

Set = tuple[tuple[int, int], ...]
"""Parts that run together, as (position of the item, how many of it), ascending."""


class SearchLimitError(Exception):
    """The search was stopped: nothing is proven."""


class Budget:
    """Seconds on the clock, or, deterministic, as many nodes as count for them: the same on every machine."""

    def __init__(self, seconds: float, deterministic: bool, whole: Budget | None = None) -> None:
        self._seconds = seconds
        self._deadline = None if deterministic else time.monotonic() + seconds
        self._nodes = seconds * NODES_PER_SECOND
        self._whole = whole

    def spend(self, nodes: int) -> None:
        """Count work; raises `SearchLimitError` when the budget is used up."""
        if self._whole is not None:
            self._whole.spend(nodes)
        self._nodes -= nodes
        over = self._nodes < 0 if self._deadline is None else time.monotonic() > self._deadline
        if over:
            raise SearchLimitError

    def part(self, share: float) -> Budget:
        """Return a share of this budget; what is spent of it is spent of this one too."""
        return Budget(self._seconds * share, self._deadline is None, self)


def work_rates(chosen: Set) -> tuple[tuple[int, int], ...]:
    """Work per tick that each item gets while ``chosen`` runs: x_im(S), summed over its copies.

    Under rule ``none`` every op runs at full speed. A rule that shares channels slows ops down here, and nowhere
    else; the search below relies on speeds of at most one.
    """
    return chosen


@dataclass(frozen=True, slots=True)
class Dearest:
    """A feasible set and what a tick of it costs."""

    cost: int
    chosen: Set


class SetSearch:
    """Finds the dearest feasible set for given prices.

    Parameters
    ----------
    given
        What may run together.
    budget
        Its end raises `SearchLimitError`.
    node_limit
        Nodes per call after which it is raised too.
    """

    def __init__(self, given: Configurations, budget: Budget, node_limit: int) -> None:
        self._given = given
        self._budget = budget
        self._node_limit = node_limit
        self._conflicts = given.conflicts
        self._clique = _cliques(given)
        self._main: list[tuple[int, int]] = []
        for item in given.items:
            lane = max(item.takes, key=lambda take: take[1] / given.capacity[take[0]], default=(-1, 0))
            self._main.append(lane)
        self._fits = [
            all(units <= given.capacity[lane] for lane, units in item.takes)
            and given.classes[item.op_class].own_bytes
            + sum(given.shared_bytes[b] for b in given.classes[item.op_class].shared)
            <= given.room_bytes
            for item in given.items
        ]

    def dearest(self, prices: Sequence[int], allowed: Iterable[int], above: int = 0, slack: int = 0) -> Dearest:
        """Return the dearest set of ``allowed`` items, or an empty one if none costs more than ``above``.

        With ``slack`` another set may be dearer by so much.
        """
        given = self._given
        self._slack = slack
        self._prices = prices
        self._room = list(given.capacity)
        self._bytes = given.room_bytes
        self._used = [0] * len(given.classes)
        self._alive = dict.fromkeys(given.shared_bytes, 0)
        self._best = Dearest(above, ())
        self._nodes = 0
        candidates = [k for k in allowed if prices[k] > 0 and self._fits[k]]
        candidates.sort(key=lambda k: -prices[k] / (self._main[k][1] or 0.5) * (given.capacity[self._main[k][0]]))
        self._grow(candidates, 0, [])
        return self._best

    def _grow(self, candidates: list[int], cost: int, chosen: list[tuple[int, int]]) -> None:
        self._nodes += 1
        self._budget.spend(1)
        if self._nodes > self._node_limit:
            raise SearchLimitError
        while candidates:
            if cost + self._bound(candidates) <= self._best.cost + self._slack:
                return
            k, candidates = candidates[0], candidates[1:]
            item = self._given.items[k]
            one = self._given.classes[item.op_class]
            for copies in range(self._most(k), 0, -1):
                self._take(k, copies)
                conflicts = self._conflicts[item.op_class]
                left = [
                    j
                    for j in candidates
                    if not conflicts >> self._given.items[j].op_class & 1 and self._most(j, at_least=1)
                ]
                now = cost + copies * self._prices[k]
                chosen.append((k, copies))
                if now > self._best.cost:
                    self._best = Dearest(now, tuple(sorted(chosen)))
                self._grow(left, now, chosen)
                chosen.pop()
                self._take(k, -copies)
                if one.width == 1:
                    break

    def _most(self, k: int, at_least: int = 0) -> int:
        """How many of item ``k`` still fit; just whether, with ``at_least``."""
        item = self._given.items[k]
        one = self._given.classes[item.op_class]
        most = one.width - self._used[item.op_class]
        if most <= 0:
            return 0
        for lane, units in item.takes:
            most = min(most, self._room[lane] // units)
        left = self._bytes - sum(self._given.shared_bytes[b] for b in one.shared if not self._alive[b])
        if left < 0:
            return 0
        if one.own_bytes:
            most = min(most, left // one.own_bytes)
        return min(most, at_least) if at_least else most

    def _take(self, k: int, copies: int) -> None:
        item = self._given.items[k]
        one = self._given.classes[item.op_class]
        self._used[item.op_class] += copies
        for lane, units in item.takes:
            self._room[lane] -= copies * units
        self._bytes -= copies * one.own_bytes
        for b in one.shared:
            before = self._alive[b]
            self._alive[b] = before + copies
            if before == 0:
                self._bytes -= self._given.shared_bytes[b]
            elif before + copies == 0:
                self._bytes += self._given.shared_bytes[b]

    def _bound(self, candidates: Sequence[int]) -> int:
        """Bound what candidates can add: by the room in lanes, or by cliques of ordered classes."""
        lanes: dict[int, int] = {}
        cliques: dict[int, int] = {}
        free = 0
        for k in candidates:
            price = self._prices[k]
            lane, units = self._main[k]
            c = self._given.items[k].op_class
            left = self._given.classes[c].width - self._used[c]
            if lane >= 0:
                left = min(left, self._room[lane] // units)
                lanes[lane] = max(lanes.get(lane, 0), price * self._room[lane] // units)
            else:
                free += price * left
            q = self._clique[c]
            cliques[q] = max(cliques.get(q, 0), price * left)
        return min(free + sum(lanes.values()), sum(cliques.values()))


def _cliques(given: Configurations) -> list[int]:
    """Group classes so that any two of a group are ordered; one number per class."""
    masks: list[int] = []
    found: list[int] = []
    for c, conflicts in enumerate(given.conflicts):
        for q, mask in enumerate(masks):
            if not mask & ~conflicts:
                masks[q] |= 1 << c
                found.append(q)
                break
        else:
            found.append(len(masks))
            masks.append(1 << c)
    return found
