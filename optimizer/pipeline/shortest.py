"""The shortest interleaving that breaks a pipeline, for one trip count: breadth first, every order of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.pipeline.budget import LimitReached
from hexloom.optimizer.pipeline.index import Trips
from hexloom.optimizer.pipeline.machine import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.optimizer.pipeline.budget import Budget
    from hexloom.optimizer.pipeline.machine import Machine, Move, State


class Broken(NamedTuple):
    """Moves from the start to a fault; ``shortest`` where no other order of steps gets to one in fewer."""

    trip_count: int
    moves: tuple[Move, ...]
    fault: Fault
    shortest: bool


def shortest(machine: Machine, trip_count: int, known: Sequence[Move], budget: Budget) -> Broken:
    """Return the shortest way to a fault, given that the moves ``known`` lead to one.

    ``known`` without what it does not need is tried to be beaten, level by level; when the budget is used up it is the
    answer, and not called the shortest.

    Notes
    -----
    In a confluent program all orders end in the same state of rest after the same number of moves. If ``known`` comes
    to rest and the search that made it saw no clash on the way, it is the shortest as it is.
    """
    trips = Trips(trip_count, True)
    best = trimmed(machine, trips, known, budget)
    if best.fault.move is None and machine.program.confluent:
        return best._replace(shortest=True)
    try:
        found = every_order(machine, trips, len(best.moves), budget)
    except LimitReached:
        return best
    return (best if found is None else found)._replace(shortest=True)


def every_order(machine: Machine, trips: Trips, length: int, budget: Budget) -> Broken | None:
    """Return a way to a fault in fewer than ``length`` moves, the shortest; None if there is none.

    Raises
    ------
    LimitReached
        The budget is used up before.
    """
    start = machine.start()
    origin: dict[State, tuple[State, Move] | None] = {start: None}
    level = [start]
    for depth in range(length):
        following = []
        for state in level:
            budget.spend()
            moved = False
            for move, after in machine.moves(state, trips):
                moved = True
                if isinstance(after, Fault):
                    if depth + 1 < length:
                        return Broken(trips.least, (*_way(origin, state), move), after, True)
                elif after not in origin and depth + 1 < length:
                    origin[after] = (state, move)
                    following.append(after)
            rest = None if moved else machine.at_rest(state, trips)
            if rest is not None:
                return Broken(trips.least, _way(origin, state), rest, True)
        level = following
    return None


def _way(origin: dict[State, tuple[State, Move] | None], state: State) -> tuple[Move, ...]:
    moves = []
    step = origin[state]
    while step is not None:
        moves.append(step[1])
        step = origin[step[0]]
    return tuple(reversed(moves))


def trimmed(machine: Machine, trips: Trips, moves: Sequence[Move], budget: Budget) -> Broken:
    """Return ``moves`` without those that its last one does not need, as far as there is time to find them."""
    best = _broken(machine, trips, moves)
    assert best is not None, "these moves lead to a fault"
    shorter: Broken | None = best if best.fault.move is not None else None
    while shorter is not None:
        best, shorter = shorter, None
        for actor in dict.fromkeys(move.actor for move in reversed(best.moves[:-1])):
            cut = _without(machine, trips, best, actor, budget)
            if len(cut.moves) < len(best.moves):
                best = shorter = cut
    return best


def _without(machine: Machine, trips: Trips, best: Broken, actor: int, budget: Budget) -> Broken:
    """Drop the last moves of a thread, twice as many each time it works; of a queue any moves."""
    if actor == best.moves[-1].actor:
        return best
    many, behind = 1, 0
    while not budget.over():
        own = [k for k, move in enumerate(best.moves) if move.actor == actor]
        dropped = set(own[max(0, len(own) - behind - many) : len(own) - behind])
        if not dropped:
            break
        cut = _broken(machine, trips, [move for k, move in enumerate(best.moves) if k not in dropped])
        if cut is not None:
            best, many = cut, 2 * many
        elif many > 1:
            many //= 2
        elif actor >= 0:
            break
        else:
            behind += 1
    return best


def _broken(machine: Machine, trips: Trips, moves: Sequence[Move]) -> Broken | None:
    fault = fault_of(machine, trips, moves)
    return None if fault is None else Broken(trips.least, tuple(moves), fault, False)


def fault_of(machine: Machine, trips: Trips, moves: Sequence[Move]) -> Fault | None:
    """Return the fault that ends ``moves``; None where they are not possible or end well or before their end."""
    state = machine.start()
    for k, move in enumerate(moves):
        reached = after(machine, state, move, trips)
        if reached is None or isinstance(reached, Fault):
            return reached if k == len(moves) - 1 else None
        state = reached
    return None if any(True for _ in machine.moves(state, trips)) else machine.at_rest(state, trips)


def after(machine: Machine, state: State, move: Move, trips: Trips) -> State | Fault | None:
    """Return what ``move`` leads to; None where it is not possible in ``state``."""
    if move.actor >= 0:
        outcome = machine.of_thread(state, move.actor, trips)
        return outcome[1] if outcome is not None and outcome[0] == move else None
    return next((then for other, then in machine.endings(state, trips) if other == move), None)
