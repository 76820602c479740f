"""States that differ only by how often the loop has been round are made one.

Nothing in a pipeline but its ends and the guards of its first iterations knows the number of an iteration: taking d off
every iteration, value and trip count, and turning the slots of rolling buffers by d, gives a state with the same moves
and faults. d is the iteration of the slowest thread or of the oldest job, less what keeps clear of those guards, so
that what is left is small and there are finitely many such states as long as no thread gets away from the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.pipeline.index import Undecided
from hexloom.optimizer.pipeline.machine import EVERY, NOTHING, OLD, State

if TYPE_CHECKING:
    from hexloom.optimizer.pipeline.index import Trips
    from hexloom.optimizer.pipeline.machine import Machine, Value


def renamed(machine: Machine, state: State, trips: Trips) -> tuple[State, Trips, int]:
    """Return the state and the trip count as seen from its own iteration, and how many iterations were taken off."""
    program = machine.program
    slowest = _slowest(machine, state, trips)
    by = max(0, (slowest - program.settled) // program.period * program.period)
    oldest = slowest - by - program.reach
    memory = list(state.memory)
    for first, slots, rolling in program.memories:
        if not rolling:
            continue
        old = state.memory[first : first + slots]
        turned = old[by % slots :] + old[: by % slots]
        memory[first : first + slots] = [_value(value, by, oldest) for value in turned]
    if not by:
        return state._replace(memory=tuple(memory)), trips, 0
    lengths = [len(lines.body) for lines in program.threads]
    at = tuple(place - by * length for place, length in zip(state.at, lengths, strict=True))
    queues = tuple(tuple(job._replace(at=job.at - by * lengths[job.thread]) for job in jobs) for jobs in state.queues)
    counts = list(state.counts)
    for e, event in enumerate(program.events):
        if machine.by_rounds[e]:
            counts[e] -= by * event.per_round
    return State(at, tuple(memory), queues, tuple(counts)), trips.moved(by), by


def _slowest(machine: Machine, state: State, trips: Trips) -> int:
    """Return the iteration of the slowest thread that still has something to do, or of the oldest job."""
    found = [machine.iteration_of(job.thread, job.at) for jobs in state.queues for job in jobs]
    for t, at in enumerate(state.at):
        if machine.program.threads[t].body or not _ended(machine, t, at, trips):
            found.append(machine.iteration_of(t, at))
    return min([*found, trips.least])  # behind the loop the trip count is what must stay clear of the guards


def _ended(machine: Machine, t: int, at: int, trips: Trips) -> bool:
    """Whether thread ``t`` is known to have nothing to do any more."""
    try:
        return machine.next_of(t, at, trips) is None
    except Undecided:
        return False


def _value(value: Value, by: int, oldest: int) -> Value:
    if value in (NOTHING, OLD) or value[1] == EVERY:
        return value
    number = value[1] - by
    return OLD if number < oldest else (value[0], number)
