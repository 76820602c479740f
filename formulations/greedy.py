"""List scheduling: ops start in order of priority as soon as engines, inputs and scratchpad bytes are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.dispatch import Dispatch
from hexloom.formulations.packing.allocator import Allocator
from hexloom.formulations.packing.fixed_times import pack_over
from hexloom.formulations.policy import ANY, Policy
from hexloom.formulations.rings import RingAllocator, kinds_of, lay_out
from hexloom.formulations.scratch_state import PooledState, ScratchState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.speeds import Speeds

__all__ = ["ANY", "Listed", "Policy", "list_from", "list_schedule"]

HEADROOM = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4)
"""Shares of the scratchpad that are left out of the count of bytes, tried in turn until the buffers can be placed."""

LAST_STEP = len(HEADROOM) + 1


@dataclass(frozen=True, slots=True)
class Listed:
    """A decision, and the step of `list_from` at which its buffers could be placed."""

    decision: Decision
    headroom: int


def list_schedule(problem: Problem, policy: Policy, speeds: Speeds | None = None) -> Decision | None:
    """Return the decision that ``policy`` leads to, or None when it runs into a dead end of scratchpad bytes."""
    listed = list_from(problem, policy, 0, speeds=speeds)
    return None if listed is None else listed.decision


def list_from(
    problem: Problem, policy: Policy, headroom: int, last: int = LAST_STEP, speeds: Speeds | None = None
) -> Listed | None:
    """Do what `list_schedule` does, and tell which step placed the buffers, to begin with it the next time.

    Bytes are only counted while the ops are dispatched, and the lifetimes that result are packed (step 0). Where they
    cannot be, every buffer gets its address when its first op starts (1); and where that ends in a dead end, a growing
    share of the scratchpad is left out of the count: what fragmentation costs (2 and more). ``headroom`` is the step
    to begin with, ``last`` the one to end with. A policy with rings has its addresses from these alone.
    With ``speeds`` the clock knows how ops slow each other.
    """
    if policy.rings:
        kinds = kinds_of(problem, policy.turns)
        rings = RingAllocator(problem, kinds, lay_out(problem, kinds, policy.rings))
        return _placed(problem, policy, [rings], headroom, speeds)
    if headroom == 0:
        relaxed = _counted(problem, policy, 0.0, speeds)
        if relaxed is not None:
            return Listed(relaxed, 0)
    if headroom <= 1 <= last:
        allocators = [Allocator(view, view.scratchpad.available_bytes // 64) for _, view in problem.per_pool]
        listed = _placed(problem, policy, allocators, 1, speeds)
        if listed is not None:
            return listed
    for step, share in enumerate(HEADROOM, start=2):
        if headroom <= step <= last:
            relaxed = _counted(problem, policy, share, speeds)
            if relaxed is not None:
                return Listed(relaxed, step)
    return None


def _placed(
    problem: Problem, policy: Policy, allocators: Sequence[Allocator], step: int, speeds: Speeds | None
) -> Listed | None:
    """Dispatch with addresses: every buffer gets its own when its first op starts."""
    exact = Dispatch(problem, policy, _state(problem, policy, allocators), speeds)
    if not all(allocator.fits for allocator in allocators) or not exact.run():
        return None
    views = zip(problem.per_pool, allocators, strict=True)
    placed = {mine[b]: at for (mine, _), allocator in views for b, at in allocator.offsets.items()}
    return Listed(exact.decision(tuple(placed.get(b, buf.address or 0) for b, buf in enumerate(problem.buffers))), step)


def _counted(problem: Problem, policy: Policy, left_out: float, speeds: Speeds | None) -> Decision | None:
    """Dispatch with bytes counted only, all but a share of them, then pack the lifetimes into the whole."""
    relaxed = Dispatch(problem, policy, _state(problem, policy, None, left_out), speeds)
    offsets = pack_over(problem, relaxed.scratch.lifetimes(), relaxed.scratch.taken) if relaxed.run() else None
    return None if offsets is None else relaxed.decision(offsets)


def _state(
    problem: Problem, policy: Policy, allocators: Sequence[Allocator] | None, left_out: float = 0.0
) -> ScratchState | PooledState:
    states = [
        ScratchState(
            view,
            None if allocators is None else allocators[k],
            int(view.scratchpad.available_bytes * left_out),
            careful=policy.careful,
            depth=policy.depth,
            turns=policy.turns,
            reserve=policy.reserve,
        )
        for k, (_, view) in enumerate(problem.per_pool)
    ]
    return PooledState(problem, states) if problem.pools else states[0]
