"""From a solution of the flat model where ops slow each other to a decision: an order, and what waits for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.greedy import Policy, list_schedule

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem


def slowed_decision(problem: Problem, parts: Problem, solution: FlatSolution) -> Decision | None:
    """Return the list schedule of ``problem`` in the order of a solution of it in ``parts``; None at a dead end.

    An op that the solution starts later than its inputs allow waits for the last op that ends by then, one that began
    before it: so no op waits in a circle.
    """
    start, known = solution.start, solution.known
    guards = []
    for i, begin in enumerate(start):
        ready = max((known[p] for p in problem.predecessors[i]), default=parts.entry_ticks)
        before = [j for j, end in enumerate(known) if ready < end <= begin and start[j] < begin]
        if begin > ready and before:
            guards.append((max(before, key=lambda j: (known[j], -j)), i))
    priority = tuple(float(-begin) for begin in start)
    return list_schedule(problem, Policy(priority, solution.mode, guards=tuple(guards)))
