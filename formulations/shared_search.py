"""Local search where ops slow each other: who works beside whom is what is searched.

A plan says in which order ops start and what they wait for. Here every try is a list schedule; the moves hold ops that
demand a channel back until some other op has ended, let them go again, or change who comes first. The simulator judges,
or, where it says the same, a faster list scheduler.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.fluid_list import FluidList
from hexloom.formulations.greedy import Policy, list_from
from hexloom.formulations.limit import patience
from hexloom.formulations.speeds import NOT_SHARING, Speeds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.limit import Limit
    from hexloom.formulations.problem import Problem, Rule

CLOSE = 1e-9
"""Makespans that differ by less than this part are equal: they come in floating point."""

WORSE = 0.012
"""How much worse than the current plan one may be that is gone on from, as a part, when a round begins."""

ROUND = 500
"""Tries of a round: what is accepted gets less and less worse, and then the search goes back to the best plan."""

FAST_SHARE = 0.2
"""What a try with the fast list scheduler counts of one with the simulator."""


class Tried(NamedTuple):
    """A policy and what came of it: per op its start and its end, and the makespan."""

    policy: Policy
    start: Sequence[float]
    ended: Sequence[float]
    value: float


class SharedSearch:
    """Improve plans under a rule by which ops slow each other.

    Parameters
    ----------
    problem, rule, bounds
        The instance, how channels are shared, and lower bounds under that rule.
    evaluate
        The simulator under the same rule.
    on_progress
        Called with (makespan, bound) at every improvement.
    enough_gap
        A plan whose makespan is at most this part of itself above the best bound ends the search.
    """

    def __init__(
        self,
        problem: Problem,
        rule: Rule,
        bounds: Bounds,
        evaluate: Evaluate,
        limit: Limit,
        seed: int,
        on_progress: Callable[[float, float], None] | None = None,
        enough_gap: Fraction = Fraction(0),
    ) -> None:
        self.problem = problem
        self.bounds = bounds
        self.evaluate = evaluate
        self.limit = limit
        self.random = random.Random(seed)
        self.on_progress = on_progress
        self._enough = max(CLOSE, float(enough_gap))
        self.best: tuple[Decision, Simulated] | None = None
        self.evaluations = 0
        self._headroom = 0
        self._speeds = speeds = Speeds(problem, rule)
        self._fast = FluidList(problem, speeds)
        self._touched = [any(speeds.load_of(mode) != NOT_SHARING for mode in op.modes) for op in problem.ops]
        self._movable = [i for i, touched in enumerate(self._touched) if touched]
        self._open = [i for i, op in enumerate(problem.ops) if len(op.modes) > 1]
        self._after = _descendants(problem)
        self._fitting = problem.fitting_modes

    def run(self, incumbents: Sequence[Decision]) -> None:
        """Improve ``incumbents`` until the bound is met or the limit reached; the best is in ``best``."""
        try:
            starts = [self._listed(decision) for decision in incumbents]
            if starts and self._movable:
                self._climb(min(starts, key=lambda one: one.value))
        except KeyboardInterrupt:
            self.limit.interrupted = True

    @property
    def proven(self) -> bool:
        """Whether the best plan meets the lower bound."""
        return self._within(CLOSE)

    @property
    def done(self) -> bool:
        """Whether the best plan is close enough to the lower bound."""
        return self._within(self._enough)

    def _within(self, gap: float) -> bool:
        if self.best is None:
            return False
        return self.best[1].makespan - float(self.bounds.best.ticks) <= gap * self.best[1].makespan

    def _offer(self, decision: Decision) -> Simulated:
        simulated = self.evaluate(self.problem, decision)
        better = self.best is None or simulated.makespan < self.best[1].makespan * (1 - CLOSE)
        if not simulated.late and better:
            self.best = decision, simulated
            if self.on_progress is not None:
                self.on_progress(simulated.makespan, float(self.bounds.best.ticks))
        return simulated

    def _listed(self, decision: Decision) -> Tried:
        """Return the list schedule that comes closest to a plan, or the plan if that is shorter: first come first."""
        simulated = self._offer(decision)
        policy = Policy(
            priority=tuple(-start for start in simulated.start),
            modes=decision.modes,
            guards=decision.guards,
        )
        own = Tried(policy, simulated.start, simulated.ended, _value(simulated))
        found = self._try(policy)
        return own if found is None or own.value <= found.value else found

    def _try(self, policy: Policy) -> Tried | None:
        self.evaluations += 1
        n = len(self.problem.ops)
        if self._fast.usable:
            self.limit.spend(int(n * FAST_SHARE) + 1)
            timed = self._fast.run(policy.priority, policy.modes, policy.guards)
            if self.best is None or timed.makespan < self.best[1].makespan * (1 - CLOSE):
                self._offer(self._fast.decision(timed, policy.modes, policy.guards))
            return Tried(policy, timed.start, timed.ended, timed.makespan)
        self.limit.spend(n)
        listed = list_from(self.problem, policy, max(0, self._headroom - 1), speeds=self._speeds)
        if listed is None:
            return None
        self._headroom = listed.headroom
        simulated = self._offer(listed.decision)
        return Tried(policy, simulated.start, simulated.ended, _value(simulated))

    def _climb(self, best: Tried) -> None:
        """Go from plan to plan in rounds that begin at the best one and accept less and less."""
        current, tries, stale, enough = best, 0, 0, patience(len(self.problem.ops))
        while stale < enough and not self.limit.reached and not self.done:
            found = self._try(self._neighbour(current))
            tries, stale = tries + 1, stale + 1
            if found is not None:
                worse = WORSE * (1 - tries / ROUND) * self.random.random()
                if found.value <= current.value * (1 + worse):
                    current = found
                if found.value < best.value * (1 - CLOSE):
                    best, tries, stale = found, 0, 0
            if tries >= ROUND:
                current, tries = best, 0

    def _neighbour(self, tried: Tried) -> Policy:
        policy, move = tried.policy, self.random.random()
        if policy.guards and move < 0.2:
            dropped = self.random.randrange(len(policy.guards))
            return replace(policy, guards=policy.guards[:dropped] + policy.guards[dropped + 1 :])
        if move < 0.55:
            guard = self._hold_back(tried)
            if guard is not None:
                return replace(policy, guards=(*policy.guards, guard))
        if self._open and move < 0.65:
            i = self.random.choice(self._open)
            modes = list(policy.modes)
            modes[i] = self.random.choice(self._fitting[i])
            return replace(policy, modes=tuple(modes))
        priority = list(policy.priority)
        for _ in range(1 + self.random.randrange(2)):
            i, j = self.random.randrange(len(priority)), self.random.randrange(len(priority))
            priority[i] = priority[j] + self.random.choice((-0.5, 0.5))
        return replace(policy, priority=tuple(priority))

    def _hold_back(self, tried: Tried) -> tuple[int, int] | None:
        """Choose an op that demands a channel, and let it wait for the end of one that works beside it."""
        start, ended = tried.start, tried.ended
        j = self.random.choice(self._movable)
        begins, ends = start[j], ended[j]
        rivals = [i for i, (s, e) in enumerate(zip(start, ended, strict=True)) if e > begins and s < ends]
        behind = self._behind(tried.policy.guards, j)
        rivals = [i for i in rivals if not behind >> i & 1]
        return (self.random.choice(rivals), j) if rivals else None

    def _behind(self, guards: Sequence[tuple[int, int]], j: int) -> int:
        """Return the mask of ``j`` and the ops that wait for it, by guards and dependencies."""
        reach, grown = self._after[j] | 1 << j, True
        while grown:
            grown = False
            for before, after in guards:
                if reach >> before & 1 and not reach >> after & 1:
                    reach |= self._after[after] | 1 << after
                    grown = True
        return reach


def _value(simulated: Simulated) -> float:
    """Return the makespan; a missed deadline makes a plan worthless."""
    return float("inf") if simulated.late else simulated.makespan


def _descendants(problem: Problem) -> list[int]:
    """For each op the mask of the ops that depend on it."""
    found = [0] * len(problem.ops)
    for i in reversed(problem.topological_order):
        for s in problem.successors[i]:
            found[i] |= found[s] | 1 << s
    return found
