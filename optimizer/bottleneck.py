"""What limits a schedule, by the best of its bounds: one name for tables and programs, and words for people."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import BoundRow

SEVERAL = "several"
"""The bottleneck where no engine or channel alone is it."""

NAMES = {"turns": "scratchpad", "configuration": SEVERAL, "search": SEVERAL}
"""Bounds that name no engine and are called otherwise than what limits there."""


PLAIN = ("engine_work", "channel_bytes", "steady_interval")
"""Bounds that are the work of their engine and little else."""

NEAR = Fraction(1, 50)
"""Work of one engine so near below the best bound is what limits, whatever engine heads and tails are counted at."""


class Named(Protocol):
    """A bound: what it is called, its ticks, and the engine or channel at which it is counted, if any."""

    @property
    def name(self) -> str:
        """The reason."""

    @property
    def ticks(self) -> Moment:
        """What it proves."""

    @property
    def engine(self) -> str | None:
        """Where."""


Bound = TypeVar("Bound", bound=Named)


def limiting_bound(bounds: Sequence[Bound]) -> Bound:
    """Return which of ``bounds``, the best first, says what limits.

    Heads and tails hold at any engine, also at one with a little work between much of others'.
    """
    best = bounds[0]
    if best.name == "heads_tails":
        most = max((row for row in bounds if row.name in PLAIN), key=lambda row: row.ticks, default=best)
        if most.ticks >= best.ticks * (1 - NEAR) and most.engine != best.engine:
            return most
    return best


def limiting_engine(bounds: Sequence[Named]) -> str | None:
    """Return the engine or channel that limits; None where none does alone."""
    return limiting_bound(bounds).engine


def bottleneck_of(bounds: Sequence[Named]) -> str:
    """Return the engine or channel that limits, else ``critical_path``, ``scratchpad`` or ``several``."""
    best = bounds[0]
    if best.name == "search" and best.engine is None and len(bounds) > 1:
        return bottleneck_of(bounds[1:])  # A search only says that it is more than what limits by arithmetic.
    if best.name == "critical_path":
        # Where one engine works all along the longest chain, it is the engine that somebody can change.
        engine = next((row.engine for row in bounds[1:] if row.ticks == best.ticks and row.engine), None)
        return engine or best.name
    return limiting_engine(bounds) or NAMES.get(best.name, best.name)


def in_words(bounds: Sequence[BoundRow]) -> str:
    """Return the end of a sentence that says what limits."""
    name = bottleneck_of(bounds)
    if name == SEVERAL:
        return "no engine or channel alone is the bottleneck"
    if name == "critical_path":
        path = next(row for row in bounds if row.name == name)
        return f"the longest chain of dependencies ({path.detail}) is the bottleneck"
    return f"{'the ' if name == 'scratchpad' else ''}{name} is the bottleneck"
