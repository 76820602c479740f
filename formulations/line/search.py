"""Search over orders: the ops that feed the busiest engine first, all else where it delays least, then small changes.

Where the busiest engine and those that feed it have little time to spare, and the scratchpad has no room for work
ahead, list schedules lose at every job that someone less urgent got in the way of. An order says who gives way; that
what follows a change soon runs as before makes it cheap to try many.
"""

from __future__ import annotations

import random
from itertools import islice
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.cut import named_units
from hexloom.formulations.flat.model import FlatSolution
from hexloom.formulations.late_starts import late_starts
from hexloom.formulations.line.changes import Changes
from hexloom.formulations.line.fill import bundles_of, core_of
from hexloom.formulations.line.order import Line
from hexloom.formulations.line.tables import tables_of
from hexloom.formulations.starts import due_policies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.dispatch import Dispatch
    from hexloom.formulations.limit import Budget
    from hexloom.formulations.policy import Policy
    from hexloom.formulations.problem import Problem

PLACED_PER_SECOND = 30_000
"""Deterministic work of one second: ops placed."""

POLICIES = 12
"""Policies whose schedules of the core give an order to begin with."""

SPOTS = 48
"""Places at which a bundle is tried."""

MEMORY = 40
"""A change may be as bad as what was there so many changes ago."""

CHECKED = 16
"""Changes tried from one look at the time to the next."""


class OrderSearch:
    """Find an order whose schedule is short, bytes counted, with what is left of a budget down to ``spare`` seconds.

    ``counted`` makes a list schedule of a problem and a policy. The part ``headroom`` of the scratchpad stays free.
    """

    def __init__(
        self,
        problem: Problem,
        bounds: Bounds,
        budget: Budget,
        seed: int,
        counted: Callable[[Problem, Policy], Dispatch | None],
        headroom: float = 0.0,
    ) -> None:
        self.problem, self.bounds = problem, bounds
        self.tables = tables_of(problem, bounds, headroom)
        self.line = Line(self.tables)
        self._budget, self._counted = budget, counted
        self._random = random.Random(seed)
        self._lower = int(bounds.best.ticks)
        self._paid = 0

    def run(self, spare: float, enough: int) -> FlatSolution | None:
        """Return the best schedule found; one of at most ``enough`` ticks ends the search."""
        core = core_of(self.problem, self.tables)
        if not self._begin(core):
            return None
        for bundle in bundles_of(self.problem, self.tables, core):
            if not self._insert(bundle):
                return None
        best = self._improve(spare, enough)
        return None if best is None else self._solution(best)

    def _pay(self) -> None:
        self._budget.spend((self.line.placed - self._paid) / PLACED_PER_SECOND)
        self._paid = self.line.placed

    def _begin(self, core: set[int]) -> bool:
        """Take over the best of the orders in which list schedules start the ops of the core."""
        whole = len(core) == len(self.problem.ops)
        part = self.problem
        if not whole:
            part = self.problem.restricted(frozenset(self.problem.ops[i].name for i in core))
        bounds = self.bounds if whole else lower_bounds(part)
        at = sorted(core)
        listed = set(self.tables.listed)
        best: list[int] | None = None
        end: int | None = None
        for policy in islice(due_policies(part, bounds, part.fastest_modes), POLICIES):
            found = self._counted(part, policy)
            self._budget.spend(len(part.ops) / PLACED_PER_SECOND)
            if found is None:
                continue
            order = [at[k] for k in sorted(range(len(at)), key=lambda k: (found.start[k], k)) if at[k] in listed]
            if self.line.set(order) and (end is None or self.line.end < end):
                best, end = order, self.line.end
            self._pay()
            if end is not None and end <= self._lower:
                break
        return best is not None and self.line.set(best)

    def _insert(self, bundle: Sequence[int]) -> bool:
        """Put a bundle where it delays the end least, of some places over the whole order."""
        order = self.line.order
        count = min(SPOTS, len(order) + 1)
        spots = sorted({len(order) * k // max(1, count - 1) for k in range(count)})
        found: list[tuple[int, int]] = []
        limit: int | None = None
        for at in spots:
            end = self.line.tried([*order[:at], *bundle, *order[at:]], at, at + len(bundle), limit, len(bundle))
            if end is not None and (limit is None or end < limit):
                found.append((end, at))
                limit = end
        self._pay()
        for _, at in sorted(found):
            if self.line.set([*order[:at], *bundle, *order[at:]], at):
                return True
        return self.line.set([*order, *bundle], len(order))

    def _improve(self, spare: float, enough: int) -> tuple[list[int], int] | None:
        """Change the order as long as there is time; accept what is not worse than some changes ago."""
        line = self.line
        best = line.order, line.end
        changes = Changes(self.problem, self.tables, self._random)
        changes.look(line)
        memory = [line.end] * MEMORY
        tries = 0
        while best[1] > enough:
            tries += 1
            if tries % CHECKED == 0:
                self._pay()
                if self._budget.left <= spare:
                    break
            change = changes.draw(line.order)
            if change is None:
                continue
            order, first, last = change
            limit = max(line.end, memory[tries % MEMORY])
            end = line.tried(order, first, last, limit)
            if end is not None and line.set(order, first, limit):
                changes.look(line)
                if line.end < best[1]:
                    best = line.order, line.end
            memory[tries % MEMORY] = line.end
        return best

    def _solution(self, best: tuple[list[int], int]) -> FlatSolution:
        """Return the times that an order leads to, with lives of buffers as short as it leaves them."""
        self.line.set(best[0])
        state, tables = self.line.final, self.tables
        units = [tuple(self._named(i)) for i in range(len(self.problem.ops))]
        times = tuple(state.start), tuple(state.moved), tuple(state.known)
        start, moved, known = late_starts(self.problem, tables.modes, units, times)
        return FlatSolution(
            start, moved, known, tables.modes, named_units(self.problem, tables.modes, units), None, state.end
        )

    def _named(self, i: int) -> Iterator[tuple[int, ...]]:
        """Yield the units of every use of op ``i``."""
        held = {hold.use: hold for hold in self.tables.holds[i]}
        for k, use in enumerate(self.problem.ops[i].modes[self.tables.modes[i]].uses):
            if k not in held:
                yield ()
                continue
            first = self.tables.first_lane[use.engine]
            lanes = self.line.final.units.get((i, k), held[k].lanes)
            yield tuple(lane - first for lane in lanes)
