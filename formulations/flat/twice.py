"""One question asked twice at the same time: what both searches prove is proven, and takes no longer than to ask once.

For problems whose bytes do not matter. CP-SAT with one worker proves what it proves in about the time that it takes
with two, so two searches that share nothing but the model fit on two cores: one with presolve and one without, with
other seeds. Who ends first asks once more, in the other one's way, for anything shorter than what it has found: a
search that is unlucky does not hold up the proof.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hexloom.formulations.flat.beside import Result
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.guard import Guard, Job, Outcome
from hexloom.formulations.flat.lane import BROKEN, COMPLETE, CONTRADICTED
from hexloom.formulations.flat.solution import FlatOptions
from hexloom.formulations.flat.verify import broken_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.flat.lane import Task
    from hexloom.formulations.flat.solution import FlatSolution

    Best = tuple[Decision, Simulated]

QUICK_S = 0.25
"""Each search begins with plain propagation: most problems are proven sooner than the stronger one derives anything."""

SHARPEN_AFTER_S = 1.0
"""A better bound of arithmetic is asked for when the searches have taken so long: it takes a core from them."""


@dataclass
class _Side:
    """One of the two searches: its best plan and the makespan of its shortest solution, which no plan may reach.

    ``outcome`` is what it says at its end, ``again`` what it was told when it asked for anything shorter once more.
    """

    guard: Guard
    presolve: bool
    best: Best | None
    shortest: int | None = None
    outcome: Outcome | None = None
    again: Outcome | None = None

    @property
    def proven_alone(self) -> int:
        """A bound that this search has proven in both ways."""
        if self.again is None or self.outcome is None or self.again.status != "INFEASIBLE":
            return 0
        return self.outcome.bound


@dataclass
class Twice:
    """The two searches of ``task``, from ``incumbent``, with a guard and ``workers`` each.

    ``sharpen`` gives a better bound of arithmetic, if there is one. With counted limits the result does not depend on
    who is faster: the first search runs to its end, and so does the second unless the first has proven its own best in
    both ways.
    """

    guards: tuple[Guard, Guard]
    task: Task
    incumbent: Best | None
    workers: int
    on_progress: Callable[[float, float], None] | None = None
    sharpen: Callable[[], int] | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        pairs = zip(self.guards, (True, False), strict=True)
        self._first, self._second = (_Side(guard, presolve, self.incumbent) for guard, presolve in pairs)
        self._lower = self.task.lower
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._shown = None if self.incumbent is None else self.incumbent[1].makespan

    def run(self) -> Result:
        """Search until both have proven the same, or the time is over."""
        interrupted = False
        with ThreadPoolExecutor(2) as pool:
            try:
                asked = [
                    pool.submit(self._search, self._first, self._second),
                    pool.submit(self._search, self._second, self._first),
                ]
                if self.sharpen is not None and wait(asked, SHARPEN_AFTER_S).not_done:
                    self._lower = max(self._lower, self.sharpen())
                    self._end_if_settled()
                for one in asked:
                    one.result()
            except KeyboardInterrupt:
                interrupted = True
            finally:
                for guard in self.guards:
                    guard.stop()
        best = self.best
        exhausted = best is not None and best[1].makespan <= self.bound
        if best is None:
            sides = (self._first, self._second)
            exhausted = all(side.outcome is not None and side.outcome.status == "INFEASIBLE" for side in sides)
        return Result(best, self.bound, exhausted, interrupted, tuple(self.notes))

    @property
    def best(self) -> Best | None:
        """The shortest plan of both, of equal ones that of the first search."""
        known = (side.best for side in (self._first, self._second))
        return min((best for best in known if best is not None), key=lambda best: best[1].makespan, default=None)

    @property
    def bound(self) -> int:
        """What is proven in both ways, or by arithmetic."""
        both = min(0 if side.outcome is None else side.outcome.bound for side in (self._first, self._second))
        return max(self._lower, both, self._first.proven_alone, self._second.proven_alone)

    def _search(self, mine: _Side, other: _Side) -> None:
        """Search with presolve or without, then ask once more in the other way."""
        upper = self.task.problem.horizon_ticks if self.incumbent is None else int(self.incumbent[1].makespan)
        outcome = self._ask(mine, upper, presolve=mine.presolve)
        with self._lock:
            mine.outcome = outcome
            self._doubt()
        self._end_if_settled()
        waits = other.outcome is None and mine.shortest is not None and not mine.guard.stopped
        if outcome.status in COMPLETE and waits and mine.shortest is not None:
            again = self._ask(mine, mine.shortest - 1, presolve=not mine.presolve)
            with self._lock:
                mine.again = again
            self._end_if_settled()

    def _ask(self, side: _Side, upper: int, *, presolve: bool) -> Outcome:
        """Ask with plain propagation for a moment, then with strong one for what is left."""
        quick = self._ask_once(side, upper, presolve=presolve, most=QUICK_S)
        if quick.status in COMPLETE or side.guard.stopped:
            return quick
        if side.best is not None:
            upper = min(upper, int(side.best[1].makespan))
        strong = self._ask_once(side, upper, presolve=presolve)
        return replace(strong, bound=max(quick.bound, strong.bound))

    def _ask_once(self, side: _Side, upper: int, *, presolve: bool, most: float | None = None) -> Outcome:
        task = self.task
        if upper < self._lower:
            return Outcome("INFEASIBLE", upper + 1, None)
        counted = task.seed is not None
        left = task.seconds if counted else task.seconds - (time.monotonic() - self._started)
        if left <= 0 or side.guard.stopped:
            return Outcome("UNKNOWN", 0, None)
        options = FlatOptions(
            addresses=False,
            upper=upper,
            lower=self.task.lower,
            seconds=left if most is None else min(left, most),
            deterministic=counted,
            seed=(task.seed or 0) + (0 if presolve else 1),
            workers=self.workers,
            presolve=presolve,
            first=task.first,
            exclusive=True,
            strong=most is None,
        )
        known = side.best if side.best is not None and side.best[1].makespan <= upper else None
        return side.guard.solve(Job(task.problem, task.heads_tails, options, known), lambda s: self._take(side, s))

    def _take(self, side: _Side, solution: FlatSolution) -> None:
        with self._lock:
            wrong = broken_rule(self.task.problem, solution)
            if wrong is not None:
                self._note(f"{BROKEN}: {wrong}")
                return
            if side.shortest is None or solution.makespan < side.shortest:
                side.shortest = solution.makespan
            self._doubt()
            known = side.best if self.task.seed is not None else self.best
            if known is not None and known[1].makespan <= solution.makespan:
                return
            for hold in (False, True):
                decision = decision_of(self.task.problem, solution, hold_transfers=hold)
                simulated = None if decision is None else self.task.evaluate(self.task.problem, decision)
                if decision is None or simulated is None or simulated.late:
                    continue
                if side.best is None or simulated.makespan < side.best[1].makespan:
                    side.best = decision, simulated
                    self._show(simulated.makespan)
                if simulated.makespan <= solution.makespan:
                    break
        self._end_if_settled()

    def _doubt(self) -> None:
        """Compare what the searches claim with what they have found: a plan that one of them denies is there."""
        known = [] if self.incumbent is None else [int(self.incumbent[1].makespan)]
        known += [side.shortest for side in (self._first, self._second) if side.shortest is not None]
        for side in (self._first, self._second):
            claimed = side.outcome is not None and side.outcome.status in COMPLETE
            if side.outcome is not None and claimed and known and min(known) < side.outcome.bound:
                self._note(CONTRADICTED)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _show(self, makespan: float) -> None:
        if self._shown is None or makespan < self._shown:
            self._shown = makespan
            if self.on_progress is not None:
                self.on_progress(makespan, self.bound)

    def _end_if_settled(self) -> None:
        """End both searches when nothing can be better than what is known, or any plan is enough."""
        first, best = self._first, self.best
        if self.task.seed is not None:
            # Counted: what the first search alone says, whoever is faster.
            best = first.best if first.outcome is not None else None
            settled = best is not None and best[1].makespan <= max(self._lower, first.proven_alone)
        else:
            settled = best is not None and (self.task.first or best[1].makespan <= self.bound)
        if settled:
            for guard in self.guards:
                guard.stop()
