"""Addresses for the search over events: bytes first, then, where counting bytes is not enough, addresses."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.packing.gaps import is_free

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.events.state import State
    from hexloom.formulations.events.tables import Tables

MOST_PLACES = 200
"""With more addresses per buffer than this the search counts bytes only."""


def side_by_side(tables: Tables) -> tuple[int, ...] | None:
    """Return offsets at which all buffers could live all the time."""
    return pack(tables.problem, [(0, 1)] * len(tables.size))


def never_fits(tables: Tables) -> bool:
    """Whether a buffer has no legal address even alone."""
    return any(
        (buffer.address or 0) + buffer.occupied_bytes > tables.capacity and (buffer.address or buffer.occupied_bytes)
        for buffer in tables.problem.buffers
    )


def packed(tables: Tables, state: State) -> tuple[int, ...] | None:
    """Return offsets for the lifetimes of a finished run, which were counted in bytes only."""
    end = state.rank + 1
    lives = []
    for b, buffer in enumerate(tables.problem.buffers):
        lives.append((0 if buffer.from_start else state.born[b], end if buffer.to_end else state.died[b]))
    return pack(tables.problem, lives)


def candidates(tables: Tables) -> list[list[int]] | None:
    """Return addresses per buffer that suffice; None when they are too many.

    Move every buffer of a packing down until it lies, by its alignment, on the end of another, of a pinned one, or
    on the floor: what ends below is a chain of buffers, each used once.
    """
    buffers = tables.problem.buffers
    ends: set[int] = {0}
    found: list[set[int]] = [set() for _ in buffers]
    new = {0}
    for b, buffer in enumerate(buffers):
        if buffer.address is not None:
            found[b].add(buffer.address)
            new.add(buffer.address + buffer.occupied_bytes)
    ends |= new
    while new:
        fresh: set[int] = set()
        for b, buffer in enumerate(buffers):
            if buffer.address is not None:
                continue
            for end in new:
                at = -(-end // buffer.align_bytes) * buffer.align_bytes
                if at + tables.size[b] <= tables.capacity and at not in found[b]:
                    found[b].add(at)
                    fresh.add(at + tables.size[b])
            if len(found[b]) > MOST_PLACES:
                return None
        new = fresh - ends
        ends |= new
    return [sorted(places) for places in found]


def placements(
    tables: Tables, options: list[list[int]], live: dict[int, int], born: list[int]
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield every way to place ``born`` beside the ``live`` buffers."""
    for chosen in product(*(options[b] for b in born)):
        taken = [(at, at + tables.size[b]) for b, at in live.items()]
        for b, at in zip(born, chosen, strict=True):
            if not is_free(at, tables.size[b], taken, tables.capacity):
                break
            taken.append((at, at + tables.size[b]))
        else:
            yield tuple(zip(born, chosen, strict=True))
