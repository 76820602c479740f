"""From a solution of the flat model, which has times, to a decision, which has an order."""

from __future__ import annotations

from bisect import bisect_right
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.flows import share_flows
from hexloom.formulations.packing.fixed_times import pack, pack_over, possible_takeovers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem


def decision_of(
    problem: Problem, solution: FlatSolution, *, hold_transfers: bool = False, late_issues: bool = True
) -> Decision | None:
    """Return the decision with the order, the units and the addresses of ``solution``.

    With ``late_issues`` transfers are issued right before they move, else when the solution says so.
    With ``hold_transfers`` a transfer that the solution starts later than it could waits for the last op that ends
    before: issued earlier it might be served before others that the solution serves first.

    None when the solution only counts bytes and its lifetimes cannot be packed. Of what happens at one instant, what
    takes no time comes first, then the issues that hold nobody; of the former, ends of earlier transfers, then
    predecessors before successors, and who frees bytes before who needs some: so every end that a start relies on, be
    it for its inputs or its addresses, is in front.
    """
    units = _units(problem, solution)
    starts = _late_issues(problem, solution, units) if late_issues else solution.start
    rank = _ranks(problem, solution, starts)
    actions: list[tuple[int, int, bool, int, int]] = []
    for i, op in enumerate(problem.ops):
        mode = op.modes[solution.mode[i]]
        lasting = int(mode.duration_ticks > 0)
        if mode.dma is None:
            actions.append((starts[i], 2 * lasting, True, 2 * rank[i], i))
        else:
            poll, start = mode.dma.poll_ticks, starts[i]
            looked = solution.known[i] - poll
            actions.append((start, 2 if mode.dma.issue_ticks else lasting, True, 2 * rank[i], i))
            actions.append((looked, 2 if poll else 0, looked == start, 2 * rank[i] + 1, ~i))
    actions.sort()
    order = tuple(action for *_, action in actions)
    moments = _moments(solution, [(time, action) for time, *_, action in actions])
    offsets = _offsets(problem, solution, moments)
    if offsets is None:
        return None
    return Decision(
        modes=solution.mode,
        units=units,
        actions=order,
        offsets=offsets,
        guards=_holds(problem, solution, starts) if hold_transfers else (),
        flows=share_flows(problem, solution.mode, units, moments),
    )


def _ranks(problem: Problem, solution: FlatSolution, starts: Sequence[int]) -> list[int]:
    """Return the place of every op in an order by start that dependencies allow, who frees the most bytes first."""
    users = [[problem.op_index[name] for name in buffer.ops] for buffer in problem.buffers]
    lives = list(zip(problem.buffers, users, strict=True))
    born = [-1 if b.from_start else min((starts[u] for u in of), default=0) for b, of in lives]
    died = [-1 if b.to_end else max((solution.known[u] for u in of), default=0) for b, of in lives]

    def wanted(i: int) -> int:
        bytes_of = ((problem.buffers[b].occupied_bytes, b) for b in problem.op_buffers[i])
        return sum(size * ((born[b] == starts[i]) - (died[b] == solution.known[i])) for size, b in bytes_of)

    keys = [(starts[i], wanted(i), i) for i in range(len(problem.ops))]
    return (
        _places(keys, problem.successors, _last_users(problem, solution)) or _places(keys, problem.successors, ()) or []
    )


def _last_users(problem: Problem, solution: FlatSolution) -> list[tuple[int, int]]:
    """Return (user of a buffer, op that overwrites it in this solution): times do not order what takes no time."""
    found: list[tuple[int, int]] = []
    for new, old, op in problem.takeovers:
        if solution.offsets is not None and solution.offsets.get(new) == solution.offsets.get(old):
            users = {problem.op_index[name] for name in problem.buffers[old].ops} - {op}
            found += [(x, op) for x in sorted(users) if solution.known[x] <= solution.start[op]]
    return found


def _places(
    keys: Sequence[tuple[int, int, int]], successors: Sequence[Sequence[int]], extra: Sequence[tuple[int, int]]
) -> list[int] | None:
    """Return the place of each op in the order of its key that its predecessors allow; None where they form a cycle."""
    after = [list(of) for of in successors]
    for before, op in extra:
        after[before].append(op)
    missing = [0] * len(keys)
    for of in after:
        for s in of:
            missing[s] += 1
    ready = [key for key, count in zip(keys, missing, strict=True) if count == 0]
    heapify(ready)
    place = [0] * len(keys)
    done = 0
    while ready:
        *_, i = heappop(ready)
        place[i] = done
        done += 1
        for s in after[i]:
            missing[s] -= 1
            if missing[s] == 0:
                heappush(ready, keys[s])
    return place if done == len(keys) else None


def _moments(solution: FlatSolution, actions: list[tuple[int, int]]) -> list[int]:
    """Return ``i`` where op i starts and ``~i`` where its end is known, in an order that agrees with the actions.

    Of one instant the ends come first, because intervals are half-open; but none comes before its own action.
    """
    last = {action if action >= 0 else ~action: (time, k) for k, (time, action) in enumerate(actions)}
    found: list[tuple[int, int, int, int]] = []
    for i, known in enumerate(solution.known):
        time, k = last[i]
        found.append((known, 0, i, ~i) if known > time else (known, 2 * k + 3, i, ~i))
    found += [(time, 2 * k + 2, i, i) for k, (time, i) in enumerate(actions) if i >= 0]
    return [moment for *_, moment in sorted(found)]


