"""Which cycles of a loop bound its interval: dependencies, and rings of buffers whose copies come back.

An arc says ``start(after) + II * distance >= start(before) + delay``, starts being those of iteration 0. So a cycle
says ``II * distance >= delay``, both added up around it, and the largest ratio of all cycles bounds II.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.periodic.loop import Loop, LoopBuffer


@dataclass(frozen=True, slots=True)
class Arc:
    """``after`` of ``distance`` iterations later starts at least ``delay`` ticks after ``before``; ops by position.

    ``buffer`` is the one whose ring says so, None for a dependency. Only arcs of rings may lead back in iterations.
    """

    before: int
    after: int
    delay: int
    distance: int
    buffer: str | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """Arcs, each from where the last one led to."""

    arcs: tuple[Arc, ...]

    @property
    def delay(self) -> int:
        """Ticks around it."""
        return sum(arc.delay for arc in self.arcs)

    @property
    def distance(self) -> int:
        """Iterations around it."""
        return sum(arc.distance for arc in self.arcs)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Buffers whose rings it goes through."""
        return tuple(dict.fromkeys(arc.buffer for arc in self.arcs if arc.buffer is not None))

    def in_words(self, loop: Loop) -> str:
        """Return the ops around it, and what they take over how many iterations."""
        names = [loop.ops[arc.before].name for arc in self.arcs]
        rings = "".join(f", through the ring of {name!r}" for name in self.buffers)
        return f"{' -> '.join([*names, names[0]])}{rings}: {self.delay} ticks over {self.distance} iterations"


def most_copies(loop: Loop, buffer: LoopBuffer) -> int | None:
    """Return of how many copies of ``buffer`` at most its life may ask, None if of any number."""
    if not buffer.occupied_bytes:
        return buffer.depth
    fit = loop.scratchpad.available_bytes // buffer.occupied_bytes
    return fit if buffer.depth is None else min(fit, buffer.depth)


def arcs_of(loop: Loop) -> tuple[Arc, ...]:
    """Return what dependencies say, and rings: the last user ends before the copy comes back to the first one."""
    at = loop.op_index
    found = [Arc(at[e.before], at[e.after], loop.delay_ticks(e), e.distance) for e in loop.dependencies]
    for buffer in loop.buffers:
        copies = most_copies(loop, buffer)
        if copies is None:
            continue
        for last in buffer.users:
            for first in buffer.users:
                latency = loop.ops[at[last.op]].latency_ticks
                back = copies - last.distance + first.distance
                found.append(Arc(at[last.op], at[first.op], latency, back, buffer.name))
    return tuple(dict.fromkeys(found))


def impossible_cycle(loop: Loop, arcs: Sequence[Arc]) -> Cycle | None:
    """Return a cycle that no interval satisfies: it takes time, or goes back in iterations, without going ahead."""
    return _positive_cycle(len(loop.ops), arcs, Fraction(1 + sum(arc.delay for arc in arcs)))


def worst_cycle(loop: Loop, arcs: Sequence[Arc]) -> Cycle | None:
    """Return a cycle with the largest ratio of delay and distance, None if none takes time.

    There must be no `impossible_cycle`. From any cycle to one of larger ratio, until there is none: exact.
    """
    worst: Cycle | None = None
    ratio = Fraction(0)
    while True:
        cycle = _positive_cycle(len(loop.ops), arcs, ratio)
        if cycle is None:
            return worst
        worst, ratio = cycle, Fraction(cycle.delay, cycle.distance)


def _positive_cycle(ops: int, arcs: Sequence[Arc], ratio: Fraction) -> Cycle | None:
    """Return a cycle with ``delay > ratio * distance``: longest paths by Bellman and Ford, which it makes endless."""
    if not arcs:
        return None
    exact = [arc.delay * ratio.denominator - arc.distance * ratio.numerator for arc in arcs]
    # Sums of as many weights as there are ops must fit; where they do not, whole numbers of any size do.
    weights = np.array(exact, dtype=np.int64 if max(map(abs, exact)) * (ops + 2) < 2**62 else object)
    before, after = (np.array([getattr(arc, end) for arc in arcs]) for end in ("before", "after"))
    length = np.zeros(ops, dtype=weights.dtype)
    by = np.full(ops, -1)
    at = -1
    for _ in range(ops + 1):
        reached = length[before] + weights
        longer = np.flatnonzero(reached > length[after])
        if not len(longer):
            return None
        new = length.copy()
        np.maximum.at(new, after[longer], reached[longer])
        best = longer[reached[longer] == new[after[longer]]]
        by[after[best]] = best
        length, at = new, int(after[best[0]])
    for _ in range(ops):
        at = arcs[by[at]].before
    walk = [int(by[at])]
    while arcs[walk[-1]].before != at:
        walk.append(int(by[arcs[walk[-1]].before]))
    cycle = [arcs[k] for k in reversed(walk)]
    first = min(range(len(cycle)), key=lambda k: cycle[k].before)
    return Cycle((*cycle[first:], *cycle[:first]))
