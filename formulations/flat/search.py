"""The flat formulation as a search: bytes first, then addresses; every solution goes through the simulator."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import solve_guarded
from hexloom.formulations.flat.model import FlatOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.flat.guard import Outcome
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
    packed; only when that fails is the model with addresses solved.
    """
    search = _Search(problem, ht, evaluate, incumbent, lower, seconds, seed, on_progress)
    return search.run()


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
        outcome = self._solve(addresses=False, seconds=self.seconds)
        if outcome.status == "INFEASIBLE" and self.best is None:
            return FlatFound(None, None, 0, infeasible=True)
        self.bound = max(self.bound, min(outcome.bound, self._upper + 1))
        left = self.seconds if self.seed is not None else self.seconds - (time.monotonic() - self.started)
        if self.unpacked is not None and left > 0 and not self._proven:
            joint = self._solve(addresses=True, seconds=left)
            if joint.status == "INFEASIBLE" and self.best is None:
                return FlatFound(None, None, 0, infeasible=True)
            self.bound = max(self.bound, min(joint.bound, self._upper + 1))
        decision, simulated = self.best or (None, None)
        bound = self.bound if simulated is None else min(self.bound, simulated.makespan)
        return FlatFound(decision, simulated, bound)

    @property
    def _upper(self) -> int:
        """Largest makespan still of interest."""
        return self.problem.horizon_ticks if self.best is None else self.best[1].makespan - 1

    @property
    def _proven(self) -> bool:
        return self.best is not None and self.best[1].makespan <= self.bound

    def _solve(self, *, addresses: bool, seconds: float) -> Outcome:
        if self._upper < self.bound:
            return _closed(self._upper)
        options = FlatOptions(
            addresses=addresses,
            upper=self._upper,
            lower=self.bound,
            seconds=seconds,
            deterministic=self.seed is not None,
            seed=self.seed or 0,
            workers=max(1, min(8, os.cpu_count() or 1)),
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


def _closed(upper: int) -> Outcome:
    from hexloom.formulations.flat.guard import Outcome

    return Outcome("INFEASIBLE", upper + 1, None)
