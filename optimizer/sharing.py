"""The rules by which ops that work at the same time share channels: how fast each of them goes.

This is the one place of the product that says so; the bounds and the tests' oracle have twins of their own, held equal
by tests. A speed is the part of its full speed in an empty machine at which an op works: 1 when nobody disturbs it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.problem import slows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Mode, Problem, Rule

Number = int | float | Fraction
"""Speeds and times: ints and fractions where they are exact, floats where they are fast."""

UNTOUCHED = -1
"""The load of a mode that nothing slows and that slows nothing."""


def acting_rule(problem: Problem, rule: Rule) -> Rule:
    """Return the rule that acts: without channels and factors nobody slows anybody, and times are whole ticks."""
    return rule if problem.channels or problem.interference else "none"


class Load(NamedTuple):
    """What an op brings to others: (channel position, rate) of every demand, and its class."""

    pulls: tuple[tuple[int, int], ...]
    op_class: str


class Sharing:
    """Speeds under ``rule``, remembered by what works together; exact, or in floats."""

    def __init__(self, problem: Problem, rule: Rule, *, exact: bool = True) -> None:
        self.rule = rule
        self.exact = exact
        number = Fraction if exact else float
        self._capacity: list[Number] = [number(channel.capacity) for channel in problem.channels]
        self._one: Number = number(1)
        self._place = {channel.name: c for c, channel in enumerate(problem.channels)}
        self._factors: dict[tuple[str, str], Number] = {}
        for known in problem.interference:
            pair = known.victim, known.cause
            self._factors[pair] = self._factors.get(pair, self._one) * number(Fraction(known.factor))
        self._classes = {name for pair in self._factors for name in pair}
        self._loads: list[Load] = []
        self._number: dict[Load, int] = {}
        self._of_mode: dict[int, tuple[Mode, int]] = {}
        self._known: dict[tuple[int, ...], tuple[Number, ...]] = {}

    def may_lift(self) -> bool:
        """Whether an op at work may let others go faster than without it: it slows those who slow them."""
        alone = len(self._capacity) < 2 or self.rule == "proportional"
        return bool(self._factors) or not alone

    def load_of(self, mode: Mode) -> int:
        """Return the number of what ``mode`` brings to others, `UNTOUCHED` if it can be left out of account."""
        if not slows(self.rule):
            return UNTOUCHED
        known = self._of_mode.get(id(mode))
        if known is None:
            known = self._of_mode[id(mode)] = mode, self._number_of(mode)  # with the mode, which keeps its identity
        return known[1]

    def _number_of(self, mode: Mode) -> int:
        pulls = tuple((self._place[pull.channel], pull.rate) for pull in mode.pulls if pull.rate > 0)
        load = Load(pulls, mode.op_class if mode.op_class in self._classes else "")
        if not load.pulls and not load.op_class:
            return UNTOUCHED
        if load not in self._number:
            self._number[load] = len(self._loads)
            self._loads.append(load)
        return self._number[load]

    def speeds(self, working: tuple[int, ...]) -> tuple[Number, ...]:
        """Return the speed of each of the ``working`` loads, which come in the order of their ops."""
        found = self._known.get(working)
        if found is None:
            loads = [self._loads[k] for k in working]
            full = self._full_speeds(loads)
            shares = {"proportional": self._proportional, "priority": self._priority}.get(self.rule, self._fluid)
            levels = shares([[(c, f * rate) for c, rate in load.pulls] for load, f in zip(loads, full, strict=True)])
            found = self._known[working] = tuple(f * level for f, level in zip(full, levels, strict=True))
        return found

    def _full_speeds(self, loads: Sequence[Load]) -> list[Number]:
        """Interference: every other op of a disturbing class multiplies the full speed, and with it the demands."""
        found: list[Number] = []
        for i, load in enumerate(loads):
            speed = self._one
            for j, other in enumerate(loads):
                if i != j and (load.op_class, other.op_class) in self._factors:
                    speed = speed * self._factors[load.op_class, other.op_class]
            found.append(speed)
        return found

    def _fluid(self, demands: list[list[tuple[int, Number]]]) -> list[Number]:
        """Max-min fairness in speed.

        All levels rise together from 0 to 1; when a channel is full, those who use it stay at that level, and the
        others go on.
        """
        levels = [self._one] * len(demands)
        rising = {i for i, mine in enumerate(demands) if mine}
        left = dict(enumerate(self._capacity))
        while rising:
            wanted: dict[int, Number] = {}
            for i in rising:
                for c, rate in demands[i]:
                    wanted[c] = wanted.get(c, 0) + rate
            full = {c: left[c] / rate for c, rate in wanted.items()}
            level = min(full.values())
            if level >= 1:
                break
            stopped = {i for i in rising if any(full[c] == level for c, _ in demands[i])}
            for i in stopped:
                levels[i] = level
                for c, rate in demands[i]:
                    left[c] = max(left[c] - level * rate, 0 * self._one)
            rising -= stopped
        return levels

    def _proportional(self, demands: list[list[tuple[int, Number]]]) -> list[Number]:
        """Level of an op: the least of capacity over all demand, of its channels. No channel gives what others left."""
        wanted: dict[int, Number] = {}
        for mine in demands:
            for c, rate in mine:
                wanted[c] = wanted.get(c, 0) + rate
        return [min([self._one, *(self._capacity[c] / wanted[c] for c, _ in mine)]) for mine in demands]

    def _priority(self, demands: list[list[tuple[int, Number]]]) -> list[Number]:
        """Who comes first in the problem takes what it can use, the next of what is left."""
        left = dict(enumerate(self._capacity))
        levels: list[Number] = []
        for mine in demands:
            level = min([self._one, *(left[c] / rate for c, rate in mine)])
            for c, rate in mine:
                left[c] = max(left[c] - level * rate, 0 * self._one)
            levels.append(level)
        return levels
