"""Local search over the policies of the list scheduler: priorities, modes and gates, judged by the simulator."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.serial_order import SearchLimit, serial_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate
    from hexloom.formulations.problem import Problem

OPS_PER_SECOND = 15_000
"""Deterministic work of one second: ops dispatched and simulated. Chosen so that a limit in seconds, given
together with a seed, ends in about that time on a slow core."""


@dataclass
class Limit:
    """When to stop: after ``seconds`` of wall time, or, when deterministic, after as much counted work.

    ``interrupted`` ends the search with the best found so far.
    """

    seconds: float
    deterministic: bool = False
    spent_ops: int = 0
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._started = time.monotonic()

    def spend(self, ops: int) -> None:
        """Count the work of one evaluation."""
        self.spent_ops += ops

    @property
    def reached(self) -> bool:
        """Whether the search must end."""
        if self.interrupted:
            return True
        if self.deterministic:
            return self.spent_ops >= self.seconds * OPS_PER_SECOND
        return time.monotonic() - self._started >= self.seconds


@dataclass(frozen=True)
class Found:
    """The best decision so far, its makespan in ticks, and how many decisions were simulated."""

    decision: Decision | None
    ticks: int
    evaluations: int
    proven_infeasible: bool = False


class LocalSearch:
    """Improve a decision until it meets the bound or the limit is reached.

    Parameters
    ----------
    problem, bounds
        The instance and its lower bounds; a decision equal to the best bound ends the search.
    evaluate
        The simulator, as a function from a decision to its makespan in ticks.
    on_progress
        Called with (makespan, bound) at every improvement.
    """

    def __init__(
        self,
        problem: Problem,
        bounds: Bounds,
        evaluate: Evaluate,
        limit: Limit,
        seed: int,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.problem = problem
        self.bounds = bounds
        self.evaluate = evaluate
        self.limit = limit
        self.random = random.Random(seed)
        self.on_progress = on_progress
        self.best: Decision | None = None
        self.best_ticks = 0
        self.evaluations = 0
        self._sources, self._gates = _task_gates(problem)

    def run(self, incumbents: tuple[Decision, ...] = ()) -> Found:
        """Return the best decision found, starting from ``incumbents`` and the list schedules of plain priorities."""
        infeasible = False
        try:
            for decision in incumbents:
                self._offer(decision)
            start = self._first_policy()
            if self.best is None:
                infeasible = self._last_resort()
            if start is not None:
                self._climb(*start)
        except KeyboardInterrupt:
            self.limit.interrupted = True
        return Found(self.best, self.best_ticks, self.evaluations, infeasible)

    @property
    def _proven(self) -> bool:
        return self.best is not None and self.best_ticks <= self.bounds.best.ticks

    def _offer(self, decision: Decision) -> int:
        ticks = self.evaluate(self.problem, decision)
        self.evaluations += 1
        if self.best is None or ticks < self.best_ticks:
            self.best, self.best_ticks = decision, ticks
            if self.on_progress is not None:
                self.on_progress(ticks, self.bounds.best.ticks)
        return ticks

    def _try(self, policy: Policy) -> int | None:
        self.limit.spend(len(self.problem.ops))
        decision = list_schedule(self.problem, policy)
        return None if decision is None else self._offer(decision)

    def _first_policy(self) -> tuple[Policy, int] | None:
        """Try the plain priorities: longest tail, tail by task, file order."""
        ops = self.problem.ops
        ht = self.bounds.heads_tails
        tail = tuple(float(t + d) for t, d in zip(ht.tail, ht.duration, strict=True))
        modes = tuple(
            min(range(len(op.modes)), key=lambda m, op=op: (op.modes[m].duration_ticks, m))  # type: ignore[misc]
            for op in ops
        )
        tasks = list(dict.fromkeys(op.task for op in ops))
        far = max(tail) + 1
        by_task = tuple(t + far * (len(tasks) - tasks.index(op.task)) for t, op in zip(tail, ops, strict=True))
        in_file = tuple(float(len(ops) - i) for i in range(len(ops)))
        best: tuple[Policy, int] | None = None
        for priority in (tail, by_task, in_file):
            policy = Policy(priority, modes)
            ticks = self._try(policy)
            if ticks is not None and (best is None or ticks < best[1]):
                best = policy, ticks
            if self._proven:
                break
        return best

    def _last_resort(self) -> bool:
        """Run the ops one after the other in an order that fits; True when it is proven that there is none."""
        try:
            order = serial_order(self.problem)
        except SearchLimit:
            return False
        if order is None:
            return True
        modes = tuple(0 for _ in self.problem.ops)
        chain = tuple(pairwise(order))
        self._try(Policy(tuple(0.0 for _ in order), modes, chain))
        return False

    def _climb(self, policy: Policy, ticks: int) -> None:
        """Accept what is not worse than the current by more than a shrinking margin; restart from the best."""
        best_policy, best_ticks = policy, ticks
        stale = 0
        for gate in self._gate_policies(policy):
            if self.limit.reached or self._proven:
                return
            found = self._try(gate)
            if found is not None and found < best_ticks:
                best_policy, best_ticks = gate, found
        current, current_ticks = best_policy, best_ticks
        while not self.limit.reached and not self._proven:
            candidate = self._neighbour(current)
            found = self._try(candidate)
            if found is None:
                continue
            margin = max(1, int(best_ticks * 0.002 / (1 + stale)))
            if found <= current_ticks + (margin if self.random.random() < 0.2 else 0):
                current, current_ticks = candidate, found
            if found < best_ticks:
                best_policy, best_ticks, stale = candidate, found, 0
            else:
                stale += 1
                if stale % 50 == 0:
                    current, current_ticks = best_policy, best_ticks

    def _gate_policies(self, policy: Policy) -> list[Policy]:
        """Hold one task back until a step of another is done."""
        return [
            replace(policy, guards=tuple((gate, source) for source in sources))
            for task, sources in self._sources.items()
            for other, gates in self._gates.items()
            if other != task
            for gate in gates
        ]

    def _neighbour(self, policy: Policy) -> Policy:
        rng = self.random
        n = len(self.problem.ops)
        move = rng.random()
        choices = [i for i, op in enumerate(self.problem.ops) if len(op.modes) > 1]
        if choices and move < 0.3:
            i = rng.choice(choices)
            modes = list(policy.modes)
            modes[i] = rng.randrange(len(self.problem.ops[i].modes))
            return replace(policy, modes=tuple(modes))
        if len(self._sources) > 1 and move < 0.5:
            factor = {task: math.exp(rng.gauss(0, 0.7)) for task in self._sources}
            return replace(
                policy,
                priority=tuple(p * factor[op.task] for p, op in zip(policy.priority, self.problem.ops, strict=True)),
            )
        if policy.guards and move < 0.55:
            return replace(policy, guards=())
        if len(self._sources) > 1 and move < 0.65:
            gates = self._gate_policies(policy)
            if gates:
                return rng.choice(gates)
        priority = list(policy.priority)
        for _ in range(1 + rng.randrange(3)):
            i = rng.randrange(n)
            priority[i] = priority[rng.randrange(n)] + rng.choice((-1.0, 1.0))
        return replace(policy, priority=tuple(priority))


def _task_gates(problem: Problem) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """For each task its ops without predecessors, and the last op of the first and last tile of each stage."""
    sources: dict[str, list[int]] = {}
    ends: dict[str, dict[tuple[str, str], int]] = {}
    tiles: dict[tuple[str, str], tuple[int, int]] = {}
    for op in problem.ops:
        low, high = tiles.get((op.task, op.stage), (op.tile, op.tile))
        tiles[op.task, op.stage] = min(low, op.tile), max(high, op.tile)
    for i, op in enumerate(problem.ops):
        if not problem.predecessors[i]:
            sources.setdefault(op.task, []).append(i)
        low, high = tiles[op.task, op.stage]
        if op.tile == low:
            ends.setdefault(op.task, {})[op.stage, "first"] = i
        if op.tile == high:
            ends.setdefault(op.task, {})[op.stage, "last"] = i
    return sources, {task: sorted(set(of.values())) for task, of in ends.items()}
