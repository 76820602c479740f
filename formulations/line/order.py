"""An order of ops with the schedule that it leads to, and what a change of the order would lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.line.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.line.tables import Tables

STRIDE = 4
"""Ops from one state that is remembered to the next."""


def advance(state: State, order: Sequence[int], k: int) -> bool:
    """Place the op at place ``k``, and all of the busiest engine that can follow; False in a dead end.

    Where its bytes are taken for good, the first of those behind it goes first that needs no more of them.
    """
    i = order[k]
    while not state.done[i]:
        if state.put(i):
            break
        if not _serve_waiting(state) and not _help(state, order, k + 1):
            return False
    _serve_waiting(state)
    return True


def _serve_waiting(state: State) -> bool:
    served = False
    while state.waiting and state.put(state.waiting[0]):
        state.waiting.pop(0)
        served = True
    return served


def _help(state: State, order: Sequence[int], behind: int) -> bool:
    tables, done = state.tables, state.done
    for i in order[behind:]:
        if done[i] or not all(done[p] for p in (*tables.waits[i], *tables.fetches[i])):
            continue
        if all(state.born[b] for b in tables.buffers[i]) and state.put(i):
            return True
    return False


def ended(state: State) -> bool:
    """See the schedule through; False where an op of the busiest engine never found its bytes."""
    if state.waiting:
        return False
    state.finish()
    return True


class Line:
    """An order, its schedule, and states on the way to it; ``end`` is the makespan."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.order: list[int] = []
        self.final = State(tables)
        self.end = 0
        self.placed = 0
        """Ops placed so far, in all that was tried: a measure of work."""
        self._states = [State(tables)]

    def set(self, order: Sequence[int], first: int = 0, limit: int | None = None) -> bool:
        """Take over an order, equal to the present one before place ``first``, if it leads to at most ``limit``."""
        begin = min(first // STRIDE, len(self._states) - 1)
        states = self._states[: begin + 1]
        state = states[-1].copy()
        for k in range(begin * STRIDE, len(order)):
            if k % STRIDE == 0 and k > begin * STRIDE:
                states.append(state.copy())
            if not advance(state, order, k):
                return False
        self.placed += len(order) - begin * STRIDE
        if not ended(state) or (limit is not None and state.end > limit):
            return False
        self.order, self._states, self.final, self.end = list(order), states, state, state.end
        return True

    def tried(self, order: Sequence[int], first: int, last: int, limit: int | None, more: int = 0) -> int | None:
        """Return the makespan that a changed order leads to, or None if it is above ``limit``; a guess, mostly right.

        The orders are equal before place ``first``; what follows place ``last`` is what was there, ``more`` places
        earlier. As soon as all is as it was at that place, only later or earlier, the rest is taken to move as one.
        """
        begin = min(first // STRIDE, len(self._states) - 1)
        state = self._states[begin].copy()
        spare = None if limit is None else limit - self.end
        for k in range(begin * STRIDE, len(order)):
            if not advance(state, order, k):
                return None
            self.placed += 1
            if limit is not None and state.end > limit:
                return None
            there = k + 1 - more
            if k < last or there % STRIDE or there // STRIDE >= len(self._states):
                continue
            other = self._states[there // STRIDE]
            shift = state.moved_from(other)
            if shift is not None:
                end = max(state.end, self.end + shift)
                return end if limit is None or end <= limit else None
            if spare is not None and min(a - b for a, b in zip(state.front, other.front, strict=True)) > spare:
                return None
        if not ended(state) or (limit is not None and state.end > limit):
            return None
        return state.end
