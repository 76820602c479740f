"""What a task waits for, and where it says so: for one event itself, for more of them by entries before its own.

So an entry comes to two cache lines of tables at most: its own, and that of its task. A task is executed by several
queues where it has slices; it waits for what most of them need, and for everything else those that need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit.records import NONE
from hexloom.emit.rows import Await, Entry, Event, entry_that_waits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Awaited(NamedTuple):
    """The wait of a task itself, and those of entries before its own, with the queues that need them."""

    own: Await = Await(NONE, 0)
    others: tuple[tuple[Await, frozenset[int]], ...] = ()

    def entries(self, queue: int) -> list[Entry]:
        """Return the entries that a queue has before that of the task."""
        return [entry_that_waits(wait) for wait, queues in self.others if queue in queues]

    def of_event(self) -> Iterable[int]:
        """Yield the event of every wait in the tables."""
        if self.own.event != NONE:
            yield self.own.event
        for wait, queues in self.others:
            yield from (wait.event for _ in queues)


def awaited(needed: Mapping[Await, Iterable[int]]) -> Awaited:
    """Return where the waits of a task stand, by the queues that need them; the last ones of them come last."""
    if not needed:
        return Awaited()
    queues = {wait: frozenset(lanes) for wait, lanes in needed.items()}
    own = max(reversed(queues), key=lambda wait: len(queues[wait]))
    return Awaited(own, tuple((wait, lanes) for wait, lanes in queues.items() if wait != own))


def events_of(triggers: Sequence[int], awaits: Iterable[Awaited]) -> tuple[Event, ...]:
    """Return the rows of events, which a run triggers so often outside of laps."""
    waiters = [0] * len(triggers)
    for awaited_by_one in awaits:
        for event in awaited_by_one.of_event():
            waiters[event] += 1
    return tuple(Event(n, waiters[e]) for e, n in enumerate(triggers))
