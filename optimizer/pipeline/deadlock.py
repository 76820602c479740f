"""A deadlock as a cycle: who waits for whom, for what, and what stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.pipeline.replay import name_of, where_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.pipeline.machine import Step
    from hexloom.optimizer.pipeline.replay import Replay


class Wait(NamedTuple):
    """Thread ``waiter`` stands before ``at``; ``giver`` would let it go on at ``gives_at``, or nobody (-1)."""

    waiter: int
    at: int
    what: str
    giver: int = -1
    gives_at: int = -1


class Deadlock:
    """The waits of a state in which nobody can go on."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.names = [lines.name for lines in replay.program.threads]
        self.waits = [wait for t in range(len(self.names)) for wait in self._waits(t)]

    def lines(self) -> list[str]:
        """Return one line for each wait."""
        return [self._line(wait) for wait in self.waits]

    def cycle(self) -> tuple[str, ...]:
        """Return runs and jobs of which each comes only after the one before, and the first only after the last.

        Empty where some thread waits for what nobody will give.
        """
        waits = self._cycle_of_waits()
        found: list[str] = []
        for k, wait in enumerate(reversed(waits)):
            next_wait = waits[len(waits) - 1 - k - 1]
            found += self._between(wait.waiter, wait.at, next_wait.gives_at)
        return tuple(name for k, name in enumerate(found) if k == 0 or found[k - 1] != name)

    def _cycle_of_waits(self) -> list[Wait]:
        """Return waits w0, w1, ... where the giver of each is the waiter of the next, round to the first."""
        out: dict[int, list[Wait]] = {}
        for wait in self.waits:
            out.setdefault(wait.waiter, []).append(wait)
        for start in out:
            trail = self._back_to(start, start, out, set())
            if trail:
                return trail
        return []

    def _back_to(self, start: int, t: int, out: dict[int, list[Wait]], seen: set[int]) -> list[Wait]:
        seen.add(t)
        for wait in out.get(t, ()):
            if wait.giver == start:
                return [wait]
            if wait.giver >= 0 and wait.giver not in seen:
                rest = self._back_to(start, wait.giver, out, seen)
                if rest:
                    return [wait, *rest]
        return []

    def _line(self, wait: Wait) -> str:
        step = self.replay.step(wait.waiter, wait.at)
        ahead = self._ahead(wait.waiter, wait.at)
        before = f" before {ahead}" if ahead else ""
        text = f"{self.names[wait.waiter]} ({where_of(step)}) waits{before} for {wait.what}"
        if wait.giver < 0:
            return f"{text}; nobody will"
        after = self._behind(wait.giver, wait.gives_at)
        who = "itself" if wait.giver == wait.waiter else self.names[wait.giver]
        where = where_of(self.replay.step(wait.giver, wait.gives_at))
        return f"{text}: {who} would ({where}{f', after {after}' if after else ''})"

    def _waits(self, t: int) -> Iterator[Wait]:
        replay = self.replay
        come = replay.machine.next_of(t, replay.state.at[t], replay.trips)
        if come is None:
            return
        at, step = come
        target, verb = step.action.target, step.action.verb
        if verb == "barrier":
            for other in replay.program.barriers[target]:
                there = replay.machine.next_of(other, replay.state.at[other], replay.trips)
                if there is None or there[1].action.verb != "barrier" or there[1].action.target != target:
                    yield self._wait(t, at, f"{self.names[other]} at barrier {step.action.text}", [other], step)
            return
        if verb == "push":
            queue = replay.program.queues[target]
            yield self._wait(t, at, f"an entry of {queue.name}, which has {queue.entries}", None, step)
            return
        event = replay.program.events[target].name
        yield self._wait(t, at, f"event {event} ({replay.state.counts[target]} of {step.times})", None, step)

    def _wait(self, t: int, at: int, what: str, among: list[int] | None, step: Step) -> Wait:
        """Find who would end this wait first in its own order; the waiter itself last of all."""
        others = sorted(range(len(self.names)), key=lambda u: u == t) if among is None else among
        for u in others:
            for place, theirs in self._to_come(u):
                if _gives(theirs, step):
                    return Wait(t, at, what, u, place)
        return Wait(t, at, what)

    def _to_come(self, t: int) -> Iterator[tuple[int, Step]]:
        """Return what thread ``t`` would still do."""
        come = self.replay.machine.next_of(t, self.replay.state.at[t], self.replay.trips)
        while come is not None:
            yield come
            come = self.replay.machine.next_of(t, come[0], self.replay.trips)

    def _ahead(self, t: int, at: int) -> str:
        """Return the first run or job from ``at`` on."""
        named = (name_of(step) for place, step in self._to_come(t) if place >= at and _has_name(step))
        return next(named, "")

    def _behind(self, t: int, at: int) -> str:
        """Return the last run or job of thread ``t`` before ``at`` that is still to come, or was the last it did."""
        found = ""
        for place, step in self._to_come(t):
            if place >= at and not (place == at and _has_name(step)):
                break
            found = name_of(step) if _has_name(step) else found
        return found

    def _between(self, t: int, at: int, last: int) -> list[str]:
        return [name_of(step) for place, step in self._to_come(t) if at <= place <= last and _has_name(step)]


def _has_name(step: Step) -> bool:
    return step.action.verb in ("run", "push")


def _gives(theirs: Step, wanted: Step) -> bool:
    """Whether ``theirs`` brings what ``wanted`` waits for."""
    verb, target = wanted.action.verb, wanted.action.target
    if verb == "barrier":
        return theirs.action.verb == "barrier" and theirs.action.target == target
    if verb == "push":
        return theirs.action.verb == "pop" and theirs.action.target == target
    signals = theirs.action.verb == "signal" and theirs.action.target == target
    return signals or (theirs.action.verb == "push" and target in theirs.action.signals)
