"""What limits a schedule, by the best of its bounds: one name for tables and programs, and words for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.optimizer.schedule import BoundRow

SEVERAL = "several"
"""The bottleneck where no engine or channel alone is it."""

NAMES = {"turns": "scratchpad", "configuration": SEVERAL, "search": SEVERAL}
"""Bounds that name no engine and are called otherwise than what limits there."""


def bottleneck_of(bounds: Sequence[BoundRow]) -> str:
    """Return the engine or channel that limits, else ``critical_path``, ``scratchpad`` or ``several``."""
    best = bounds[0]
    if best.name == "search" and best.engine is None and len(bounds) > 1:
        return bottleneck_of(bounds[1:])  # A search only says that it is more than what limits by arithmetic.
    if best.name == "critical_path":
        # Where one engine works all along the longest chain, it is the engine that somebody can change.
        engine = next((row.engine for row in bounds[1:] if row.ticks == best.ticks and row.engine), None)
        return engine or best.name
    return best.engine or NAMES.get(best.name, best.name)


def in_words(bounds: Sequence[BoundRow]) -> str:
    """Return the end of a sentence that says what limits."""
    name = bottleneck_of(bounds)
    if name == SEVERAL:
        return "no engine or channel alone is the bottleneck"
    if name == "critical_path":
        path = next(row for row in bounds if row.name == name)
        return f"the longest chain of dependencies ({path.detail}) is the bottleneck"
    return f"{'the ' if name == 'scratchpad' else ''}{name} is the bottleneck"
