"""A decision seen by some of its ops alone, and decisions made from loops that people run today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.flows import contracted, moments_of, share_flows
from hexloom.formulations.packing.fixed_times import pack, pack_over, possible_takeovers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem


def restrict(problem: Problem, decision: Decision, keep: frozenset[str], name: str) -> tuple[Problem, Decision]:
    """Return the problem of the ops in ``keep`` (without entry cost) and what ``decision`` says about them."""
    part = problem.restricted(keep, name)
    kept = [i for i, op in enumerate(problem.ops) if op.name in keep]
    place = {old: new for new, old in enumerate(kept)}
    offsets = {buffer.name: at for buffer, at in zip(problem.buffers, decision.offsets, strict=True)}
    return part, Decision(
        modes=tuple(decision.modes[i] for i in kept),
        units=tuple(decision.units[i] for i in kept),
        actions=tuple(place[a] if a >= 0 else ~place[~a] for a in decision.actions if (a if a >= 0 else ~a) in place),
        offsets=tuple(offsets[buffer.name] for buffer in part.buffers),
        guards=tuple((place[a], place[b]) for a, b in decision.guards if a in place and b in place),
        flows=tuple((place[a], place[b]) for a, b in contracted(decision.flows, set(kept))),
    )


def decision_of_loop(problem: Problem, loop: Sequence[int]) -> Decision | None:
    """Return the decision in which every queue meets its ops in the order of ``loop``; None when memory forbids it.

    Every op takes its fastest mode that needs no more units than exist, on the lowest unit ids. The owner of a
    transfer waits for it right before the first op that needs its end. Buffers share addresses as late as the
    scratchpad allows.
    """
    engines = {engine.name: engine for engine in problem.engines}
    modes = problem.fastest_modes
    units = tuple(
        tuple(
            ()
            if engines[use.engine].kind in ("pipe", "share") or use.ticks == 0
            else use.unit_ids or tuple(range(use.units))
            for use in op.modes[m].uses
        )
        for op, m in zip(problem.ops, modes, strict=True)
    )
    actions = with_waits(problem, modes, loop)
    offsets = _late_sharing(problem, actions)
    if offsets is None:
        return None
    flows = share_flows(problem, modes, units, moments_of(problem, modes, actions))
    return Decision(modes, units, actions, offsets, flows=flows)


def with_waits(problem: Problem, modes: Sequence[int], loop: Sequence[int]) -> tuple[int, ...]:
    """Insert ``~i`` for every transfer i right before the first op in ``loop`` that follows it, else at the end.

    Transfers that hold what the next op needs of a share are awaited before it too, the oldest first.
    """
    open_transfers: dict[int, None] = {}
    actions: list[int] = []

    def held(i: int, share: str) -> int:
        return sum(u.units for u in problem.share_uses(problem.ops[i].modes[modes[i]]) if u.engine == share)

    for i in loop:
        for p in problem.predecessors[i]:
            if p in open_transfers:
                del open_transfers[p]
                actions.append(~p)
        for share, amount in problem.shares.items():
            holders = [t for t in open_transfers if held(t, share)]
            while holders and held(i, share) and held(i, share) + sum(held(t, share) for t in holders) > amount:
                del open_transfers[holders[0]]
                actions.append(~holders.pop(0))
        actions.append(i)
        if problem.ops[i].modes[modes[i]].dma is not None:
            open_transfers[i] = None
    return (*actions, *(~i for i in open_transfers))


def _late_sharing(problem: Problem, actions: Sequence[int]) -> tuple[int, ...] | None:
    """Pack with lifetimes in action positions, stretched beyond their end as far as the capacity allows.

    Where even the lives alone do not fit, what may be overwritten is.
    """
    position = {action: k for k, action in enumerate(actions)}
    lives: list[tuple[int, int]] = []
    for buffer in problem.buffers:
        users = [problem.op_index[name] for name in buffer.ops]
        born = min((position[i] for i in users), default=0)
        died = max((position.get(~i, position[i]) + 1 for i in users), default=0)
        lives.append((-1 if buffer.from_start else born, len(actions) + 1 if buffer.to_end else died))
    stretch = len(actions)
    while True:
        offsets = pack(problem, [(born, died + stretch if died > born else died) for born, died in lives])
        if offsets is not None:
            return offsets
        if stretch == 0:
            break
        stretch //= 2
    start = [position[i] for i in range(len(problem.ops))]
    known = [position.get(~i, position[i]) + 1 for i in range(len(problem.ops))]
    return pack_over(problem, lives, possible_takeovers(problem, start, known)) if problem.takeovers else None
