"""A search that begins from nothing: on few ops it finds better schedules than one that must beat the best known.

A makespan that must be below one that is good already leaves the solver without the solutions in between, from which it
learns. The list schedules of before stay what they are: the worst that can come out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.guard import Job
from hexloom.formulations.flat.lane import COMPLETE, Lane
from hexloom.formulations.flat.solution import FlatOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.flat.guard import Outcome
    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem

PARTS = 20
"""The scratchpad is counted with ever so many of its parts left out, until a schedule can be packed."""

PLACING = 0.25
"""Counted seconds without linear programs for one with: these take as long by the clock."""


class FreshLane(Lane):
    """What `Lane` does, from nothing; the limit is for all that it asks together."""

    def by_bytes(self) -> None:
        """Schedule, then pack; with ever fewer bytes counted, until the last solution can be packed."""
        before = self.guard.spent
        loose: Outcome | None = None
        for fewer in _with_fewer_bytes(self.problem):
            outcome = self._from_nothing(fewer, self._still(before), addresses=False)
            if fewer is self.problem:
                if outcome.status in COMPLETE and self.unpacked is None and not self.exhausted:
                    self._confirm(outcome, addresses=False, seconds=self._still(before))
                self.settled = self.exhausted
                self.tell(self)
                loose = outcome if outcome.status in COMPLETE and self.unpacked is not None else None
            if self.unpacked is None or self.exhausted or self.guard.stopped or self._still(before) <= 0:
                break
        if loose is not None and not self.guard.stopped:
            # What is proven of bytes is a bound for all.
            self._confirm(loose, addresses=False, seconds=self._still(before))

    def by_addresses(self) -> None:
        """Choose times and addresses together."""
        seconds = self.seconds if self.seed is None else self.seconds * PLACING
        outcome = self._from_nothing(self.problem, seconds, addresses=True)
        if outcome.status in COMPLETE and not self.exhausted:
            self._confirm(outcome, addresses=True, seconds=self._left)

    def _still(self, before: float) -> float:
        return self._left if self.seed is None else self.seconds - (self.guard.spent - before)

    def _from_nothing(self, problem: Problem, seconds: float, *, addresses: bool) -> Outcome:
        bounds = lower_bounds(problem)
        options = FlatOptions(
            addresses=addresses,
            upper=problem.horizon_ticks,
            lower=int(bounds.best.ticks),
            seconds=seconds,
            deterministic=self.seed is not None,
            seed=self.seed or 0,
            workers=self.workers,
            # With addresses schedules come sooner without linear programs; by bytes the bounds are worth them.
            linear=not addresses,
        )
        return self.guard.solve(Job(problem, bounds.heads_tails, options, None), self._take)

    def _take(self, solution: FlatSolution) -> None:
        super()._take(solution)
        if self.best is not None and self.best[1].makespan <= self.bound and not self.exhausted:
            self.exhausted = True
            self.guard.stop()


def _with_fewer_bytes(problem: Problem) -> Iterator[Problem]:
    pad = problem.scratchpad
    yield problem
    for left_out in sorted({pad.available_bytes * k // PARTS for k in range(PARTS)} - {0}):
        less = pad.model_copy(update={"reserved_bytes": pad.reserved_bytes + left_out})
        yield problem.changed(scratchpad=less)
