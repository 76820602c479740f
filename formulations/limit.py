"""When a search must stop: after a time, or after as much work as is done in it."""

from __future__ import annotations

import time
from dataclasses import dataclass

OPS_PER_SECOND = 15_000
"""Deterministic work of one second: ops dispatched and simulated. Chosen so that a limit in seconds, given
together with a seed, ends in about that time on a slow core."""


def patience(ops: int) -> int:
    """Return how many tries in a row without a gain end a local search: few ops have few orders, all soon tried."""
    return 200 + 60 * ops * ops


@dataclass
class Limit:
    """When to stop: after ``seconds`` of wall time, or, when deterministic, after as much counted work.

    ``interrupted`` ends the search with the best found so far.
    """

    seconds: float
    deterministic: bool = False
    spent_ops: int = 0
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._started = time.monotonic()

    def spend(self, ops: int) -> None:
        """Count the work of one evaluation."""
        self.spent_ops += ops

    @property
    def share(self) -> float:
        """What has been used of it, as a part."""
        whole = self.seconds * OPS_PER_SECOND if self.deterministic else self.seconds
        used = self.spent_ops if self.deterministic else time.monotonic() - self._started
        return used / whole if whole > 0 else 1.0

    @property
    def reached(self) -> bool:
        """Whether the search must end."""
        if self.interrupted:
            return True
        if self.deterministic:
            return self.spent_ops >= self.seconds * OPS_PER_SECOND
        return time.monotonic() - self._started >= self.seconds


class Budget:
    """Seconds that are left: of wall time, or, when ``counted``, of the limits of all that was asked for."""

    def __init__(self, seconds: float, *, counted: bool) -> None:
        self._seconds, self._counted = seconds, counted
        self._spent = 0.0
        self._started = time.monotonic()

    def spend(self, seconds: float) -> None:
        """Count what something may take."""
        self._spent += seconds

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._seconds - (self._spent if self._counted else time.monotonic() - self._started)
