"""The parts of a mode: intervals in which an op holds the same units. They follow each other in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.speeds import NOT_SHARING

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Op, Problem
    from hexloom.formulations.speeds import Speeds

Lane = tuple[str, int | None]
"""An engine as a whole (None), or one unit of it."""


@dataclass(frozen=True, slots=True)
class Part:
    """``ticks`` long; at least ``lead`` ticks after the start of its op, ``trail`` ticks before its result.

    ``takes`` are the units it holds per lane; empty for a part in flight. ``load`` says what it demands of channels
    and how it disturbs others (`hexloom.formulations.speeds`); ``pulls`` are those demands.
    """

    ticks: int
    lead: int
    trail: int
    takes: tuple[tuple[Lane, int], ...]
    load: int = NOT_SHARING
    pulls: tuple[tuple[str, int], ...] = ()


Merged = tuple[tuple[str, ...], ...]
"""Groups of engines that count as one with all their units."""


@dataclass(frozen=True)
class Lanes:
    """What limits how many parts run together.

    ``capacity`` is what every lane offers. With ``merged`` None every unit of a worker or resource is a lane too;
    otherwise units have no names, and each group in ``merged`` is one engine, called by its first: what is feasible
    stays so. ``shares`` are held by every part of an op.
    """

    capacity: dict[Lane, int]
    name: dict[str, str]
    single_units: bool
    shares: frozenset[str]
    speeds: Speeds


def lanes_of(problem: Problem, merged: Merged | None, speeds: Speeds) -> Lanes:
    """Return the lanes of ``problem``; ``speeds`` tells how parts slow each other."""
    name = {engine.name: engine.name for engine in problem.engines}
    name.update({member: group[0] for group in merged or () for member in group})
    capacity: dict[Lane, int] = {}
    for engine in problem.engines:
        lane = (name[engine.name], None)
        capacity[lane] = capacity.get(lane, 0) + engine.units
        if merged is None and engine.units > 1 and engine.kind not in ("pipe", "share"):
            capacity.update({(engine.name, unit): 1 for unit in range(engine.units)})
    return Lanes(capacity, name, merged is None, frozenset(problem.shares), speeds)


def can_run(problem: Problem, mode: Mode) -> bool:
    """Say whether the engines have the units that ``mode`` asks for."""
    units = {engine.name: engine.units for engine in problem.engines}
    return all(use.units <= units[use.engine] for use in mode.uses if use.ticks > 0)


def parts_of(mode: Mode, lanes: Lanes) -> tuple[Part, ...]:
    """Return the parts of ``mode`` in the order of time, those of no length left out.

    A transfer that waits for its pipes is in no part; what it asks for then is left out. Where others can slow the
    work, the overhead before it, which nobody slows, is a part of its own.
    """
    spans: list[tuple[int, tuple[tuple[Lane, int], ...], int]] = []
    dma = mode.dma
    load = lanes.speeds.load_of(mode)
    whole = [(use.engine, use.units, None) for use in mode.uses if use.ticks > 0 and use.engine in lanes.shares]
    if dma is not None:
        owner = _takes(lanes, [(dma.owner_engine, 1, (dma.owner_unit,)), *whole])
        spans.append((dma.issue_ticks, owner, NOT_SHARING))
    overhead = 0 if dma is not None else mode.overhead_ticks
    held = [(overhead + use.ticks, use) for use in mode.uses if use.ticks > 0 and use.engine not in lanes.shares]
    at = 0
    ends = {end for end, _ in held} | {overhead + mode.latency_ticks}
    for end in sorted(ends | {overhead} if load != NOT_SHARING else ends):
        uses = [(use.engine, use.units, use.unit_ids) for until, use in held if until >= end]
        spans.append((end - at, _takes(lanes, [*uses, *whole]), load if at >= overhead else NOT_SHARING))
        at = end
    if dma is not None:
        spans.append((dma.poll_ticks, owner, NOT_SHARING))
    total = sum(ticks for ticks, _, _ in spans)
    found: list[Part] = []
    lead = 0
    for ticks, takes, works in spans:
        if ticks > 0:
            pulls = () if works == NOT_SHARING else tuple((pull.channel, pull.rate) for pull in mode.pulls if pull.rate)
            found.append(Part(ticks, lead, total - lead - ticks, takes, works, pulls))
        lead += ticks
    return tuple(found)


def _takes(lanes: Lanes, uses: list[tuple[str, int, tuple[int, ...] | None]]) -> tuple[tuple[Lane, int], ...]:
    found: dict[Lane, int] = {}
    for engine, units, ids in uses:
        lane = (lanes.name[engine], None)
        found[lane] = found.get(lane, 0) + units
        if lanes.single_units and ids is not None:
            found.update({(engine, unit): 1 for unit in ids if (engine, unit) in lanes.capacity})
    return tuple(sorted(found.items(), key=lambda take: (take[0][0], -1 if take[0][1] is None else take[0][1])))


def ways_of(problem: Problem, op: Op, lanes: Lanes) -> tuple[tuple[Part, ...], ...]:
    """Return the different lists of parts of those modes of ``op`` that can run at all."""
    return tuple(dict.fromkeys(parts_of(mode, lanes) for mode in op.modes if can_run(problem, mode)))
