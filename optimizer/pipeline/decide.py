"""The answer about a pipeline: safe for every trip count, broken and how, or not decided within the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from hexloom.optimizer.pipeline.budget import Budget, LimitReached
from hexloom.optimizer.pipeline.explore import Explorer
from hexloom.optimizer.pipeline.machine import Machine
from hexloom.optimizer.pipeline.program import program_of
from hexloom.optimizer.pipeline.shortest import shortest

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.explore import Found
    from hexloom.optimizer.pipeline.model import Pipeline
    from hexloom.optimizer.pipeline.shortest import Broken

MOST_STATES = 400_000
"""Of one search; each takes about a kilobyte."""

ONE_BY_ONE = 4
"""Trip counts tried by themselves before all at once: most faults show in a few trips."""

FEW = 16
"""So many trip counts are all tried by themselves."""

LONG = 64
"""From a smallest trip count above this the proof is tried for smaller ones too, which is shorter."""


FOR_ALL_AT_ONCE = 0.6
"""Of the time; the rest is for trip counts one by one."""

FOR_A_SHORTER_ONE = 0.25
"""Of the time: a fault is known, and waiting long for a shorter way to it helps nobody."""


class Answer(NamedTuple):
    """What is known.

    ``proven_to`` is the largest trip count up to which there is no fault, None where not even the smallest was decided;
    ``states`` is how many states were looked at, and ``limit`` what ended an undecided search.
    """

    status: Literal["safe", "broken", "undecided"]
    machine: Machine
    proven_to: int | None
    broken: Broken | None
    states: int
    limit: str = ""


def check_pipeline(
    pipeline: Pipeline, time_limit_s: float = 60, source: str = "pipeline", most_states: int = MOST_STATES
) -> Answer:
    """Return whether ``pipeline`` is safe for every trip count, or the shortest interleaving that breaks it.

    The interleaving is for the smallest trip count that has one.

    Parameters
    ----------
    pipeline
        The loop, as written down.
    time_limit_s
        Seconds until the answer is "undecided", with the trip counts that are known to be safe.
    source
        What errors name as their place.
    most_states
        States that one search may see; each takes about a kilobyte.

    Raises
    ------
    InvalidInputError
        The pipeline names what is not there or contradicts itself.
    """
    return _Decision(Machine(program_of(pipeline, source)), pipeline.trip_counts, time_limit_s, most_states).answer()


class _Decision:
    def __init__(self, machine: Machine, trip_counts: tuple[int, int], seconds: float, most_states: int) -> None:
        self.machine = machine
        self.low, self.high = trip_counts
        self.seconds = seconds
        self.most_states = most_states
        self.clock = Budget(seconds, most_states)
        self.states = 0
        self.next = self.low
        self.limit = ""

    def answer(self) -> Answer:
        """Try the smallest trip counts, then all at once, then, if that finds a fault, up to the one that has it."""
        try:
            if self.low <= LONG:
                few = self.high - self.low < FEW
                found = self._each_to(self.high if few else self.low + ONE_BY_ONE - 1)
                if found is not None or self.next > self.high:
                    return self._found(found)
            last = self._last_to_try()
            found = None if last is None else self._each_to(min(self.high, last))
            assert found or last is None or last > self.high or self.limit, "both searches know of the same faults"
            return self._found(found)
        except LimitReached as reached:
            return self._undecided(reached)

    def _last_to_try(self) -> int | None:
        """Return a trip count at which a fault is known to be, the largest if it is not decided, or None: all safe."""
        try:
            found = self._all_from(self.next if self.low <= LONG else min(self.low, ONE_BY_ONE))
            if found is not None and found.trip_count < self.next:
                found = self._all_from(self.next)
        except LimitReached as reached:
            self.limit = reached.limit
            return self.high
        return None if found is None else found.trip_count

    def _each_to(self, last: int) -> Found | None:
        while self.next <= last:
            explorer = self._explorer(self.seconds)
            try:
                found = explorer.one(self.next)
            finally:
                self.states += explorer.budget.states
            if found is not None:
                return found
            self.next += 1
        return None

    def _all_from(self, least: int) -> Found | None:
        explorer = self._explorer(self.seconds * FOR_ALL_AT_ONCE)
        try:
            return explorer.all_from(least)
        finally:
            self.states += explorer.budget.states

    def _explorer(self, seconds: float) -> Explorer:
        budget = Budget(seconds, self.most_states)
        budget.ends = min(budget.ends, self.clock.ends)
        return Explorer(self.machine, budget)

    def _found(self, found: Found | None) -> Answer:
        if found is None:
            return self._answer("safe", proven_to=self.high)
        budget = self._explorer(self.seconds * FOR_A_SHORTER_ONE).budget
        broken = shortest(self.machine, found.trip_count, found.path, budget)
        self.states += budget.states
        return self._answer("broken", broken=broken)

    def _undecided(self, reached: LimitReached) -> Answer:
        """Return what is known; what ended the search over all trip counts says more than what ended the rest."""
        return self._answer("undecided")._replace(limit=self.limit or reached.limit)

    def _answer(
        self, status: Literal["safe", "broken", "undecided"], proven_to: int | None = None, broken: Broken | None = None
    ) -> Answer:
        if proven_to is None and self.next > self.low:
            proven_to = self.next - 1
        return Answer(status, self.machine, proven_to, broken, self.states)
