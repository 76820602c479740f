"""List scheduling: ops start in order of priority as soon as engines, inputs and scratchpad bytes are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.dispatch import ANY, Dispatch, Policy
from hexloom.formulations.packing import Allocator, pack
from hexloom.formulations.scratch_state import ScratchState

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem

__all__ = ["ANY", "Listed", "Policy", "list_from", "list_schedule"]

HEADROOM = (0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4)
"""Shares of the scratchpad that are left out of the count of bytes, tried in turn until the buffers can be placed."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A decision, and the step of `list_from` at which its buffers could be placed."""

    decision: Decision
    headroom: int


def list_schedule(problem: Problem, policy: Policy) -> Decision | None:
    """Return the decision that ``policy`` leads to, or None when it runs into a dead end of scratchpad bytes."""
    listed = list_from(problem, policy, 0)
    return None if listed is None else listed.decision


def list_from(problem: Problem, policy: Policy, headroom: int) -> Listed | None:
    """Do what `list_schedule` does, and tell which step placed the buffers, to begin with it the next time.

    Bytes are only counted while the ops are dispatched, and the lifetimes that result are packed (step 0). Where they
    cannot be, every buffer gets its address when its first op starts (1); and where that ends in a dead end, a growing
    share of the scratchpad is left out of the count: what fragmentation costs (2 and more). ``headroom`` is the step
    to begin with.
    """
    if headroom == 0:
        relaxed = _counted(problem, policy, 0.0)
        if relaxed is not None:
            return Listed(relaxed, 0)
    if headroom <= 1:
        allocator = Allocator(problem, problem.scratchpad.available_bytes // 64)
        exact = Dispatch(problem, policy, ScratchState(problem, allocator, careful=policy.careful, depth=policy.depth))
        if exact.run():
            placed = allocator.offsets
            offsets = tuple(placed.get(b, buf.address or 0) for b, buf in enumerate(problem.buffers))
            return Listed(exact.decision(offsets), 1)
    for step, share in enumerate(HEADROOM, start=2):
        if step >= headroom:
            relaxed = _counted(problem, policy, share)
            if relaxed is not None:
                return Listed(relaxed, step)
    return None


def _counted(problem: Problem, policy: Policy, left_out: float) -> Decision | None:
    """Dispatch with bytes counted only, all but a share of them, then pack the lifetimes into the whole."""
    spare = int(problem.scratchpad.available_bytes * left_out)
    relaxed = Dispatch(problem, policy, ScratchState(problem, None, spare, careful=policy.careful, depth=policy.depth))
    offsets = pack(problem, relaxed.scratch.lifetimes()) if relaxed.run() else None
    return None if offsets is None else relaxed.decision(offsets)
