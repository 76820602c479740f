"""Heads, tails and the bounds that need no solver, derived a second time from the problem alone.

Nothing here is shared with the formulations but the problem. All numbers are ticks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexloom.formulations.problem import Mode, Problem
    from hexloom.optimizer.schedule import BoundRow

PATHS_ONLY = 4096
"""Above so many ops heads and tails follow paths alone: distances between all pairs are too many."""

Column = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Work:
    """What the ops at positions ``ops`` must at least do on an engine.

    ``amount`` is units times ticks; it begins ``before`` ticks after the op does and ends ``behind`` ticks before
    its result is known.
    """

    engine: str
    units: int
    pipe: bool
    ops: Column
    amount: Column
    before: Column
    behind: Column


@dataclass(frozen=True)
class Windows:
    """No op starts before its ``head``; ``tail`` ticks follow its result; ``shortest`` is its shortest mode."""

    head: Column
    shortest: Column
    tail: Column


def all_work(problem: Problem) -> list[Work]:
    """Return the work on every engine, over the modes of each op the least."""
    found = []
    for engine in problem.engines:
        columns: list[tuple[int, int, int, int]] = []
        for i, op in enumerate(problem.ops):
            ways = [_ask(mode, engine.name) for mode in op.modes]
            least = min(way[0] for way in ways)
            if least:
                columns.append((i, least, min(way[1] for way in ways), min(way[2] for way in ways)))
        if columns:
            ops, amount, before, behind = (np.array(c, dtype=np.int64) for c in zip(*columns, strict=True))
            found.append(Work(engine.name, engine.units, engine.kind == "pipe", ops, amount, before, behind))
    return found


def _ask(mode: Mode, engine: str) -> tuple[int, int, int]:
    for use in mode.uses:
        if use.engine != engine or use.ticks == 0:
            continue
        rest = mode.latency_ticks - use.ticks
        if mode.dma is None:
            return (mode.overhead_ticks + use.ticks) * use.units, 0, rest
        return use.ticks * use.units, mode.dma.issue_ticks, rest + mode.dma.poll_ticks
    if mode.dma is not None and mode.dma.owner_engine == engine:
        return mode.dma.issue_ticks + mode.dma.poll_ticks, 0, 0
    return 0, 0, 0


def windows(problem: Problem) -> Windows:
    """Return heads and tails: the longest path, and the work of all ancestors (descendants) on each engine."""
    shortest = np.array([min(m.duration_ticks for m in op.modes) for op in problem.ops], dtype=np.int64)
    work = all_work(problem)
    order = list(problem.topological_order)
    head = _earliest(order, problem.predecessors, shortest, [(w, w.before, w.behind) for w in work])
    tail = _earliest(order[::-1], problem.successors, shortest, [(w, w.behind, w.before) for w in work])
    # The entry delays every op; it comes after the last op of none.
    return Windows(head + problem.entry_ticks, shortest, tail)


def _earliest(
    order: Sequence[int],
    behind: Sequence[Sequence[int]],
    shortest: Column,
    work: Sequence[tuple[Work, Column, Column]],
) -> Column:
    n = len(order)
    earliest = np.zeros(n, dtype=np.int64)
    if n > PATHS_ONLY:
        for i in order:
            earliest[i] = max((earliest[p] + shortest[p] for p in behind[i]), default=0)
        return earliest
    never = -(2**60)
    # away[i][a]: the longest way from the result of a to the start of i.
    away = np.full((n, n), never, dtype=np.int64)
    for i in order:
        if not behind[i]:
            continue
        for p in behind[i]:
            away[i] = np.maximum(away[i], away[p] + shortest[p])
            away[i, p] = max(away[i, p], 0)
        earliest[i] = max(earliest[p] + shortest[p] for p in behind[i])
        for one, lead, trail in work:
            inside = away[i][one.ops] >= 0
            if inside.any():
                first = (earliest[one.ops] + lead)[inside].min()
                last = (away[i][one.ops] + trail)[inside].min()
                amount = int(one.amount[inside].sum())
                earliest[i] = max(earliest[i], first + -(-amount // one.units) + last)
    return earliest


def check_arithmetic(problem: Problem, rows: Sequence[BoundRow]) -> list[str]:
    """Return a message for every bound that claims more than arithmetic gives.

    Rows named ``configuration`` are not arithmetic: `hexloom.optimizer.certificate.check_certificate` checks them; nor
    is ``search``, which nobody can check without searching.
    """
    claimed = [row for row in rows if row.name not in ("configuration", "search")]
    if not claimed:
        return []
    work = {one.engine: one for one in all_work(problem)}
    window = windows(problem)
    messages: list[str] = []
    for row in claimed:
        one = work.get(row.engine or "")
        values: Iterator[int]
        if row.name == "critical_path":
            values = iter([_path(problem, window)])
        elif row.name == "scratchpad":
            values = iter([_bytes_in_time(problem, window, work)])
        elif row.name == "turns":
            values = _one_after_the_other(problem, window, work)
        elif row.name not in ("engine_work", "channel_bytes", "heads_tails", "steady_interval"):
            messages.append(f"bound {row.name!r} is not known")
            continue
        elif one is None:
            messages.append(f"bound {row.name!r} names engine {row.engine!r}, on which no op must work")
            continue
        elif row.name == "heads_tails":
            values = _windowed(one, window)
        elif row.name == "steady_interval":
            values = _intervals(problem, one, window)
        else:
            values = iter([problem.entry_ticks - (-int(one.amount.sum()) // one.units)])
        best = 0
        for value in values:
            best = max(best, value)
            if best >= row.ticks:
                break
        if best < row.ticks:
            where = f" of {row.engine}" if row.engine is not None else ""
            messages.append(f"bound {row.name!r}{where} claims {row.ticks} ticks, but arithmetic gives {best}")
    return messages


def _path(problem: Problem, window: Windows) -> int:
    end: dict[int, int] = {}
    for i in problem.topological_order:
        start = max((end[p] for p in problem.predecessors[i]), default=problem.entry_ticks)
        end[i] = start + int(window.shortest[i])
    return max(end.values())


@dataclass(frozen=True)
class _Lived:
    """A buffer with the least time for which it needs its bytes, and what surrounds that."""

    size: int
    ticks: int
    before: int
    behind: int


def _lived(problem: Problem, window: Windows, work: Mapping[str, Work]) -> tuple[int, list[_Lived]]:
    """Return the bytes that are not resident, and what every buffer that needs some of them needs at least."""
    room = problem.scratchpad.available_bytes
    found: list[_Lived] = []
    rank = {i: k for k, i in enumerate(problem.topological_order)}
    for buffer in problem.buffers:
        if buffer.resident:
            room -= buffer.occupied_bytes
        elif buffer.occupied_bytes and buffer.ops:
            users = list(dict.fromkeys(problem.op_index[name] for name in buffer.ops))
            ticks = _span(problem, window, users, rank)
            for one in work.values():
                # From the start of the first user to the end of the last, the engine does all that they ask of it.
                mine = np.isin(one.ops, users)
                if mine.any():
                    busy = -(-int(one.amount[mine].sum()) // one.units)
                    ticks = max(ticks, int(one.before[mine].min()) + busy + int(one.behind[mine].min()))
            before, behind = min(int(window.head[u]) for u in users), min(int(window.tail[u]) for u in users)
            found.append(_Lived(buffer.occupied_bytes, ticks, before, behind))
    return room, found


def _bytes_in_time(problem: Problem, window: Windows, work: Mapping[str, Work]) -> int:
    """Return what buffers occupy for as long as their users need, over the bytes that are not resident."""
    room, lived = _lived(problem, window, work)
    total = sum(one.size * one.ticks for one in lived)
    if not total or room <= 0:
        return 0
    return min(one.before for one in lived) + min(one.behind for one in lived) - (-total // room)


def _one_after_the_other(problem: Problem, window: Windows, work: Mapping[str, Work]) -> Iterator[int]:
    """For sets of buffers of which no two fit together: all their lives, a head and the tail of another one."""
    room, lived = _lived(problem, window, work)
    large = [one for one in lived if one.size + one.size > room and one.ticks > 0]
    for earliest in {0, *(one.before for one in large)}:
        for latest in {0, *(one.behind for one in large)}:
            chosen = [one for one in large if one.before >= earliest and one.behind >= latest]
            if len(chosen) > 1:
                ends = (a.before + b.behind for a in chosen for b in chosen if a is not b)
                yield sum(one.ticks for one in chosen) + min(ends)


def _span(problem: Problem, window: Windows, users: Sequence[int], rank: Mapping[int, int]) -> int:
    """Longest path from the start of a user to the end of one, found backwards from the ends."""
    floor = min(rank[u] for u in users)
    needed, stack = set(users), list(users)
    while stack:
        for p in problem.predecessors[stack.pop()]:
            if rank[p] >= floor and p not in needed:
                needed.add(p)
                stack.append(p)
    reach: dict[int, int] = {}
    for i in sorted(needed, key=rank.__getitem__):
        before = [reach[p] for p in problem.predecessors[i] if p in reach]
        if i in users or before:
            reach[i] = int(window.shortest[i]) + max(before, default=0)
    return max(reach[u] for u in users)


def _windowed(one: Work, window: Windows) -> Iterator[int]:
    """For every pair (a, b): a, the work of the ops that cannot begin before a nor end later than b before, b."""
    head, tail = window.head[one.ops] + one.before, window.tail[one.ops] + one.behind
    descending = np.argsort(-tail, kind="stable")
    for a in np.unique(head):
        inside = descending[head[descending] >= a]
        total = np.cumsum(one.amount[inside])
        yield int((a - (-total // one.units) + tail[inside]).max())


def _intervals(problem: Problem, one: Work, window: Windows) -> Iterator[int]:
    """For every task: its first head, all its work, its last tail."""
    of_task: dict[str, list[int]] = defaultdict(list)
    for k, i in enumerate(one.ops):
        of_task[problem.ops[i].task].append(k)
    for members in of_task.values():
        ops = one.ops[members]
        first = int((window.head[ops] + one.before[members]).min())
        last = int((window.tail[ops] + one.behind[members]).min())
        yield first - (-int(one.amount[members].sum()) // one.units) + last
