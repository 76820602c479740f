"""How much work the configuration bound may do."""

from __future__ import annotations

import time

NODES_PER_SECOND = 20_000
"""Nodes that count as a second of a deterministic budget."""


class SearchLimitError(Exception):
    """The search was stopped: nothing is proven."""


class Budget:
    """Seconds on the clock, or, deterministic, as many nodes as count for them: the same on every machine."""

    def __init__(self, seconds: float, deterministic: bool, whole: Budget | None = None) -> None:
        self._seconds = seconds
        self._deadline = None if deterministic else time.monotonic() + seconds
        self._nodes = seconds * NODES_PER_SECOND
        self._whole = whole

    def spend(self, nodes: int) -> None:
        """Count work; raises `SearchLimitError` when the budget is used up."""
        if self._whole is not None:
            self._whole.spend(nodes)
        self._nodes -= nodes
        over = self._nodes < 0 if self._deadline is None else time.monotonic() > self._deadline
        if over:
            raise SearchLimitError

    def part(self, share: float) -> Budget:
        """Return a share of this budget; what is spent of it is spent of this one too."""
        return Budget(self._seconds * share, self._deadline is None, self)
