"""What ops that share channels have done so far, and when the next of them reaches a step.

Work is the integral of speed. Speeds change only when an op begins or ends to work, so between two such moments all is
linear, and exact in rationals. Where the fractions get too long to be of use (`TAME_BITS`), times are rounded up and
work done is rounded down to a fine grid: an op may then end a little later, never earlier, than by the rule.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.optimizer.sharing import Number, Sharing

Step = tuple[int, int, int, str]
"""What happens when an op has done so much of its work: (ticks at full speed, kind, queue, pipe)."""

Event = tuple["Number", int, int, int, str]
"""(time, kind, op, queue, pipe)."""

TAME_BITS = 128
"""Fractions with a longer denominator are rounded to the grid."""

GRID_BITS = 40
"""The grid: this power of two of a tick."""

BLUR = 1e-9
"""In floats, times that differ by less than this part are one instant."""


@dataclass(slots=True)
class _Working:
    load: int
    steps: list[Step]
    done: Number
    speed: Number
    next: int


class WorkInProgress:
    """The ops that work and share channels, in the order of their positions."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._exact = sharing.exact
        self._ops: dict[int, _Working] = {}
        self._changed = False
        self.blur: Number = 0
        """Events up to so much later than now belong to now."""

    def __bool__(self) -> bool:
        """Whether anyone works."""
        return bool(self._ops)

    def begin(self, i: int, load: int, steps: list[Step]) -> None:
        """Let op ``i`` begin; ``steps`` ascend, the last one ends it."""
        self._ops[i] = _Working(load, steps, 0, 0, 0)
        self._changed = True

    def advance(self, now: Number, events: list[Event]) -> Number:
        """Work until the first step or event after ``now``, put the steps reached into ``events``, return the time."""
        if self._changed:
            self._set_speeds()
        then: Number | None = events[0][0] if events else None
        for of in self._ops.values():
            left = of.steps[of.next][0] - of.done
            if left <= 0 or of.speed > 0:
                # What is done needs no speed to be done.
                ends = now + left / of.speed if left > 0 else now
                then = ends if then is None or ends < then else then
        assert then is not None, "whoever comes first in a rule has a speed"
        if self._exact:
            then = _later(then)
        else:
            self.blur = BLUR * (1 + then)
        passed = then - now
        for i, of in list(self._ops.items()):
            if passed > 0:
                of.done = of.done + of.speed * passed
                if self._exact:
                    of.done = _less(of.done)
            while of.steps[of.next][0] <= of.done + of.speed * self.blur:
                _, kind, q, pipe = of.steps[of.next]
                heapq.heappush(events, (then, kind, i, q, pipe))
                of.next += 1
                if of.next == len(of.steps):
                    del self._ops[i]
                    self._changed = True
                    break
        return then

    def _set_speeds(self) -> None:
        self._changed = False
        self._ops = dict(sorted(self._ops.items()))
        speeds = self._sharing.speeds(tuple(of.load for of in self._ops.values()))
        for of, speed in zip(self._ops.values(), speeds, strict=True):
            of.speed = speed


def _later(time: Number) -> Number:
    if isinstance(time, Fraction) and time.denominator.bit_length() > TAME_BITS:
        return Fraction(-(-(time.numerator << GRID_BITS) // time.denominator), 1 << GRID_BITS)
    return time


def _less(done: Number) -> Number:
    if isinstance(done, Fraction) and done.denominator.bit_length() > TAME_BITS:
        return Fraction((done.numerator << GRID_BITS) // done.denominator, 1 << GRID_BITS)
    return done
