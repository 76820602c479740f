"""From a decision to a plan: queues in the decided order, and no more waits than are needed.

What must be ordered: dependencies, users of one unit of a resource without a thread, users of a share (flows), buffers
that share addresses, and guards. What the queues order by themselves, and what follows from other waits, is left out.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Buffer, Mode, Problem

Step = Literal["run", "start", "wait"]

MOST_REMEMBERED = 2**14
"""So many assignments, entries and waits are made once for all plans."""


def make_plan(problem: Problem, decision: Decision) -> Plan:
    """Return the plan of ``decision``.

    Raises
    ------
    PlanError
        When the order of the decision contradicts a dependency or an address.
    """
    modes = [op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)]
    position = {action: k for k, action in enumerate(decision.actions)}
    required = _required(problem, decision, modes, position)
    lanes: dict[tuple[str, int], list[tuple[int, Step]]] = {
        (e.name, u): [] for e in problem.engines if e.kind not in ("pipe", "share") for u in range(e.units)
    }
    for action in decision.actions:
        i = action if action >= 0 else ~action
        mode = modes[i]
        if mode.dma is not None:
            owner = (mode.dma.owner_engine, mode.dma.owner_unit)
            lanes[owner].append((i, "start" if action >= 0 else "wait"))
            continue
        for use, ids in zip(mode.uses, decision.units[i], strict=True):
            for u in ids:
                lanes[use.engine, u].append((i, "run"))
    workers = {e.name for e in problem.engines if e.kind == "worker"}
    queues = {lane: entries for lane, entries in lanes.items() if lane[0] in workers and entries}
    for lane, entries in lanes.items():
        if lane[0] not in workers:
            for (a, _), (b, _) in pairwise(entries):
                required[b].add(a)
    waits = _reduce(modes, queues.values(), required, decision.actions, workers)
    names = [op.name for op in problem.ops]
    return Plan(
        assignments=tuple(
            _assignment(
                names[i],
                decision.modes[i],
                tuple((use.engine, ids) for use, ids in zip(modes[i].uses, decision.units[i], strict=False) if ids),
            )
            for i in range(len(names))
        ),
        queues=tuple(
            Queue(
                engine=e,
                unit=u,
                entries=tuple(_entry(names[i], a) for i, a in entries),
            )
            for (e, u), entries in queues.items()
        ),
        waits=tuple(_wait(names[a], names[b]) for a, b in waits),
        addresses={b.name: at for b, at in zip(problem.buffers, decision.offsets, strict=True)},
    )


# A search makes thousands of plans out of the same parts, which nobody can change.
@lru_cache(MOST_REMEMBERED)
def _assignment(op: str, mode: int, units: tuple[tuple[str, tuple[int, ...]], ...]) -> Assignment:
    return Assignment(op=op, mode=mode, units=dict(units))


@lru_cache(MOST_REMEMBERED)
def _entry(op: str, action: Step) -> QueueEntry:
    return QueueEntry(op=op, action=action)


@lru_cache(MOST_REMEMBERED)
def _wait(before: str, after: str) -> Wait:
    return Wait(before=before, after=after)


def _required(problem: Problem, decision: Decision, modes: Sequence[Mode], position: dict[int, int]) -> list[set[int]]:
    """For each op the ops that must have ended before it starts."""
    required = [set(p) for p in problem.predecessors]
    for before, after in (*decision.guards, *decision.flows):
        required[after].add(before)
    for before, after in address_orders(problem, decision):
        required[after].add(before)
    for after, befores in enumerate(required):
        for before in befores:
            ended = position[~before if modes[before].dma is not None else before]
            if ended > position[after]:
                raise PlanError(
                    f"{problem.ops[after].name} must follow {problem.ops[before].name}, but is decided to come first"
                )
    return required


def address_orders(problem: Problem, decision: Decision) -> list[tuple[int, int]]:
    """Return (last users, first users) pairs of buffers that share addresses, direct successors only.

    A sweep over the actions keeps, for every address range, the buffer that had it last.

    Raises
    ------
    PlanError
        When what is there from the start comes to lie on something else, or something on what stays to the end.
    """
    position = {action: k for k, action in enumerate(decision.actions) if action >= 0}
    users = [sorted({problem.op_index[name] for name in b.ops}, key=lambda i: position[i]) for b in problem.buffers]
    born = sorted(
        (b for b, u in enumerate(users) if u and _takes_bytes(problem.buffers[b])),
        # Of two that one op brings to life, the one that overwrites is the later.
        key=lambda b: (
            -1 if problem.buffers[b].from_start else position[users[b][0]],
            problem.buffers[b].overwrites is not None,
        ),
    )
    offsets = problem.on_line(decision.offsets)
    holders: list[tuple[int, int, int]] = []
    orders: list[tuple[int, int]] = []
    for b in born:
        start = offsets[b]
        end = start + problem.buffers[b].occupied_bytes
        left: list[tuple[int, int, int]] = []
        for low, high, old in holders:
            if low >= end or high <= start:
                left.append((low, high, old))
                continue
            if problem.buffers[old].to_end or problem.buffers[b].from_start:
                raise PlanError(
                    f"buffer {problem.buffers[b].name!r} is decided to follow {problem.buffers[old].name!r}, but they "
                    "are alive together at the start or at the end"
                )
            sinks = _extremes(users[old], problem.successors)
            sources = _extremes(users[b], problem.predecessors)
            orders += [(x, y) for x in sinks for y in sources if x != y]
            if low < start:
                left.append((low, start, old))
            if high > end:
                left.append((end, high, old))
        holders = left
        if end > start:
            holders.append((start, end, b))
    return orders


def _takes_bytes(buffer: Buffer) -> bool:
    return not buffer.always and buffer.occupied_bytes > 0


def _extremes(ops: Iterable[int], toward: Sequence[Sequence[int]]) -> list[int]:
    """Drop the ops that have a direct neighbour among ``ops`` in the direction ``toward``."""
    members = set(ops)
    return [i for i in ops if not members.intersection(toward[i])]


def _reduce(
    modes: Sequence[Mode],
    queues: Iterable[Sequence[tuple[int, Step]]],
    required: list[set[int]],
    actions: Sequence[int],
    workers: set[str],
) -> list[tuple[int, int]]:
    """Return the required pairs that neither a queue nor other pairs imply.

    Nodes are 2i (op i starts) and 2i + 1 (its end is known); bit sets hold the nodes that come before. Actions
    give an order in which every node comes after all that it follows.
    """
    n = len(modes)
    direct: list[list[int]] = [[] for _ in range(2 * n)]
    for entries in queues:
        previous: int | None = None
        for i, action in entries:
            node = 2 * i + 1 if action == "wait" else 2 * i
            if previous is not None:
                direct[node].append(previous)
            ends_known = action == "wait" or (action == "run" and _holds_to_its_end(modes[i], workers))
            previous = 2 * i + 1 if ends_known else 2 * i
    before = [0] * (2 * n)
    waits: list[tuple[int, int]] = []
    rank = {action: k for k, action in enumerate(actions)}

    def known_at(a: int) -> int:
        return rank[~a if modes[a].dma is not None else a]

    for step in actions:
        i = step if step >= 0 else ~step
        node = 2 * i + 1 if step < 0 else 2 * i
        seen = 0
        for p in direct[node]:
            seen |= before[p] | 1 << p
        if step < 0:
            seen |= before[2 * i] | 1 << 2 * i
        else:
            for a in sorted(required[i], key=known_at, reverse=True):
                end = 2 * a + 1
                if not seen >> end & 1:
                    seen |= before[end] | 1 << end
                    waits.append((a, i))
        before[node] = seen
        if step >= 0 and modes[i].dma is None:
            before[2 * i + 1] = seen | 1 << 2 * i
    return sorted(waits, key=lambda w: (rank[w[1]], rank[w[0]]))


def _holds_to_its_end(mode: Mode, workers: set[str]) -> bool:
    """Whether every thread of the op is busy until its result exists."""
    return all(use.ticks == mode.latency_ticks for use in mode.uses if use.ticks > 0 and use.engine in workers)
