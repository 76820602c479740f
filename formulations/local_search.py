"""Local search over the policies of the list scheduler: priorities, modes and gates, judged by the simulator."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hexloom.formulations.critical import Guards, critical_waiters, guards_for_critical_blocks
from hexloom.formulations.greedy import ANY, Policy, list_from
from hexloom.formulations.serial_order import SearchLimit, serial_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.problem import Problem

OPS_PER_SECOND = 15_000
"""Deterministic work of one second: ops dispatched and simulated. Chosen so that a limit in seconds, given
together with a seed, ends in about that time on a slow core."""


GATES_PER_STAGE = 4
"""A task is held back until tile 0, 1/4, 1/2, 3/4 or the last of some stage of another one is done."""

BLOCKS_TRIED = 6
"""Critical blocks tried per round; the later ones are rarely the reason of the makespan."""


WAITERS_TRIED = 6
"""Critical ops that waited for units, tried per round."""

DEPTHS = (1, 2, 3, 4)
"""Tiles of a task that may hold bytes at a time, tried where the scratchpad is tight."""

RANDOM_STARTS = 400
"""Random policies tried when none of the plain ones leads to a schedule."""


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
    ticks: float
    evaluations: int
    proven_infeasible: bool = False


@dataclass(frozen=True)
class _Tried:
    """A policy, what came of it, and its value: the makespan, worse when a deadline is missed."""

    policy: Policy
    decision: Decision
    simulated: Simulated
    value: float


class LocalSearch:
    """Improve a decision until it meets the bound or the limit is reached.

    Parameters
    ----------
    problem, bounds
        The instance and its lower bounds; a decision equal to the best bound ends the search.
    evaluate
        The simulator, as a function of a decision.
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
        on_progress: Callable[[float, float], None] | None = None,
    ) -> None:
        self.problem = problem
        self.bounds = bounds
        self.evaluate = evaluate
        self.limit = limit
        self.random = random.Random(seed)
        self.on_progress = on_progress
        self._best: tuple[Decision, float] | None = None
        self.evaluations = 0
        self._headroom = 0
        self._sources, self._gates = _task_gates(problem)
        stages: dict[tuple[str, str], list[int]] = {}
        for i, op in enumerate(problem.ops):
            if all(mode.dma is not None for mode in op.modes):
                stages.setdefault((op.task, op.stage), []).append(i)
        self._transfer_stages = [frozenset(ops) for ops in stages.values()]
        units = {engine.name: engine.units for engine in problem.engines}
        self._fitting = [
            [m for m, mode in enumerate(op.modes) if all(u.ticks == 0 or u.units <= units[u.engine] for u in mode.uses)]
            for op in problem.ops
        ]

    def run(self, incumbents: tuple[Decision, ...] = ()) -> Found:
        """Return the best decision found, starting from ``incumbents`` and the list schedules of plain priorities."""
        infeasible = False
        try:
            for decision in incumbents:
                self._offer(decision)
            start = self._first_policy()
            if self._best is None:
                infeasible = self._last_resort()
            if start is None and not infeasible and not self._proven:
                start = self._random_start()
            if start is not None:
                self._climb(self._unblock(self._defer(start)))
        except KeyboardInterrupt:
            self.limit.interrupted = True
        if self._best is None:
            return Found(None, 0, self.evaluations, infeasible)
        return Found(*self._best, self.evaluations)

    @property
    def _proven(self) -> bool:
        return self._best is not None and self._best[1] <= self.bounds.best.ticks

    def _offer(self, decision: Decision) -> Simulated:
        simulated = self.evaluate(self.problem, decision)
        self.evaluations += 1
        if not simulated.late and (self._best is None or simulated.makespan < self._best[1]):
            self._best = decision, simulated.makespan
            if self.on_progress is not None:
                self.on_progress(simulated.makespan, float(self.bounds.best.ticks))
        return simulated

    def _try(self, policy: Policy) -> _Tried | None:
        self.limit.spend(len(self.problem.ops))
        listed = list_from(self.problem, policy, max(0, self._headroom - 1))
        if listed is None:
            return None
        self._headroom = listed.headroom
        simulated = self._offer(listed.decision)
        late = self.problem.horizon_ticks if simulated.late else 0
        return _Tried(policy, listed.decision, simulated, simulated.makespan + late)

    def _first_policy(self) -> _Tried | None:
        """Try the plain priorities: longest tail, tail by task, file order."""
        ops = self.problem.ops
        ht = self.bounds.heads_tails
        tail = tuple(float(t + d) for t, d in zip(ht.tail, ht.duration, strict=True))
        fastest = tuple(
            min(of, key=lambda m, op=op: (op.modes[m].duration_ticks, m))  # type: ignore[misc]
            for op, of in zip(ops, self._fitting, strict=True)
        )
        open_modes = tuple(
            ANY if len(of) == len(op.modes) > 1 else m for op, of, m in zip(ops, self._fitting, fastest, strict=True)
        )
        tasks = list(dict.fromkeys(op.task for op in ops))
        far = max(tail) + 1
        by_task = tuple(t + far * (len(tasks) - tasks.index(op.task)) for t, op in zip(tail, ops, strict=True))
        in_file = tuple(float(len(ops) - i) for i in range(len(ops)))
        best: _Tried | None = None
        apart = _keep_apart(self.problem)
        for careful in (False, True):
            if careful and best is not None and self._headroom == 0:
                break
            for priority in (tail, by_task, in_file):
                for modes in dict.fromkeys((open_modes, fastest)):
                    best = _better(best, self._try(Policy(priority, modes, apart, careful=careful)))
                    if self._proven or (best is not None and self.limit.reached):
                        return best
        if best is not None and self._headroom > 0:
            for depth in DEPTHS:
                best = _better(best, self._try(replace(best.policy, depth=depth))) or best
        return best

    def _last_resort(self) -> bool:
        """Run the ops one after the other in an order that fits; True when it is proven that there is none."""
        try:
            order = serial_order(self.problem)
        except SearchLimit:
            return False
        if order is None:
            return True
        modes = tuple(of[0] for of in self._fitting)
        chain = tuple(pairwise(order))
        self._try(Policy(tuple(0.0 for _ in order), modes, chain))
        return False

    def _defer(self, tried: _Tried) -> _Tried:
        """Issue the transfers of a stage as late as they do no harm, stage by stage, where that helps."""
        for stage in self._transfer_stages:
            if self.limit.reached or self._proven:
                break
            policy = replace(tried.policy, lazy=tried.policy.lazy ^ stage)
            tried = _better(tried, self._try(policy)) or tried
        return tried

    def _unblock(self, tried: _Tried) -> _Tried:
        """Keep what has time to spare off the engines while critical work needs them, as long as that helps."""
        improved = True
        while improved and not self.limit.reached and not self._proven:
            improved = False
            for policy in self._relief(tried):
                found = self._try(policy)
                if found is not None and found.value < tried.value:
                    tried, improved = found, True
                    break
                if self.limit.reached:
                    break
        return tried

    def _relief(self, tried: _Tried) -> Iterator[Policy]:
        """Policies that hold back what is in the way of critical work, or put critical work that waited first."""
        policy = tried.policy
        first = max(policy.priority) + 1
        waiters = critical_waiters(self.problem, tried.decision, tried.simulated)[:WAITERS_TRIED]
        put_first = [
            replace(policy, priority=tuple(first if k == i else p for k, p in enumerate(policy.priority)))
            for i in waiters
        ]
        yield from put_first[:2]
        blocks = guards_for_critical_blocks(self.problem, tried.decision, tried.simulated, self.bounds.heads_tails)
        for guards in blocks[:BLOCKS_TRIED]:
            yield replace(policy, guards=tuple(dict.fromkeys((*policy.guards, *guards))))
        yield from put_first[2:]

    def _random_start(self) -> _Tried | None:
        """Draw priorities, and every other time a whole order, until one leads to a schedule."""
        n = len(self.problem.ops)
        for attempt in range(RANDOM_STARTS):
            if self.limit.reached:
                break
            priority = tuple(self.random.random() for _ in range(n))
            modes = tuple(self.random.choice(of) for of in self._fitting)
            guards: Guards = ()
            if attempt % 2:
                order = self._order_by(priority)
                guards = tuple(pairwise(order))
            found = self._try(Policy(priority, modes, guards, careful=attempt % 4 < 2))
            if found is not None:
                return found
        return None

    def _order_by(self, priority: tuple[float, ...]) -> list[int]:
        """Predecessors first, else the larger priority first."""
        missing = [len(p) for p in self.problem.predecessors]
        ready = [i for i, count in enumerate(missing) if count == 0]
        order: list[int] = []
        while ready:
            i = max(ready, key=lambda i: priority[i])
            ready.remove(i)
            order.append(i)
            for s in self.problem.successors[i]:
                missing[s] -= 1
                if missing[s] == 0:
                    ready.append(s)
        return order

    def _climb(self, best: _Tried) -> None:
        """Accept what is not worse than the current by more than a shrinking margin; restart from the best."""
        for gate in self._gate_policies(best.policy):
            if self.limit.reached or self._proven:
                return
            best = _better(best, self._try(gate)) or best
        current, stale = best, 0
        while not self.limit.reached and not self._proven:
            found = self._try(self._neighbour(current.policy))
            if found is None:
                continue
            margin = max(1, int(best.value * 0.002 / (1 + stale)))
            if found.value <= current.value + (margin if self.random.random() < 0.2 else 0):
                current = found
            if found.value < best.value:
                best, stale = self._unblock(found), 0
                current = best
            else:
                stale += 1
                if stale % 50 == 0:
                    current = best

    def _gate_policies(self, policy: Policy) -> list[Policy]:
        """Hold one task back until a step of a longer one is done, and the other way round."""
        tails = dict.fromkeys(self._sources, 0.0)
        for op, priority in zip(self.problem.ops, policy.priority, strict=True):
            tails[op.task] = max(tails.get(op.task, 0.0), priority)
        shortest_first = sorted(self._sources, key=lambda task: tails[task])
        return [
            replace(policy, guards=tuple((gate, source) for source in self._sources[task]))
            for task in shortest_first
            for other, gates in self._gates.items()
            if other != task
            for gate in gates
        ]

    def _neighbour(self, policy: Policy) -> Policy:
        rng = self.random
        n = len(self.problem.ops)
        move = rng.random()
        choices = [i for i in range(n) if len(self._fitting[i]) > 1]
        if choices and move < 0.3:
            i = rng.choice(choices)
            modes = list(policy.modes)
            modes[i] = rng.choice(self._fitting[i])
            return replace(policy, modes=tuple(modes))
        if len(self._sources) > 1 and move < 0.5:
            factor = {task: math.exp(rng.gauss(0, 0.7)) for task in self._sources}
            return replace(
                policy,
                priority=tuple(p * factor[op.task] for p, op in zip(policy.priority, self.problem.ops, strict=True)),
            )
        if policy.depth is not None and move < 0.52:
            return replace(policy, depth=rng.choice((*DEPTHS, None)))
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


