"""One way through the flat model: what it has found, what it may still spend, and whom it asks what, with doubts."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.solution import FlatOptions
from hexloom.formulations.flat.verify import broken_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem

BYTES_SHARE, HEADROOM_SHARE = 0.5, 0.2
"""Parts of the time for schedules by bytes where buffers may not be packed, and for those by fewer bytes."""

HEADROOM = 0.05
"""Part of the scratchpad that is left out of the count then."""

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
    ) -> None:
        self.guard = guard
        self.task = task
        self.tell = tell
        self.problem, self.first = task.problem, task.first
        self.seconds, self.seed = task.seconds, task.seed
        self.best = incumbent
        self.bound = task.lower
        self.workers = workers
        self.started = time.monotonic()
        self.unpacked: FlatSolution | None = None
        self.notes: list[str] = []
        self.exhausted = False
        self.settled: bool | None = None

    def by_bytes(self) -> None:
        """Count bytes only: a relaxation, whose bound holds for the whole problem. Its solutions are packed.

        Only where that fails are fewer bytes counted, and then the model with addresses solved.
        """
        share = 1.0 if self.problem.fits_side_by_side else BYTES_SHARE
        outcome = self._solve(addresses=False, seconds=self._part(0, share))
        complete = self._conclude(outcome, addresses=False)
        self.settled = self.exhausted
        self.tell(self)
        if not self.exhausted and self.unpacked is not None and self._goes_on:
            self._with_headroom(self._part(share, HEADROOM_SHARE))
            share += HEADROOM_SHARE
        if (not complete or self.unpacked is not None) and not self.exhausted and share < 1 and self._goes_on:
            outcome = self._solve(addresses=self.unpacked is not None, seconds=self._part(share, 1 - share))
            self._conclude(outcome, addresses=self.unpacked is not None)

    def by_addresses(self) -> None:
        """Choose times and addresses together, from the best on."""
        self._conclude(self._solve(addresses=True, seconds=self.seconds), addresses=True)

    def _conclude(self, outcome: Outcome, *, addresses: bool) -> bool:
        """Return whether the solver came to an end; then its claim is confirmed."""
        complete = outcome.status in COMPLETE
        if complete:
            self._confirm(outcome, addresses=addresses, seconds=self._left)
        return complete

    def _with_headroom(self, seconds: float) -> None:
        """Look for schedules with fewer bytes counted than there are: these can be packed more often."""
        problem, pad = self.problem, self.problem.scratchpad
        left_out = math.ceil(pad.available_bytes * HEADROOM)
        less = pad.model_copy(update={"reserved_bytes": pad.reserved_bytes + left_out})
        window = (self.bound, self._upper)
        self._ask(False, seconds, True, window, self._take, problem.changed(scratchpad=less))

    def _part(self, spent: float, share: float) -> float:
        """Return the seconds for a ``share`` of all the time, of which ``spent`` is over."""
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
            return self.seconds
        return self.seconds - (time.monotonic() - self.started)

    @property
    def _upper(self) -> int:
        """Largest makespan still of interest."""
        return self.problem.horizon_ticks if self.best is None else int(self.best[1].makespan) - 1

    def _solve(self, *, addresses: bool, seconds: float, presolve: bool = True, upper: int | None = None) -> Outcome:
        upper = self._upper if upper is None else upper
        return self._ask(addresses, seconds, presolve, (self.bound, upper), self._take)

    def _ask(
        self,
        addresses: bool,
        seconds: float,
        presolve: bool,
        window: tuple[int, int],
        take: Callable[[FlatSolution], None] | None,
        problem: Problem | None = None,
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
        )
        return self.guard.solve(Job(problem or self.problem, self.task.heads_tails, options, self.best), take)

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
