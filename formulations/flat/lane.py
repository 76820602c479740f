"""One way through the flat model: what it has found, what it may still spend, and whom it asks what, with doubts."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.model import FlatOptions
from hexloom.formulations.flat.verify import broken_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.flat.model import FlatSolution
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem

BYTES_SHARE, HEADROOM_SHARE = 0.5, 0.2
"""Parts of the time for schedules by bytes where buffers may not be packed, and for those by fewer bytes."""

HEADROOM = 0.05
"""Part of the scratchpad that is left out of the count then, and once more each time that does not help."""

LEVELS = 10
"""At most so often, by a search that begins from nothing; once by others."""

COMPLETE = ("INFEASIBLE", "OPTIMAL")

CONTRADICTED = "internal error: solver verdict contradicts a verified plan"
BROKEN = "internal error: a solution of the solver breaks a rule"


@dataclass(frozen=True, slots=True)
class Task:
    """What is searched: the problem, what judges a decision, and a bound that its makespan cannot be below."""

    problem: Problem
    heads_tails: HeadsTails
    evaluate: Evaluate
    lower: int
    seconds: float
    seed: int | None
    first: bool = False


class Lane:
    """A search with a guard of its own; ``tell`` hears of all that changes.

    ``exhausted`` says that nothing is better than ``best``, or that there is nothing at all; ``settled`` whether bytes
    alone have proven that, None as long as they may. ``notes`` tell where the solver was caught in error; nothing that
    it says of such a problem counts as proven.
    """

    def __init__(
        self,
        guard: Guard,
        task: Task,
        incumbent: tuple[Decision, Simulated] | None,
        workers: int,
        tell: Callable[[Lane], None],
        *,
        fresh: bool = False,
    ) -> None:
        self.guard = guard
        self.task = task
        self.tell = tell
        self.problem, self.first = task.problem, task.first
        self.seconds, self.seed = task.seconds, task.seed
        self.best = incumbent
        self.bound = task.lower
        self.workers = workers
        self.fresh = fresh
        self.started = time.monotonic()
        self._spent_before = guard.spent
        self.unpacked: FlatSolution | None = None
        self.notes: list[str] = []
        self.exhausted = False
        self.settled: bool | None = None

    def by_bytes(self) -> None:
        """Count bytes only: a relaxation, whose bound holds for the whole problem. Its solutions are packed.

        Only where that fails are ever fewer bytes counted, and then the model with addresses solved.
        """
        share = 1.0 if self.problem.fits_side_by_side else BYTES_SHARE
        outcome = self._begin(addresses=False, seconds=self._part(0, share))
        complete, loose = outcome.status in COMPLETE, self.unpacked is not None
        if complete and not loose:
            self._confirm(outcome, addresses=False, seconds=self._left)
        self.settled = self.exhausted
        self.tell(self)
        if not self.exhausted and loose:
            share = self._with_headroom(share)
            if complete and self._goes_on:
                # What is proven of bytes is a bound for all.
                self._confirm(outcome, addresses=False, seconds=self._part(share, (1 - share) / 2))
        if (not complete or loose) and not self.exhausted and share < 1 and self._goes_on:
            self.by_addresses(self._part(share, 1 - share), addresses=self.unpacked is not None)

    def by_addresses(self, seconds: float, *, addresses: bool = True) -> None:
        """Choose times and addresses together."""
        outcome = self._begin(addresses=addresses, seconds=seconds)
        if outcome.status in COMPLETE:
            self._confirm(outcome, addresses=addresses, seconds=self._left)

    def _with_headroom(self, share: float) -> float:
        """Look for schedules with ever fewer bytes counted than there are, until one packs: these do more often.

        Return the part of the time that is over then; ``share`` was before.
        """
        for count in range(1, LEVELS + 1 if self.fresh else 2):
            if self.unpacked is None or not self._goes_on:
                break
            if self._leave_out(count, self._part(share, HEADROOM_SHARE)) == "INFEASIBLE":
                break
        return share + HEADROOM_SHARE

    def _leave_out(self, count: int, seconds: float) -> str:
        pad = self.problem.scratchpad
        left_out = math.ceil(pad.available_bytes * HEADROOM * count)
        less = pad.model_copy(update={"reserved_bytes": pad.reserved_bytes + left_out})
        upper = self.problem.horizon_ticks if self.fresh else self._upper
        if self.bound > self._upper or left_out >= pad.available_bytes:
            return "INFEASIBLE"
        fewer = self.problem.changed(scratchpad=less)
        return self._ask(False, seconds, True, (self.bound, upper), self._take, fewer, from_nothing=self.fresh).status

    def _part(self, spent: float, share: float) -> float:
        """Return the seconds for a ``share`` of all the time, of which ``spent`` is over."""
        if self.fresh:
            return self._left
        return self.seconds * share if self.seed is not None else self._left * share / (1 - spent)

    @property
    def _goes_on(self) -> bool:
        return self._left > 0 and not self.guard.stopped and not (self.first and self.best is not None)

    def _confirm(self, outcome: Outcome, *, addresses: bool, seconds: float) -> None:
        """Ask again, in another way, whether there is anything below what was found; raise the bound if there is not.

        That there is nothing better than the best at all is more: a solution of the model can be out of reach of a
        plan, because its buffers cannot be packed or the hardware serves transfers in another order.
        """
        if seconds <= 0:
            return
        upper = self._upper
        if outcome.solution is not None:
            upper = min(upper, outcome.solution.makespan - 1)
        again = self._solve(addresses=addresses, seconds=seconds, presolve=False, upper=upper)
        if again.solution is not None and broken_rule(self.problem, again.solution) is None:
            self.note(CONTRADICTED)
        if again.status != "INFEASIBLE" or again.solution is not None:
            return
        if self.best is not None and self._left > 0:
            # The best plan is a solution of the model: who denies that is not believed in anything.
            makespan = int(self.best[1].makespan)
            if self._ask(addresses, self._left, True, (makespan, makespan), None).status == "INFEASIBLE":
                self.note(CONTRADICTED)
        self.exhausted = upper >= self._upper
        self.bound = max(self.bound, upper + 1)
        self.tell(self)

    def note(self, text: str) -> None:
        """Keep a doubt about the solver."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def _left(self) -> float:
        if self.seed is not None:
            return self.seconds - (self.guard.spent - self._spent_before if self.fresh else 0)
        return self.seconds - (time.monotonic() - self.started)

    @property
    def _upper(self) -> int:
        """Largest makespan still of interest."""
        return self.problem.horizon_ticks if self.best is None else int(self.best[1].makespan) - 1

    def _begin(self, *, addresses: bool, seconds: float) -> Outcome:
        if not self.fresh:
            return self._solve(addresses=addresses, seconds=seconds)
        window = (self.bound, self.problem.horizon_ticks)
        return self._ask(addresses, seconds, True, window, self._take, from_nothing=True)

    def _solve(self, *, addresses: bool, seconds: float, presolve: bool = True, upper: int | None = None) -> Outcome:
        upper = self._upper if upper is None else upper
        if upper < self.bound:
            return Outcome("INFEASIBLE", upper + 1, None)
        return self._ask(addresses, seconds, presolve, (self.bound, upper), self._take)

    def _ask(
        self,
        addresses: bool,
        seconds: float,
        presolve: bool,
        window: tuple[int, int],
        take: Callable[[FlatSolution], None] | None,
        problem: Problem | None = None,
        *,
        from_nothing: bool = False,
    ) -> Outcome:
        options = FlatOptions(
            addresses=addresses,
            upper=window[1],
            lower=window[0],
            seconds=seconds,
            deterministic=self.seed is not None,
            seed=(self.seed or 0) + (0 if presolve else 1),
            workers=self.workers,
            presolve=presolve,
            first=self.first,
            # With addresses schedules come sooner without; by bytes the bounds are worth it.
            linear=not (from_nothing and addresses),
        )
        best = None if from_nothing else self.best
        return self.guard.solve(Job(problem or self.problem, self.task.heads_tails, options, best), take)

    def _take(self, solution: FlatSolution) -> None:
        wrong = broken_rule(self.problem, solution)
        if wrong is not None:
            self.note(f"{BROKEN}: {wrong}")
            return
        for hold in (False, True):
            decision = decision_of(self.problem, solution, hold_transfers=hold)
            if decision is None:
                self.unpacked = solution
                return
            # What could not be packed before was longer: bytes alone do not stand in the way.
            self.unpacked = None
            simulated = self.task.evaluate(self.problem, decision)
            if not simulated.late and (self.best is None or simulated.makespan < self.best[1].makespan):
                self.best = decision, simulated
                self.tell(self)
            if not simulated.late and simulated.makespan <= solution.makespan:
                return
