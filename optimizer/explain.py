"""Why there is no schedule: arithmetic first, then the smallest conflict among named groups, then levers."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hexloom.optimizer.conflict import Conflict, smallest_conflict
from hexloom.optimizer.decide import Decider
from hexloom.optimizer.groups import Group, groups_of, in_words, keeping
from hexloom.optimizer.infeasibility import Holder, Infeasibility, Lever, Member, shortfall_message
from hexloom.optimizer.kernel_levers import kernel_levers
from hexloom.optimizer.levers import Levers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.feasibility import Shortfall
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.workload import Workload

EXPLAIN_S = 6.0
"""Most seconds for an explanation, whatever the limit of the search was."""

CONFLICT_SHARE, LEVERS_S = 0.4, 1.5
"""Part of them for the conflict, and the least for levers, however long a conflict took."""

KERNEL_SHARE = 0.6
"""Part of what is left for the levers of kernels, where there are kernels."""

MOST_GROUPS = 2_000
"""Of more groups none is dropped: even by halves it would take more questions than there is time for."""

IN_MESSAGE = 6
"""Members of a conflict that the message names; the others are in ``conflict``."""


def explain(
    problem: Problem,
    rule: Rule,
    found: Shortfall,
    seconds: float,
    seed: int | None,
    source: tuple[Workload, Machine] | None,
) -> Infeasibility:
    """Return all that can be said in ``seconds`` of why ``problem`` has no schedule, and of what would give it one.

    ``source`` are the workload and the machine it comes from; kernels then have levers of their own.
    """
    until = time.monotonic() + seconds
    with Decider(seed) as decider:
        conflict = Conflict((), False)
        if seconds > 0:
            conflict = _conflict(problem, rule, found, decider, seconds * CONFLICT_SHARE)
            until = max(until, time.monotonic() + LEVERS_S)
        members = [group for group, _ in conflict.members]
        kernels: list[Lever] = []
        if source is not None and any(g.kind in ("scratchpad", "buffer") for g in members):
            mine = time.monotonic() + (until - time.monotonic()) * KERNEL_SHARE
            kernels = list(kernel_levers(*source, _tasks(problem, members), problem, rule, decider, mine))
        levers = [*Levers(problem, rule, decider, until).of(found, members), *kernels]
    return _told(problem, found, conflict, levers)


def _conflict(problem: Problem, rule: Rule, found: Shortfall, decider: Decider, seconds: float) -> Conflict:
    """Return a smallest conflict, looked for first among the groups that arithmetic is about."""
    groups = groups_of(problem, rule)
    named = [group for group in groups if _about(problem, found, group)]
    few = 0 < len(named) <= MOST_GROUPS
    if few and decider.decide(keeping(problem, named), rule, seconds / 4).verdict == "infeasible":
        return smallest_conflict(problem, rule, named, decider, seconds)
    if len(groups) > MOST_GROUPS:
        return Conflict((), False)
    return smallest_conflict(problem, rule, groups, decider, seconds)


def _about(problem: Problem, found: Shortfall, group: Group) -> bool:
    """Whether a shortfall of arithmetic can be about ``group``."""
    holders = {name for name, _, _ in found.holders}
    for buffer, parts in problem.buffers_as_one:
        names = {buffer.name, *(problem.buffers[b].name for b in parts)}
        holders |= set() if names.isdisjoint(holders) else names
    if found.kind in ("bytes", "largest_gap", "pin"):
        return group.kind == "scratchpad" or (group.kind in ("buffer", "pin") and group.names[0] in holders)
    if found.kind in ("units", "channel"):
        return group in (Group("engine", (found.resource,)), Group("gang", (found.op or "",)))
    if found.kind == "order":
        return group.kind in ("scratchpad", "buffer", "precedence", "chain")
    if found.kind == "overload":
        return group.kind not in ("buffer", "pin", "scratchpad")
    if found.kind == "deadline":
        return group.kind not in ("deadline", "buffer", "pin", "scratchpad") or group.names == (found.op,)
    return False


def _tasks(problem: Problem, members: Sequence[Group]) -> set[str]:
    """Return the tasks whose ops use a buffer in conflict."""
    held = {g.names[0] for g in members if g.kind == "buffer"}
    users = {name for b, _ in problem.buffers_as_one if b.name in held for name in b.ops}
    return {op.task for op in problem.ops if op.name in users}


def _told(problem: Problem, found: Shortfall, conflict: Conflict, levers: Sequence[Lever]) -> Infeasibility:
    members = tuple(
        Member(kind=group.kind, names=group.names, text=in_words(problem, group), without=verdict)
        for group, verdict in conflict.members
        if verdict != "infeasible"
    )
    message, searched = shortfall_message(problem, found), found.resource
    if found.kind == "search":
        counted = next(
            (v for v in levers if v.need is not None and v.have is not None and v.outcome == "feasible"), None
        )
        if counted is not None and counted.need is not None and counted.have is not None:
            found = replace(found, resource=counted.resource, need=counted.need, have=counted.have, unit=counted.unit)
    if found.kind == "search" and members:
        named = "; ".join(member.text for member in members[:IN_MESSAGE])
        more = f"; and {len(members) - IN_MESSAGE} more" if len(members) > IN_MESSAGE else ""
        message = f"no {searched} exists: these exclude each other: {named}{more}"
    advice = [lever.text for lever in levers if lever.outcome != "infeasible"][:2]
    buffers = {b.name: b for b, _ in problem.buffers_as_one}
    held = [buffers[m.names[0]] for m in members if m.kind == "buffer"]
    holders = tuple(Holder(buffer=n, size_bytes=s, address=a) for n, s, a in found.holders)
    return Infeasibility(
        kind=found.kind,
        op=found.op,
        resource=found.resource,
        need=found.need,
        have=found.have,
        short=found.short,
        unit=found.unit,
        time_unit="ticks" if problem.tick is None else "us",
        holders=holders or tuple(Holder(buffer=b.name, size_bytes=b.occupied_bytes, address=b.address) for b in held),
        rounding_bytes=found.rounding,
        message="; ".join([message, *advice]),
        conflict=members,
        conflict_proven=conflict.proven,
        minimal=conflict.minimal and conflict.proven,
        levers=tuple(levers),
    )
