"""What all others can do while one move is held back, and whether it gets in the way of that move."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.pipeline.budget import LimitReached
from hexloom.optimizer.pipeline.machine import FLYING, Fault, State

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.budget import Budget
    from hexloom.optimizer.pipeline.index import Trips
    from hexloom.optimizer.pipeline.machine import Machine, Move, Outcome

LONGEST_RUN = 20_000
"""Moves of the others; where they get further away than this there is nothing that holds them together."""


class Bits(NamedTuple):
    """Slots that are read and slots that are written."""

    reads: int
    writes: int

    def clash(self, other: Bits) -> bool:
        """Whether both touch a slot and one of them writes it."""
        return bool(self.writes & (other.reads | other.writes) or self.reads & other.writes)


class HeldBack:
    """Holds moves back."""

    def __init__(self, machine: Machine, budget: Budget) -> None:
        self.machine = machine
        self.budget = budget
        self._known_users: dict[tuple[object, ...], tuple[int, ...]] = {}
        self.touched = [_touched(machine, t) for t in range(len(machine.program.threads))]

    def is_free(self, state: State, move: Move, after: State, trips: Trips) -> bool:
        """Whether nothing that any other thread has in its program can get in the way of ``move``."""
        still = self._party(move, trips)
        begun, ended = self._begun(move, trips), self._ended(state, still, after, trips)
        touched = Bits(begun.reads | ended.reads, begun.writes | ended.writes)
        rivals = self._rivals(move, trips)
        if not rivals and not any(touched):
            return True
        return not any(t in rivals or self.touched[t].clash(touched) for t in range(len(state.at)) if t not in still)

    def clash(self, state: State, move: Move, after: State, trips: Trips) -> tuple[tuple[Move, ...], Fault] | None:
        """Return moves that show what could be under way together with ``move``, and the fault; None if nothing.

        For confluent programs only, where the others reach everything that they can reach in any order.

        Raises
        ------
        Undecided
            How far the others get depends on the trip count.
        LimitReached
            They get too far away, or there is no more time.
        """
        if self.is_free(state, move, after, trips):
            return None
        still, begun = self._party(move, trips), self._begun(move, trips)
        done: list[Move] = []
        now, before = state, None
        while now is not before:
            before = now
            for t in range(len(state.at)):
                while t not in still:
                    outcome = self._of_thread(now, t, still, trips)
                    if outcome is None:
                        break
                    other, then = outcome
                    if isinstance(then, Fault):
                        return (*done, other), then
                    if self._begun(other, trips).clash(begun):
                        return self._shown(now, done, move, other, trips)
                    now = self._go_on(done, other, then)
            for other, then in self.machine.endings(now, trips):
                if other != move and isinstance(then, State):
                    now = self._go_on(done, other, then)
                    break
        return None

    def _go_on(self, done: list[Move], other: Move, then: State) -> State:
        self.budget.tick()
        done.append(other)
        if len(done) > LONGEST_RUN:
            raise LimitReached(f"a thread that nothing keeps from running {LONGEST_RUN} steps ahead of the others")
        return then

    def _of_thread(self, now: State, t: int, still: tuple[int, ...], trips: Trips) -> Outcome | None:
        """Return the next move of thread ``t``, unless it takes along a thread that is held back."""
        outcome = self.machine.of_thread(now, t, trips)
        if outcome is None or not self.machine.program.barriers:
            return outcome
        return None if set(self._party(outcome[0], trips)) & set(still) else outcome

    def _shown(
        self, now: State, done: list[Move], move: Move, other: Move, trips: Trips
    ) -> tuple[tuple[Move, ...], Fault]:
        """Do ``move``, then ``other`` while it is under way."""
        first = self.machine.of_thread(now, move.actor, trips)
        assert first is not None, "nothing takes a move away in a confluent program"
        if isinstance(first[1], Fault):
            return (*done, move), first[1]
        second = self.machine.of_thread(first[1], other.actor, trips)
        assert second is not None and isinstance(second[1], Fault), "two accesses to one slot overlap"
        return (*done, move, other), second[1]

    def _party(self, move: Move, trips: Trips) -> tuple[int, ...]:
        """Return the threads that take part in ``move``: of a barrier all, of the end of a job none."""
        if move.actor < 0:
            return ()
        action = self.machine.step_at(move.actor, move.at, trips).action
        return self.machine.program.barriers[action.target] if action.verb == "barrier" else (move.actor,)

    def _begun(self, move: Move, trips: Trips) -> Bits:
        if move.actor < 0:
            return Bits(0, 0)
        step = self.machine.step_at(move.actor, move.at, trips)
        return Bits(step.read_bits, step.write_bits)

    def _ended(self, state: State, still: tuple[int, ...], after: State, trips: Trips) -> Bits:
        """Return what the move ends: runs of the threads that take part, and jobs that it knows to have ended."""
        step_at = self.machine.step_at
        steps = [step_at(t, state.at[t], trips) for t in still if state.at[t] >= 0]
        ended = [step for step in steps if step.action.verb == "run"]
        for jobs, then in zip(state.queues, after.queues, strict=True):
            if jobs is not then:
                ended += [
                    step_at(job.thread, job.at, trips) for job in jobs if job.status == FLYING and job not in then
                ]
        reads = writes = 0
        for step in ended:
            reads |= step.read_bits
            writes |= step.write_bits
        return Bits(reads, writes)

    def _rivals(self, move: Move, trips: Trips) -> tuple[int, ...]:
        """Return the threads that use the queue of ``move`` too, or take from the same counter."""
        if move.actor < 0:
            return ()
        action = self.machine.step_at(move.actor, move.at, trips).action
        if action.verb in ("push", "pop"):
            return self._users(action.target, "push", "pop")
        return self._users(action.target, "take") if action.verb == "take" else ()

    def _users(self, target: int, *verbs: str) -> tuple[int, ...]:
        key = (target, *verbs)
        if key not in self._known_users:
            self._known_users[key] = tuple(self.machine.program.users(target, *verbs))
        return self._known_users[key]


def _touched(machine: Machine, t: int) -> Bits:
    """Return all slots that thread ``t`` or its jobs ever touch."""
    reads = writes = 0
    for action in machine.program.threads[t].all():
        for accesses, written in ((action.reads, False), (action.writes, True)):
            for access in accesses:
                bits = ((1 << access.slots) - 1) << access.first
                reads, writes = (reads, writes | bits) if written else (reads | bits, writes)
    return Bits(reads, writes)
