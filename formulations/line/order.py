"""An order of ops with the schedule that it leads to, and what a change of the order would lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.line.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.line.tables import Tables

    _Kept = tuple[State, int]

STRIDE = 4
"""Ops from one state that is remembered to the next."""


def advance(state: State, order: Sequence[int], k: int) -> bool:
    """Place the op at place ``k``, and all of the busiest engine that can follow; False in a dead end.

    Where its bytes are taken for good, the first in the file goes first that is ready and needs no more of them.
    """
    i = order[k]
    while not state.done[i]:
        if state.put(i):
            break
        if not _serve_waiting(state) and not _help(state):
            return False
    _serve_waiting(state)
    return True


def _serve_waiting(state: State) -> bool:
    served = False
    while state.waiting and state.put(state.waiting[0]):
        state.waiting.pop(0)
        served = True
    return served


def _help(state: State) -> bool:
    # Not by the order: what is remembered of it does not depend on what comes later.
    tables, done = state.tables, state.done
    for i in tables.listed:
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
    """An order and its schedule: when its ops start, and its makespan ``end``, of whoever was taken over last.

    States on the way are remembered, to begin with the one before a change. What is taken over by `keep` is a guess
    from where all is as it was before, only later or earlier: then that part moves as one. `set` from the first place
    on makes sure, and alone tells when transfers move and which units are taken.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.order: list[int] = []
        self.start = [-1] * len(tables.duration)
        self.known = [-1] * len(tables.duration)
        self.units: dict[tuple[int, int], tuple[int, ...]] = {}
        self.moved: list[int] = []
        self.end = 0
        self.placed = 0
        """Ops placed so far, in all that was tried: a measure of work."""
        self._states: list[_Kept] = [(State(tables), 0)]
        self._tried: tuple[list[int], int, list[_Kept], State, int, int] | None = None
        self._was_done = bytearray()

    def set(self, order: Sequence[int], first: int = 0) -> bool:
        """Take over an order, equal to the present one before place ``first``, if it leads to a schedule."""
        begin = min(first // STRIDE, len(self._states) - 1)
        state = self._at(begin)
        was_done = state.done[:]
        states = self._states[:begin]
        for k in range(begin * STRIDE, len(order)):
            if k % STRIDE == 0:
                states.append((state.copy(), 0))
            if not advance(state, order, k):
                return False
        self.placed += len(order) - begin * STRIDE
        if not ended(state):
            return False
        self._was_done = was_done
        self.start = self._joined(self.start, state.start, state, 0)
        self.known = self._joined(self.known, state.known, state, 0)
        self.order, self._states, self.end, self._tried = list(order), states, state.end, None
        self.moved, self.units = state.moved, state.units
        return True

    def copy(self) -> Line:
        """Return a line that changes on its own."""
        twin = Line.__new__(Line)
        twin.__dict__.update(self.__dict__)
        return twin

    def tried(self, order: list[int], first: int, last: int, limit: int | None, more: int = 0) -> int | None:
        """Return the makespan that a changed order leads to, or None if it is above ``limit``; a guess, mostly right.

        The orders are equal before place ``first``; what follows place ``last`` is what was there, ``more`` places
        earlier.
        """
        begin = min(first // STRIDE, len(self._states) - 1)
        state = self._at(begin)
        states: list[_Kept] = []
        self._was_done = state.done[:]
        spare = None if limit is None else limit - self.end
        self._tried = None
        for k in range(begin * STRIDE, len(order)):
            if k % STRIDE == 0:
                states.append((state.copy(), 0))
            if not advance(state, order, k):
                return None
            self.placed += 1
            if limit is not None and state.end > limit:
                return None
            there = k + 1 - more
            if k + 1 < last or there % STRIDE or there // STRIDE >= len(self._states):
                continue
            other, offset = self._states[there // STRIDE]
            # What is put in has no counterpart; else whoever went ahead out of turn must be the same.
            shift = state.moved_from(other) if more or state.done == other.done else None
            if shift is not None:
                end = max(state.end, self.end + shift - offset)
                if limit is not None and end > limit:
                    return None
                self._tried = order, begin, states, state, there // STRIDE, shift - offset
                return end
            least = min(a - b for a, b in zip(state.front, other.front, strict=True)) - offset
            if spare is not None and least > spare:
                return None
        if not ended(state) or (limit is not None and state.end > limit):
            return None
        self._tried = order, begin, states, state, len(self._states), 0
        return state.end

    def keep(self) -> None:
        """Take over what was tried last, which must have led to a schedule, and no more places than there were."""
        assert self._tried is not None
        order, begin, states, state, there, shift = self._tried
        rest = [(other, offset + shift) for other, offset in self._states[there:]]
        self._states = [*self._states[:begin], *states, *rest]
        self.start = self._joined(self.start, state.start, state, shift)
        self.known = self._joined(self.known, state.known, state, shift)
        self.end = max(state.end, self.end + shift) if rest or state.waiting or min(state.start) < 0 else state.end
        self.order, self._tried = order, None

    def _joined(self, old: Sequence[int], new: Sequence[int], state: State, shift: int) -> list[int]:
        """Return times as they were up to the change, as they were tried, and from there on moved by ``shift``."""
        return [
            at if was else now if done else at + shift
            for at, now, was, done in zip(old, new, self._was_done, state.done, strict=True)
        ]

    def _at(self, place: int) -> State:
        """Return a remembered state, to go on from."""
        state, offset = self._states[place]
        state = state.copy()
        if offset:
            state.shift(offset)
        return state
