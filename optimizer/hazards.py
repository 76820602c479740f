"""Hazards: ops that touch the same bytes in DDR, one of them writing, and what follows from that for their order.

That tasks are independent is checked, never assumed. RAW, WAR and WAW between ops that nothing orders are refused,
ordered as the file has them, or noted. Where one of two ordered ops goes past the cache and the other through it,
maintenance of the cache comes between them (`maintenance.py`); two such writers of one line are a hazard even where
they share no byte, since a dirty line is written back whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.overlaps import Pairs, meeting, touches_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.problem import Region
    from hexloom.optimizer.overlaps import Integers, Truths

Kind = Literal["RAW", "WAR", "WAW", "false sharing"]
Answer = Literal["refuse", "order", "report"]

BITS_AT_ONCE = 4096
"""Ops whose followers are found in one pass over the graph."""

MOST_THINNED = 8192
"""Ops with hazards up to which edges that follow from others are left out; a plan waits for none of these anyway."""

MOST_TOLD = 3
"""Hazards named one by one in a note."""


class Hazard(NamedTuple):
    """Two ops by position, the one earlier in the file first, and the regions by which they meet."""

    first: int
    second: int
    kind: Kind
    regions: tuple[Region, Region]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What to do: edges to add, and the hazards on two paths, the op first that comes first then. ``notes`` tell all.

    ``crossing`` are those in which the first op writes through the cache and the other goes past it, or the reverse.
    """

    edges: tuple[tuple[int, int], ...]
    crossing: tuple[Hazard, ...]
    notes: tuple[str, ...]


class _Meetings:
    """Every two touches that meet, as arrays; hazards are made of the few that are told."""

    def __init__(self, regions: Sequence[Sequence[Region]]) -> None:
        self.flat = [(op, region) for op, of in enumerate(regions) for region in of]
        none = np.zeros(0, np.int64)
        self.pairs, self.touches = Pairs(none, none, none.astype(bool)), None
        if len(self.flat) > 1 and any(region.kind == "write" for _, region in self.flat):
            self.touches = touches_of(self.flat)
            self.pairs = meeting(self.touches)

    def hazards(self, which: Integers, turned: Truths) -> list[Hazard]:
        """Return the meetings at positions ``which``, those that are ``turned`` with the later op first."""
        pairs, flat = self.pairs, self.flat
        found = []
        for k, turn in zip(which.tolist(), turned.tolist(), strict=True):
            one, other = flat[pairs.first[k]], flat[pairs.second[k]]
            (first, a), (second, b) = (other, one) if turn else (one, other)
            kind: Kind = "WAW" if a.kind == b.kind else "RAW" if a.kind == "write" else "WAR"
            found.append(Hazard(first, second, kind if pairs.bytes[k] else "false sharing", (a, b)))
        return found


def find_hazards(regions: Sequence[Sequence[Region]]) -> list[Hazard]:
    """Return every two ops that meet, ordered or not; ``regions`` are those of each op, in the order of the file."""
    met = _Meetings(regions)
    count = len(met.pairs.first)
    return sorted(met.hazards(np.arange(count), np.zeros(count, bool)), key=lambda hazard: hazard[:3])


