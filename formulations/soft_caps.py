"""Channels as amounts that few ops hold at a time: plans in which contention is bounded, though not excluded.

Transfers that all begin at once slow each other, and then all end at once: what waits for the first of them idles, and
after that the channel does. Let few of them in, and they come in one after the other while the channel stays full.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Problem

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.mode import Mode


def capped(problem: Problem, factor: Fraction) -> Problem:
    """Return ``problem`` with a share beside every channel, ``factor`` times as large: ops hold what they demand of it.

    Ops keep their demands, modes and positions.
    """
    fields = {name: getattr(problem, name) for name in type(problem).model_fields}
    wide = tuple(c.model_copy(update={"capacity": max(1, int(c.capacity * factor))}) for c in problem.channels)
    view = problem.model_copy(update={"channels": wide}).with_rigid_channels()
    pulling: dict[int, Mode] = {}
    for op, old in zip(view.ops, problem.ops, strict=True):
        for mode, given in zip(op.modes, old.modes, strict=True):
            pulling.setdefault(id(mode), mode.model_copy(update={"pulls": given.pulls}))
    ops = tuple(op.model_copy(update={"modes": tuple(pulling[id(mode)] for mode in op.modes)}) for op in view.ops)
    return Problem(**{**fields, "engines": view.engines, "ops": ops})


def without_shares(problem: Problem, decision: Decision) -> Decision:
    """Return for ``problem`` a decision made for it with shares: who hands a share on becomes a guard."""
    units = tuple(
        mine[: len(op.modes[m].uses)] for op, m, mine in zip(problem.ops, decision.modes, decision.units, strict=True)
    )
    guards = tuple(dict.fromkeys((*decision.guards, *decision.flows)))
    return replace(decision, units=units, guards=guards, flows=())
