"""The flat formulation as a search: bytes first, then addresses; every solution goes through the simulator."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.model import FlatOptions
from hexloom.formulations.flat.verify import broken_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.flat.model import FlatSolution
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem


BYTES_SHARE, HEADROOM_SHARE = 0.5, 0.2
"""Parts of the time for schedules by bytes where buffers may not be packed, and for those by fewer bytes."""

HEADROOM = 0.05
"""Part of the scratchpad that is left out of the count then."""

CONTRADICTED = "internal error: solver verdict contradicts a verified plan"
BROKEN = "internal error: a solution of the solver breaks a rule"


@dataclass(frozen=True, slots=True)
class FlatFound:
    """Best decision, what the simulator says of it, and the bound proven by search (0: none).

    ``infeasible`` says that the model has no solution at all. ``notes`` tell where the solver was caught in error;
    nothing that it says of such a problem counts as proven.
    """

    decision: Decision | None
    simulated: Simulated | None
    bound: int
    infeasible: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def search_flat(
    guard: Guard,
    problem: Problem,
    ht: HeadsTails,
    evaluate: Evaluate,
    incumbent: tuple[Decision, Simulated] | None,
    lower: int,
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None = None,
    *,
    first: bool = False,
) -> FlatFound:
    """Improve ``incumbent`` with CP-SAT for at most ``seconds``; with ``first`` only until any plan is found.

    First the scratchpad is only counted: a relaxation, whose bound holds for the whole problem. Its solutions are
    packed; only when that fails are fewer bytes counted, and then the model with addresses solved. That nothing is
    shorter counts only when a second run without presolve and with another seed says so too, and when the same model,
    asked for the incumbent itself, does not deny it: CP-SAT 9.15 has certified wrong optima.
    """
    return _Search(guard, problem, ht, evaluate, incumbent, lower, seconds, seed, on_progress, first).run()


class _Search:
    def __init__(
        self,
        guard: Guard,
        problem: Problem,
        ht: HeadsTails,
        evaluate: Evaluate,
        incumbent: tuple[Decision, Simulated] | None,
        lower: int,
        seconds: float,
        seed: int | None,
        on_progress: Callable[[float, float], None] | None,
        first: bool = False,
    ) -> None:
        self.guard = guard
        self.first = first
        self.problem, self.ht, self.evaluate = problem, ht, evaluate
        self.best = incumbent
        self.bound = lower
        self.seconds, self.seed = seconds, seed
        self.started = time.monotonic()
        self.on_progress = on_progress
        self.unpacked: FlatSolution | None = None
        self.notes: list[str] = []

    def run(self) -> FlatFound:
        exhausted = interrupted = False
        lower = self.bound
        try:
            share = 1.0 if self.problem.fits_side_by_side else BYTES_SHARE
            exhausted, complete = self._search(addresses=False, seconds=self._part(0, share))
            if not exhausted and self.unpacked is not None and self._goes_on:
                self._with_headroom(self._part(share, HEADROOM_SHARE))
                share += HEADROOM_SHARE
            if (not complete or self.unpacked is not None) and not exhausted and share < 1 and self._goes_on:
                addresses = self.unpacked is not None
                exhausted, _ = self._search(addresses=addresses, seconds=self._part(share, 1 - share))
        except KeyboardInterrupt:
            interrupted = True
        notes = tuple(self.notes)
        if notes:
            exhausted, self.bound = False, lower
        if self.best is None:
            return FlatFound(None, None, 0, exhausted, interrupted, notes)
        return FlatFound(*self.best, min(self.bound, int(self.best[1].makespan)), interrupted=interrupted, notes=notes)

    def _search(self, *, addresses: bool, seconds: float) -> tuple[bool, bool]:
        """Solve for some time; return whether nothing is better, and whether the solver came to an end."""
        outcome = self._solve(addresses=addresses, seconds=seconds)
        complete = outcome.status in ("INFEASIBLE", "OPTIMAL")
        return complete and self._confirm(outcome, addresses=addresses), complete

    def _with_headroom(self, seconds: float) -> None:
        """Look for schedules with fewer bytes counted than there are: these can be packed more often."""
        problem, pad = self.problem, self.problem.scratchpad
        left_out = math.ceil(pad.available_bytes * HEADROOM)
        less = pad.model_copy(update={"reserved_bytes": pad.reserved_bytes + left_out})
        if self.bound <= self._upper:
            window = (self.bound, self._upper)
            self._ask(False, seconds, True, window, self._take, problem.changed(scratchpad=less))

    def _part(self, spent: float, share: float) -> float:
        """Return the seconds for a ``share`` of all the time, of which ``spent`` is over."""
        return self.seconds * share if self.seed is not None else self._left * share / (1 - spent)

    @property
    def _goes_on(self) -> bool:
        return self._left > 0 and not (self.first and self.best is not None)

    def _confirm(self, outcome: Outcome, *, addresses: bool) -> bool:
        """Ask again, in another way, whether there is anything below what was found; raise the bound if there is not.

        Return whether there is nothing better than the best at all: a solution of the model can be out of reach of a
        plan, because its buffers cannot be packed or the hardware serves transfers in another order.
        """
        if self._left <= 0:
            return False
        upper = self._upper
        if outcome.solution is not None:
            upper = min(upper, outcome.solution.makespan - 1)
        again = self._solve(addresses=addresses, seconds=self._left, presolve=False, upper=upper)
        if again.solution is not None and broken_rule(self.problem, again.solution) is None:
            self._note(CONTRADICTED)
        if again.status != "INFEASIBLE" or again.solution is not None:
            return False
        if self.best is not None and self._left > 0:
            # The best plan is a solution of the model: who denies that is not believed in anything.
            makespan = int(self.best[1].makespan)
            if self._ask(addresses, self._left, True, (makespan, makespan), None).status == "INFEASIBLE":
                self._note(CONTRADICTED)
        self.bound = max(self.bound, upper + 1)
        return upper >= self._upper

    def _note(self, text: str) -> None:
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
    ) -> Outcome:
        options = FlatOptions(
            addresses=addresses,
            upper=window[1],
            lower=window[0],
            seconds=seconds,
            deterministic=self.seed is not None,
            seed=(self.seed or 0) + (0 if presolve else 1),
            workers=max(1, min(8, os.cpu_count() or 1)),
            presolve=presolve,
            first=self.first,
        )
        return self.guard.solve(Job(problem or self.problem, self.ht, options, self.best), take)

    def _take(self, solution: FlatSolution) -> None:
        wrong = broken_rule(self.problem, solution)
        if wrong is not None:
            self._note(f"{BROKEN}: {wrong}")
            return
        for hold in (False, True):
            decision = decision_of(self.problem, solution, hold_transfers=hold)
            if decision is None:
                self.unpacked = solution
                return
            # What could not be packed before was longer: bytes alone do not stand in the way.
            self.unpacked = None
            simulated = self.evaluate(self.problem, decision)
            if not simulated.late and (self.best is None or simulated.makespan < self.best[1].makespan):
                self.best = decision, simulated
                if self.on_progress is not None:
                    self.on_progress(simulated.makespan, self.bound)
            if not simulated.late and simulated.makespan <= solution.makespan:
                return


@dataclass(frozen=True, slots=True)
class Refutation:
    """Whether the model has no solution within a window, or else one that is a plan within it; maybe neither."""

    refuted: bool
    solution: tuple[Decision, Simulated] | None = None


def refute(
    guard: Guard,
    problem: Problem,
    bounds: Bounds,
    evaluate: Evaluate,
    upper: int,
    seconds: float,
    seed: int,
    presolve: bool,
    deterministic: bool,
) -> Refutation:
    """Ask CP-SAT for any plan of at most ``upper`` ticks: first with bytes only counted, then with addresses.

    That a makespan is below the bounds of arithmetic is for these to exclude, so the window begins at zero.
    """
    if upper < 0:
        return Refutation(True)
    found: list[FlatSolution] = []
    for addresses in (False, True):
        options = FlatOptions(
            addresses, upper, 0, seconds / 2, deterministic, seed, max(1, min(8, os.cpu_count() or 1)), presolve, True
        )
        outcome = guard.solve(Job(problem, bounds.heads_tails, options, None), found.append)
        if outcome.status == "INFEASIBLE" and not found:
            return Refutation(True)
        for solution in found:
            decision = decision_of(problem, solution) if broken_rule(problem, solution) is None else None
            simulated = None if decision is None else evaluate(problem, decision)
            if decision is not None and simulated is not None and not simulated.late and simulated.makespan <= upper:
                return Refutation(False, (decision, simulated))
        found.clear()
    return Refutation(False)
