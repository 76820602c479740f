"""What iterations that wait for earlier ones take at least, whatever their number: from a problem of few of them.

Let the longest path from an op to the same one ``span`` iterations later take ``step``. Then ``count`` such spans take
``count * step``, after all that the first of them waits for and before all that waits for the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.bound import Bound

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from hexloom.formulations.heads_tails import Grid, HeadsTails
    from hexloom.formulations.problem import Problem

    Iterations = Sequence[Mapping[Hashable, int]]

NAME = "recurrence"

MOST_SPANS = 4
"""Iterations over which paths are looked for."""

MOST_OPS = 400
"""Of one iteration, from which on paths are not looked for."""

BEFORE_LAST = 2
"""The last iteration may be smaller: spans end in the one before it."""


def recurrence_bound(
    problem: Problem, grid: Grid, ht: HeadsTails, iterations: Iterations, missing: int
) -> Bound | None:
    """Return the best such bound for one task, in ticks; None where no iteration waits for an earlier one.

    Parameters
    ----------
    grid, ht
        Heads and tails of ``problem``, in parts of ticks.
    iterations
        Of every iteration in ``problem`` the ops by what they are in it.
    missing
        How many more there are like those in the middle.
    """
    count = len(iterations)
    middle = count // 3
    best: tuple[int, int, int, int] | None = None
    if len(iterations[middle]) > MOST_OPS:
        return None
    last = count - BEFORE_LAST
    for span in range(1, min(MOST_SPANS, last - middle) + 1):
        inside = {i for of in iterations[middle : middle + span + 1] for i in of.values()}
        order = [i for i in problem.topological_order if i in inside]
        for key, start in iterations[middle].items():
            end, ends = iterations[middle + span].get(key), iterations[last].get(key)
            if end is None or ends is None:
                continue
            step = _longest(problem, ht, order, start, end)
            first = (last + missing) % span
            begin = iterations[first].get(key)
            if step <= 0 or begin is None:
                continue
            spans = (last + missing - first) // span
            parts = int(ht.head[begin]) + spans * step + int(ht.duration[ends]) + int(ht.tail[ends])
            if best is None or parts > best[0]:
                best = parts, start, step, span
    if best is None:
        return None
    parts, start, step, span = best
    op = problem.ops[start]
    over = "every iteration" if span == 1 else f"every {span} iterations"
    detail = f"{op.task}/{op.stage}: {grid.ticks(step)} ticks from one to the next, {over}"
    return Bound(NAME, grid.ticks(parts), None, detail)


def _longest(problem: Problem, ht: HeadsTails, order: Sequence[int], start: int, end: int) -> int:
    """Return the longest time from the start of op ``start`` to that of op ``end``, -1 where no path leads there."""
    away = {start: 0}
    for i in order:
        found = [away[p] + int(ht.duration[p]) for p in problem.predecessors[i] if p in away]
        if found and i != start:
            away[i] = max(found)
        if i == end:
            break
    return away.get(end, -1)
