"""Transfers of a body that wait for a better moment: issued at once they may slow what runs beside them.

A modulo schedule knows no slowdowns. A transfer has time until somebody needs it, so it may begin with an op that
leaves it more of the channels. What it costs others is estimated from the times of the modulo schedule; whether it
pays, the simulator says.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.corun import copy_name
from hexloom.optimizer.periodic.roll import START, WAIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.periodic.corun import Body
    from hexloom.formulations.periodic.loop import LoopOp


def with_later_transfers(body: Body) -> Body | None:
    """Return ``body`` with transfers that begin where they cost others least, paced; None if it has none."""
    starts = dict(body.schedule.starts)
    ops = {op.name: op for op in body.loop.ops}
    parts = {op.name: _parts(op.name) for op in body.loop.ops}
    moving = {name: of for name, of in parts.items() if of[0] in ops}
    asked = {part for of in moving.values() for part in of}
    plain = [op for op in body.loop.ops if op.name not in moving and op.name not in asked]
    interval = body.schedule.ii_ticks
    for name, (issue, wait) in moving.items():
        moved = ops[name]
        first = starts[issue]
        ready = max(
            (
                starts[e.before]
                + (ops[e.before].latency_ticks if e.delay_ticks is None else e.delay_ticks)
                - e.distance * interval
                for e in body.loop.dependencies
                if e.after == issue
            ),
            default=first,
        )
        due = min(
            (starts[e.after] + e.distance * interval for e in body.loop.dependencies if e.before == wait),
            default=first + interval,
        )
        last = due - ops[wait].latency_ticks - moved.latency_ticks
        # An interval later it costs the same: of each place the last one is looked at.
        at = [last - (last - starts[op.name]) % interval for op in plain]
        best = min([first, *sorted(s for s in at if s >= ready)], key=lambda s: _cost(moved, s, plain, starts, body))
        if best != first:
            starts[issue] = starts[name] = best
            starts[wait] = max(min(starts[wait], last + moved.latency_ticks), best + moved.latency_ticks)
    if not moving:
        return None
    return replace(body, paced=True, punctual=True, schedule=body.schedule.model_copy(update={"starts": starts}))


def _parts(name: str) -> tuple[str, str]:
    """Return what the issue and the wait of an op of a body are called if it is a transfer."""
    base, copy = name.rsplit("#", 1)
    return copy_name(f"{base}{START}", int(copy)), copy_name(f"{base}{WAIT}", int(copy))


def _cost(moved: LoopOp, begin: int, plain: list[LoopOp], starts: Mapping[str, int], body: Body) -> Fraction:
    """Return for how long all others stand still, as it were, while ``moved`` runs from ``begin`` on."""
    room = {channel.name: channel.capacity for channel in body.loop.channels}
    mine = {pull.channel: pull.rate for pull in moved.mode.pulls}
    interval, end = body.schedule.ii_ticks, begin + moved.latency_ticks
    total = Fraction(0)
    for op in plain:
        asked = max(
            (
                Fraction(pull.rate + mine[pull.channel], room[pull.channel])
                for pull in op.mode.pulls
                if pull.channel in mine
            ),
            default=Fraction(0),
        )
        if asked <= 1:
            continue
        # Its iterations that are at work between the two moments.
        low = (
            starts[op.name] + (begin - starts[op.name]) // interval * interval - op.latency_ticks // interval * interval
        )
        while low < end:
            beside = min(end, low + op.latency_ticks) - max(begin, low)
            total += max(0, beside) * (1 - 1 / asked)
            low += interval
    return total
