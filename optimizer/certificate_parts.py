"""The parts of ops and the units they hold, as the checker of certificates sees them.

Nothing here is shared with the formulations but the problem.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hexloom.optimizer.sharing import UNTOUCHED, Sharing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Mode, Op, Problem, Rule

Place = tuple[str, int]
"""One unit of an engine, or (engine, -1): all of them."""


Hold = tuple[str, int, tuple[int, ...] | None]
"""An engine, how many of its units, and which if that is fixed."""


@dataclass(frozen=True)
class Part:
    """``ticks`` in which an op holds ``needs``, units per place; and the time on both sides.

    ``load`` is what it brings to others that work, ``pulls`` what it demands of channels.
    """

    ticks: int
    before: int
    behind: int
    needs: frozenset[tuple[Place, int]]
    load: int = UNTOUCHED
    pulls: tuple[tuple[str, int], ...] = ()


class Units:
    """The units there are. With ``merged`` None units of workers and resources have names."""

    def __init__(self, problem: Problem, merged: Sequence[Sequence[str]] | None, rule: Rule = "none") -> None:
        self.sharing = Sharing(problem, rule)
        self.named = merged is None
        self._group = {engine.name: engine.name for engine in problem.engines}
        for group in merged or ():
            self._group.update(dict.fromkeys(group, group[0]))
        self._known: dict[tuple[int, ...], list[tuple[Part, ...]]] = {}
        self._all = {engine.name: engine for engine in problem.engines}
        self.offered: dict[Place, int] = defaultdict(int)
        for engine in problem.engines:
            self.offered[self._group[engine.name], -1] += engine.units

    def ways(self, op: Op) -> list[tuple[Part, ...]]:
        """Return the different ways in which ``op`` can run, as parts in the order of time."""
        # Thousands of ops share a few modes, which live as long as the problem.
        same = tuple(id(mode) for mode in op.modes)
        if same not in self._known:
            self._known[same] = self._ways(op)
        return self._known[same]

    def _ways(self, op: Op) -> list[tuple[Part, ...]]:
        found: list[tuple[Part, ...]] = []
        for mode in op.modes:
            if any(use.ticks and use.units > self._all[use.engine].units for use in mode.uses):
                continue
            way = self._parts(mode)
            if way not in found:
                found.append(way)
        return found

    def _parts(self, mode: Mode) -> tuple[Part, ...]:
        lead = mode.overhead_ticks
        holds = [
            (lead + use.ticks, use.engine, use.units, use.unit_ids)
            for use in mode.uses
            if use.ticks and self._all[use.engine].kind != "share"
        ]
        load = self.sharing.load_of(mode)
        marks = {0, lead + mode.latency_ticks, *(hold[0] for hold in holds)}
        if load != UNTOUCHED:
            marks.add(lead)
        pieces: list[tuple[int, list[Hold], bool]] = [
            (high - low, [hold[1:] for hold in holds if hold[0] > low], low >= lead)
            for low, high in pairwise(sorted(marks))
        ]
        if mode.dma is not None:
            owner: list[Hold] = [(mode.dma.owner_engine, 1, (mode.dma.owner_unit,))]
            pieces = [(mode.dma.issue_ticks, owner, False), *pieces, (mode.dma.poll_ticks, owner, False)]
        # A share is held all the time, by the issue and the poll of a transfer too.
        always: list[Hold] = [
            (use.engine, use.units, None) for use in mode.uses if use.ticks and self._all[use.engine].kind == "share"
        ]
        whole = sum(piece[0] for piece in pieces)
        way, at = [], 0
        pulls = tuple(sorted((pull.channel, pull.rate) for pull in mode.pulls if pull.rate))
        for ticks, held, works in pieces:
            if ticks:
                part = Part(ticks, at, whole - at - ticks, self._needs([*held, *always]))
                way.append(replace(part, load=load, pulls=pulls) if works and load != UNTOUCHED else part)
            at += ticks
        return tuple(way)

    def _needs(self, held: Sequence[Hold]) -> frozenset[tuple[Place, int]]:
        needs: dict[Place, int] = defaultdict(int)
        for engine, units, ids in held:
            needs[self._group[engine], -1] += units
            if self.named and ids is not None and self._all[engine].kind != "pipe" and self._all[engine].units > 1:
                for unit in ids:
                    needs[engine, unit] += 1
                    self.offered[engine, unit] = 1
        return frozenset(needs.items())
