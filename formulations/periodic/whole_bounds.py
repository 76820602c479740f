"""Lower bounds for many iterations, from a problem of few: what every iteration more brings to engines and channels.

An iteration more stands between those that are there. It has the dependencies of the one before it, and more: so its
ops start no earlier than those of the first ones can, and end no later before the end than those of the last ones.
The smallest head and tail on an engine are those of the few iterations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.bound import Bound
from hexloom.formulations.heads_tails import Grid, engine_demands, heads_and_tails
from hexloom.formulations.periodic.whole_recurrence import recurrence_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.periodic.whole_recurrence import Iterations
    from hexloom.formulations.problem import Problem, Rule

NAME = "all_iterations"


def whole_bounds(problem: Problem, rule: Rule, tasks: Sequence[tuple[Iterations, int]]) -> tuple[Bound, ...]:
    """Return for every engine and shared channel: least head + all work over its units + least tail; the best first.

    Among them stands what iterations that wait for earlier ones take.

    Parameters
    ----------
    problem
        The tasks with few iterations.
    tasks
        Per task the ops of every iteration by what they are in it, and how many iterations like those in the middle
        are missing.
    """
    grid = Grid(problem, rule)
    demands = engine_demands(problem, grid)
    ht = heads_and_tails(problem, demands, grid)
    found = []
    for demand in demands:
        energy = dict(zip(demand.ops.tolist(), demand.energy.tolist(), strict=True))
        total = sum(energy.values()) + sum(
            n * sum(energy.get(i, 0) for i in of[len(of) // 2].values()) for of, n in tasks
        )
        head = int((ht.head[demand.ops] + demand.lead).min())
        tail = int((ht.tail[demand.ops] + demand.trail).min())
        ticks = grid.ticks(head + grid.served(total, demand.units) + tail)
        detail = f"{demand.name}: the work of all iterations, after the least head and before the least tail"
        found.append(Bound(NAME, ticks, demand.name, detail))
    for iterations, missing in tasks:
        if missing == 0:  # then the path is one of the problem itself
            continue
        waits = recurrence_bound(problem, grid, ht, iterations, missing)
        if waits is not None:
            found.append(waits)
    return tuple(sorted(found, key=lambda bound: -bound.ticks))
