"""When an op of a schedule had done how much of its work, followed from the recorded times alone.

Under rules that slow nobody an op has done t ticks of work t ticks after it began to work. Else its speed follows from
who works at the same time, which the recorded times say.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hexloom.optimizer.sharing import UNTOUCHED, Sharing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.problem import Mode, Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.sharing import Number


class Recorded(Protocol):
    """The times that say who works when: those of a row, or of the simulator."""

    @property
    def start(self) -> Moment: ...  # noqa: D102

    @property
    def transfer_start(self) -> Moment: ...  # noqa: D102

    @property
    def done(self) -> Moment: ...  # noqa: D102


class Span(NamedTuple):
    """``[start, end)`` ticks during which the same ``ops`` work, each at its speed; nothing can slow the others."""

    start: Moment
    end: Moment
    ops: tuple[str, ...]
    speeds: tuple[Number, ...]


class Progress:
    """The work done by every op over time; ``spans`` say who of those that others can slow works when, and how fast.

    Parameters
    ----------
    problem, rule
        What runs, and how channels are shared.
    modes, times
        The chosen mode and the recorded times of every op, by name.
    """

    def __init__(self, problem: Problem, rule: Rule, modes: Mapping[str, Mode], times: Mapping[str, Recorded]) -> None:
        sharing = Sharing(problem, rule)
        self.begun: dict[str, Moment] = {}
        self._curve: dict[str, tuple[list[Moment], list[Moment]]] = {}
        loads: dict[str, int] = {}
        for op in problem.ops:
            mode, at = modes[op.name], times[op.name]
            self.begun[op.name] = at.start + mode.overhead_ticks if mode.dma is None else at.transfer_start
            load = sharing.load_of(mode)
            if load != UNTOUCHED:
                loads[op.name] = load
        place = {op.name: i for i, op in enumerate(problem.ops)}
        changes: dict[Moment, list[tuple[str, bool]]] = {}
        for name in loads:
            self._curve[name] = [self.begun[name]], [0]
            if times[name].done > self.begun[name]:
                changes.setdefault(self.begun[name], []).append((name, True))
                changes.setdefault(times[name].done, []).append((name, False))
        self.spans: list[Span] = []
        working: set[str] = set()
        for now, then in pairwise(sorted(changes)):
            for name, begins in changes[now]:
                (working.add if begins else working.discard)(name)
            active = tuple(sorted(working, key=place.__getitem__))
            speeds = sharing.speeds(tuple(loads[name] for name in active))
            self.spans.append(Span(now, then, active, speeds))
            for name, speed in zip(active, speeds, strict=True):
                marks, done = self._curve[name]
                marks.append(then)
                done.append(done[-1] + Fraction(speed) * (then - now))

    def done(self, op: str) -> Moment | None:
        """Return how many ticks of work ``op`` did until it ended; None if nothing can slow it."""
        return self._curve[op][1][-1] if op in self._curve else None

    def reached(self, op: str, ticks: int) -> Moment:
        """Return when ``op`` had done ``ticks`` of its work; its last moment of work if it never did."""
        if op not in self._curve:
            return self.begun[op] + ticks
        marks, done = self._curve[op]
        k = bisect_left(done, ticks)
        if k == 0 or k == len(done):
            return marks[min(k, len(done) - 1)]
        return marks[k - 1] + (marks[k] - marks[k - 1]) * Fraction(ticks - done[k - 1]) / (done[k] - done[k - 1])
