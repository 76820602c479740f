"""What would make the interval of a loop smaller: one more copy of a buffer, or an engine in two halves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
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


@dataclass(frozen=True, slots=True)
class SplitLever:
    """With ``engine`` in two halves, each for ops of its own, the loop has interval ``ii_ticks``, if none gets slower.

    Ops that are as fast on half of the units, as those bound by their path to memory, gain all of it; where all ops
    take ``pays_below`` times as long, it gains nothing.
    """

    engine: str
    ii_ticks: int
    pays_below: Fraction


MOST_LEVERS = 8
"""Levers one after the other."""


def levers_in_turn(
    loop: Loop,
    result: ModuloResult,
    seconds: float = 10.0,
    *,
    seed: int | None = None,
    workers: int = 2,
    guard: Guard | None = None,
) -> tuple[DepthLever | SplitLever, ...]:
    """Return what helps most, then what helps most where that is done, and so on; copies before halves of engines.

    ``seconds`` are for each interval that is asked for.
    """
    found: list[DepthLever | SplitLever] = []
    split: set[str] = set()
    with Guard(lazy=True) as own:
        use = own if guard is None else guard
        while len(found) < MOST_LEVERS:
            deeper = depth_levers(loop, result, seconds, seed=seed, workers=workers, guard=use)
            best: DepthLever | SplitLever | None = deeper[0] if deeper else None
            if best is None:
                halves = split_levers(loop, result, seconds, seed=seed, workers=workers, guard=use)
                # A half is not split again.
                best = next((lever for lever in halves if lever.engine not in split), None)
            if best is None:
                break
            found.append(best)
            split |= {best.engine} if isinstance(best, SplitLever) else set()
            loop = _after(loop, best)
            result = modulo_schedule(loop, seconds, seed=seed, workers=workers, shortest=False, guard=use)
    return tuple(found)


def split_levers(
    loop: Loop,
    result: ModuloResult,
    seconds: float = 10.0,
    *,
    seed: int | None = None,
    workers: int = 2,
    guard: Guard | None = None,
) -> tuple[SplitLever, ...]:
    """Return the engines that several ops share, of which two halves give a smaller interval; the best first."""
    before = result.ii_ticks
    found = []
    with Guard(lazy=True) as own:
        for engine in loop.engines if before is not None else ():
            users = [op for op in loop.ops if any(use.engine == engine.name and use.ticks for use in op.uses)]
            halves = _with_halves(loop, engine.name)
            if len(users) < 2 or before is None or least_ii(lower_bounds(halves)) >= before:
                continue
            use = own if guard is None else guard
            ii = modulo_schedule(halves, seconds, seed=seed, workers=workers, shortest=False, guard=use).ii_ticks
            if ii is not None and ii < before:
                found.append(SplitLever(engine.name, ii, Fraction(before, ii)))
    return tuple(sorted(found, key=lambda lever: lever.ii_ticks))


def _after(loop: Loop, lever: DepthLever | SplitLever) -> Loop:
    """Return the loop where ``lever`` was pulled."""
    if isinstance(lever, SplitLever):
        return _with_halves(loop, lever.engine)
    return _with_one_more(loop, next(buffer for buffer in loop.buffers if buffer.name == lever.buffer))


def _with_halves(loop: Loop, name: str) -> Loop:
    """Return the loop with twice the units of an engine: what held all of them holds one half."""
    engines = tuple(e.model_copy(update={"units": 2 * e.units}) if e.name == name else e for e in loop.engines)
    return loop.changed(engines=engines)


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
