"""What the search over events asks of a run: to begin, to act, to go on, and to say how long it takes at least."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hexloom.formulations.events.estimate import least_end
from hexloom.formulations.events.state import first_state, key_of, next_round, start, wait

if TYPE_CHECKING:
    from hexloom.formulations.events.state import State
    from hexloom.formulations.events.tables import Tables, Way


class Moves(Protocol):
    """A way for runs to go on; times that differ by less than ``grain`` count as equal."""

    grain: float

    def first(self, used: int) -> State:
        """Return the state in which the plan is entered, ``used`` bytes being held from the start."""

    def start(self, state: State, i: int, m: int, way: Way, lanes: tuple[tuple[int, ...], ...]) -> None:
        """Let op ``i`` begin in mode ``m`` on ``lanes``, per ask of the mode."""

    def wait(self, state: State, i: int, way: Way) -> None:
        """Let the owner of transfer ``i`` wait for it."""

    def next_round(self, state: State) -> bool:
        """Go to the next round in which something observable happens; False when nothing is under way."""

    def key(self, state: State) -> tuple[object, ...]:
        """Return what the future depends on, relative to now."""

    def least_end(self, state: State) -> float:
        """Return the least time at which any continuation can end."""

    def sharpened(self, state: State) -> float:
        """Return what can be said at more cost, for states that are gone on from; 0 if nothing."""


class Unslowed:
    """Moves where every op takes the time of its mode: whole ticks."""

    grain = 0.0

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def first(self, used: int) -> State:
        """Return the state in which the plan is entered."""
        return first_state(self._tables, used)

    def start(self, state: State, i: int, m: int, way: Way, lanes: tuple[tuple[int, ...], ...]) -> None:
        """Let op ``i`` begin."""
        start(self._tables, state, i, m, way, lanes)

    def wait(self, state: State, i: int, way: Way) -> None:
        """Let the owner of transfer ``i`` wait for it."""
        wait(self._tables, state, i, way)

    def next_round(self, state: State) -> bool:
        """Go to the next round in which something observable happens."""
        return next_round(self._tables, state)

    def key(self, state: State) -> tuple[object, ...]:
        """Return what the future depends on."""
        return key_of(self._tables, state)

    def least_end(self, state: State) -> float:
        """Return the least time at which any continuation can end."""
        return least_end(self._tables, state)

    def sharpened(self, state: State) -> float:
        """Return that there is no more to say."""
        del state
        return 0.0
