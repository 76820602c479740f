"""The best makespan for any start times of a small problem without transfers and buffers: every order, one LP each."""

from __future__ import annotations

from itertools import pairwise, permutations, product
from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.event_order_lp import Moment, amounts_of, best_times
from hexloom.formulations.speeds import NOT_SHARING, Speeds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from hexloom.formulations.problem import Problem, Rule


class TooManyOrders(Exception):
    """Nothing is known."""


def free_start_optimum(problem: Problem, rule: Rule, most: int = 3_000) -> Fraction:
    """Return the least makespan of any start times; every op has one mode, every engine one unit, all without DMA.

    Raises
    ------
    TooManyOrders
        When there are more than ``most`` orders.
    """
    best: Fraction | None = None
    count = 0
    for decision in _decisions(problem):
        for moments in _interleavings(problem, decision, rule):
            count += 1
            if count > most:
                raise TooManyOrders
            found = best_times(problem, decision, rule, moments)
            if found is not None and (best is None or found.makespan < best):
                best = found.makespan
    assert best is not None
    return best


def _decisions(problem: Problem) -> Iterator[Decision]:
    """One order of actions for each way to order the users of every engine that agrees with the precedences."""
    n = len(problem.ops)
    users = [
        [i for i, op in enumerate(problem.ops) if any(u.engine == e.name and u.ticks for u in op.modes[0].uses)]
        for e in problem.engines
    ]
    units = tuple(tuple((0,) if use.ticks else () for use in op.modes[0].uses) for op in problem.ops)
    for chosen in product(*(permutations(mine) for mine in users)):
        before = [set(p) for p in problem.predecessors]
        for order in chosen:
            for a, b in pairwise(order):
                before[b].add(a)
        actions: list[int] = []
        while True:
            able = [i for i in range(n) if i not in actions and before[i] <= set(actions)]
            if not able:
                break
            actions.append(able[0])
        if len(actions) == n:
            yield Decision((0,) * n, units, tuple(actions), ())


def _interleavings(problem: Problem, decision: Decision, rule: Rule) -> Iterator[list[Moment]]:
    """Every order of the moments of ops that share, as far as paths between them do not rule it out."""
    speeds = Speeds(problem, rule)
    n = len(problem.ops)
    modes = [op.modes[0] for op in problem.ops]
    chains = {
        i: [Moment(i, a) for a in amounts_of(problem, modes[i])]
        for i in range(n)
        if speeds.load_of(modes[i]) != NOT_SHARING
    }
    place = {i: k for k, i in enumerate(decision.actions)}
    path = [set(problem.predecessors[i]) for i in range(n)]
    for i in decision.actions:
        for p in list(path[i]):
            path[i] |= path[p]
    workers = {e.name for e in problem.engines if e.kind == "worker"}

    def first(moment: Moment) -> set[Moment]:
        """Moments that cannot come later than the begin of an op."""
        found: set[Moment] = set()
        if moment.amount:
            return found
        mine = {use.engine: use for use in modes[moment.op].uses if use.ticks}
        for j in chains:
            if j in path[moment.op]:
                found.add(chains[j][-1])
            for use in modes[j].uses:
                if use.ticks and use.engine in mine and place[j] < place[moment.op]:
                    found.add(Moment(j, use.ticks) if use.engine in workers else chains[j][-1])
        return found

    needs = {moment: first(moment) for chain in chains.values() for moment in chain}

    def grow(done: list[Moment], heads: dict[int, int]) -> Iterator[list[Moment]]:
        if len(done) == len(needs):
            yield done
            return
        for i, chain in chains.items():
            if heads[i] < len(chain) and needs[chain[heads[i]]] <= set(done):
                yield from grow([*done, chain[heads[i]]], heads | {i: heads[i] + 1})

    yield from grow([], dict.fromkeys(chains, 0))
