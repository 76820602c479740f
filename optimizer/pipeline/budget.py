"""How long a search may take."""

from __future__ import annotations

import time


class LimitReached(Exception):
    """The search may not go on; ``limit`` says what is used up."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class Budget:
    """Until ``seconds`` are over or ``states`` were seen, whichever comes first."""

    def __init__(self, seconds: float, states: int) -> None:
        self.ends = time.monotonic() + seconds
        self.most_states = states
        self.states = 0
        self._ticks = 0

    def spend(self) -> None:
        """Count one state.

        Raises
        ------
        LimitReached
            There is no more time, or there were too many states.
        """
        self.states += 1
        if self.states > self.most_states:
            raise LimitReached(f"{self.most_states} states")
        self.tick()

    def tick(self) -> None:
        """Look at the clock now and then.

        Raises
        ------
        LimitReached
            There is no more time.
        """
        self._ticks += 1
        if self._ticks % 64 == 1 and self.over():
            raise LimitReached("time")

    def over(self) -> bool:
        """Whether there is no more time."""
        return time.monotonic() > self.ends
