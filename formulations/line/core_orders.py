"""Orders to begin with: those in which list schedules start the ops that feed the busiest engine."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.starts import due_policies

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.dispatch import Dispatch
    from hexloom.formulations.limit import Budget
    from hexloom.formulations.line.tables import Tables
    from hexloom.formulations.policy import Policy
    from hexloom.formulations.problem import Problem

    Counted = Callable[[Problem, Policy], Dispatch | None]

POLICIES = 12
"""Policies whose schedules of the core give an order to begin with."""

PLACED_PER_SECOND = 20_000
"""Deterministic work of one second: ops placed."""


class CoreOrders:
    """Orders of the listed ops of a core, each found when it is first asked for, and kept for other searches."""

    def __init__(self, tables: Tables, bounds: Bounds, core: Collection[int], budget: Budget, counted: Counted) -> None:
        self._found: list[list[int]] = []
        self._fresh = _orders(tables, bounds, sorted(core), budget, counted)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield those that are known, then new ones."""
        k = 0
        while True:
            if k == len(self._found):
                order = next(self._fresh, None)
                if order is None:
                    return
                self._found.append(order)
            yield self._found[k]
            k += 1


def _orders(tables: Tables, bounds: Bounds, core: list[int], budget: Budget, counted: Counted) -> Iterator[list[int]]:
    part = tables.problem
    if len(core) < len(part.ops):
        part = part.restricted(frozenset(part.ops[i].name for i in core))
        bounds = lower_bounds(part)
    listed = set(tables.listed)
    for policy in islice(due_policies(part, bounds, part.fastest_modes), POLICIES):
        found = counted(part, policy)
        budget.spend(len(part.ops) / PLACED_PER_SECOND)
        if found is not None:
            started = sorted(range(len(core)), key=lambda k: (found.start[k], k))
            yield [core[k] for k in started if core[k] in listed]
