"""Lower bounds for many iterations, from a problem of few: what every iteration more brings to engines and channels.

An iteration more stands between those that are there. It has the dependencies of the one before it, and more: so its
ops start no earlier than those of the first ones can, and end no later before the end than those of the last ones.
The smallest head and tail on an engine are those of the few iterations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.bound import Bound
from hexloom.formulations.heads_tails import Grid, engine_demands, heads_and_tails

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hexloom.formulations.problem import Problem, Rule

NAME = "all_iterations"


def whole_bounds(problem: Problem, rule: Rule, more: Sequence[tuple[Collection[int], int]]) -> tuple[Bound, ...]:
    """Return for every engine and shared channel: least head + all work over its units + least tail; the best first.

    Parameters
    ----------
    problem
        The tasks with few iterations.
    more
        Per task the positions of the ops of one iteration, and how many iterations like it are missing.
    """
    grid = Grid(problem, rule)
    demands = engine_demands(problem, grid)
    ht = heads_and_tails(problem, demands, grid)
    found = []
    for demand in demands:
        energy = dict(zip(demand.ops.tolist(), demand.energy.tolist(), strict=True))
        total = sum(energy.values()) + sum(n * sum(energy.get(i, 0) for i in ops) for ops, n in more)
        head = int((ht.head[demand.ops] + demand.lead).min())
        tail = int((ht.tail[demand.ops] + demand.trail).min())
        ticks = grid.ticks(head + grid.served(total, demand.units) + tail)
        detail = f"{demand.name}: the work of all iterations, after the least head and before the least tail"
        found.append(Bound(NAME, ticks, demand.name, detail))
    return tuple(sorted(found, key=lambda bound: -bound.ticks))
