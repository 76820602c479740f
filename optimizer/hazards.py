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

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.overlaps import meeting, touches_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.problem import Region

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
    """What to do: edges to add, and all meetings (before, after) that are ordered then. ``notes`` tell the rest."""

    edges: tuple[tuple[int, int], ...]
    ordered: tuple[Hazard, ...]
    notes: tuple[str, ...]


def find_hazards(regions: Sequence[Sequence[Region]]) -> list[Hazard]:
    """Return every two ops that meet, ordered or not; ``regions`` are those of each op, in the order of the file."""
    flat = [(op, region) for op, of in enumerate(regions) for region in of]
    if len(flat) < 2 or all(region.kind != "write" for _, region in flat):
        return []
    touches = touches_of(flat)
    pairs = meeting(touches)
    found = []
    for one, other, common in zip(pairs.first.tolist(), pairs.second.tolist(), pairs.bytes.tolist(), strict=True):
        (first, a), (second, b) = flat[one], flat[other]
        kind: Kind = "WAW" if a.kind == b.kind else "RAW" if a.kind == "write" else "WAR"
        found.append(Hazard(first, second, kind if common else "false sharing", (a, b)))
    found.sort(key=lambda hazard: hazard[:3])
    return found


def resolve(
    names: Sequence[str], predecessors: Sequence[Iterable[int]], regions: Sequence[Sequence[Region]], answer: Answer
) -> Resolved:
    """Find the hazards among the ops called ``names`` and answer them.

    Raises
    ------
    InvalidInputError
        Two ops meet and nothing orders them, and the answer is ``refuse``; or their order closes a cycle.
    """
    hazards = find_hazards(regions)
    before = [set(p) for p in predecessors]
    order = _topological(before)
    if not hazards or len(order) < len(names):
        return Resolved((), (), ())  # of a cycle among the user's own edges the problem tells
    ordered = _in_their_order(hazards, before, order)
    loose = [hazard for hazard, pair in zip(hazards, ordered, strict=True) if pair is None]
    known = [pair for pair in ordered if pair is not None]
    if not loose:
        return Resolved((), tuple(known), ())
    if answer == "refuse":
        raise InvalidInputError(_refusal(names, loose))
    told = "; ".join(described(names, hazard) for hazard in loose[:MOST_TOLD])
    told += f"; and {len(loose) - MOST_TOLD} more" if len(loose) > MOST_TOLD else ""
    if answer == "report":
        return Resolved((), tuple(known), (f"hazards: nothing orders {told}",))
    pairs = dict.fromkeys((hazard.first, hazard.second) for hazard in loose)
    for first, second in pairs:
        before[second].add(first)
    _refuse_cycle(names, before, loose)
    edges = _thinned(before, pairs)
    return Resolved(edges, (*known, *loose), (f"hazards: ordered as in the file: {told}",))


def described(names: Sequence[str], hazard: Hazard) -> str:
    """Return one hazard in words: both ops, the tensor, the bytes and the kind."""
    a, b = hazard.regions
    low, end = max(a.offset_bytes, b.offset_bytes), min(a.end_bytes, b.end_bytes)
    where = f"{a.tensor!r} [{low}, {end})" if low < end else f"a cache line of {a.tensor!r} at byte {end}"
    does = {"RAW": ("writes", "reads"), "WAR": ("reads", "writes")}.get(hazard.kind, ("writes", "writes"))
    past = [" past the cache" if a.bypass != b.bypass and region.bypass else "" for region in (a, b)]
    one, other = names[hazard.first], names[hazard.second]
    return f"{hazard.kind} on {where}: {one!r} {does[0]} it{past[0]}, {other!r} {does[1]} it{past[1]}"


def _refusal(names: Sequence[str], loose: list[Hazard]) -> str:
    more = f" ({len(loose) - 1} more such pairs)" if len(loose) > 1 else ""
    return (
        f"nothing orders {described(names, loose[0])}{more}; write `after`, give them bytes of their own, or set "
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


def _in_their_order(hazards: list[Hazard], before: Sequence[set[int]], order: list[int]) -> list[Hazard | None]:
    """Return each hazard with the op first that comes first by the edges; None where nothing orders the two."""
    place = [0] * len(order)
    for k, op in enumerate(order):
        place[op] = k
    turned = [h if place[h.first] < place[h.second] else _reversed(h) for h in hazards]
    asked = {(h.first, h.second) for h in turned if h.first not in before[h.second]}
    loose = _unconnected(asked, before, order)
    return [None if (h.first, h.second) in loose else h for h in turned]


def _reversed(hazard: Hazard) -> Hazard:
    a, b = hazard.regions
    kinds: dict[Kind, Kind] = {"RAW": "WAR", "WAR": "RAW"}
    return Hazard(hazard.second, hazard.first, kinds.get(hazard.kind, hazard.kind), (b, a))


def _unconnected(asked: set[tuple[int, int]], before: Sequence[set[int]], order: list[int]) -> set[tuple[int, int]]:
    """Return the pairs whose second op no path reaches from the first; so many first ops at a time as bits allow."""
    by_source: dict[int, list[int]] = {}
    for first, second in asked:
        by_source.setdefault(first, []).append(second)
    sources = sorted(by_source)
    loose: set[tuple[int, int]] = set()
    for begin in range(0, len(sources), BITS_AT_ONCE):
        block = sources[begin : begin + BITS_AT_ONCE]
        reach = _reached(block, before, order)
        for k, first in enumerate(block):
            loose.update((first, second) for second in by_source[first] if not reach[second] >> k & 1)
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


def _refuse_cycle(names: Sequence[str], before: Sequence[set[int]], loose: list[Hazard]) -> None:
    order = _topological(before)
    if len(order) == len(names):
        return
    left = set(range(len(names))) - set(order)
    walk = [min(left)]
    while walk[-1] not in walk[:-1]:
        walk.append(min(p for p in before[walk[-1]] if p in left))
    cycle = walk[walk.index(walk[-1]) :][::-1]
    steps = set(pairwise(cycle))
    cause = next(h for h in loose if (h.first, h.second) in steps)
    raise InvalidInputError(
        f"hazards: in the order of the file they close a cycle: {' -> '.join(names[op] for op in cycle)}; one of them "
        f"is {described(names, cause)}; change the order of the file, or write `after` for these two"
    )


def _thinned(before: Sequence[set[int]], pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Leave out of the new edges ``pairs`` those that follow from other edges."""
    edges = tuple(pairs)
    firsts = sorted({first for first, _ in edges})
    if len(firsts) > MOST_THINNED:
        return edges
    bit = {first: 1 << k for k, first in enumerate(firsts)}
    reach = _reached(firsts, before, _topological(before))
    kept = []
    for first, second in edges:
        # The edge itself reaches `first` alone: whatever else comes right before `second` must not know it already.
        if not any(reach[p] & bit[first] for p in before[second] if p != first):
            kept.append((first, second))
    return tuple(kept)
