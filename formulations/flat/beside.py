"""Two searches at the same time: by bytes, and with addresses; what one proves ends the other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.fresh import FreshLane
from hexloom.formulations.flat.lane import CONTRADICTED, Lane, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.flat.guard import Guard

FRESH_OPS = 32
"""Up to so many ops both begin from nothing."""


@dataclass(frozen=True, slots=True)
class Result:
    """The best decision, a bound, whether nothing is better, and where the solver erred."""

    best: tuple[Decision, Simulated] | None
    bound: int
    exhausted: bool
    interrupted: bool
    notes: tuple[str, ...]


class Beside:
    """Bytes first in this thread, addresses in another one.

    With counted limits the result does not depend on who is faster. What bytes alone prove counts first, so it ends the
    other search at once. That one ends this thread's when bytes cannot prove more: what they lead to later counts only
    where it is better, and than what is proven to be the best nothing is.
    """

    def __init__(
        self,
        guard: Guard,
        beside: Guard,
        task: Task,
        incumbent: tuple[Decision, Simulated] | None,
        workers: int,
        on_progress: Callable[[float, float], None] | None,
    ) -> None:
        kind = FreshLane if len(task.problem.ops) <= FRESH_OPS else Lane
        self.counting = kind(guard, task, incumbent, workers, self._told)
        self.placing = kind(beside, task, incumbent, workers, self._told)
        self._counted = task.seed is not None
        self._on_progress = on_progress
        self._shown = None if incumbent is None else incumbent[1].makespan
        self._lock = threading.Lock()

    def run(self) -> Result:
        """Search until one has proven that its best is best, or the time is over."""
        interrupted = False
        with ThreadPoolExecutor(1) as pool:
            try:
                other = pool.submit(self.placing.by_addresses)
                self.counting.by_bytes()
                other.result()
            except KeyboardInterrupt:
                interrupted = True
            finally:
                self.placing.guard.stop()
        return self._merged(interrupted)

    def _told(self, lane: Lane) -> None:
        """Show what is better than all before, and end who is not needed any more."""
        counting, placing = self.counting, self.placing
        bound = max(counting.bound, placing.bound)
        with self._lock:
            found = None if lane.best is None else lane.best[1].makespan
            if found is not None and (self._shown is None or found < self._shown):
                self._shown = found
                if self._on_progress is not None:
                    self._on_progress(found, bound)
        if counting.settled or (counting.exhausted and not self._counted):
            placing.guard.stop()
        met = placing.best is not None and placing.best[1].makespan <= bound
        if (placing.exhausted or met) and (counting.settled is False or not self._counted):
            counting.guard.stop()
            placing.guard.stop()

    def _merged(self, interrupted: bool) -> Result:
        lanes = (self.counting,) if self.counting.settled else (self.placing, self.counting)
        best = min((lane.best for lane in lanes if lane.best is not None), key=lambda b: b[1].makespan, default=None)
        bound = max(lane.bound for lane in lanes)
        exhausted = any(lane.exhausted for lane in lanes) or (best is not None and best[1].makespan <= bound)
        notes = [note for lane in lanes for note in lane.notes]
        if any(lane.exhausted and lane.best is not best and _worse(lane.best, best) for lane in lanes):
            notes.append(CONTRADICTED)
        return Result(best, bound, exhausted, interrupted, tuple(dict.fromkeys(notes)))


def _worse(one: tuple[Decision, Simulated] | None, other: tuple[Decision, Simulated] | None) -> bool:
    return other is not None and (one is None or one[1].makespan > other[1].makespan)