def resolve(
    names: Sequence[str], predecessors: Sequence[Iterable[int]], regions: Sequence[Sequence[Region]], answer: Answer
) -> Resolved:
    """Find the hazards among the ops called ``names`` and answer them.

    Raises
    ------
    InvalidInputError
        Two ops meet and nothing orders them, and the answer is ``refuse``; or their order closes a cycle.
    """
    met = _Meetings(regions)
    before = [set(p) for p in predecessors]
    order = _topological(before)
    if met.touches is None or not len(met.pairs.first) or len(order) < len(names):
        return Resolved((), (), ())  # of a cycle among the user's own edges the problem tells
    loose, turned = _in_their_order(met, before, order)
    if not loose.any():
        return Resolved((), _crossing(met, loose, turned), ())
    which = np.flatnonzero(loose)
    first, second = (met.touches.op[side[which]] for side in (met.pairs.first, met.pairs.second))
    which = which[np.lexsort((second, first))]
    some = met.hazards(which[:MOST_TOLD], np.zeros(MOST_TOLD, bool)[: len(which)])
    if answer == "refuse":
        raise InvalidInputError(_refusal(names, some[0], len(which)))
    told = "; ".join(described(names, hazard) for hazard in some)
    told += f"; and {len(which) - MOST_TOLD} more" if len(which) > MOST_TOLD else ""
    if answer == "report":
        return Resolved((), _crossing(met, loose, turned), (f"hazards: nothing orders {told}",))
    keys = np.unique(first * len(names) + second)
    pairs = list(zip((keys // len(names)).tolist(), (keys % len(names)).tolist(), strict=True))
    for a, b in pairs:
        before[b].add(a)
    _refuse_cycle(names, before, met, which)
    crossing = _crossing(met, np.zeros_like(loose), turned & ~loose)
    return Resolved(_thinned(before, pairs), crossing, (f"hazards: ordered as in the file: {told}",))


def _crossing(met: _Meetings, loose: Truths, turned: Truths) -> tuple[Hazard, ...]:
    """Return the ordered meetings that need maintenance: a write, and then an access on the other path."""
    assert met.touches is not None
    write, bypass = met.touches.write, met.touches.bypass
    earlier = np.where(turned, met.pairs.second, met.pairs.first)
    two_paths = bypass[met.pairs.first] != bypass[met.pairs.second]
    which = np.flatnonzero(~loose & two_paths & write[earlier])
    return tuple(met.hazards(which, turned[which]))


def described(names: Sequence[str], hazard: Hazard) -> str:
    """Return one hazard in words: both ops, the tensor, the bytes and the kind."""
    a, b = hazard.regions
    low, end = max(a.offset_bytes, b.offset_bytes), min(a.end_bytes, b.end_bytes)
    where = f"{a.tensor!r} [{low}, {end})" if low < end else f"a cache line of {a.tensor!r} at byte {end}"
    does = {"RAW": ("writes", "reads"), "WAR": ("reads", "writes")}.get(hazard.kind, ("writes", "writes"))
    past = [" past the cache" if a.bypass != b.bypass and region.bypass else "" for region in (a, b)]
    one, other = names[hazard.first], names[hazard.second]
    return f"{hazard.kind} on {where}: {one!r} {does[0]} it{past[0]}, {other!r} {does[1]} it{past[1]}"


def _refusal(names: Sequence[str], hazard: Hazard, count: int) -> str:
    more = f" ({count - 1} more such pairs)" if count > 1 else ""
    return (
        f"nothing orders {described(names, hazard)}{more}; write `after`, give them bytes of their own, or set "
        "`hazards: order` in the workload"
    )


def _topological(before: Sequence[set[int]]) -> list[int]:
    """Return the ops so that each comes after those before it; shorter where there is a cycle."""
    missing = [len(of) for of in before]
    after: list[list[int]] = [[] for _ in before]
    for op, of in enumerate(before):
        for p in of:
            after[p].append(op)
    order = [op for op, count in enumerate(missing) if not count]
    for op in order:
        for follower in after[op]:
            missing[follower] -= 1
            if not missing[follower]:
                order.append(follower)
    return order


def _in_their_order(met: _Meetings, before: Sequence[set[int]], order: list[int]) -> tuple[Truths, Truths]:
    """Return which meetings nothing orders, and in which the op that is later in the file comes first."""
    assert met.touches is not None
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first, second = met.touches.op[met.pairs.first], met.touches.op[met.pairs.second]
    turned: Truths = place[first] > place[second]
    earlier, later = np.where(turned, second, first), np.where(turned, first, second)
    keys, of = np.unique(earlier * len(order) + later, return_inverse=True)
    asked = list(zip((keys // len(order)).tolist(), (keys % len(order)).tolist(), strict=True))
    loose = _unconnected(asked, before, order)
    return loose[of], turned


def _unconnected(asked: list[tuple[int, int]], before: Sequence[set[int]], order: list[int]) -> Truths:
    """Return of which pairs no path leads from the first op to the second; pairs come by their first op."""
    loose = np.array([first not in before[second] for first, second in asked], dtype=bool)
    open_ = np.flatnonzero(loose).tolist()
    sources = sorted({asked[k][0] for k in open_})
    at = 0
    for begin in range(0, len(sources), BITS_AT_ONCE):
        block = sources[begin : begin + BITS_AT_ONCE]
        bit = {source: k for k, source in enumerate(block)}
        reach = _reached(block, before, order)
        while at < len(open_) and asked[open_[at]][0] in bit:
            first, second = asked[open_[at]]
            loose[open_[at]] = not reach[second] >> bit[first] & 1
            at += 1
    return loose


def _reached(sources: Sequence[int], before: Sequence[set[int]], order: list[int]) -> list[int]:
    """Return for each op which of ``sources`` come before it or are it, as bits."""
    reach = [0] * len(order)
    for k, source in enumerate(sources):
        reach[source] = 1 << k
    for op in order:
        if before[op]:
            found = reach[op]
            for p in before[op]:
                found |= reach[p]
            reach[op] = found
    return reach


def _refuse_cycle(names: Sequence[str], before: Sequence[set[int]], met: _Meetings, loose: Integers) -> None:
    order = _topological(before)
    if len(order) == len(names):
        return
    left = set(range(len(names))) - set(order)
    walk = [min(left)]
    while walk[-1] not in walk[:-1]:
        walk.append(min(p for p in before[walk[-1]] if p in left))
    cycle = walk[walk.index(walk[-1]) :][::-1]
    steps = set(pairwise(cycle))
    every = met.hazards(loose, np.zeros(len(loose), bool))
    cause = next(h for h in every if (h.first, h.second) in steps)
    raise InvalidInputError(
        f"hazards: in the order of the file they close a cycle: {' -> '.join(names[op] for op in cycle)}; one of them "
        f"is {described(names, cause)}; change the order of the file, or write `after` for these two"
    )


def _thinned(before: Sequence[set[int]], pairs: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Leave out of the new edges ``pairs`` those that follow from other edges; all of them are in ``before``."""
    firsts = sorted({first for first, _ in pairs})
    if len(firsts) > MOST_THINNED:
        return tuple(pairs)
    order = _topological(before)
    place = {op: k for k, op in enumerate(order)}
    bit = {first: 1 << k for k, first in enumerate(firsts)}
    reach = _reached(firsts, before, order)
    new = set(pairs)
    kept = []
    for second in sorted({second for _, second in pairs}):
        seen = 0
        # Whatever leads to one of these comes before it, so the last ones first: then what follows is known.
        for first in sorted(before[second], key=place.__getitem__, reverse=True):
            if not seen & bit.get(first, 0):
                seen |= reach[first]
                if (first, second) in new:
                    kept.append((first, second))
    return tuple(sorted(kept))
