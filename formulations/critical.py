"""What stands in the way of critical work: ops with time to spare that hold a unary engine or a pipe before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Mode, Problem, Use

Guards = tuple[tuple[int, int], ...]

Span = tuple[float, float, int]
"""(start, end, op)."""

HOPS = 6
"""How far to look for the work that a late transfer delays: convert, join, matrix job."""


def guards_for_critical_blocks(
    problem: Problem, decision: Decision, simulated: Simulated, ht: HeadsTails
) -> list[Guards]:
    """Return sets of guards worth trying, those that could move most critical work first.

    A block is a stretch in which an engine of one unit, or a channel, is never free. The float of an op is how much
    later it could end by its tail. In each block the ops that spare more than they hold, and that the work delayed by
    the most critical op does not need, are told to wait for the end of that op.
    """
    spare = [int(simulated.makespan - end - tail) for end, tail in zip(simulated.ended, ht.tail, strict=True)]
    found: list[tuple[float, Guards]] = []
    unary = [engine.name for engine in problem.engines if engine.units == 1 and engine.kind != "share"]
    users = [_spans(problem, decision, simulated, name) for name in unary]
    users += [_pulling(problem, decision, simulated, channel.name) for channel in problem.channels]
    for spans in users:
        block: list[Span] = []
        until = 0.0
        for span in [*spans, (simulated.makespan + 1, 0, -1)]:
            if block and span[0] > until:
                found += _in_block(problem, simulated, block, spare)
                block = []
            block.append(span)
            until = max(until, span[1])
    found.sort(key=lambda item: -item[0])
    return [guards for _, guards in found]


def critical_waiters(problem: Problem, decision: Decision, simulated: Simulated) -> list[int]:
    """Return ops of the critical path that waited for units although their inputs were there, longest wait first.

    The critical path is followed back from the last op: to predecessors that end when it starts, and to holders that
    release one of its units then.
    """
    released: dict[tuple[str, int, float], list[int]] = {}
    for i, (op, m) in enumerate(zip(problem.ops, decision.modes, strict=True)):
        mode = op.modes[m]
        for use, units in zip(mode.uses, decision.units[i], strict=True):
            end = _release(mode, use, simulated, i)
            for u in units:
                released.setdefault((use.engine, u, end), []).append(i)
    givers: dict[int, list[int]] = {}
    for giver, i in decision.flows:
        givers.setdefault(i, []).append(giver)
    last = max(range(len(problem.ops)), key=lambda i: simulated.ended[i])
    seen, stack = {last}, [last]
    waits: list[tuple[float, int]] = []
    while stack:
        i = stack.pop()
        start = simulated.start[i]
        ready = max((simulated.ended[p] for p in problem.predecessors[i]), default=problem.entry_ticks)
        if start > ready:
            waits.append((ready - start, i))
        before = [p for p in (*problem.predecessors[i], *givers.get(i, ())) if simulated.ended[p] == start]
        uses = problem.ops[i].modes[decision.modes[i]].uses
        for use, units in zip(uses, decision.units[i], strict=True):
            for u in units:
                before += released.get((use.engine, u, start), [])
        for p in before:
            if p not in seen:
                seen.add(p)
                stack.append(p)
    return [i for _, i in sorted(waits)]


def _spans(problem: Problem, decision: Decision, simulated: Simulated, engine: str) -> list[Span]:
    spans = []
    for i, (op, m) in enumerate(zip(problem.ops, decision.modes, strict=True)):
        for use in op.modes[m].uses:
            if use.engine == engine and use.ticks > 0:
                spans.append((simulated.transfer_start[i], _release(op.modes[m], use, simulated, i), i))
    return sorted(spans)


def _release(mode: Mode, use: Use, simulated: Simulated, i: int) -> float:
    """Return when op ``i`` gives a unit back; where others slowed it, exact for what is held to the result."""
    if use.ticks == mode.latency_ticks:
        return simulated.done[i]
    return simulated.transfer_start[i] + mode.overhead_ticks + use.ticks


def _pulling(problem: Problem, decision: Decision, simulated: Simulated, channel: str) -> list[Span]:
    return sorted(
        (simulated.transfer_start[i], simulated.done[i], i)
        for i, (op, m) in enumerate(zip(problem.ops, decision.modes, strict=True))
        if any(pull.channel == channel and pull.rate for pull in op.modes[m].pulls)
    )


def _in_block(
    problem: Problem, simulated: Simulated, block: list[Span], spare: list[int]
) -> list[tuple[float, Guards]]:
    """Return the ticks that critical work could start earlier, with the guards; nothing when the block can wait."""
    least = min(spare[i] for _, _, i in block)
    last = max(k for k, (_, _, i) in enumerate(block) if spare[i] <= least)
    critical = block[last][2]
    needed = _ancestors(problem, _what_it_delays(problem, simulated, critical))
    waiting = [(end - start, i) for start, end, i in block[:last] if i not in needed and spare[i] > end - start]
    gain = sum(held for held, _ in waiting)
    return [(gain, tuple((critical, i) for _, i in waiting))] if gain > 0 else []


def _what_it_delays(problem: Problem, simulated: Simulated, op: int) -> int:
    """Follow the successor that starts soonest, until one takes all units of an engine."""
    units = {engine.name: engine.units for engine in problem.engines if engine.kind in ("worker", "resource")}
    for _ in range(HOPS):
        if not problem.successors[op]:
            return op
        op = min(problem.successors[op], key=lambda s: simulated.transfer_start[s])
        if any(use.units == units.get(use.engine) for use in problem.ops[op].modes[0].uses):
            return op
    return op


def _ancestors(problem: Problem, op: int) -> set[int]:
    found = {op}
    stack = [op]
    while stack:
        for p in problem.predecessors[stack.pop()]:
            if p not in found:
                found.add(p)
                stack.append(p)
    return found
