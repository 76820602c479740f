"""How ops slow each other in a model, and a problem in the parts of a tick that such a model counts."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.formulations.problem import Mode, Problem, Rule, Use

BLUR = 1e-6
"""Parts by which a simulated time, in floats, may lie below the whole number that it is."""


@dataclass(frozen=True, slots=True)
class Slowing:
    """How ops slow each other in a model.

    ``scale`` parts are a tick. With ``events`` an op starts only at the end of another, as in a plan; else at any time.
    """

    rule: Rule
    scale: Fraction
    events: bool


def in_parts(problem: Problem, scale: Fraction) -> Problem:
    """Return ``problem`` in parts of a tick, ``scale`` of them a tick, all times rounded down.

    What releases a unit before its end still does: it may seem shorter then, never longer.
    """
    if scale == 1:
        return problem

    def parts(ticks: int) -> int:
        return floor(ticks * scale)

    def used(use: Use, mode: Mode) -> Use:
        ticks = parts(use.ticks)
        if use.ticks < mode.latency_ticks and ticks == parts(mode.latency_ticks):
            ticks = max(0, ticks - 1)
        return use.model_copy(update={"ticks": ticks})

    def moded(mode: Mode) -> Mode:
        dma = mode.dma
        if dma is not None:
            times = {"issue_ticks": parts(dma.issue_ticks), "poll_ticks": parts(dma.poll_ticks)}
            dma = dma.model_copy(update=times)
        changed = {
            "uses": tuple(used(use, mode) for use in mode.uses),
            "latency_ticks": parts(mode.latency_ticks),
            "overhead_ticks": parts(mode.overhead_ticks),
            "dma": dma,
        }
        return mode.model_copy(update=changed)

    ops = tuple(
        op.model_copy(
            update={
                "modes": tuple(moded(mode) for mode in op.modes),
                "deadline_ticks": None if op.deadline_ticks is None else parts(op.deadline_ticks),
            }
        )
        for op in problem.ops
    )
    return problem.changed(tick_us=None, ops=ops, entry_ticks=parts(problem.entry_ticks))
