"""Whether anything can go wrong in any order of steps, for one trip count or for all of them at once.

**All trip counts in one search.** The trip count is a fixed number that nobody has said yet. Where a thread must know
whether n > v (its loop goes on, a guard holds), the search goes both ways: once with n = v or less, once with more. So
every run for every trip count is followed by some way of the search. States that are the same up to renaming the
iterations (`renaming.py`) have the same future, with the trip count renamed alike, and are visited once. When no new
state is left, the visited set is closed under all moves; if no visited state has a fault, none can be reached: this is
a proof for every trip count, however large.

**One order instead of all.** In a *confluent* program (each queue has one pusher and one waiter, each counter one
taker) no move takes away another. Let a move m be possible in a state, hold it back, and let all others go on until
they are stuck: that run does everything that can happen before m, in whatever order. If none of that touches what m
touches, m commutes with all of it and may be done first: {m} is a persistent set, which keeps every fault and every
deadlock, since a run for a given n is finite. If something does touch it, it can begin while m is under way: a fault,
and the run that was just made shows it. So a confluent program without faults is proven along a single order.
Elsewhere a move is done first only where no other thread has anything in its program that could get in its way; the
rest is searched in all orders.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.pipeline.budget import LimitReached
from hexloom.optimizer.pipeline.hold_back import HeldBack
from hexloom.optimizer.pipeline.index import Trips, Undecided
from hexloom.optimizer.pipeline.machine import Fault, State
from hexloom.optimizer.pipeline.renaming import renamed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.pipeline.budget import Budget
    from hexloom.optimizer.pipeline.machine import Machine, Move, Outcome

    Path = tuple[Move, ...]
    Way = tuple[Path, State | Fault, Trips]
    Node = tuple[State, Trips]
    Origin = dict[Node, tuple[Node, Path] | None]


AHEAD = 2
"""Iterations that a thread may be ahead of the next beyond the slots between them; more looks like a runaway."""


class Found(NamedTuple):
    """A fault that some order of steps leads to with ``trip_count``; ``path`` only for one given trip count."""

    trip_count: int
    path: Path
    fault: Fault


class Explorer:
    """The search over the states of one program."""

    def __init__(self, machine: Machine, budget: Budget) -> None:
        self.machine = machine
        self.budget = budget
        self.confluent = machine.program.confluent
        self.held_back = HeldBack(machine, budget)

    def one(self, trip_count: int) -> Found | None:
        """Return a fault for this trip count, with the moves that lead to it, or None: there is none."""
        first = (self.machine.start(), Trips(trip_count, True))
        origin: Origin = {first: None}
        waiting = deque([first])
        while waiting:
            node = waiting.popleft()
            self.budget.spend()
            for moves, after, trips in self._ways(*node):
                if isinstance(after, Fault):
                    return Found(trip_count, (*_path(origin, node), *moves), after)
                if (after, trips) not in origin:
                    origin[after, trips] = (node, moves)
                    waiting.append((after, trips))
        return None

    def all_from(self, least: int) -> Found | None:
        """Return a fault for some trip count of ``least`` or more, or None: there is none for any of them.

        Raises
        ------
        LimitReached
            The budget is used up; it says so if the states never end because a thread gets away from another.
        """
        state, trips, base = renamed(self.machine, self.machine.start(), Trips(least, False))
        seen = {(state, trips)}
        waiting = deque([(state, trips, base)])
        while waiting:
            state, trips, base = waiting.popleft()
            self._spend(state)
            for _, after, known in self._ways(state, trips):
                if isinstance(after, Fault):
                    return Found(known.least + base, (), after)
                new, seen_from_there, by = renamed(self.machine, after, known)
                if (new, seen_from_there) not in seen:
                    seen.add((new, seen_from_there))
                    waiting.append((new, seen_from_there, base + by))
        return None

    def _spend(self, state: State) -> None:
        try:
            self.budget.spend()
        except LimitReached as reached:
            program = self.machine.program
            where = [self.machine.iteration_of(t, at) for t, at in enumerate(state.at) if program.threads[t].body]
            ahead = max(where, default=0) - min(where, default=0)
            if ahead <= len(where) * (AHEAD + max((memory.slots for memory in program.memories), default=0)):
                raise
            away = f"a thread that gets {ahead} iterations ahead of another"
            raise LimitReached(f"{reached.limit}, with {away}") from None

    def _ways(self, state: State, trips: Trips) -> list[Way]:
        """Return what to look at after ``state``: enough of its moves, or both answers about the trip count."""
        try:
            ways = self._chosen(state, trips)
            rest = None if ways else self.machine.at_rest(state, trips)
        except Undecided:
            return [((), state, Trips(trips.least, True)), ((), state, Trips(trips.least + 1, False))]
        return ways if rest is None else [((), rest, trips)]

    def _chosen(self, state: State, trips: Trips) -> list[Way]:
        """Return one move that may be done first, or the fault that says why not, or else all; nothing at rest."""
        moves = []
        for outcome in self._slowest_first(state, trips):
            if self.confluent:
                return [self._tested(state, outcome, trips)]
            move, after = outcome
            if isinstance(after, Fault) or self.held_back.is_free(state, move, after, trips):
                return [((move,), after, trips)]
            moves.append(outcome)
        return [((move,), after, trips) for move, after in moves]

    def _slowest_first(self, state: State, trips: Trips) -> Iterator[Outcome]:
        """Return all moves; the slowest thread comes first, so that none runs away from the others for no reason."""
        machine = self.machine
        for t in sorted(range(len(state.at)), key=lambda t: (machine.iteration_of(t, state.at[t]), t)):
            outcome = machine.of_thread(state, t, trips)
            if outcome is not None:
                yield outcome
        yield from machine.endings(state, trips)

    def _tested(self, state: State, outcome: Outcome, trips: Trips) -> Way:
        move, after = outcome
        if isinstance(after, Fault):
            return (move,), after, trips
        clash = self.held_back.clash(state, move, after, trips)
        return ((move,), after, trips) if clash is None else (*clash, trips)


def _path(origin: Origin, node: Node) -> Path:
    parts: list[Path] = []
    step = origin[node]
    while step is not None:
        parts.append(step[1])
        step = origin[step[0]]
    return tuple(move for part in reversed(parts) for move in part)
