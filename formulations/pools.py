"""Several places for buffers: the scratchpad and pools, each with addresses of its own from 0 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem


def in_pools(problem: Problem) -> tuple[tuple[tuple[int, ...], Problem], ...]:
    """Return for each place the positions of its buffers, and the problem with these alone in a scratchpad like it."""
    found = []
    for name, pad in ((None, problem.scratchpad), *((pool.name, pool) for pool in problem.pools)):
        mine = tuple(b for b, buffer in enumerate(problem.buffers) if buffer.pool == name)
        buffers = tuple(problem.buffers[b].model_copy(update={"pool": None}) for b in mine)
        found.append((mine, problem.changed(buffers=buffers, scratchpad=pad, pools=())))
    return tuple(found)


def fit_side_by_side(problem: Problem) -> bool:
    """Return whether nothing is pinned, and every place has bytes for all its buffers at once."""
    return all(buffer.address is None for buffer in problem.buffers) and all(
        sum(buffer.occupied_bytes + buffer.align_bytes - 1 for buffer in part.buffers)
        <= part.scratchpad.available_bytes
        for _, part in problem.per_pool
    )


def on_line(problem: Problem, offsets: Sequence[int]) -> tuple[int, ...]:
    """Return ``offsets`` of all buffers as if the places lay one behind the other, however far plans overrun them."""
    found, base = list(offsets), 0
    for mine, view in problem.per_pool if problem.pools else ():
        ends = [offsets[b] + problem.buffers[b].occupied_bytes for b in mine]
        for b in mine:
            found[b] += base
        base += max([view.scratchpad.total_bytes, *ends])
    return tuple(found)
