"""Search over orders: the ops that feed the busiest engine first, all else where it delays least, then small changes.

Where the busiest engine and those that feed it have little time to spare, and the scratchpad has no room for work
ahead, list schedules lose at every job that someone less urgent got in the way of. An order says who gives way; that
what follows a change soon runs as before makes it cheap to try many.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hexloom.formulations.flat.cut import named_units
from hexloom.formulations.flat.solution import FlatSolution
from hexloom.formulations.late_starts import late_starts
from hexloom.formulations.line.changes import Changes
from hexloom.formulations.line.core_orders import PLACED_PER_SECOND, CoreOrders
from hexloom.formulations.line.fill import bundles_of, core_of, side_by_side
from hexloom.formulations.line.order import Line
from hexloom.formulations.line.tables import tables_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.dispatch import Dispatch
    from hexloom.formulations.limit import Budget
    from hexloom.formulations.policy import Policy
    from hexloom.formulations.problem import Problem

PLACED_PER_TRY = 25
"""Ops placed before all is as it was, in most tries."""

SPOTS = 40
"""Places at which a bundle is tried, and once more so many around the best of them."""

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
        orders: CoreOrders | None = None,
    ) -> None:
        self.problem = problem
        self.tables = tables_of(problem, bounds, headroom)
        self.line = Line(self.tables)
        self._core = core_of(problem, self.tables)
        self.orders = CoreOrders(self.tables, bounds, self._core, budget, counted) if orders is None else orders
        """Orders of the core: another search of the same problem may have them."""
        self._budget = budget
        self._random = random.Random(seed)
        self._lower = int(bounds.best.ticks)
        self._paid = 0
        self._best: list[int] | None = None
        self._least = 0
        self._changes: Changes | None = None
        self._memory: list[int] = []
        self.tries = 0
        """Changes tried so far."""

    @property
    def end(self) -> int | None:
        """The makespan of the best order found so far."""
        return None if self._best is None else self._least

    def run(self, spare: float, enough: int) -> FlatSolution | None:
        """Return the best schedule found; one of at most ``enough`` ticks ends the search. A second run goes on."""
        if self.begin(spare) is None:
            return None
        self.improve(spare, enough)
        return self.solution()

    def begin(self, spare: float) -> int | None:
        """Find an order to begin with, if there is none yet, in at most half of the time; return its makespan."""
        if self._best is None and self._start(spare):
            self._best, self._least = self.line.order, self.line.end
        return self.end

    def improve(self, spare: float, enough: int) -> int:
        """Change the order found so far until it takes at most ``enough`` ticks; return the makespan of the best."""
        assert self._best is not None
        if self._changes is None:
            self._changes = Changes(self.problem, self.tables, self._random)
            self._changes.look(self.line)
            self._memory = [self.line.end] * MEMORY
        self._improve(self._changes, spare, enough)
        return self._least

    def solution(self) -> FlatSolution:
        """Return the schedule of the best order found."""
        assert self._best is not None
        best = self.line.copy()  # the search goes on where it was
        best.set(self._best)
        return solution_of(best, short_lives=True)

    def _start(self, spare: float) -> bool:
        """Place the core, then all else in bundles, in at most half of the time."""
        until = spare + (self._budget.left - spare) / 2
        if not self._begin(until):
            return False
        bundles = bundles_of(self.problem, self.tables, self._core)
        for k, bundle in enumerate(bundles):
            seconds = max(0.0, self._budget.left - until) / (len(bundles) - k)
            if not self._insert(bundle, int(seconds * PLACED_PER_SECOND / PLACED_PER_TRY)):
                return False
        return True

    def _pay(self) -> None:
        self._budget.spend((self.line.placed - self._paid) / PLACED_PER_SECOND)
        self._paid = self.line.placed

    def _begin(self, until: float) -> bool:
        """Take over the best of the orders of the core."""
        best: list[int] | None = None
        end: int | None = None
        for order in self.orders:
            if self.line.set(order) and (end is None or self.line.end < end):
                best, end = order, self.line.end
            self._pay()
            if end is not None and (end <= self._lower or self._budget.left < until):
                break
        return best is not None and self.line.set(best)

    def _insert(self, groups: Sequence[Sequence[int]], tries: int) -> bool:
        """Put a bundle where it delays the end least; each half of it where it does, if that is better.

        With fewer ``tries`` it is not divided, and fewer places are looked at.
        """
        before, spots = self.line.copy(), max(1, min(SPOTS, tries // 2))
        if not self._insert_ops(side_by_side(groups), spots):
            return False
        if tries < 4 * SPOTS or len(groups) == 1 or self.line.end == before.end:
            return True
        whole, half = self.line, len(groups) // 2
        before.placed = whole.placed
        self.line = before
        halves = self._insert(groups[:half], tries) and self._insert(groups[half:], tries)
        if not halves or self.line.end >= whole.end:
            whole.placed = self.line.placed
            self.line = whole
        return True

    def _insert_ops(self, bundle: Sequence[int], count: int) -> bool:
        """Put ops, one after the other, where they delay the end least, of some places over the whole order."""
        order = self.line.order
        step = max(1, len(order) // count)
        found: list[tuple[int, int]] = []
        limit: int | None = None
        for places in (range(0, len(order) + 1, step), None):
            around = found[-1][1] if found else len(order)
            near = range(max(0, around - step + 1), min(len(order) + 1, around + step), max(1, step // count))
            for at in places or near:
                end = self.line.tried([*order[:at], *bundle, *order[at:]], at, at + len(bundle), limit, len(bundle))
                if end is not None and (limit is None or end < limit):
                    found.append((end, at))
                    limit = end
        self._pay()
        spots = [*(at for _, at in sorted(found)), len(order)]
        return any(self.line.set([*order[:at], *bundle, *order[at:]], at) for at in spots)

    def _improve(self, changes: Changes, spare: float, enough: int) -> None:
        """Change the order as long as there is time; accept what is not worse than some changes ago."""
        line, memory = self.line, self._memory
        while self._least > enough:
            if self.tries % CHECKED == 0:
                self._pay()
                if self._budget.left <= spare:
                    break
            self.tries += 1
            change = changes.draw(line.order)
            if change is not None:
                limit = max(line.end, memory[self.tries % MEMORY])
                end = line.tried(*change, limit)
                if end is not None:
                    line.keep()
                    # What was tried is a guess: before it counts, all is placed once more.
                    if end < self._least and line.set(line.order) and line.end < self._least:
                        self._best, self._least = line.order, line.end
                    changes.look(line)
            memory[self.tries % MEMORY] = line.end


def solution_of(line: Line, *, short_lives: bool) -> FlatSolution:
    """Return the times of an order that was `set`; if asked for, with lives of buffers as short as it leaves them."""
    tables = line.tables
    problem, modes = tables.problem, tables.modes
    units = [tuple(_named(line, i)) for i in range(len(problem.ops))]
    times = tuple(line.start), tuple(line.moved), tuple(line.known)
    if short_lives:
        times = late_starts(problem, modes, units, times)
    return FlatSolution(*times, modes, named_units(problem, modes, units), None, line.end)


def _named(line: Line, i: int) -> Iterator[tuple[int, ...]]:
    """Yield the units of every use of op ``i``."""
    tables = line.tables
    held = {hold.use: hold for hold in tables.holds[i]}
    for k, use in enumerate(tables.problem.ops[i].modes[tables.modes[i]].uses):
        if k not in held:
            yield ()
            continue
        first = tables.first_lane[use.engine]
        yield tuple(lane - first for lane in line.units.get((i, k), held[k].lanes))
