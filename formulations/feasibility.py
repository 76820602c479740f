"""Arithmetic before any search: what can never fit, who asks for it, and by how much it is short."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from hexloom.formulations.heads_tails import FAR, Grid, engine_demands, few_values

if TYPE_CHECKING:
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Buffer, Problem, Rule, Scratchpad, Use


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Why no schedule exists.

    ``need`` and ``have`` are in ``unit``. ``holders`` are the buffers that ask for bytes, resident ones with their
    address; ``rounding`` is the part of ``need`` that comes from granules and alignment.
    """

    kind: Literal["units", "channel", "bytes", "largest_gap", "pin", "order", "deadline", "overload", "search"]
    op: str | None
    resource: str
    need: int
    have: int
    unit: str
    holders: tuple[tuple[str, int, int | None], ...] = ()
    rounding: int = 0

    @property
    def short(self) -> int:
        """How much is missing."""
        return self.need - self.have


def first_shortfall(problem: Problem, ht: HeadsTails | None = None, rule: Rule = "none") -> Shortfall | None:
    """Return a reason why no schedule exists under ``rule``, or None when arithmetic finds none."""
    in_bytes = (_told_as_one(view, _bytes(view)) for _, view in problem.per_pool)
    short = _units(problem) or next((found for found in in_bytes if found is not None), None)
    return short or (deadline_shortfall(problem, ht, rule) if ht is not None else None)


def _units(problem: Problem) -> Shortfall | None:
    engines = {engine.name: engine for engine in problem.engines}
    for op in problem.ops:
        lacking: list[Use] = []
        for mode in op.modes:
            over = [u for u in mode.uses if u.ticks > 0 and u.units > engines[u.engine].units]
            if not over:
                lacking.clear()
                break
            lacking += over
        if lacking:
            # A share may stand for a channel in other numbers, so what has units of its own is named first.
            worst = next((use for use in lacking if use.engine not in problem.shares), lacking[0])
            return Shortfall(
                "units", op.name, worst.engine, worst.units, engines[worst.engine].units, f"units of {worst.engine}"
            )
    return None


def channel_shortfall(problem: Problem) -> Shortfall | None:
    """Return the first op that under rule ``rigid`` has no mode: each demands more of a channel than it has."""
    capacity = {channel.name: channel.capacity for channel in problem.channels}
    for op in problem.ops:
        # A mode that takes no time demands nothing.
        over = [[p for p in mode.pulls if p.rate > capacity[p.channel] and mode.latency_ticks] for mode in op.modes]
        if all(over):
            least = min((pulls[0] for pulls in over), key=lambda p: p.rate - capacity[p.channel])
            return Shortfall("channel", op.name, least.channel, least.rate, capacity[least.channel], "of the channel")
    return None


def _bytes(problem: Problem) -> Shortfall | None:
    """Every op alone: its buffers and the resident ones must fit beside each other; so must those of start and end."""
    pad = problem.scratchpad
    for buffer, parts in problem.buffers_as_one:
        if buffer.address is not None and buffer.address + buffer.occupied_bytes > pad.available_bytes:
            return _bytes_short(pad, "pin", None, buffer.address + buffer.occupied_bytes, pad.available_bytes, [buffer])
        if (not buffer.ops or len(parts) > 1) and buffer.occupied_bytes > pad.available_bytes:
            return _bytes_short(pad, "bytes", None, buffer.occupied_bytes, pad.available_bytes, [buffer])
    buffers = _with_pins(problem)
    groups: list[tuple[str | None, list[Buffer]]] = [
        (None, [b for b in buffers if b.from_start]),
        (None, [b for b in buffers if b.to_end]),
    ]
    beside = _there_anyway(problem)
    for i, op in enumerate(problem.ops):
        # What may lie on another buffer of the op needs no bytes beside it.
        mine = [buffers[b] for b in problem.op_buffers[i] if i in problem.needed_by[b]]
        groups.append((op.name, mine + [buffers[b] for b in beside[i] if b not in problem.op_buffers[i]]))
    for name, together in groups:
        pinned = [b for b in together if b.address is not None and b.occupied_bytes > 0]
        clash = _clash(pinned)
        if clash is not None:
            first, second = clash
            assert first.address is not None and second.address is not None
            need = first.address + first.occupied_bytes
            return _bytes_short(pad, "pin", name, need, second.address, [first, second])
        # Beside a pin the gap says more than the sum: it names the pin that is in the way.
        for b in together if pinned else ():
            gap = _largest_gap(pinned, pad.available_bytes, b.align_bytes)
            if b.address is None and b.occupied_bytes > gap:
                return _bytes_short(pad, "largest_gap", name, b.occupied_bytes, gap, [b, *pinned])
        need = sum(b.occupied_bytes for b in together)
        if need > pad.available_bytes:
            return _bytes_short(pad, "bytes", name, need, pad.available_bytes, together)
    return None


