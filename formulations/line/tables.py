"""What placing ops one after the other asks of a problem again and again, looked up once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.urgency import busiest_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.problem import Mode, Problem

NOBODY = -1
"""The owner of what is no transfer."""


@dataclass(frozen=True, slots=True)
class Hold:
    """``count`` of ``lanes``, held for ``ticks`` from the start of an op; ``use`` is its place among the op's uses."""

    lanes: tuple[int, ...]
    count: int
    ticks: int
    use: int


@dataclass(frozen=True, slots=True)
class Tables:
    """Per op of a problem in one mode each: who it holds, waits for and brings to life. A lane is a unit of an engine.
    ``lanes_of`` is empty where an op may choose.

    Transfers that cost their owner nothing are not part of an order. Those that someone waits for are ``fetched`` by
    the first who does, as late as they do no harm; those that nobody waits for are ``sent`` at once. An op of the
    busiest engine is ``hot``: it is placed as soon as all that it waits for is. What is left is ``listed``.
    """

    problem: Problem
    modes: tuple[int, ...]
    first_lane: dict[str, int]
    lanes: int
    owners: frozenset[int]
    pipes: int
    holds: tuple[tuple[Hold, ...], ...]
    lanes_of: tuple[tuple[int, ...], ...]
    entry: int
    duration: tuple[int, ...]
    owner: tuple[int, ...]
    issue: tuple[int, ...]
    poll: tuple[int, ...]
    takes: tuple[tuple[tuple[int, int], ...], ...]
    fetched: tuple[bool, ...]
    sent: tuple[bool, ...]
    hot: tuple[bool, ...]
    hot_lane: int | None
    waits: tuple[tuple[int, ...], ...]
    fetches: tuple[tuple[int, ...], ...]
    sends: tuple[tuple[int, ...], ...]
    calls: tuple[tuple[int, ...], ...]
    buffers: tuple[tuple[int, ...], ...]
    size: tuple[int, ...]
    users: tuple[tuple[int, ...], ...]
    room: int
    listed: tuple[int, ...]


def applies(problem: Problem) -> bool:
    """Whether orders say enough: no amounts are shared, pipes have one unit, every buffer stands alone in one place."""
    simple = not problem.takeovers and not problem.pools and not problem.wholes
    single = all(e.kind != "share" and (e.kind != "pipe" or e.units == 1) for e in problem.engines)
    return simple and single


def tables_of(problem: Problem, bounds: Bounds, headroom: float = 0.0) -> Tables:
    """Return the tables of a problem to which they apply; every op runs in its fastest mode.

    The part ``headroom`` of the scratchpad is taken for full.
    """
    lane: dict[str, int] = {}
    total = 0
    for engine in problem.engines:
        if engine.kind != "pipe":
            lane[engine.name] = total
            total += engine.units
    pipe = {engine.name: k for k, engine in enumerate(e for e in problem.engines if e.kind == "pipe")}
    modes = [op.modes[m] for op, m in zip(problem.ops, problem.fastest_modes, strict=True)]
    moves = [mode.dma is not None for mode in modes]
    free = [mode.dma is not None and mode.dma.issue_ticks + mode.dma.poll_ticks == 0 for mode in modes]
    n = range(len(modes))
    before, behind = problem.predecessors, problem.successors
    alone = [free[i] and not any(moves[j] for j in (*before[i], *behind[i])) for i in n]
    fetched = tuple(alone[i] and bool(behind[i]) for i in n)
    sent = tuple(alone[i] and not behind[i] and bool(before[i]) for i in n)
    busiest = busiest_engine(problem, bounds)
    hot_lane = None if busiest is None else lane.get(busiest)
    holds = tuple(_holds(problem, mode, lane) for mode in modes)
    hot = tuple(
        bool(holds[i])
        and all(hold.lanes == (hot_lane,) for hold in holds[i])
        and any(not fetched[p] for p in before[i])
        for i in n
    )
    # Who fetches something has to come after what that waits for: a cycle over iterations may lead through a transfer.
    waits = tuple(tuple(dict.fromkeys(q for p in of for q in (before[p] if fetched[p] else (p,)))) for of in before)
    calls: list[list[int]] = [[] for _ in n]
    for s in n:
        for p in waits[s] if hot[s] else ():
            calls[p].append(s)
    return Tables(
        problem=problem,
        modes=problem.fastest_modes,
        first_lane=lane,
        lanes=total,
        owners=frozenset(lane[m.dma.owner_engine] + m.dma.owner_unit for m in modes if m.dma is not None),
        pipes=len(pipe),
        holds=holds,
        lanes_of=tuple(_certain(of, m, lane) for of, m in zip(holds, modes, strict=True)),
        entry=problem.entry_ticks,
        duration=tuple(m.duration_ticks if m.dma is None else m.latency_ticks for m in modes),
        owner=tuple(NOBODY if m.dma is None else lane[m.dma.owner_engine] + m.dma.owner_unit for m in modes),
        issue=tuple(0 if m.dma is None else m.dma.issue_ticks for m in modes),
        poll=tuple(0 if m.dma is None else m.dma.poll_ticks for m in modes),
        takes=tuple(
            () if m.dma is None else tuple((pipe[u.engine], u.ticks) for u in m.uses if u.ticks and u.engine in pipe)
            for m in modes
        ),
        fetched=fetched,
        sent=sent,
        hot=hot,
        hot_lane=hot_lane,
        waits=waits,
        fetches=tuple(tuple(p for p in of if fetched[p]) for of in before),
        sends=tuple(tuple(s for s in of if sent[s]) for of in behind),
        calls=tuple(map(tuple, calls)),
        buffers=problem.op_buffers,
        size=tuple(b.occupied_bytes for b in problem.buffers),
        users=tuple(tuple(dict.fromkeys(problem.op_index[name] for name in b.ops)) for b in problem.buffers),
        listed=tuple(i for i in n if not (fetched[i] or sent[i] or hot[i])),
        room=int(problem.scratchpad.available_bytes * (1 - headroom)),
    )


def _certain(holds: tuple[Hold, ...], mode: Mode, first: dict[str, int]) -> tuple[int, ...]:
    """Return the lanes of an op, or none where it may choose some."""
    if mode.dma is not None:
        return (first[mode.dma.owner_engine] + mode.dma.owner_unit,)
    if any(hold.count < len(hold.lanes) for hold in holds):
        return ()
    return tuple(lane for hold in holds for lane in hold.lanes)


def _holds(problem: Problem, mode: Mode, first: dict[str, int]) -> tuple[Hold, ...]:
    if mode.dma is not None:
        return ()
    engines = {engine.name: engine for engine in problem.engines}
    found = []
    for k, use in enumerate(mode.uses):
        if use.ticks == 0:
            continue
        engine, base = engines[use.engine], first[use.engine]
        units: Sequence[int] = range(engine.units) if use.unit_ids is None else use.unit_ids
        ticks = mode.duration_ticks if engine.kind == "resource" else mode.overhead_ticks + use.ticks
        found.append(Hold(tuple(base + u for u in units), use.units, ticks, k))
    return tuple(found)
