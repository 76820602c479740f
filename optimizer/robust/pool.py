"""Many orders of the same ops that are nearly as good as the best one: what a robust plan is chosen from.

They come from a walk: an action is moved to another place in the order, a guard that the prediction satisfies anyway is
added, or one is dropped. Whatever breaks a rule, or takes too long when all goes as predicted, is not taken.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexloom.optimizer.check import check_plan
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.planner import make_plan

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.plan import Plan

TRIES_EACH = 40
"""Steps of the walk for each order that is wanted."""

GUARDS_SHARE = 0.3
"""Part of the steps that add or drop a guard."""

NEAR = 3.0
"""Most steps of a move go to one of so many places nearby."""

FOLLOWS = 0.6
"""How often an op that is moved takes one that follows from it along, and that one the next."""


@dataclass(frozen=True, slots=True)
class Order:
    """One way to run all ops, and what it takes when everything goes as predicted."""

    decision: Decision
    plan: Plan
    makespan: float


def pool_of(
    problem: Problem, evaluate: Evaluate, best: tuple[Decision, Simulated], within: float, wanted: int, seed: int
) -> list[Order]:
    """Return up to ``wanted`` distinct orders whose makespan is at most ``1 + within`` times that of ``best``.

    The first is ``best`` itself; all keep their deadlines and pass the checker.
    """
    return _Walk(problem, evaluate, best, within, seed).run(wanted)


class _Walk:
    def __init__(
        self, problem: Problem, evaluate: Evaluate, best: tuple[Decision, Simulated], within: float, seed: int
    ) -> None:
        self.problem, self.evaluate, self.random = problem, evaluate, random.Random(seed)
        self.limit = best[1].makespan * (1 + within)
        self.transfers = {~i for i in best[0].actions if i < 0}
        plan = make_plan(problem, best[0])
        self.found = [Order(best[0], plan, best[1].makespan)]
        self.times = [best[1]]
        self.seen = {_key(plan)}

    def run(self, wanted: int) -> list[Order]:
        for _ in range(TRIES_EACH * wanted):
            if len(self.found) >= wanted:
                break
            self._try()
        return self.found

    def _try(self) -> None:
        at = self.random.randrange(len(self.found))
        decision = self.found[at].decision
        if self.random.random() >= GUARDS_SHARE:
            changed = self._moved(decision)
        else:
            changed = self._guarded(decision, self.times[at])
        if changed is None:
            return
        try:
            plan = make_plan(self.problem, changed)
            if _key(plan) in self.seen:
                return
            self.seen.add(_key(plan))
            simulated = self.evaluate(self.problem, changed)
        except PlanError:  # an address, a unit or a queue that this order would break
            return
        if simulated.late or simulated.makespan > self.limit or check_plan(self.problem, plan):
            return
        self.found.append(Order(changed, plan, simulated.makespan))
        self.times.append(simulated)

    def _moved(self, decision: Decision) -> Decision | None:
        """Let an op, sometimes with ops that follow from it, come earlier or later by some places."""
        group = {self.random.randrange(len(self.problem.ops))}
        last = min(group)
        while self.problem.successors[last] and self.random.random() < FOLLOWS:
            last = self.random.choice(self.problem.successors[last])
            group.add(last)
        by = self.random.choice((-1, 1)) * (1.5 + self.random.expovariate(1 / NEAR))
        keys = {a: k + (by if (a if a >= 0 else ~a) in group else 0) for k, a in enumerate(decision.actions)}
        actions = self._in_order(keys, decision)
        return None if actions == decision.actions else replace(decision, actions=actions)

    def _in_order(self, keys: dict[int, float], decision: Decision) -> tuple[int, ...]:
        """Return all actions by their keys, but none before what must come before it."""
        followers: dict[int, list[int]] = {}
        missing = dict.fromkeys(keys, 0)
        edges = [(self._end(p), i) for i, before in enumerate(self.problem.predecessors) for p in before]
        edges += [(self._end(a), b) for a, b in (*decision.guards, *decision.flows)]
        edges += [(i, ~i) for i in self.transfers]
        for before, after in edges:
            followers.setdefault(before, []).append(after)
            missing[after] += 1
        ready = [(keys[a], a) for a, count in missing.items() if count == 0]
        heapq.heapify(ready)
        found = []
        while ready:
            _, action = heapq.heappop(ready)
            found.append(action)
            for after in followers.get(action, ()):
                missing[after] -= 1
                if missing[after] == 0:
                    heapq.heappush(ready, (keys[after], after))
        return tuple(found)

    def _end(self, i: int) -> int:
        return ~i if i in self.transfers else i

    def _guarded(self, decision: Decision, times: Simulated) -> Decision | None:
        """Add a guard between two ops of which the one ends before the other begins, or drop one."""
        if decision.guards and self.random.random() < 0.5:
            at = self.random.randrange(len(decision.guards))
            return replace(decision, guards=decision.guards[:at] + decision.guards[at + 1 :])
        n = len(times.start)
        after = self.random.randrange(n)
        place = {action: k for k, action in enumerate(decision.actions)}
        earlier = [i for i in range(n) if times.ended[i] <= times.start[after] and place[self._end(i)] < place[after]]
        if not earlier:
            return None
        earlier.sort(key=lambda i: times.ended[i])
        before = earlier[max(0, len(earlier) - 1 - int(self.random.expovariate(1 / NEAR)))]
        guard = before, after
        if guard in decision.guards or before in self.problem.predecessors[after]:
            return None
        return replace(decision, guards=(*decision.guards, guard))


def _key(plan: Plan) -> object:
    return plan.queues, plan.waits, tuple(plan.addresses.items()), plan.model_dump_json(include={"assignments"})
