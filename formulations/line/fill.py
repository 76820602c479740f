"""What the busiest engine does not need is put where it does least harm: groups of ops that run side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.line.tables import Tables
    from hexloom.formulations.problem import Problem


def core_of(problem: Problem, tables: Tables) -> set[int]:
    """Return the ops that are connected to one of the busiest engine; all where there is none."""
    lane = tables.hot_lane
    uses = [any(lane in hold.lanes for hold in holds) for holds in tables.holds]
    found = {i for group in problem.components if any(uses[i] for i in group) for i in group}
    return found or set(range(len(problem.ops)))


def bundles_of(problem: Problem, tables: Tables, core: set[int]) -> list[list[list[int]]]:
    """Return the listed ops that are not in ``core``, in bundles: groups of connected ops, each on lanes of its own.

    The longest come first, so that those of a bundle last about as long.
    """
    listed = set(tables.listed)
    groups = [[i for i in of if i in listed] for of in problem.components if not core.intersection(of)]
    groups = sorted((of for of in groups if of), key=lambda of: (-sum(tables.duration[i] for i in of), of[0]))
    bundles: list[list[list[int]]] = []
    taken: list[set[int]] = []
    for group in groups:
        fitting = ((k, _lanes(tables, group, of)) for k, of in enumerate([*taken, set[int]()]))
        k, lanes = next((k, lanes) for k, lanes in fitting if lanes is not None)
        if k == len(taken):
            taken.append(set())
            bundles.append([])
        taken[k] |= lanes
        bundles[k].append(group)
    return bundles


def _lanes(tables: Tables, group: Sequence[int], taken: set[int]) -> set[int] | None:
    """Return the lanes that a group holds, the first that are not ``taken`` where it may choose; None if some are."""
    found: set[int] = set()
    for i in group:
        for hold in tables.holds[i]:
            free = [lane for lane in hold.lanes if lane not in taken]
            if len(free) < hold.count:
                return None
            found.update(free[: hold.count])
    return found


def side_by_side(groups: Sequence[Sequence[int]]) -> list[int]:
    """Return the first ops of all groups, then the second ones, and so on."""
    return [of[k] for k in range(max(map(len, groups))) for of in groups if k < len(of)]
