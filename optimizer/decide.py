"""Whether a problem has a schedule at all: shown by a checked one, excluded by a proof, or not decided in time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Self

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.flat.search import search_flat
from hexloom.formulations.heads_tails import Grid, engine_demands, heads_and_tails
from hexloom.formulations.local_search import Found, Limit, LocalSearch
from hexloom.formulations.portfolio import EVENT_OPS, FLAT_OPS
from hexloom.formulations.problem import slows
from hexloom.formulations.shared_search import SharedSearch
from hexloom.optimizer.check import check_plan, check_times
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import op_rows
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.optimizer.simulate import ExactTimeline

Verdict = Literal["feasible", "infeasible", "open"]
"""``feasible``: shown by a checked schedule. ``infeasible``: proven. ``open``: not decided within the limit."""

MOST_OPS = 2_000
"""Of more ops only arithmetic is asked: one list schedule would take longer than there is time."""

LIST_SHARE, EVENT_SHARE = 0.2, 0.4
"""Parts of the seconds for list schedules, and for the search over events."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict; a feasible one with the decision and its exact times."""

    verdict: Verdict
    decision: Decision | None = None
    timeline: ExactTimeline | None = None


class Decider:
    """Decides one problem after the other; the process of the solver is started when it is first needed, once."""

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self._guard: Guard | None = None

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the solver's process."""
        if self._guard is not None:
            self._guard.__exit__()

    def decide(self, problem: Problem, rule: Rule, seconds: float) -> Answer:
        """Say whether ``problem`` has a schedule under ``rule``, in about ``seconds``.

        Where ops slow each other, a proof is one for ops that do not: slowed ops only take longer. A plan without
        deadlines is as good under one rule as under another, so its times are then those of ops that are not slowed.
        """
        acting = acting_rule(problem, rule)
        answer = self._unslowed(problem, seconds)
        due = any(op.deadline_ticks is not None for op in problem.ops)
        if answer.decision is None or not slows(acting) or not due:
            return answer
        if first_shortfall(problem, lower_bounds(problem, acting).heads_tails, acting) is not None:
            return Answer("infeasible")
        return self._slowed(problem, acting, answer.decision, seconds)

    def good(self, problem: Problem, rule: Rule, seconds: float) -> Answer:
        """Do the same under ``rule``, and spend ``seconds`` on a shorter schedule: it says what a change costs."""
        started = time.monotonic()
        answer = self.decide(problem, rule, seconds)
        acting = acting_rule(problem, rule)
        if answer.decision is None:
            return answer
        left = max(0.0, seconds - (time.monotonic() - started))
        if slows(acting):
            return self._slowed(problem, acting, answer.decision, left)
        bounds = lower_bounds(problem)
        best, decision = evaluator("none")(problem, answer.decision), answer.decision
        if len(problem.ops) <= EVENT_OPS and best.makespan > bounds.best.ticks:
            lower = float(bounds.best.ticks)
            limits = SearchLimits(seconds=left)
            events = search_events(problem, bounds.heads_tails, evaluator("none"), (decision, best), lower, limits)
            decision = decision if events.best is None else events.best[0]
        elif best.makespan > bounds.best.ticks:
            decision = self._search(problem, bounds, left, Fraction(0), (decision,)).decision or decision
        better = _shown(problem, decision, "none")
        return better if better.decision is not None else answer

    def _slowed(self, problem: Problem, acting: Rule, decision: Decision, seconds: float) -> Answer:
        limit = Limit(seconds, deterministic=self.seed is not None)
        bounds = lower_bounds(problem, acting)
        local = SharedSearch(problem, acting, bounds, evaluator(acting), limit, self.seed or 0)
        local.run([decision])
        return Answer("open") if local.best is None else _shown(problem, local.best[0], acting)

    def _unslowed(self, problem: Problem, seconds: float) -> Answer:
        started = time.monotonic()
        if excluded(problem):
            return Answer("infeasible")
        bounds = lower_bounds(problem)
        if len(problem.ops) > MOST_OPS:
            return Answer("open")
        listed = self._listed(problem, bounds, 0.0)
        if listed.decision is None and not listed.proven_infeasible and len(problem.ops) <= EVENT_OPS:
            limits = SearchLimits(seconds=seconds * EVENT_SHARE)
            enough = problem.horizon_ticks
            events = search_events(problem, bounds.heads_tails, evaluator("none"), None, enough, limits)
            if events.best is not None:
                return _shown(problem, events.best[0], "none")
            if events.infeasible:
                return Answer("infeasible")
        if listed.decision is None and not listed.proven_infeasible:
            listed = self._listed(problem, bounds, seconds * LIST_SHARE)
        if listed.decision is not None:
            return _shown(problem, listed.decision, "none")
        if listed.proven_infeasible:
            return Answer("infeasible")
        left = seconds - (time.monotonic() - started)
        return self._solver(problem, bounds, left) if left > 0 and len(problem.ops) <= FLAT_OPS else Answer("open")

    def _listed(self, problem: Problem, bounds: Bounds, seconds: float) -> Found:
        """Return the first list schedule that keeps all deadlines, or the proof that no order fits in bytes."""
        return self._search(problem, bounds, seconds, Fraction(1), ())

    def _search(
        self, problem: Problem, bounds: Bounds, seconds: float, gap: Fraction, incumbents: tuple[Decision, ...]
    ) -> Found:
        limit = Limit(seconds, deterministic=self.seed is not None)
        return LocalSearch(problem, bounds, evaluator("none"), limit, self.seed or 0, enough_gap=gap).run(incumbents)

    def _solver(self, problem: Problem, bounds: Bounds, seconds: float) -> Answer:
        if self._guard is None:
            self._guard = Guard()
        lower = int(bounds.best.ticks)
        found = search_flat(
            self._guard, problem, bounds.heads_tails, evaluator("none"), None, lower, seconds, self.seed, first=True
        )
        if found.decision is not None:
            return _shown(problem, found.decision, "none")
        return Answer("infeasible") if found.infeasible else Answer("open")


def excluded(problem: Problem) -> bool:
    """Whether arithmetic alone says that ``problem`` has no schedule, under any rule."""
    if first_shortfall(problem) is not None:
        return True
    if all(op.deadline_ticks is None for op in problem.ops):
        return False
    grid = Grid(problem, "none")
    heads = heads_and_tails(problem, engine_demands(problem, grid), grid)
    return first_shortfall(problem, heads) is not None


def _shown(problem: Problem, decision: Decision, rule: Rule) -> Answer:
    """Return the verdict that a decision shows: only what the checker finds no fault with counts."""
    plan = make_plan(problem, decision)
    timeline = simulate(problem, plan, rule)
    if check_plan(problem, plan) or check_times(problem, plan, op_rows(problem, timeline), rule):
        return Answer("open")
    return Answer("feasible", decision, timeline)
