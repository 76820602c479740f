"""The bounds that need no solver, derived a second time from the problem alone.

Nothing here is shared with the formulations but the problem. Where nobody slows anybody all numbers are ticks; else
they count a fine part of a tick, and what is divided is rounded down.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from hexloom.optimizer.windows import Measure, all_work, exact_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hexloom.formulations.problem import Buffer, Problem, Rule
    from hexloom.optimizer.schedule import BoundRow
    from hexloom.optimizer.windows import Windows, Work


def check_arithmetic(problem: Problem, rows: Sequence[BoundRow], rule: Rule = "none") -> list[str]:
    """Return a message for every bound that claims more than arithmetic gives.

    Rows named ``configuration`` are not arithmetic: `hexloom.optimizer.certificate.check_certificate` checks them; nor
    is ``search``, which nobody can check without searching.
    """
    claimed = [row for row in rows if row.name not in ("configuration", "search")]
    if not claimed:
        return []
    measure = Measure(problem, rule)
    asked = all_work(problem, measure)
    work = {one.engine: one for one in asked}
    window = exact_windows(problem, measure, asked)
    entry = problem.entry_ticks * measure.fine
    messages: list[str] = []
    for row in claimed:
        one = work.get(row.engine or "")
        values: Iterator[int]
        if row.name == "critical_path":
            values = iter([_path(problem, window, entry)])
        elif row.name == "scratchpad":
            values = iter([_bytes_in_time(problem, pool, window, work, measure) for pool in _pools(problem)])
        elif row.name == "turns":
            values = chain.from_iterable(
                _one_after_the_other(problem, pool, window, work, measure) for pool in _pools(problem)
            )
        elif row.name not in ("engine_work", "channel_bytes", "heads_tails", "steady_interval"):
            messages.append(f"bound {row.name!r} is not known")
            continue
        elif one is None:
            messages.append(f"bound {row.name!r} names engine {row.engine!r}, on which no op must work")
            continue
        elif row.name == "heads_tails":
            values = _windowed(one, window, measure)
        elif row.name == "steady_interval":
            values = _intervals(problem, one, window, measure)
        else:
            values = iter([entry + measure.quotient(int(one.amount.sum()), one.units)])
        best = 0
        for value in values:
            best = max(best, value)
            if best >= row.ticks * measure.fine:
                break
        if best < row.ticks * measure.fine:
            gives = best if measure.fine == 1 else float(Fraction(best, measure.fine))
            where = f" of {row.engine}" if row.engine is not None else ""
            messages.append(f"bound {row.name!r}{where} claims {row.ticks} ticks, but arithmetic gives {gives}")
    return messages


def _path(problem: Problem, window: Windows, entry: int) -> int:
    end: dict[int, int] = {}
    for i in problem.topological_order:
        start = max((end[p] for p in problem.predecessors[i]), default=entry)
        end[i] = start + int(window.shortest[i])
    return max(end.values())


@dataclass(frozen=True)
class _Lived:
    """A buffer with the least time for which it needs its bytes, and what surrounds that."""

    size: int
    ticks: int
    before: int
    behind: int


def _pools(problem: Problem) -> list[str | None]:
    """Return the names of all places for buffers; the scratchpad has none."""
    return [None, *(pool.name for pool in problem.pools)]


def _lived(
    problem: Problem, pool: str | None, window: Windows, work: Mapping[str, Work], measure: Measure
) -> tuple[int, list[_Lived]]:
    """Return the bytes that are not always taken, and what every buffer that needs some of them needs at least."""
    pad = problem.scratchpad if pool is None else next(one for one in problem.pools if one.name == pool)
    room = pad.available_bytes
    found: list[_Lived] = []
    rank = {i: k for k, i in enumerate(problem.topological_order)}
    for buffer in problem.buffers:
        if buffer.pool != pool:
            continue
        if buffer.always:
            room -= buffer.occupied_bytes
        elif buffer.occupied_bytes and buffer.ops:
            users = list(
                dict.fromkeys(problem.op_index[name] for name in buffer.ops if name not in _shared(problem, buffer))
            )
            if not users:
                continue
            ticks = _span(problem, window, users, rank)
            for one in work.values():
                # From the start of the first user to the end of the last, the engine does all that they ask of it.
                mine = np.isin(one.ops, users)
                if mine.any():
                    busy = measure.quotient(int(one.amount[mine].sum()), one.units)
                    ticks = max(ticks, int(one.before[mine].min()) + busy + int(one.behind[mine].min()))
            before, behind = min(int(window.head[u]) for u in users), min(int(window.tail[u]) for u in users)
            if buffer.from_start:
                before, ticks = 0, max([ticks, *(int(window.head[u]) + int(window.shortest[u]) for u in users)])
            elif buffer.to_end:
                behind, ticks = 0, max([ticks, *(int(window.shortest[u]) + int(window.tail[u]) for u in users)])
            found.append(_Lived(buffer.occupied_bytes, ticks, before, behind))
    return room, found


def _shared(problem: Problem, buffer: Buffer) -> set[str]:
    """Return the op in which ``buffer`` may lie on one that the op reads: there it needs no bytes of its own."""
    old = next((b for b in problem.buffers if b.name == buffer.overwrites), None)
    return set() if old is None else set(old.ops).intersection(buffer.ops)


def _bytes_in_time(
    problem: Problem, pool: str | None, window: Windows, work: Mapping[str, Work], measure: Measure
) -> int:
    """Return what buffers occupy for as long as their users need, over the bytes that are not resident."""
    room, lived = _lived(problem, pool, window, work, measure)
    total = sum(one.size * one.ticks for one in lived)
    if not total or room <= 0:
        return 0
    return min(one.before for one in lived) + min(one.behind for one in lived) + measure.quotient(total, room)


def _one_after_the_other(
    problem: Problem, pool: str | None, window: Windows, work: Mapping[str, Work], measure: Measure
) -> Iterator[int]:
    """For sets of buffers of which no two fit together: all their lives, a head and the tail of another one."""
    room, lived = _lived(problem, pool, window, work, measure)
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


def _windowed(one: Work, window: Windows, measure: Measure) -> Iterator[int]:
    """For every pair (a, b): a, the work of the ops that cannot begin before a nor end later than b before, b."""
    head, tail = window.head[one.ops] + one.before, window.tail[one.ops] + one.behind
    descending = np.argsort(-tail, kind="stable")
    for a in sorted(set(head.tolist())):  # not np.unique, which loads masked arrays: a tenth of a check
        inside = descending[head[descending] >= a]
        total = np.cumsum(one.amount[inside])
        work = total // one.units if measure.slowed else -(-total // one.units)
        yield int((a + work + tail[inside]).max())


def _intervals(problem: Problem, one: Work, window: Windows, measure: Measure) -> Iterator[int]:
    """For every task: its first head, all its work, its last tail."""
    of_task: dict[str, list[int]] = defaultdict(list)
    for k, i in enumerate(one.ops):
        of_task[problem.ops[i].task].append(k)
    for members in of_task.values():
        ops = one.ops[members]
        first = int((window.head[ops] + one.before[members]).min())
        last = int((window.tail[ops] + one.behind[members]).min())
        yield first + measure.quotient(int(one.amount[members].sum()), one.units) + last
