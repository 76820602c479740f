"""Starts at events in the flat model: what a plan, which holds no times, can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.configuration.order import Order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ortools.sat.python import cp_model

    from hexloom.formulations.flat.variables import FlatVars
    from hexloom.formulations.problem import Problem

ENTRY = -1
"""The event before all others."""


@dataclass
class EventStarts:
    """By op, a literal per event at which it can start: the end of an op by its position, or `ENTRY`."""

    literals: list[dict[int, cp_model.IntVar]]


def only_ends_are_events(problem: Problem) -> bool:
    """Whether nothing but the ends of ops, when results are known, can let an op begin.

    Transfers are observed, and take their pipes, at other moments too, and a thread can be released before the end.
    """
    kinds = {engine.name: engine.kind for engine in problem.engines}
    return all(
        mode.dma is None
        and all(use.ticks in (0, mode.latency_ticks) or kinds[use.engine] != "worker" for use in mode.uses)
        for op in problem.ops
        for mode in op.modes
    )


def add_event_starts(model: cp_model.CpModel, problem: Problem, variables: FlatVars) -> EventStarts:
    """Ensure that every op starts at the entry or at the end of one chosen op: ``start(i) == known(j)``.

    At the entry only ops without predecessors can start, unless those take no time; never at the end of what follows.
    """
    order = Order(problem)
    n = len(problem.ops)
    found: list[dict[int, cp_model.IntVar]] = []
    for i, of in enumerate(variables.ops):
        mine = {ENTRY: model.new_bool_var(f"entry>{i}")}
        model.add(of.start == problem.entry_ticks).only_enforce_if(mine[ENTRY])
        for j in range(n):
            if j != i and not order.before(i, j):
                mine[j] = model.new_bool_var(f"{j}>{i}")
                model.add(of.start == variables.ops[j].known).only_enforce_if(mine[j])
        model.add_bool_or(list(mine.values()))
        found.append(mine)
    return EventStarts(found)


def hint_event_starts(
    model: cp_model.CpModel, starts: EventStarts, entry: int, start: Sequence[int], known: Sequence[int]
) -> None:
    """Start from these times: every event that coincides with a start is taken."""
    for i, mine in enumerate(starts.literals):
        for j, literal in mine.items():
            model.add_hint(literal, start[i] == (entry if j == ENTRY else known[j]))
