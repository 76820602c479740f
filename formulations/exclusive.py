"""Sets of ops no two of which ever work at the same time: they are ordered, or no engine has the units for both.

Counted engines hide them: of ops that take 3, 4 and 5 of 6 units each two exclude each other, though on average two
fit. As one more sequence they tell a solver, and a bound, what the count does not (disjunctive cliques: Brucker, Knust,
Schoo and Thiele, A branch and bound algorithm for the resource-constrained project scheduling problem, 1998).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexloom.formulations.problem import Engine, Mode, Problem

MOST_OPS = 300
"""Of more ops no sets are looked for: that takes their square, and more."""

LEAST = 3
"""Two ops that exclude each other are seen by any model of the engine that they ask for."""


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Positions of ops, ascending; of no two do the first ``ticks`` after their starts overlap."""

    ops: tuple[int, ...]
    ticks: tuple[int, ...]


class Conflicts:
    """Who excludes whom. Only ops of one mode that are no transfers are looked at: these hold from their start on.

    ``by_order`` and ``by_units`` hold a bit per op for each op; ``ticks`` is how long an op certainly excludes others.
    """

    def __init__(self, problem: Problem) -> None:
        n = len(problem.ops)
        lasting = {i: op.modes[0] for i, op in enumerate(problem.ops) if len(op.modes) == 1}
        lasting = {i: mode for i, mode in lasting.items() if mode.dma is None and mode.duration_ticks > 0}
        kinds = {engine.name: engine.kind for engine in problem.engines}
        self.known = sum(1 << i for i in lasting)
        self.ticks = [0] * n
        for i, mode in lasting.items():
            held = (_held(mode, use.ticks, kinds[use.engine]) for use in mode.uses if use.ticks)
            self.ticks[i] = min([mode.duration_ticks, *held])
        self.by_order = _ordered(problem)
        self.by_units, self._alone = [0] * n, [0] * n
        for engine in problem.engines:
            if engine.kind != "pipe":
                self._add(engine, lasting)
        self.of = [(a | b) & self.known for a, b in zip(self.by_order, self.by_units, strict=True)]

    def _add(self, engine: Engine, lasting: dict[int, Mode]) -> None:
        """Find who of those that use ``engine`` asks for more than it has, or for the same unit."""
        takers = [(i, use) for i, mode in lasting.items() for use in mode.uses if use.engine == engine.name]
        takers = [(i, use) for i, use in takers if use.ticks]
        for (i, mine), (j, other) in combinations(takers, 2):
            if mine.units + other.units > engine.units or set(mine.unit_ids or ()) & set(other.unit_ids or ()):
                for a, b in ((i, j), (j, i)):
                    self.by_units[a] |= 1 << b
                    if engine.units == 1:
                        self._alone[a] |= 1 << b

    def hidden(self, i: int) -> int:
        """Return whom op ``i`` excludes by units that are counted, as bits: no order and no single unit says so."""
        return self.by_units[i] & self.of[i] & ~self.by_order[i] & ~self._alone[i]

    def grown(self, ops: list[int], gain: Callable[[int], tuple[int, ...]]) -> Exclusive:
        """Add ops that exclude all of ``ops`` as long as there are any, of these the one that gains most first."""
        found, left = list(ops), self.known
        for i in ops:
            left &= self.of[i]
        while left:
            i = max(_bits(left), key=gain)
            found.append(i)
            left &= self.of[i]
        found.sort()
        return Exclusive(tuple(found), tuple(self.ticks[i] for i in found))


def exclusive_sets(problem: Problem) -> list[Exclusive]:
    """Return sets that hold every two ops which exclude each other by units that are counted."""
    if len(problem.ops) > MOST_OPS:
        return []
    conflicts = Conflicts(problem)
    ticks = conflicts.ticks
    # What no set holds yet: of every op, who comes behind it.
    left = [conflicts.hidden(i) & -(1 << (i + 1)) for i in range(len(problem.ops))]
    found: list[Exclusive] = []
    for _, i, j in sorted(((ticks[i] + ticks[j], i, j) for i, of in enumerate(left) for j in _bits(of)), reverse=True):
        if not left[i] >> j & 1:
            continue
        chosen = [i, j]

        def gain(v: int, chosen: list[int] = chosen) -> tuple[int, ...]:
            return sum(left[min(u, v)] >> max(u, v) & 1 for u in chosen), ticks[v], v

        one = conflicts.grown(chosen, gain)
        for a, b in combinations(one.ops, 2):
            left[a] &= ~(1 << b)
        if len(one.ops) >= LEAST:
            found.append(one)
    return found


def longest_sets(problem: Problem) -> list[Exclusive]:
    """Return, for every op, a set with it whose ops take long one after the other; each set once."""
    if len(problem.ops) > MOST_OPS:
        return []
    conflicts = Conflicts(problem)
    sets = (conflicts.grown([i], lambda v: (conflicts.ticks[v], v)) for i in _bits(conflicts.known))
    return list(dict.fromkeys(sets))


def _ordered(problem: Problem) -> list[int]:
    """Return for every op who is before or behind it, as bits."""
    before, behind = [0] * len(problem.ops), [0] * len(problem.ops)
    for i in problem.topological_order:
        for p in problem.predecessors[i]:
            before[i] |= before[p] | 1 << p
    for i in reversed(problem.topological_order):
        for s in problem.successors[i]:
            behind[i] |= behind[s] | 1 << s
    return [a | b for a, b in zip(before, behind, strict=True)]


def _held(mode: Mode, ticks: int, kind: str) -> int:
    """Return how long after its start an op holds what it uses for ``ticks``: what is no thread, until its end."""
    return mode.overhead_ticks + ticks if kind == "worker" else mode.duration_ticks


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