def _late_issues(
    problem: Problem, solution: FlatSolution, units: tuple[tuple[tuple[int, ...], ...], ...]
) -> tuple[int, ...]:
    """Return the starts, with transfers issued right before they move, or before the job their owner does then.

    The model lets a transfer queue for its pipes in any order, the hardware serves them in order of issue.
    """
    lanes: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for i, op in enumerate(problem.ops):
        mode = op.modes[solution.mode[i]]
        for use, ids in zip(mode.uses, units[i], strict=True):
            for u in ids:
                end = solution.start[i] + mode.overhead_ticks + use.ticks
                lanes.setdefault((use.engine, u), []).append((solution.start[i], end))
    for spans in lanes.values():
        spans.sort()
    starts = list(solution.start)
    for i, op in enumerate(problem.ops):
        dma = op.modes[solution.mode[i]].dma
        if dma is None:
            continue
        latest = solution.moved[i] - dma.issue_ticks
        for busy, free in lanes.get((dma.owner_engine, dma.owner_unit), ()):
            if busy < latest + dma.issue_ticks and latest < free and (busy < latest or dma.issue_ticks > 0):
                latest = busy - dma.issue_ticks
                break
        starts[i] = max(starts[i], latest)
    return tuple(starts)


def _holds(problem: Problem, solution: FlatSolution, starts: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    ends = sorted((known, i) for i, known in enumerate(solution.known))
    instants = [known for known, _ in ends]
    guards: list[tuple[int, int]] = []
    for i, op in enumerate(problem.ops):
        start = starts[i]
        ready = max((solution.known[p] for p in problem.predecessors[i]), default=problem.entry_ticks)
        if op.modes[solution.mode[i]].dma is None or start <= ready:
            continue
        known, last = ends[bisect_right(instants, start) - 1] if instants[0] <= start else (0, i)
        if last != i and known > ready:
            guards.append((last, i))
    return tuple(guards)


def _offsets(problem: Problem, solution: FlatSolution, moments: list[int]) -> tuple[int, ...] | None:
    # In ranks of moments even what takes no time has a life.
    place = {moment: k for k, moment in enumerate(moments)}
    lives = []
    for buffer in problem.buffers:
        users = [problem.op_index[name] for name in buffer.ops]
        born, died = min((place[u] for u in users), default=0), max((place[~u] for u in users), default=0)
        lives.append((-1 if buffer.from_start else born, len(moments) + 1 if buffer.to_end else died))
    if solution.offsets is not None:
        offsets = tuple(solution.offsets.get(b, buffer.address or 0) for b, buffer in enumerate(problem.buffers))
        same = {new: op for new, old, op in problem.takeovers if offsets[new] == offsets[old]}
        after = [(place[~same[b]], life[1]) if b in same else life for b, life in enumerate(lives)]
        if not _timeless_overlap(problem, solution, after, offsets):
            return offsets
    began, ended = [place[i] for i in range(len(problem.ops))], [place[~i] for i in range(len(problem.ops))]
    return pack(problem, lives) or pack_over(problem, lives, possible_takeovers(problem, began, ended))


def _timeless_overlap(
    problem: Problem, solution: FlatSolution, lives: list[tuple[int, int]], offsets: tuple[int, ...]
) -> bool:
    """Whether a buffer of ops that take no time shares bytes with another: the model does not see all of these."""
    sizes = [buffer.occupied_bytes for buffer in problem.buffers]
    offsets = problem.on_line(offsets)
    for b, buffer in enumerate(problem.buffers):
        users = [problem.op_index[name] for name in buffer.ops]
        if not users or max(solution.known[u] for u in users) > min(solution.start[u] for u in users):
            continue
        for other, (born, died) in enumerate(lives):
            apart = died <= lives[b][0] or lives[b][1] <= born or other == b or not sizes[other] or not sizes[b]
            if not apart and offsets[b] < offsets[other] + sizes[other] and offsets[other] < offsets[b] + sizes[b]:
                return True
    return False


def _units(problem: Problem, solution: FlatSolution) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Take the units that the model chose; give the others the lowest free ones in order of start."""
    engines = {engine.name: engine for engine in problem.engines}
    counted = ("pipe", "share")
    busy_until = {engine.name: [0] * engine.units for engine in problem.engines if engine.kind not in counted}
    found: list[tuple[tuple[int, ...], ...]] = [()] * len(problem.ops)
    for i in sorted(range(len(problem.ops)), key=lambda i: solution.start[i]):
        mode = problem.ops[i].modes[solution.mode[i]]
        mine: list[tuple[int, ...]] = []
        for k, use in enumerate(mode.uses):
            if use.ticks == 0 or engines[use.engine].kind in counted:
                mine.append(())
                continue
            lanes = busy_until[use.engine]
            ids = solution.units.get((i, k)) or use.unit_ids
            if ids is None:
                ids = tuple([u for u, until in enumerate(lanes) if until <= solution.start[i]][: use.units])
            thread = engines[use.engine].kind == "worker"
            for u in ids:
                lanes[u] = solution.start[i] + (mode.overhead_ticks + use.ticks if thread else mode.duration_ticks)
            mine.append(ids)
        found[i] = tuple(mine)
    return tuple(found)
