"""The flat formulation as a search: bytes first, then addresses; every solution goes through the simulator."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Outcome, solve_guarded
from hexloom.formulations.flat.model import FlatOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.flat.model import FlatSolution
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem


@dataclass(frozen=True, slots=True)
class FlatFound:
    """Best decision, what the simulator says of it, and the bound proven by search (0: none).

    ``infeasible`` says that the model has no solution at all.
    """

    decision: Decision | None
    simulated: Simulated | None
    bound: int
    infeasible: bool = False
    interrupted: bool = False


def search_flat(
    problem: Problem,
    ht: HeadsTails,
    evaluate: Evaluate,
    incumbent: tuple[Decision, Simulated] | None,
    lower: int,
    seconds: float,
    seed: int | None,
    on_progress: Callable[[int, int], None] | None = None,
) -> FlatFound:
    """Improve ``incumbent`` with CP-SAT for at most ``seconds``.

    First the scratchpad is only counted: a relaxation, whose bound holds for the whole problem. Its solutions are
    packed; only when that fails is the model with addresses solved. That nothing is shorter counts only when a second
    run without presolve and with another seed says so too: CP-SAT 9.15 has certified wrong optima.
    """
    return _Search(problem, ht, evaluate, incumbent, lower, seconds, seed, on_progress).run()


class _Search:
    def __init__(
        self,
        problem: Problem,
        ht: HeadsTails,
        evaluate: Evaluate,
        incumbent: tuple[Decision, Simulated] | None,
        lower: int,
        seconds: float,
        seed: int | None,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self.problem, self.ht, self.evaluate = problem, ht, evaluate
        self.best = incumbent
        self.bound = lower
        self.seconds, self.seed = seconds, seed
        self.started = time.monotonic()
        self.on_progress = on_progress
        self.unpacked: FlatSolution | None = None

    def run(self) -> FlatFound:
        closed = interrupted = False
        try:
            for addresses in (False, True):
                if closed or self._left <= 0 or (addresses and self.unpacked is None):
                    break
                status = self._solve(addresses=addresses, seconds=self._left).status
                closed = status in ("INFEASIBLE", "OPTIMAL") and self._nothing_shorter(addresses=addresses)
        except KeyboardInterrupt:
            interrupted = True
        if self.best is None:
            return FlatFound(None, None, 0, closed, interrupted)
        bound = self.best[1].makespan if closed else self.bound
        return FlatFound(*self.best, bound, interrupted=interrupted)

    def _nothing_shorter(self, *, addresses: bool) -> bool:
        """Ask again, in another way, whether there is anything below the best; what turns up is taken."""
        if self._left <= 0:
            return False
        again = self._solve(addresses=addresses, seconds=self._left, presolve=False)
        return again.status == "INFEASIBLE" and again.solution is None

    @property
    def _left(self) -> float:
        if self.seed is not None:
            return self.seconds
        return self.seconds - (time.monotonic() - self.started)

    @property
    def _upper(self) -> int:
        """Largest makespan still of interest."""
        return self.problem.horizon_ticks if self.best is None else self.best[1].makespan - 1

    def _solve(self, *, addresses: bool, seconds: float, presolve: bool = True) -> Outcome:
        if self._upper < self.bound:
            return Outcome("INFEASIBLE", self._upper + 1, None)
        options = FlatOptions(
            addresses=addresses,
            upper=self._upper,
            lower=self.bound,
            seconds=seconds,
            deterministic=self.seed is not None,
            seed=(self.seed or 0) + (0 if presolve else 1),
            workers=max(1, min(8, os.cpu_count() or 1)),
            presolve=presolve,
        )
        return solve_guarded(self.problem, self.ht, options, self.best, self._take)

    def _take(self, solution: FlatSolution) -> None:
        decision = decision_of(self.problem, solution)
        if decision is None:
            self.unpacked = solution
            return
        simulated = self.evaluate(self.problem, decision)
        if not simulated.late and (self.best is None or simulated.makespan < self.best[1].makespan):
            self.best = decision, simulated
            if self.on_progress is not None:
                self.on_progress(simulated.makespan, self.bound)
