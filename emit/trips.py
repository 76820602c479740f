"""Of which tasks fewer iterations are the same plan without the later ones.

A plan is valid for any durations, so also where ops take no time: where those of the last iterations do nothing, what
is left is a plan for fewer iterations, if these ask for no more than they do among many. Here it is looked at whether
they do: that no iteration depends on earlier ones in a way of its own, and none is a special one for what runs once.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hexloom.optimizer.periodic.check_bounds import ONCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.periodic.check import Label

    Kind = tuple[str, str, int]


def tasks_to_cut(problem: Problem, labels: Sequence[Label]) -> set[str]:
    """Return the tasks of which the plan holds for fewer iterations, too; ``labels`` are those of the ops."""
    trips: dict[str, int] = {}
    for task, _, _, iteration in labels:
        if iteration != ONCE:
            trips[task] = max(trips.get(task, 0), iteration + 1)
    return {task for task in trips if _is_even(problem, labels, task, trips[task])}


def _is_even(problem: Problem, labels: Sequence[Label], task: str, trips: int) -> bool:
    """Whether iterations of ``task`` differ in nothing but what there is before them."""
    inside: dict[int, set[tuple[Kind, Kind, int]]] = defaultdict(set)
    after_once: dict[tuple[int, Kind], set[int]] = defaultdict(set)
    before_once: dict[tuple[int, Kind], set[int]] = defaultdict(set)
    for i, label in enumerate(labels):
        for p in problem.predecessors[i]:
            if task not in (label[0], labels[p][0]):
                continue
            here, there = label[3], labels[p][3]
            if ONCE not in (here, there):
                if label[0] != labels[p][0] or there > here:
                    return False
                inside[here].add((labels[p][:3], label[:3], here - there))
            elif here != ONCE and label[0] == task:
                after_once[p, label[:3]].add(here)
            elif there != ONCE and labels[p][0] == task:
                before_once[i, labels[p][:3]].add(there)
    everyone = set().union(*inside.values())
    present = {(label[:3], label[3]) for label in labels}
    for j in range(trips):  # the last iteration may lack ops
        due = {(a, b, back) for a, b, back in everyone if back <= j and {(a, j - back), (b, j)} <= present}
        if inside[j] != due:
            return False
    # What runs once before an iteration may be for the first ones; what runs behind one must be behind all of them.
    first = all(found == set(range(len(found))) for found in after_once.values())
    return first and all(len(found) == trips for found in before_once.values())
