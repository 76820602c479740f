"""What a plan asks of the scratchpad: the least bytes that hold it, and double buffering that has no room."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.portfolio import search
from hexloom.formulations.problem import Scratchpad, slows
from hexloom.optimizer.evaluate import evaluate, evaluator
from hexloom.optimizer.groups import roomy_bytes
from hexloom.optimizer.splits import with_parts

if TYPE_CHECKING:
    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import Schedule

MOST_BUFFERS = 200
"""Of more buffers the least bytes are not looked for: it takes twenty packings."""

MOST_OPS = 400
"""Of more ops it is not asked what a scratchpad with room for all would buy."""


def least_footprint(schedule: Schedule) -> int | None:
    """Return the fewest bytes of scratchpad in which its buffers found room, their lives as they are.

    None where it was not looked for.
    """
    here, problem = schedule.problem.per_pool[0]
    sized = [b for b in problem.buffers if b.occupied_bytes]
    if not sized or len(sized) > MOST_BUFFERS:
        return None
    every = _lives(schedule)
    lives = [every[b] for b in here]
    placed = [
        (b, schedule.plan.addresses[b.name])
        for b, life in zip(problem.buffers, lives, strict=True)
        if life[0] < life[1]
    ]
    high = max((at + b.occupied_bytes for b, at in placed), default=0)
    sizes = [b.occupied_bytes for b in problem.buffers]
    alive = (sum(s for s, (born, died) in zip(sizes, lives, strict=True) if born <= at < died) for at, _ in lives)
    low = max(alive) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if pack(with_parts(problem, scratchpad=Scratchpad(total_bytes=middle)), lives) is None:
            low = middle
        else:
            high = middle
    return high


def _lives(schedule: Schedule) -> list[tuple[int, int]]:
    """Return the life of every buffer between ranks of moments, which are whole under any rule."""
    times = {row.op: row for row in schedule.rows}
    moments: list[Moment] = sorted({t for row in schedule.rows for t in (row.start, row.observed)})
    rank = {moment: k for k, moment in enumerate(moments)}
    lives = []
    for b in schedule.problem.buffers:
        born = min((rank[times[op].start] for op in b.ops), default=0)
        died = max((rank[times[op].observed] for op in b.ops), default=0)
        lives.append((-1 if b.from_start else born, len(moments) + 1 if b.to_end else died))
    return lives


def cost_of_room(problem: Problem, acting: Rule, decision: Decision, makespan: Moment) -> str | None:
    """Say what the plan waits for room in the scratchpad; None where that is less than a thousandth.

    It is what the same plan would save if every buffer had a place of its own.
    """
    if problem.fits_side_by_side:
        return None
    roomy = with_parts(problem, buffers=())
    freely = evaluator(acting)(roomy, replace(decision, offsets=())).makespan
    if float(makespan) - freely <= float(makespan) / 1000:
        return None
    less, left = (problem.in_words(Fraction(ticks)) for ticks in (float(makespan) - freely, freely))
    return f"the scratchpad binds: waits for room in it cost {less}, the same plan without them takes {left}"


def lost_double_buffering(problem: Problem, acting: Rule, makespan: Moment, bottleneck: str) -> str | None:
    """Say that two tiles of a stage find no room beside each other, and what that costs; None where it costs nothing.

    ``bottleneck`` is the name of the best bound; it decides where what it costs is not computed.
    """
    need = _two_tiles(problem)
    if need is None:
        return None
    text = f"double buffering lost: would need {need:,} B, {problem.scratchpad.available_bytes:,} available"
    if slows(acting) or len(problem.ops) > MOST_OPS:
        return text if bottleneck in ("scratchpad", "turns") else None
    roomy = with_parts(problem, scratchpad=Scratchpad(total_bytes=roomy_bytes(problem)))
    found = search(roomy, lower_bounds(roomy), evaluate, (), 0.0, 0, solver=False)
    if found.best is None or found.best[1].makespan >= makespan:
        return None
    less = problem.in_words(int(makespan - found.best[1].makespan))
    return f"{text}; it costs {less}"


def _two_tiles(problem: Problem) -> int | None:
    """Return the fewest bytes for two tiles of a stage at once where no stage has two that fit; None: there is room."""
    available = problem.scratchpad.available_bytes
    resident = sum(b.occupied_bytes for b in problem.buffers if b.always)
    stages: dict[tuple[str, str], list[set[int]]] = {}
    for i, op in enumerate(problem.ops):
        mine = {
            b for b in problem.op_buffers[i] if not problem.buffers[b].resident and problem.buffers[b].occupied_bytes
        }
        if mine:
            stages.setdefault((op.task, op.stage), []).append(mine)
    needs = []
    for tiles in stages.values():
        pairs = [
            resident + sum(problem.buffers[b].occupied_bytes for b in first | second)
            for first, second in pairwise(tiles)
            if not first & second and any(len(set(problem.buffers[b].ops)) > 1 for b in first)
        ]
        if pairs and min(pairs) > available:
            needs.append(min(pairs))
    return min(needs, default=None)