def _with_pins(problem: Problem) -> list[Buffer]:
    """Return all buffers, with the address of every part of a range that is pinned."""
    found = list(problem.buffers)
    for b, whole in problem.wholes.items():
        at = problem.buffers[whole.head].address
        if at is not None:
            found[b] = found[b].model_copy(update={"address": whole.placed(whole.head, at)[b]})
    return found


def _there_anyway(problem: Problem) -> list[list[int]]:
    """Return for each op the resident buffers that are alive while it runs, whatever the schedule.

    One from the start is before all users that must wait for the op, one to the end behind all that it waits for.
    """
    found: list[list[int]] = [[] for _ in problem.ops]
    for b, buffer in enumerate(problem.buffers):
        if buffer.always:
            reached = set(range(len(problem.ops)))
        elif buffer.resident:
            toward = problem.predecessors if buffer.from_start else problem.successors
            waiting = [problem.op_index[name] for name in buffer.ops]
            reached = set(waiting)
            while waiting:
                new = set(toward[waiting.pop()]) - reached
                reached |= new
                waiting += new
        else:
            continue
        for i in reached:
            found[i].append(b)
    return found


def _bytes_short(
    pad: Scratchpad,
    kind: Literal["bytes", "largest_gap", "pin"],
    op: str | None,
    need: int,
    have: int,
    holders: list[Buffer],
) -> Shortfall:
    rows = tuple((b.name, b.occupied_bytes, b.address) for b in holders)
    rounding = sum(b.occupied_bytes - b.size_bytes for b in holders)
    return Shortfall(kind, op, pad.label, need, have, "B", rows, rounding)


def _told_as_one(problem: Problem, found: Shortfall | None) -> Shortfall | None:
    """Return ``found`` with ranges in place of their parts, where all of these hold bytes."""
    if found is None or found.kind == "largest_gap" or not problem.wholes:
        return found
    rows = {row[0]: row for row in found.holders}
    for buffer, parts in problem.buffers_as_one:
        names = {problem.buffers[b].name for b in parts if problem.buffers[b].occupied_bytes}
        if len(parts) > 1 and names and names <= rows.keys():
            whole = (buffer.name, buffer.occupied_bytes, buffer.address)
            rows = {whole[0] if name in names else name: whole if name in names else row for name, row in rows.items()}
    return replace(found, holders=tuple(rows.values()))


def _clash(pinned: list[Buffer]) -> tuple[Buffer, Buffer] | None:
    placed = sorted(pinned, key=lambda b: b.address or 0)
    for first, second in pairwise(placed):
        if (first.address or 0) + first.occupied_bytes > (second.address or 0):
            return first, second
    return None


def _largest_gap(pinned: list[Buffer], capacity: int, align: int) -> int:
    """Bytes of the largest free piece that starts at a multiple of ``align``."""
    at, gap = 0, 0
    for b in sorted(pinned, key=lambda b: b.address or 0):
        gap = max(gap, (b.address or 0) - at)
        at = max(at, -(-((b.address or 0) + b.occupied_bytes) // align) * align)
    return max(gap, capacity - at)


def deadline_shortfall(problem: Problem, ht: HeadsTails, rule: Rule) -> Shortfall | None:
    """Return a deadline that no schedule keeps under ``rule``, as far as heads and tails tell."""
    for i, op in enumerate(problem.ops):
        earliest = int(ht.head[i] + ht.duration[i])
        if op.deadline_ticks is not None and earliest > op.deadline_ticks:
            return Shortfall("deadline", op.name, "time", earliest, op.deadline_ticks, "ticks")
    return _overload(problem, ht, rule)


def _overload(problem: Problem, ht: HeadsTails, rule: Rule) -> Shortfall | None:
    """Find an engine or channel with more work than time between a head and a deadline: a + energy / units > d.

    Due dates of ops come from their own deadlines and from those of all that follows them. Where ops slow each other
    all is counted in parts of ticks, and what must be served is rounded down.
    """
    grid = Grid(problem, rule)
    never = int(FAR) // (4 * grid.scale)  # a deadline as late as this is none
    due = np.array([min(never, never if op.deadline_ticks is None else op.deadline_ticks) for op in problem.ops])
    if not (due < never).any():
        return None
    for i in reversed(problem.topological_order):
        for after in problem.successors[i]:
            due[i] = min(due[i], due[after] - int(ht.duration[after]))
    for demand in engine_demands(problem, grid):
        head = ht.head[demand.ops] * grid.scale + demand.lead
        last = due[demand.ops] * grid.scale - demand.trail
        for d in few_values(last[due[demand.ops] < never // 2]):
            soon = last <= d
            order = np.argsort(-head[soon], kind="stable")
            heads = head[soon][order]
            energy = np.cumsum(demand.energy[soon][order])
            needs = heads + (energy // demand.units if grid.shared else -(-energy // demand.units))
            k = int(needs.argmax())
            if needs[k] > d:
                have = int(d) // grid.scale
                need = max(have + 1, int(needs[k]) // grid.scale)
                return Shortfall("overload", None, demand.name, need, have, "ticks")
    return None
