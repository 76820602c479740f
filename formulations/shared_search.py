"""Local search where ops slow each other: who works beside whom is what is searched.

A plan says in which order ops start and what they wait for. Here every try is a list schedule whose clock expects each
op to take as long as in the plan before it; the moves hold ops that demand a channel back until some other op has
ended, let them go again, or change who comes first. The simulator judges.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.greedy import Policy, list_from
from hexloom.formulations.speeds import NOT_SHARING, Speeds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.local_search import Limit
    from hexloom.formulations.problem import Problem, Rule

CLOSE = 1e-9
"""Makespans that differ by less than this part are equal: they come in floating point."""

WORSE = 0.004
"""How much worse than the current plan one may be that is gone on from, as a part, at the beginning."""

STALE = 60
"""After so many tries without a better plan the search goes back to the best one."""


class Tried(NamedTuple):
    """A policy and what came of it."""

    policy: Policy
    decision: Decision
    simulated: Simulated

    @property
    def value(self) -> float:
        """The makespan; a missed deadline makes it worthless."""
        return self.simulated.makespan if not self.simulated.late else float("inf")


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
    ) -> None:
        self.problem = problem
        self.bounds = bounds
        self.evaluate = evaluate
        self.limit = limit
        self.random = random.Random(seed)
        self.on_progress = on_progress
        self.best: tuple[Decision, Simulated] | None = None
        self.evaluations = 0
        self._headroom = 0
        speeds = Speeds(problem, rule)
        self._touched = [any(speeds.load_of(mode) != NOT_SHARING for mode in op.modes) for op in problem.ops]
        self._movable = [i for i, touched in enumerate(self._touched) if touched]
        self._after = _descendants(problem)

    def run(self, incumbents: Sequence[Decision]) -> None:
        """Improve ``incumbents`` until the bound is met or the limit reached; the best is in ``best``."""
        try:
            starts = [self._offer(decision) for decision in incumbents]
            found = [self._listed(decision, simulated) for decision, simulated in starts]
            tried = [one for one in found if one is not None]
            if tried and self._movable:
                self._climb(min(tried, key=lambda one: one.value))
        except KeyboardInterrupt:
            self.limit.interrupted = True

    @property
    def proven(self) -> bool:
        """Whether the best plan meets the lower bound."""
        return self.best is not None and self.best[1].makespan <= float(self.bounds.best.ticks) * (1 + CLOSE)

    def _offer(self, decision: Decision) -> tuple[Decision, Simulated]:
        simulated = self.evaluate(self.problem, decision)
        self.evaluations += 1
        better = self.best is None or simulated.makespan < self.best[1].makespan * (1 - CLOSE)
        if not simulated.late and better:
            self.best = decision, simulated
            if self.on_progress is not None:
                self.on_progress(simulated.makespan, float(self.bounds.best.ticks))
        return decision, simulated

    def _listed(self, decision: Decision, simulated: Simulated) -> Tried | None:
        """Return the list schedule that comes closest to a plan: who starts first comes first."""
        policy = Policy(
            priority=tuple(-start for start in simulated.start),
            modes=decision.modes,
            guards=decision.guards,
            stretch=self._stretch(decision, simulated),
        )
        found = self._try(policy)
        own = Tried(policy, decision, simulated)
        return own if found is None or own.value <= found.value else found

    def _try(self, policy: Policy) -> Tried | None:
        self.limit.spend(len(self.problem.ops))
        listed = list_from(self.problem, policy, max(0, self._headroom - 1))
        if listed is None:
            return None
        self._headroom = listed.headroom
        decision, simulated = self._offer(listed.decision)
        return Tried(replace(policy, stretch=self._stretch(decision, simulated)), decision, simulated)

    def _stretch(self, decision: Decision, simulated: Simulated) -> tuple[float, ...]:
        """Return how much longer than alone every op worked in a plan."""
        found = []
        for i, (op, m) in enumerate(zip(self.problem.ops, decision.modes, strict=True)):
            mode = op.modes[m]
            took = simulated.done[i] - simulated.transfer_start[i] - (mode.overhead_ticks if mode.dma is None else 0)
            found.append(max(1.0, took / mode.latency_ticks) if mode.latency_ticks and self._touched[i] else 1.0)
        return tuple(found)

    def _climb(self, best: Tried) -> None:
        current, stale = best, 0
        while not self.limit.reached and not self.proven:
            found = self._try(self._neighbour(current))
            if found is None:
                continue
            if found.value < best.value * (1 - CLOSE):
                best = current = found
                stale = 0
                continue
            stale += 1
            if found.value <= current.value * (1 + WORSE * self.random.random() / (1 + stale / STALE)):
                current = found
            if stale % STALE == 0:
                current = best

    def _neighbour(self, tried: Tried) -> Policy:
        policy, move = tried.policy, self.random.random()
        if policy.guards and move < 0.15:
            dropped = self.random.randrange(len(policy.guards))
            return replace(policy, guards=policy.guards[:dropped] + policy.guards[dropped + 1 :])
        if move < 0.55:
            guard = self._hold_back(tried)
            if guard is not None:
                return replace(policy, guards=(*policy.guards, guard))
        choices = [i for i, op in enumerate(self.problem.ops) if len(op.modes) > 1]
        if choices and move < 0.65:
            i = self.random.choice(choices)
            modes = list(policy.modes)
            modes[i] = self.random.randrange(len(self.problem.ops[i].modes))
            return replace(policy, modes=tuple(modes))
        priority = list(policy.priority)
        for _ in range(1 + self.random.randrange(2)):
            i, j = self.random.randrange(len(priority)), self.random.randrange(len(priority))
            priority[i] = priority[j] + self.random.choice((-0.5, 0.5))
        return replace(policy, priority=tuple(priority))

    def _hold_back(self, tried: Tried) -> tuple[int, int] | None:
        """Choose an op that works beside others, and let it wait for the end of one that began before it ended."""
        simulated = tried.simulated
        j = self.random.choice(self._movable)
        held, behind = set(tried.policy.guards), self._behind(tried.policy.guards, j)
        rivals = [
            i
            for i in range(len(self.problem.ops))
            if simulated.ended[i] > simulated.start[j]
            and simulated.start[i] < simulated.ended[j]
            and not behind >> i & 1
            and (i, j) not in held
        ]
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


def _descendants(problem: Problem) -> list[int]:
    """For each op the mask of the ops that depend on it."""
    found = [0] * len(problem.ops)
    for i in reversed(problem.topological_order):
        for s in problem.successors[i]:
            found[i] |= found[s] | 1 << s
    return found
