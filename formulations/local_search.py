"""Local search over the policies of the list scheduler: priorities, modes and gates, judged by the simulator."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from hexloom.formulations.critical import Guards, critical_waiters, guards_for_critical_blocks
from hexloom.formulations.greedy import ANY, LAST_STEP, Policy, list_from
from hexloom.formulations.limit import Limit, patience
from hexloom.formulations.moves import Moves, transfer_stages
from hexloom.formulations.rings import kinds_of, ring_sizes
from hexloom.formulations.serial_order import SearchLimit, serial_order
from hexloom.formulations.starts import CAPS, DEPTHS, due_policies, keep_apart, ring_policy
from hexloom.formulations.urgency import lead, turn_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.speeds import Speeds

__all__ = ["Found", "Limit", "LocalSearch"]

SLOWED_COST = 3
"""What a try on the clock that knows how ops slow each other counts of one on the plain clock."""

BLOCKS_TRIED = 6
"""Critical blocks tried per round; the later ones are rarely the reason of the makespan."""


WAITERS_TRIED = 6
"""Critical ops that waited for units, tried per round."""

MANY_OPS = 24
"""From so many ops on there is an engine worth feeding; fewer are solved in other ways."""

DUE_TRIED = 36
"""Policies with due dates that are tried with bytes counted."""

DUE_STEPS = 3
"""Last step of placing buffers for these: where more than a few percent must be left out, rings are better."""

DUE_SHARE, DUE_SHARE_TIGHT = 0.2, 0.7
"""Parts of the limit for these, where bytes that are counted find places, and where they do not."""

RANDOM_STARTS = 400
"""Random policies tried when none of the plain ones leads to a schedule."""


@dataclass(frozen=True)
class Found:
    """The best decision so far with its simulated times, and how many decisions were simulated."""

    best: tuple[Decision, Simulated] | None
    evaluations: int
    proven_infeasible: bool = False

    @property
    def decision(self) -> Decision | None:
        """The best decision."""
        return None if self.best is None else self.best[0]

    @property
    def ticks(self) -> float:
        """Its makespan; 0 where there is none."""
        return 0 if self.best is None else self.best[1].makespan


@dataclass(frozen=True)
class _Tried:
    """A policy, what came of it, and its value: the makespan, worse when a deadline is missed."""

    policy: Policy
    decision: Decision
    simulated: Simulated
    value: float
    headroom: int


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
    enough_gap
        A decision whose makespan is at most this part of itself above the best bound ends the search too.
    speeds
        How ops slow each other, for the clock of the list scheduler; None where they do not.
    """

    def __init__(
        self,
        problem: Problem,
        bounds: Bounds,
        evaluate: Evaluate,
        limit: Limit,
        seed: int,
        on_progress: Callable[[float, float], None] | None = None,
        enough_gap: Fraction = Fraction(0),
        *,
        speeds: Speeds | None = None,
    ) -> None:
        self.problem = problem
        self.bounds = bounds
        self.evaluate = evaluate
        self.limit = limit
        self.random = random.Random(seed)
        self.on_progress = on_progress
        self.enough_gap = enough_gap
        self.speeds = speeds
        self._best: tuple[Decision, Simulated] | None = None
        self.evaluations = 0
        self._headroom = 0
        self._transfer_stages = transfer_stages(problem)
        self._fitting = problem.fitting_modes
        self._moves = Moves(problem, self.random, capped=speeds is not None)

    def run(
        self,
        incumbents: tuple[Decision, ...] = (),
        sharpen: Callable[[], Bounds] | None = None,
        *,
        climb: bool = True,
    ) -> Found:
        """Return the best decision found, starting from ``incumbents`` and the list schedules of plain priorities.

        ``sharpen`` is asked for better bounds when these prove nothing. Without ``climb`` one list schedule is enough:
        who asks knows better ways to shorten it.
        """
        infeasible = False
        start: _Tried | None = None
        try:
            if not climb and len(self.problem.ops) >= MANY_OPS:
                # Alone it is right most often; who wants more than list schedules tries it in its turn.
                first = next(due_policies(self.problem, self.bounds, self.problem.fastest_modes))
                start = self._try(first, 0, DUE_STEPS)
            for decision in () if self._proven else incumbents:
                self._offer(decision)
            if start is None and not self._proven:
                start = self._first_policy(by_due_dates=climb)
            if sharpen is not None and not self._proven:
                self.bounds = sharpen()
            if self._best is None:
                infeasible = self._last_resort()
            if start is None and not infeasible and not self._proven:
                start = self._random_start()
            if start is not None and climb and not self._proven:
                self._climb(self._unblock(self._defer(start)))
        except KeyboardInterrupt:
            self.limit.interrupted = True
        return Found(self._best, self.evaluations, self._best is None and infeasible)

    @property
    def _proven(self) -> bool:
        if self._best is None:
            return False
        makespan = self._best[1].makespan
        return makespan - self.bounds.best.ticks <= self.enough_gap * makespan

    def _offer(self, decision: Decision) -> Simulated:
        simulated = self.evaluate(self.problem, decision)
        self.evaluations += 1
        if not simulated.late and (self._best is None or simulated.makespan < self._best[1].makespan):
            self._best = decision, simulated
            if self.on_progress is not None:
                self.on_progress(simulated.makespan, float(self.bounds.best.ticks))
        return simulated

    def _try(self, policy: Policy, first: int | None = None, last: int = LAST_STEP) -> _Tried | None:
        """Follow ``policy``, placing buffers in the steps ``first`` to ``last``; by default as it worked before."""
        self.limit.spend(len(self.problem.ops) * (1 if self.speeds is None else SLOWED_COST))
        step = max(0, self._headroom - 1) if first is None else first
        listed = list_from(self.problem, policy, step, last, self.speeds)
        if listed is None:
            return None
        if first is None:
            self._headroom = listed.headroom
        simulated = self._offer(listed.decision)
        late = self.problem.horizon_ticks if simulated.late else 0
        return _Tried(policy, listed.decision, simulated, simulated.makespan + late, listed.headroom)

    def _first_policy(self, *, by_due_dates: bool) -> _Tried | None:
        """Try the plain priorities: longest tail, tail by task, file order; then ``by_due_dates`` of many ops."""
        ops = self.problem.ops
        ht = self.bounds.heads_tails
        tail = tuple(float(t + d) for t, d in zip(ht.tail, ht.duration, strict=True))
        fastest = self.problem.fastest_modes
        open_modes = tuple(
            ANY if len(of) == len(op.modes) > 1 else m for op, of, m in zip(ops, self._fitting, fastest, strict=True)
        )
        tasks = list(dict.fromkeys(op.task for op in ops))
        far = max(tail) + 1
        by_task = tuple(t + far * (len(tasks) - tasks.index(op.task)) for t, op in zip(tail, ops, strict=True))
        in_file = tuple(float(len(ops) - i) for i in range(len(ops)))
        if self.speeds is not None:
            return self._by_caps(
                open_modes, (lead(self.problem, self.bounds, tail), lead(self.problem, self.bounds, in_file), in_file)
            )
        plain = self._by_tails(open_modes, fastest, (tail, by_task, in_file))
        if not by_due_dates or len(ops) < MANY_OPS or self._proven or (plain is not None and self.limit.reached):
            return plain
        best = self._by_due_dates(fastest, DUE_SHARE if plain is not None and plain.headroom == 0 else DUE_SHARE_TIGHT)
        if best is None or (plain is not None and plain.value <= best.value):
            return plain
        self._headroom = best.headroom
        return best

    def _by_caps(self, modes: tuple[int, ...], priorities: tuple[tuple[float, ...], ...]) -> _Tried | None:
        """Begin where transfers slow each other: how many are let in, and when, matters as much as who is first."""
        apart = keep_apart(self.problem)
        plain = Policy(priorities[0], modes, apart, cap=CAPS[0])
        best = self._try(plain) or self._try(replace(plain, careful=True))
        best = None if best is None else self._defer(best)
        changes: list[dict[str, Any]] = [{"cap": cap} for cap in CAPS[1:]]
        for change in (*changes, *({"priority": priority} for priority in priorities[1:])):
            if not self.limit.reached and not self._proven:
                best = _better(best, self._try(replace(plain if best is None else best.policy, **change)))
        return best

    def _by_tails(
        self, open_modes: tuple[int, ...], fastest: tuple[int, ...], priorities: tuple[tuple[float, ...], ...]
    ) -> _Tried | None:
        best: _Tried | None = None
        apart = keep_apart(self.problem)
        for careful in (False, True):
            if careful and best is not None and self._headroom == 0:
                break
            for priority in priorities:
                for modes in dict.fromkeys((open_modes, fastest)):
                    best = _better(best, self._try(Policy(priority, modes, apart, careful=careful)))
                    if self._proven or (best is not None and self.limit.reached):
                        return best
        if best is not None and self._headroom > 0:
            for depth in DEPTHS:
                best = _better(best, self._try(replace(best.policy, depth=depth))) or best
        return best

    def _by_due_dates(self, modes: tuple[int, ...], share: float) -> _Tried | None:
        """Try what keeps the busiest engine fed, for a ``share`` of the limit.

        With rings first where buffers do not fit as they are counted.
        """
        best: _Tried | None = None
        until = self.limit.share + share
        rings = [ring_policy(self.problem, self.bounds, modes, turns) for turns in turn_orders(self.problem)]
        for policy in islice(due_policies(self.problem, self.bounds, modes), DUE_TRIED):
            best = _better(best, self._try(policy, 0, DUE_STEPS))
            if self._proven or self.limit.share >= until:
                break
            while rings and (best is None or best.headroom > 0):
                best = self._by_rings(best, rings.pop(0), until)
        return best

    def _by_rings(self, best: _Tried | None, policy: Policy, until: float) -> _Tried | None:
        """Choose the numbers of slots turn by turn: what is best in one depends little on the others."""
        kinds = kinds_of(self.problem, policy.turns)
        choices = [ring_sizes(self.problem, kinds, policy.turns, k) for k in range(len(policy.turns))]
        if not all(choices):
            return best
        mine: _Tried | None = None
        rings = tuple(of[0] for of in choices)
        for k, of in enumerate(choices):
            for sizes in of:
                mine = _better(mine, self._try(replace(policy, rings=(*rings[:k], sizes, *rings[k + 1 :])), 1))
                if self._proven or self.limit.share >= until:
                    return _better(best, mine)
            rings = mine.policy.rings if mine is not None else rings
        return _better(best, mine)

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
        for gate in self._moves.gate_policies(best.policy):
            if self.limit.reached or self._proven:
                return
            best = _better(best, self._try(gate)) or best
        current, stale, enough = best, 0, patience(len(self.problem.ops))
        while stale < enough and not self.limit.reached and not self._proven:
            found = self._try(self._moves.neighbour(current.policy))
            if found is None:
                stale += 1
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


def _better(best: _Tried | None, found: _Tried | None) -> _Tried | None:
    if found is None or (best is not None and best.value <= found.value):
        return best
    return found
