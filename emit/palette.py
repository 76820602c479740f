"""Colours: one per task, of a palette that colour-blind readers can tell apart; lighter from stage to stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.problem import Op, Problem

RGB = tuple[int, int, int]

TASK_COLOURS: tuple[RGB, ...] = (
    (0, 114, 178),  # blue
    (230, 159, 0),  # orange
    (0, 158, 115),  # green
    (204, 121, 167),  # pink
    (213, 94, 0),  # vermilion
    (86, 180, 233),  # sky
    (150, 140, 20),  # olive
)
"""After Okabe and Ito, with a darker yellow that shows on white."""

MIDDLE, STAGE_STEP, WIDEST = 0.13, 0.3, 0.9
"""Shades lie around ``MIDDLE`` toward white (1) and black (-1), ``STAGE_STEP`` apart while they fit in ``WIDEST``."""

ISSUE, WAIT, RESERVED = "#3d444d", "#d4d9de", "#e3e6ea"


class Palette:
    """The colour of every task and stage of a problem, in the order in which ops name them."""

    def __init__(self, problem: Problem) -> None:
        self.stages: dict[str, list[str]] = {}
        for op in problem.ops:
            stages = self.stages.setdefault(op.task, [])
            if op.stage not in stages:
                stages.append(op.stage)
        self.colours = {
            (task, stage): _hex(_shade(TASK_COLOURS[t % len(TASK_COLOURS)], s, len(stages)))
            for t, (task, stages) in enumerate(self.stages.items())
            for s, stage in enumerate(stages)
        }

    def of(self, op: Op) -> str:
        """Return the colour of an op as #rrggbb."""
        return self.colours[op.task, op.stage]


def ink_on(colour: str) -> str:
    """Return black or white, whichever reads better on ``colour``."""
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#fff" if 0.299 * r + 0.587 * g + 0.114 * b < 140 else "#1f2328"


def _shade(colour: RGB, stage: int, stages: int) -> RGB:
    """Mix with black for early stages and with white for late ones; a single stage keeps the pure colour."""
    if stages == 1:
        return colour
    width = min(WIDEST, STAGE_STEP * (stages - 1))
    amount = MIDDLE + width * (stage / (stages - 1) - 0.5)
    toward = 255 if amount > 0 else 0
    r, g, b = (round(c + (toward - c) * abs(amount)) for c in colour)
    return r, g, b


def _hex(colour: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
