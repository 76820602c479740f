"""Which buffer of a loop is the lever: one more copy of it, and the interval is smaller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.periodic.bounds import impossible, least_ii, lower_bounds
from hexloom.formulations.periodic.modulo import modulo_schedule

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop, LoopBuffer
    from hexloom.formulations.periodic.modulo import ModuloResult


@dataclass(frozen=True, slots=True)
class DepthLever:
    """With a ring of ``depth`` copies ``buffer`` lets the loop have interval ``ii_ticks``, for so many bytes more."""

    buffer: str
    depth: int
    ii_ticks: int
    more_bytes: int


def depth_levers(
    loop: Loop,
    result: ModuloResult,
    seconds: float = 10.0,
    *,
    seed: int | None = None,
    workers: int = 2,
    guard: Guard | None = None,
) -> tuple[DepthLever, ...]:
    """Return the rings of which one more copy, and its bytes, give a smaller interval than ``result``; the best first.

    What a bound rules out is not solved for; ``seconds`` are for each of the others. Of a loop without a schedule any
    interval is smaller.
    """
    with Guard(lazy=True) as own:
        found = []
        for buffer in loop.buffers:
            if buffer.depth is None:
                continue
            deeper = _with_one_more(loop, buffer)
            if impossible(deeper) is not None:
                continue
            if result.ii_ticks is not None and least_ii(lower_bounds(deeper)) >= result.ii_ticks:
                continue
            solved = modulo_schedule(
                deeper, seconds, seed=seed, workers=workers, shortest=False, guard=own if guard is None else guard
            )
            ii = solved.ii_ticks
            if ii is not None and (result.ii_ticks is None or ii < result.ii_ticks):
                more = deeper.scratchpad.total_bytes - loop.scratchpad.total_bytes
                found.append(DepthLever(buffer.name, buffer.depth + 1, ii, more))
    return tuple(sorted(found, key=lambda lever: (lever.ii_ticks, lever.more_bytes)))


def _with_one_more(loop: Loop, buffer: LoopBuffer) -> Loop:
    """Return the loop in which the ring of ``buffer`` has one copy more, and the scratchpad room for it."""
    assert buffer.depth is not None
    deeper = buffer.model_copy(update={"depth": buffer.depth + 1})
    size = -(-buffer.occupied_bytes // buffer.align_bytes) * buffer.align_bytes
    pad = loop.scratchpad.model_copy(update={"total_bytes": loop.scratchpad.total_bytes + size})
    return loop.changed(buffers=tuple(deeper if b is buffer else b for b in loop.buffers), scratchpad=pad)
