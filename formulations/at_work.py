"""What ops that slow each other have done so far on the dispatcher's clock, and when the next of them gets somewhere.

The simulator has a twin of this: formulations cannot ask it while they decide.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from hexloom.formulations.mode import Mode, Use
    from hexloom.formulations.speeds import Speeds

BLUR = 1e-9
"""Times that differ by less than this part are one instant, as in the simulator."""

Event = tuple[float, int, int, str]
"""(time, kind, op, pipe)."""

Step = tuple[float, int, str]
"""What happens when an op has done so much: (ticks at full speed, kind, pipe)."""


@dataclass(slots=True)
class _Working:
    load: int
    steps: list[Step]
    done: float = 0.0
    speed: float = 0.0
    next: int = 0


class AtWork:
    """The ops at work that share channels; none ever, without ``speeds``."""

    def __init__(self, speeds: Speeds | None) -> None:
        self._speeds = speeds
        self._ops: dict[int, _Working] = {}
        self._changed = False
        self.blur = 0.0
        """Events up to so much later than now belong to now."""

    def __bool__(self) -> bool:
        """Whether anyone works."""
        return bool(self._ops)

    def __contains__(self, i: int) -> bool:
        return i in self._ops

    def shares(self, mode: Mode) -> bool:
        """Whether others slow an op in this mode, or it slows others."""
        return self._speeds is not None and self._speeds.load_of(mode) != NOT_SHARING

    def begin(self, i: int, mode: Mode, steps: list[Step]) -> None:
        """Let op ``i`` begin; ``steps`` ascend, the last one ends it."""
        assert self._speeds is not None
        self._ops[i] = _Working(self._speeds.load_of(mode), steps)
        self._changed = True

    def ends(self, i: int, ticks: float, now: float) -> float:
        """Return when op ``i`` will have done ``ticks`` of its work if nobody begins or ends before."""
        self._set_speeds()
        of = self._ops[i]
        return now + (ticks - of.done) / of.speed if of.speed > 0 else float("inf")

    def advance(self, now: float, events: list[Event]) -> float:
        """Work until the first step or event after ``now``, put the steps reached into ``events``, return the time."""
        self._set_speeds()
        then = events[0][0] if events else float("inf")
        for of in self._ops.values():
            left = of.steps[of.next][0] - of.done
            if left <= 0:
                then = now
            elif of.speed > 0:
                then = min(then, now + left / of.speed)
        self.blur = BLUR * (1 + then)
        passed = then - now
        for i, of in list(self._ops.items()):
            of.done += of.speed * passed
            reached = of.done + of.speed * self.blur
            while of.steps[of.next][0] <= reached:
                _, kind, pipe = of.steps[of.next]
                heapq.heappush(events, (then, kind, i, pipe))
                of.next += 1
                if of.next == len(of.steps):
                    del self._ops[i]
                    self._changed = True
                    break
        return then

    def _set_speeds(self) -> None:
        if not self._changed or self._speeds is None:
            return
        self._changed = False
        self._ops = dict(sorted(self._ops.items()))
        speeds = self._speeds.speeds(tuple(of.load for of in self._ops.values()))
        for of, speed in zip(self._ops.values(), speeds, strict=True):
            of.speed = float(speed)


class SlowedUnits:
    """Units that ops hold which others slow; ``busy_until`` says of every unit when it is free."""

    def __init__(self, work: AtWork, busy_until: dict[str, list[float]]) -> None:
        self._work = work
        self._busy_until = busy_until
        self._held: dict[int, list[tuple[Use, tuple[int, ...]]]] = {}

    def hold(self, i: int, units: list[tuple[Use, tuple[int, ...]]]) -> None:
        """Let op ``i`` hold units."""
        self._held[i] = units

    def held_by(self, i: int) -> list[Use]:
        """Return the uses of op ``i`` that hold units."""
        return [use for use, _ in self._held.get(i, ())]

    def expect(self, now: float) -> None:
        """Say when units will be free: as it looks now, and not before they are."""
        for i, held in self._held.items():
            for use, ids in held if i in self._work else ():
                end = max(self._work.ends(i, use.ticks, now), math.nextafter(now, math.inf))
                for u in ids:
                    self._busy_until[use.engine][u] = end

    def give_back(self, i: int, engine: str, now: float) -> None:
        """Free the units of ``engine`` that op ``i`` holds."""
        for use, ids in self._held[i]:
            if use.engine == engine:
                for u in ids:
                    self._busy_until[engine][u] = now
        self._held[i] = [(use, ids) for use, ids in self._held[i] if use.engine != engine]
        if not self._held[i]:
            del self._held[i]
