"""A decision whose orders are kept: how late each op could be, what holds it, and which guards do not pay.

Under rule ``none`` the best times for fixed orders are the earliest ones, longest paths over what is ordered; they
are whole ticks, and those of the simulator. Transfers keep the order in which they got their pipes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Evaluate, Simulated
    from hexloom.formulations.problem import Mode, Problem

Kind = Literal["own", "dependency", "unit", "address", "guard", "share", "pipe"]

START, MOVED, LOOKED, KNOWN = range(4)
"""Moments of an op: it begins, its transfer gets its pipes, its owner begins to wait for it, its end is known."""

Node = int
"""4 x op + moment."""


class Tight(NamedTuple):
    """``op`` could not begin (move, be awaited) earlier because of ``before``, without any time between."""

    kind: Kind
    before: int
    op: int


@dataclass(frozen=True, slots=True)
class Criticality:
    """``slack`` per op: ticks by which it may begin later while the makespan and all deadlines hold."""

    slack: tuple[int, ...]
    tight: tuple[Tight, ...]


def criticality(problem: Problem, decision: Decision, simulated: Simulated) -> Criticality:
    """Return the slack of every op, and the relations that leave no time."""
    n = len(problem.ops)
    modes = [op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)]
    edges = _edges(problem, decision, simulated, modes)
    into: list[list[tuple[Node, int, Kind]]] = [[] for _ in range(4 * n)]
    out: list[list[tuple[Node, int]]] = [[] for _ in range(4 * n)]
    for before, after, lag, kind in edges:
        into[after].append((before, lag, kind))
        out[before].append((after, lag))
    missing = [len(edges_in) for edges_in in into]
    order = [node for node in range(4 * n) if missing[node] == 0]
    time = [problem.entry_ticks] * (4 * n)
    for node in order:
        for after, lag in out[node]:
            time[after] = max(time[after], time[node] + lag)
            missing[after] -= 1
            if missing[after] == 0:
                order.append(after)
    assert len(order) == 4 * n, "the decision orders its actions in a circle"
    assert all(time[4 * i + START] == simulated.start[i] for i in range(n)), "the simulated times are of another plan"
    latest = [int(simulated.makespan)] * (4 * n)
    for i, op in enumerate(problem.ops):
        if op.deadline_ticks is not None:
            latest[4 * i + KNOWN] = min(int(simulated.makespan), op.deadline_ticks)
    for node in reversed(order):
        for after, lag in out[node]:
            latest[node] = min(latest[node], latest[after] - lag)
    tight = sorted(
        {
            Tight(kind, before // 4, node // 4)
            for node in range(4 * n)
            for before, lag, kind in into[node]
            if kind != "own" and time[before] + lag == time[node]
        },
        key=lambda t: (t.op, t.before, t.kind),
    )
    return Criticality(tuple(latest[4 * i + START] - int(simulated.start[i]) for i in range(n)), tuple(tight))


def _edges(
    problem: Problem, decision: Decision, simulated: Simulated, modes: list[Mode]
) -> list[tuple[Node, Node, int, Kind]]:
    edges: list[tuple[Node, Node, int, Kind]] = []
    for i, mode in enumerate(modes):
        start, moved, looked, known = (4 * i + moment for moment in range(4))
        if mode.dma is None:
            edges += [(start, moved, 0, "own"), (start, known, mode.duration_ticks, "own"), (start, looked, 0, "own")]
        else:
            issue, poll = mode.dma.issue_ticks, mode.dma.poll_ticks
            edges += [(start, moved, issue, "own"), (start, looked, issue, "own")]
            edges += [(moved, known, mode.latency_ticks + poll, "own"), (looked, known, poll, "own")]
    for i, preds in enumerate(problem.predecessors):
        edges += [(4 * p + KNOWN, 4 * i + START, 0, "dependency") for p in preds]
    edges += [(4 * a + KNOWN, 4 * b + START, 0, "guard") for a, b in decision.guards]
    edges += [(4 * a + KNOWN, 4 * b + START, 0, "share") for a, b in decision.flows]
    edges += [(4 * a + KNOWN, 4 * b + START, 0, "address") for a, b in _address_pairs(problem, decision)]
    edges += _unit_edges(problem, decision, modes)
    pipes = {engine.name for engine in problem.engines if engine.kind == "pipe"}
    return edges + _pipe_edges(simulated, modes, pipes)


def _address_pairs(problem: Problem, decision: Decision) -> set[tuple[int, int]]:
    """Return (user of a buffer, user of a later one) where the two share addresses."""
    position = {action: k for k, action in enumerate(decision.actions)}
    spans = []
    for buffer, at in zip(problem.buffers, problem.on_line(decision.offsets), strict=True):
        users = {problem.op_index[name] for name in buffer.ops}
        if users and buffer.occupied_bytes and not buffer.always:
            born = -1 if buffer.from_start else min(position[u] for u in users)
            spans.append((born, buffer.overwrites is not None, at, at + buffer.occupied_bytes, users))
    spans.sort(key=lambda span: span[:2])
    return {
        (a, b)
        for (*_, low, high, old), (*_, start, end, new) in combinations(spans, 2)
        if low < end and start < high
        for a in old
        for b in new
        if a != b
    }


def _unit_edges(problem: Problem, decision: Decision, modes: list[Mode]) -> list[tuple[Node, Node, int, Kind]]:
    """Each unit meets its actions in order; one without a thread is handed on when an end is known."""
    threads = {engine.name: engine.kind == "worker" for engine in problem.engines}
    lanes: dict[tuple[str, int], list[tuple[Node, Node, int]]] = {}
    for action in decision.actions:
        i = action if action >= 0 else ~action
        dma = modes[i].dma
        if dma is not None:
            lane = lanes.setdefault((dma.owner_engine, dma.owner_unit), [])
            if action >= 0:
                lane.append((4 * i + START, 4 * i + START, dma.issue_ticks))
            else:
                lane.append((4 * i + LOOKED, 4 * i + KNOWN, 0))
            continue
        for use, ids in zip(modes[i].uses, decision.units[i], strict=True):
            for u in ids:
                held = (4 * i + START, modes[i].overhead_ticks + use.ticks)
                node, lag = held if threads[use.engine] else (4 * i + KNOWN, 0)
                lanes.setdefault((use.engine, u), []).append((4 * i + START, node, lag))
    return [
        (released, reached, lag, "unit")
        for lane in lanes.values()
        for (_, released, lag), (reached, _, _) in pairwise(lane)
    ]


def _pipe_edges(simulated: Simulated, modes: list[Mode], pipes: set[str]) -> list[tuple[Node, Node, int, Kind]]:
    """Return an edge for any two transfers that had one pipe one after the other."""
    moved = simulated.transfer_start
    users: dict[str, list[tuple[int, int]]] = {}
    for i, mode in enumerate(modes):
        for use in mode.uses if mode.dma is not None else ():
            if use.ticks > 0 and use.engine in pipes:
                users.setdefault(use.engine, []).append((i, use.ticks))
    return [
        (4 * a + MOVED, 4 * b + MOVED, ticks, "pipe")
        for pipe in users.values()
        for a, ticks in pipe
        for b, _ in pipe
        if a != b and moved[a] + ticks <= moved[b]
    ]


def drop_useless_guards(problem: Problem, decision: Decision, evaluate: Evaluate) -> tuple[Decision, Simulated]:
    """Return the decision without the guards whose absence makes nothing later, and its times."""
    simulated = evaluate(problem, decision)
    if not decision.guards:
        return decision, simulated
    bare = replace(decision, guards=())
    without = evaluate(problem, bare)
    if without.makespan <= simulated.makespan and without.late <= simulated.late:
        return bare, without
    for guard in decision.guards:
        fewer = replace(decision, guards=tuple(g for g in decision.guards if g != guard))
        without = evaluate(problem, fewer)
        if without.makespan <= simulated.makespan and without.late <= simulated.late:
            decision, simulated = fewer, without
    return decision, simulated
