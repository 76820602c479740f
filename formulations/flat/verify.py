"""A solution of the flat model held against its rules in plain integers: the solver is not believed."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem


def broken_rule(problem: Problem, solution: FlatSolution) -> str | None:
    """Return the first rule that ``solution`` breaks, in words, or None when it keeps all."""
    return next(_broken(problem, solution), None)


def _broken(problem: Problem, solution: FlatSolution) -> Iterator[str]:
    counts = {len(solution.start), len(solution.moved), len(solution.known), len(solution.mode), len(problem.ops)}
    if len(counts) > 1:
        yield "it does not give every op a time"
        return
    for i, op in enumerate(problem.ops):
        if not 0 <= solution.mode[i] < len(op.modes):
            yield f"op {op.name!r} has no mode {solution.mode[i]}"
            return
        start, moved, known = solution.start[i], solution.moved[i], solution.known[i]
        mode = op.modes[solution.mode[i]]
        if mode.dma is None:
            right = known == start + mode.duration_ticks and moved == start
        else:
            right = moved >= start + mode.dma.issue_ticks and known >= moved + mode.latency_ticks + mode.dma.poll_ticks
        if not right:
            yield f"op {op.name!r} does not take its duration"
        if start < problem.entry_ticks:
            yield f"op {op.name!r} starts before the entry is over"
        if op.deadline_ticks is not None and known > op.deadline_ticks:
            yield f"op {op.name!r} misses its deadline"
        if known > solution.makespan:
            yield f"op {op.name!r} ends after the makespan"
        for p in problem.predecessors[i]:
            if solution.known[p] > start:
                yield f"op {op.name!r} starts before {problem.ops[p].name!r} is known"
    yield from _engines(problem, solution)
    yield from _scratchpad(problem, solution)


def _engines(problem: Problem, solution: FlatSolution) -> Iterator[str]:
    """Sweep over the holds of every engine, and of every unit that is named."""
    for engine in problem.engines:
        holds: list[tuple[int, int, int]] = []
        named: dict[int, list[tuple[int, int]]] = {}
        for i, op in enumerate(problem.ops):
            mode, start = op.modes[solution.mode[i]], solution.start[i]
            for k, use in enumerate(mode.uses):
                if use.engine != engine.name or use.ticks == 0:
                    continue
                if engine.kind == "share":
                    holds.append((start, solution.known[i], use.units))
                    continue
                begin = start if mode.dma is None else solution.moved[i]
                ticks = mode.duration_ticks if engine.kind == "resource" else mode.overhead_ticks + use.ticks
                holds.append((begin, begin + ticks, use.units))
                ids = use.unit_ids or solution.units.get((i, k)) or ()
                if ids and (len(set(ids)) != use.units or not 0 <= min(ids) <= max(ids) < engine.units):
                    yield f"op {op.name!r} does not get {use.units} units of {engine.name!r}"
                for u in ids if engine.kind != "pipe" else ():
                    named.setdefault(u, []).append((begin, begin + ticks))
            if mode.dma is not None and mode.dma.owner_engine == engine.name:
                unit, poll = mode.dma.owner_unit, mode.dma.poll_ticks
                for begin, end in (
                    (start, start + mode.dma.issue_ticks),
                    (solution.known[i] - poll, solution.known[i]),
                ):
                    holds.append((begin, end, 1))
                    named.setdefault(unit, []).append((begin, end))
        if _peak(holds) > engine.units:
            yield f"engine {engine.name!r} gives more than its {engine.units} units"
        for u, spans in named.items():
            long = sorted(span for span in spans if span[0] < span[1])
            acts = [begin for begin, end in spans if begin == end]
            if any(b[0] < a[1] for a, b in pairwise(long)) or any(a < act < b for act in acts for a, b in long):
                yield f"{engine.name}[{u}] does two things at once"


def _scratchpad(problem: Problem, solution: FlatSolution) -> Iterator[str]:
    for mine, view in problem.per_pool:
        yield from _pool(problem, solution, mine, view.scratchpad.available_bytes)
    for b, whole in problem.wholes.items() if solution.offsets is not None else ():
        at = (solution.offsets or {}).get(b)
        if at is None or at - whole.shifts[whole.parts.index(b)] != (solution.offsets or {}).get(whole.head):
            yield f"buffer {problem.buffers[b].name!r} does not lie behind the part of {whole.name!r} before it"


def _pool(problem: Problem, solution: FlatSolution, buffers: Sequence[int], available: int) -> Iterator[str]:
    alive: list[tuple[int, int, int, int | None]] = []
    for b in buffers:
        buffer = problem.buffers[b]
        users = [problem.op_index[name] for name in buffer.ops]
        if not buffer.occupied_bytes or not (users or buffer.always):
            continue
        born = -1 if buffer.from_start else min(solution.start[u] for u in users)
        died = solution.makespan + 1 if buffer.to_end else max(solution.known[u] for u in users)
        over = _overwriting(problem, solution, b)
        if over is not None:
            born = solution.known[over]
        at = None if solution.offsets is None else solution.offsets.get(b)
        if at is None and solution.offsets is not None:
            yield f"buffer {buffer.name!r} has no address"
        if at is not None and (
            at < 0
            or at % buffer.align_bytes
            or at + buffer.occupied_bytes > available
            or buffer.address not in (None, at)
        ):
            yield f"buffer {buffer.name!r} may not lie at {at}"
        alive.append((born, died, buffer.occupied_bytes, at))
    if _peak([(born, died, size) for born, died, size, _ in alive]) > available:
        yield f"more than {available} B are alive at once"
    for (a, b, size, at), (c, d, other, there) in combinations(alive, 2):
        if at is None or there is None:
            continue
        if a < d and c < b and at < there + other and there < at + size:
            yield "two buffers share bytes while both are alive"


def _overwriting(problem: Problem, solution: FlatSolution, b: int) -> int | None:
    """Return the op in which buffer ``b`` lies on the one that the op reads last, or None; bytes alone: may lie."""
    for new, old, op in problem.takeovers:
        if new == b:
            if solution.offsets is not None and solution.offsets.get(new) != solution.offsets.get(old):
                return None
            before = {problem.op_index[name] for name in problem.buffers[old].ops} - {op}
            behind = {problem.op_index[name] for name in problem.buffers[new].ops} - {op}
            last = all(solution.known[x] <= solution.start[op] for x in before)
            return op if last and all(solution.known[op] <= solution.start[y] for y in behind) else None
    return None


def _peak(holds: list[tuple[int, int, int]]) -> int:
    """Return the most that half-open intervals ask for at once; what takes no time asks for nothing."""
    changes = [(end, -units) for begin, end, units in holds if begin < end]
    changes += [(begin, units) for begin, end, units in holds if begin < end]
    now = peak = 0
    for _, change in sorted(changes):
        now += change
        peak = max(peak, now)
    return peak
