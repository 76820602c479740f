"""How fast ops work that share channels, as formulations see it: the twin of the simulator's rules.

A speed is the part of its full speed in an empty machine at which an op works. Interference comes first: every other
op at work whose class disturbs multiplies the full speed, and with it what the op demands of channels. Then the rule
gives each op a level in [0, 1], and its speed is full speed times level. Formulations cannot ask the simulator, so this
is written a second time, and tests hold the two equal.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Mode, Problem, Rule

Number = float | Fraction
"""Floats where they are fast, fractions where they must be exact."""

NOT_SHARING = -1
"""The load of a mode that nothing slows and that slows nothing."""

Demand = tuple[tuple[int, int], ...]
"""(channel, rate) of all that a mode pulls at full speed."""


class Speeds:
    """Speeds under ``rule``, remembered by what works together; fractions if ``exact``, else floats.

    Modes that bring the same to others have one load number, so tiles of a task are looked up once.
    """

    def __init__(self, problem: Problem, rule: Rule, *, exact: bool = False) -> None:
        self.rule = rule
        self.exact = exact
        self.capacity = [self._number(channel.capacity) for channel in problem.channels]
        self._channels = {channel.name: c for c, channel in enumerate(problem.channels)}
        self._factor: dict[tuple[str, str], Number] = {}
        for entry in problem.interference:
            pair = (entry.victim, entry.cause)
            self._factor[pair] = self._number(Fraction(entry.factor)) * self._factor.get(pair, self._number(1))
        self._involved = {name for pair in self._factor for name in pair}
        self._loads: dict[tuple[Demand, str], int] = {}
        self._known: dict[tuple[int, ...], tuple[Number, ...]] = {}

    def _number(self, value: int | Fraction) -> Number:
        return Fraction(value) if self.exact else float(value)

    @property
    def lifts(self) -> bool:
        """Whether an op that joins others can make one of them faster: by slowing who takes a channel from it.

        With one channel and no interference, and under ``proportional`` without interference, nobody gets faster.
        """
        return bool(self._factor) or (self.rule in ("fluid", "priority") and len(self.capacity) > 1)

    def load_of(self, mode: Mode) -> int:
        """Return the number of what ``mode`` brings to others, `NOT_SHARING` if nothing."""
        if self.rule in ("none", "rigid"):
            return NOT_SHARING
        demand = tuple((self._channels[pull.channel], pull.rate) for pull in mode.pulls if pull.rate)
        op_class = mode.op_class if mode.op_class in self._involved else ""
        if not demand and not op_class:
            return NOT_SHARING
        return self._loads.setdefault((demand, op_class), len(self._loads))

    def speeds(self, working: tuple[int, ...]) -> tuple[Number, ...]:
        """Return the speed of each of the ``working`` loads, given in the order of their ops."""
        known = self._known.get(working)
        if known is None:
            known = self._known[working] = self._together(working)
        return known

    def _together(self, working: tuple[int, ...]) -> tuple[Number, ...]:
        kinds = list(self._loads)
        demands = [kinds[load][0] for load in working]
        classes = [kinds[load][1] for load in working]
        full = [self._undisturbed(classes, i) for i in range(len(working))]
        if self.rule == "proportional":
            levels = self._proportional(demands, full)
        elif self.rule == "priority":
            levels = self._in_turn(demands, full)
        else:
            levels = self._fair(demands, full)
        return tuple(speed * level for speed, level in zip(full, levels, strict=True))

    def _undisturbed(self, classes: Sequence[str], i: int) -> Number:
        """Return the full speed of op ``i`` beside the others, before channels are shared."""
        speed = self._number(1)
        for j, cause in enumerate(classes):
            if j != i:
                speed *= self._factor.get((classes[i], cause), 1)
        return speed

    def _fair(self, demands: Sequence[Demand], full: Sequence[Number]) -> list[Number]:
        """Raise all levels together; the channel that is full first stops its users, and what they take is gone."""
        levels: list[Number | None] = [None if demand else self._number(1) for demand in demands]
        room = self.capacity[:]
        while None in levels:
            asked = [self._number(0)] * len(room)
            for demand, speed, level in zip(demands, full, levels, strict=True):
                if level is None:
                    for c, rate in demand:
                        asked[c] += speed * rate
            tight = min((room[c] / asked[c], c) for c in range(len(room)) if asked[c] > 0)
            reached = min(tight[0], self._number(1))
            everyone = reached == 1
            for i, demand in enumerate(demands):
                if levels[i] is None and (everyone or any(c == tight[1] for c, _ in demand)):
                    levels[i] = reached
                    for c, rate in demand:
                        room[c] = max(room[c] - reached * full[i] * rate, self._number(0))
        return [level for level in levels if level is not None]

    def _proportional(self, demands: Sequence[Demand], full: Sequence[Number]) -> list[Number]:
        """Give every op the least part of its demand that one of its channels can serve of all demand on it."""
        served = [self._number(1)] * len(self.capacity)
        for c, capacity in enumerate(self.capacity):
            asked = sum(full[i] * rate for i, demand in enumerate(demands) for d, rate in demand if d == c)
            if asked > capacity:
                served[c] = capacity / asked
        return [min((served[c] for c, _ in demand), default=self._number(1)) for demand in demands]

    def _in_turn(self, demands: Sequence[Demand], full: Sequence[Number]) -> list[Number]:
        """Serve ops in their order: each takes of what is left all that it can use."""
        room = self.capacity[:]
        levels: list[Number] = []
        for demand, speed in zip(demands, full, strict=True):
            level = min([self._number(1), *(room[c] / (speed * rate) for c, rate in demand)])
            for c, rate in demand:
                room[c] = max(room[c] - level * speed * rate, self._number(0))
            levels.append(level)
        return levels