def _keep_apart(problem: Problem) -> Guards:
    """Order the tasks whose hungriest ops do not fit into the scratchpad together: the one in the file first."""
    hungriest: dict[str, int] = {}
    sources: dict[str, list[int]] = {}
    sinks: dict[str, list[int]] = {}
    for i, op in enumerate(problem.ops):
        need = sum(problem.buffers[b].occupied_bytes for b in problem.op_buffers[i])
        hungriest[op.task] = max(hungriest.get(op.task, 0), need)
        if not problem.predecessors[i]:
            sources.setdefault(op.task, []).append(i)
        if not problem.successors[i]:
            sinks.setdefault(op.task, []).append(i)
    guards: list[tuple[int, int]] = []
    earlier: list[str] = []
    for task, need in hungriest.items():
        rival = next((t for t in reversed(earlier) if need + hungriest[t] > problem.scratchpad.available_bytes), None)
        if rival is not None and need:
            guards += [(a, b) for a in sinks.get(rival, ()) for b in sources.get(task, ())]
        earlier.append(task)
    return tuple(guards)


def _better(best: _Tried | None, found: _Tried | None) -> _Tried | None:
    if found is None or (best is not None and best.value <= found.value):
        return best
    return found


def _task_gates(problem: Problem) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """For each task its ops without predecessors, and the last op of some tiles of each stage."""
    sources: dict[str, list[int]] = {}
    last: dict[tuple[str, str], dict[int, int]] = {}
    for i, op in enumerate(problem.ops):
        if not problem.predecessors[i]:
            sources.setdefault(op.task, []).append(i)
        last.setdefault((op.task, op.stage), {})[op.tile] = i
    gates: dict[str, list[int]] = {}
    for (task, _), tiles in last.items():
        order = sorted(tiles)
        picked = {order[(len(order) - 1) * q // GATES_PER_STAGE] for q in range(GATES_PER_STAGE + 1)}
        gates.setdefault(task, []).extend(tiles[tile] for tile in sorted(picked))
    return sources, gates
