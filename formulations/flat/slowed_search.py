"""The flat formulation where ops slow each other, as a search: plans first, then bounds, ever finer parts of a tick."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING

from hexloom.formulations.flat.event_starts import only_ends_are_events
from hexloom.formulations.flat.guard import Job, Outcome
from hexloom.formulations.flat.overlap_terms import OverlapTerms
from hexloom.formulations.flat.search import CONTRADICTED
from hexloom.formulations.flat.slowed_extract import slowed_decision
from hexloom.formulations.flat.slowing import BLUR, Slowing, in_parts
from hexloom.formulations.flat.solution import FlatOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.flat.guard import Guard
    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem, Rule

    Best = tuple[Decision, Simulated]

COARSE, FINE = 500, 32_000
"""Parts of the makespan with which a search begins, and with which it ends: a part is what every op can lose."""

FINER = 4
"""Steps from coarse to fine."""

COUNTED_SHARE = 0.1
"""Share of the time of a model for one question, where time is counted: a model is asked about ten."""

FIRST_WINDOW = 8
"""Part of the gap in which a model is searched first."""

MOST_IDLE = 2
"""Steps that proved nothing after which finer ones are not tried: often the bound is the optimum of free starts."""


@dataclass(frozen=True, slots=True)
class SlowedFound:
    """The best decision, what the simulator says of it, and what was proven (0: nothing), in ticks.

    ``bound`` holds for any start times, ``plan_bound`` for plans. ``notes`` tell where the solver was caught in error;
    then nothing counts as proven.
    """

    best: Best
    bound: Fraction
    plan_bound: Fraction
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def search_contended(
    guard: Guard,
    problem: Problem,
    rule: Rule,
    bounds: Bounds,
    evaluate: Evaluate,
    incumbent: Best,
    lower: Fraction,
    seconds: float,
    seed: int | None,
    on_progress: Callable[[float, float], None] | None = None,
    *,
    plan_proven: bool = False,
) -> SlowedFound:
    """Improve ``incumbent`` with CP-SAT, and prove how good it is, for at most ``seconds``.

    The model in which ops start at ends of others comes first, unless the plan is ``plan_proven``: it is about plans.
    Then starts are free, for the bound that holds for any of them. Both begin with coarse parts of a tick, and go on
    with finer ones as long as they can prove something. A proof counts when a second run without presolve and with
    another seed says so too.
    """
    return _Search(guard, problem, rule, bounds, evaluate, incumbent, lower, seconds, seed, on_progress).run(
        plan_proven
    )


class _Search:
    def __init__(
        self,
        guard: Guard,
        problem: Problem,
        rule: Rule,
        bounds: Bounds,
        evaluate: Evaluate,
        incumbent: Best,
        lower: Fraction,
        seconds: float,
        seed: int | None,
        on_progress: Callable[[float, float], None] | None,
    ) -> None:
        self.guard, self.problem, self.rule, self.bounds = guard, problem, rule, bounds
        self.evaluate = evaluate
        self.best = incumbent
        self.lower = self.plan_lower = self.known = lower
        self.seconds, self.seed = seconds, seed
        self.started = time.monotonic()
        self.on_progress = on_progress
        self.terms = OverlapTerms(problem, rule)
        self.notes: list[str] = []

    def run(self, plan_proven: bool) -> SlowedFound:
        interrupted = False
        try:
            if self.terms.complete:
                if only_ends_are_events(self.problem) and not plan_proven:
                    self._refine(events=True, seconds=self._left / 2)
                self._refine(events=False, seconds=self._left)
        except KeyboardInterrupt:
            interrupted = True
        notes = tuple(self.notes)
        if notes:
            self.lower = self.plan_lower = self.known
        bound = self.lower if self.lower > self.known else Fraction(0)
        plan_bound = self.plan_lower if self.plan_lower > self.known else Fraction(0)
        return SlowedFound(self.best, bound, plan_bound, interrupted, notes)

    def _refine(self, *, events: bool, seconds: float) -> None:
        """Solve one model with finer and finer parts, until they prove nothing or the bound is as close as they are."""
        makespan = Fraction(self.best[1].makespan)
        scale = _scale(makespan, COARSE)
        until = time.monotonic() + seconds
        idle = 0
        while scale <= _scale(makespan, FINE) and idle < MOST_IDLE:
            left = seconds * COUNTED_SHARE if self.seed is not None else until - time.monotonic()
            lower = self.plan_lower if events else self.lower
            if left <= 0 or self._top(scale) <= floor(lower * scale):
                return
            if not self._solve(Slowing(self.rule, scale, events), left):
                return
            idle = idle + 1 if lower == (self.plan_lower if events else self.lower) else 0
            scale *= FINER

    def _solve(self, slowing: Slowing, seconds: float) -> bool:
        """Ask for ever longer makespans until there is a solution, the best; return whether one was found in time.

        That nothing is much shorter than the best plan is far easier to prove than that nothing is a little shorter.
        """
        scale = slowing.scale
        lower = self.plan_lower if slowing.events else self.lower
        parts = in_parts(self.problem, scale)
        low, top = floor(lower * scale), self._top(scale)
        width = (top - low) // FIRST_WINDOW
        until = time.monotonic() + seconds
        while True:
            left = seconds if self.seed is not None else until - time.monotonic()
            high = min(top, low + width)
            outcome = self._ask(slowing, left, True, (low, high), lambda solution: self._take(parts, solution))
            if outcome.status not in ("OPTIMAL", "INFEASIBLE"):
                return False
            first = high + 1 if outcome.status == "INFEASIBLE" else outcome.bound
            if first > top:
                # The best plan is a solution of the model: who denies that is not believed in anything.
                self._note(CONTRADICTED)
                return False
            if first > low and not self._confirm(slowing, (low, first - 1), until):
                return False
            if outcome.status == "OPTIMAL":
                return True
            low, width = first, 2 * width + 1

    def _confirm(self, slowing: Slowing, window: tuple[int, int], until: float) -> bool:
        """Ask again, in another way, whether there is nothing in ``window``; raise the bounds if there is not."""
        left = self.seconds * COUNTED_SHARE if self.seed is not None else until - time.monotonic()
        again = self._ask(slowing, left, False, window, None)
        if again.solution is not None:
            self._note(CONTRADICTED)
        if again.status != "INFEASIBLE" or again.solution is not None:
            return False
        proven = Fraction(window[1] + 1) / slowing.scale
        self.plan_lower = max(self.plan_lower, proven)
        if not slowing.events:
            self.lower = max(self.lower, proven)
        return True

    def _ask(
        self,
        slowing: Slowing,
        seconds: float,
        presolve: bool,
        window: tuple[int, int],
        take: Callable[[FlatSolution], None] | None,
    ) -> Outcome:
        if seconds <= 0:
            return Outcome("UNKNOWN", 0, None)
        options = FlatOptions(
            addresses=False,
            upper=window[1],
            lower=window[0],
            seconds=seconds,
            deterministic=self.seed is not None,
            seed=(self.seed or 0) + (0 if presolve else 1),
            workers=1,
            presolve=presolve,
        )
        incumbent = self.best if window[1] >= self._top(slowing.scale) else None
        return self.guard.solve(Job(self.problem, self.bounds.heads_tails, options, incumbent, slowing), take)

    def _take(self, parts: Problem, solution: FlatSolution) -> None:
        decision = slowed_decision(self.problem, parts, solution)
        if decision is None:
            return
        simulated = self.evaluate(self.problem, decision)
        if not simulated.late and simulated.makespan < self.best[1].makespan:
            self.best = decision, simulated
            if self.on_progress is not None:
                self.on_progress(simulated.makespan, float(self.lower))

    def _top(self, scale: Fraction) -> int:
        """Return the makespan of the best plan in parts."""
        return floor(float(self.best[1].makespan * scale) + BLUR)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def _left(self) -> float:
        if self.seed is not None:
            return self.seconds
        return self.seconds - (time.monotonic() - self.started)


def _scale(makespan: Fraction, parts: int) -> Fraction:
    """Return the power of two of which ``makespan`` has at least so many parts, and less than twice as many."""
    scale = Fraction(1)
    while makespan * scale < parts:
        scale *= 2
    while makespan * scale >= 2 * parts:
        scale /= 2
    return scale
