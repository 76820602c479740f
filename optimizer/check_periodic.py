"""The independent checker of modulo schedules: iterations written out one by one, and looked at the plain way.

Everything repeats after ``unroll`` iterations, the least common multiple of all rings, and what is held for ``h``
intervals meets what starts up to ``h`` iterations away. So the iterations of one whole repetition, and ``h + 1`` more
on either side, hold every pair that can ever meet. In the first and last iterations of a run less is held.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.check import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hexloom.formulations.periodic.loop import Loop
    from hexloom.formulations.periodic.schedule import ModuloSchedule

    Report = Callable[[str, tuple[str, ...], str], None]


class Hold(NamedTuple):
    """``amount`` of something held in ``[start, end)`` by ``who`` of one iteration."""

    start: int
    end: int
    amount: int
    who: str
    iteration: int

    def __str__(self) -> str:
        return f"{self.who!r} of iteration {self.iteration} [{self.start}, {self.end})"


class Place(NamedTuple):
    """Bytes ``[low, high)`` taken in ``[start, end)`` by the buffer ``who`` of one iteration."""

    start: int
    end: int
    low: int
    high: int
    who: str
    iteration: int

    def __str__(self) -> str:
        bytes_, ticks = f"[{self.low}, {self.high}) B", f"[{self.start}, {self.end}) ticks"
        return f"{self.who!r} of iteration {self.iteration} {bytes_} in {ticks}"


def check_modulo(loop: Loop, schedule: ModuloSchedule) -> list[Violation]:
    """Return every broken rule of ``schedule``, one violation per rule and parties; an empty list means it holds."""
    found: dict[tuple[str, tuple[str, ...]], Violation] = {}

    def report(kind: str, parties: tuple[str, ...], message: str) -> None:
        found.setdefault((kind, parties), Violation(kind=kind, parties=parties, message=message))

    _check_names(loop, schedule, report)
    if found:
        return list(found.values())
    _check_dependencies(loop, schedule, report)
    iterations = range(_iterations(loop, schedule))
    _check_engines(loop, schedule, iterations, report)
    if loop.rule != "none":
        _check_channels(loop, schedule, iterations, report)
    _check_buffers(loop, schedule, iterations, report)
    return list(found.values())


def _check_names(loop: Loop, schedule: ModuloSchedule, report: Report) -> None:
    """Every op has a start and its units, every buffer its ring, and nothing else has."""
    ops, buffers = {op.name: op for op in loop.ops}, {buffer.name: buffer for buffer in loop.buffers}
    for kind, given, known in (
        ("start", schedule.starts, ops),
        ("address", schedule.addresses, buffers),
        ("units", schedule.units, ops),
    ):
        for name in given:
            if name not in known:
                report(f"{kind}_unknown", (name,), f"{kind} is given for {name!r}, which is not in the loop")
    for name in ops:
        if name not in schedule.starts:
            report("start_missing", (name,), f"op {name!r} has no start")
        elif schedule.starts[name] < 0:
            report("start_negative", (name,), f"op {name!r} starts at {schedule.starts[name]}, before tick 0")
    for name, buffer in buffers.items():
        ring = schedule.addresses.get(name, ())
        if not ring:
            report("address_missing", (name,), f"buffer {name!r} has no address")
        elif buffer.depth is not None and len(ring) != buffer.depth:
            report("ring_depth", (name,), f"buffer {name!r} has {len(ring)} addresses, its ring {buffer.depth} copies")
    engines = {engine.name: engine for engine in loop.engines}
    for name, op in ops.items():
        needed = {use.engine: use for use in op.mode.uses if use.ticks and loop.needs_units(engines[use.engine])}
        given_units = schedule.units.get(name, {})
        for engine in given_units:
            if engine not in needed:
                report("units_unknown", (name, engine), f"op {name!r} is given units of {engine!r}, which it needs not")
        for engine, use in needed.items():
            turns = given_units.get(engine, ())
            if not turns:
                report("units_missing", (name, engine), f"op {name!r} has no units of {engine!r}")
            for units in turns:
                what = f"op {name!r} has units {units} of {engine!r}"
                if len(set(units)) != len(units) or len(units) != use.units:
                    report("units_number", (name, engine), f"{what}, but needs {use.units} different ones")
                if any(not 0 <= u < engines[engine].units for u in units):
                    report("units_range", (name, engine), f"{what}, which has {engines[engine].units}")
                if use.unit_ids is not None and set(units) != set(use.unit_ids):
                    report("units_fixed", (name, engine), f"{what}, but is fixed to {use.unit_ids}")


def _check_dependencies(loop: Loop, schedule: ModuloSchedule, report: Report) -> None:
    latency = {op.name: op.latency_ticks for op in loop.ops}
    for edge in loop.dependencies:
        delay = latency[edge.before] if edge.delay_ticks is None else edge.delay_ticks
        before = schedule.starts[edge.before]
        after = schedule.starts[edge.after] + edge.distance * schedule.ii_ticks
        if after < before + delay:
            text = (
                f"op {edge.after!r} of iteration {edge.distance} starts at {after}, before {before + delay}: "
                f"{delay} ticks after {edge.before!r} of iteration 0 at {before}"
            )
            report("dependency", (edge.before, edge.after), text)


def _iterations(loop: Loop, schedule: ModuloSchedule) -> int:
    """Return how many iterations show every pair that can meet."""
    first = min(schedule.starts.values())
    last = max(schedule.starts[op.name] + op.latency_ticks for op in loop.ops)
    farthest = max((user.distance for buffer in loop.buffers for user in buffer.users), default=0)
    window = -(-(last - first) // schedule.ii_ticks) + farthest + 1
    return 2 * window + schedule.unroll


def _check_engines(loop: Loop, schedule: ModuloSchedule, iterations: Iterable[int], report: Report) -> None:
    """No unit is held twice; where no op has concrete ones, no more are held than there are."""
    for engine in loop.engines:
        holds: dict[int, list[Hold]] = defaultdict(list)
        for op in loop.ops:
            for use in op.mode.uses:
                if use.engine != engine.name or not use.ticks:
                    continue
                for j in iterations:
                    start = schedule.starts[op.name] + j * schedule.ii_ticks
                    if not loop.needs_units(engine):
                        holds[-1].append(Hold(start, start + use.ticks, use.units, op.name, j))
                        continue
                    ring = schedule.units[op.name][engine.name]
                    for unit in ring[j % len(ring)]:
                        holds[unit].append(Hold(start, start + use.ticks, 1, op.name, j))
        _check_load(holds.pop(-1, []), engine.units, "engine", engine.name, report)
        for unit, mine in holds.items():
            for one, other in pairwise(sorted(mine)):
                if other.start < one.end:
                    parties = (f"{engine.name}[{unit}]", *sorted({one.who, other.who}))
                    report(
                        "unit_overlap", parties, f"unit {unit} of engine {engine.name!r} is held by {one} and {other}"
                    )


def _check_channels(loop: Loop, schedule: ModuloSchedule, iterations: Iterable[int], report: Report) -> None:
    """Ensure that a channel moves in II what an iteration asks for; under ``rigid`` it is never asked for more."""
    for channel in loop.channels:
        holds = []
        for op in loop.ops:
            start, rates = schedule.starts[op.name], [p.rate for p in op.mode.pulls if p.channel == channel.name]
            for j in iterations if rates else ():
                at = start + j * schedule.ii_ticks
                holds.append(Hold(at, at + op.latency_ticks, sum(rates), op.name, j))
        if loop.rule == "rigid":
            _check_load(holds, channel.capacity, "channel", channel.name, report)
        moved = sum(h.amount * (h.end - h.start) for h in holds if h.iteration == 0)
        if moved > channel.capacity * schedule.ii_ticks:
            text = (
                f"channel {channel.name!r} is asked for {moved} per iteration, and has "
                f"{channel.capacity * schedule.ii_ticks} in {schedule.ii_ticks} ticks"
            )
            report("channel_rate", (channel.name,), text)


def _check_load(holds: Sequence[Hold], capacity: int, kind: str, name: str, report: Report) -> None:
    """At every start the sum of what is held then is within ``capacity``."""
    for now in sorted({hold.start for hold in holds}):
        held = [hold for hold in holds if hold.start <= now < hold.end]
        total = sum(hold.amount for hold in held)
        if total > capacity:
            who = ", ".join(map(str, held))
            report(f"{kind}_load", (name,), f"{kind} {name!r} has {capacity}, but {total} are held at {now}: {who}")
            return


def _check_buffers(loop: Loop, schedule: ModuloSchedule, iterations: Iterable[int], report: Report) -> None:
    """Addresses are aligned and inside; no byte belongs to two buffers that are alive at one time."""
    latency = {op.name: op.latency_ticks for op in loop.ops}
    ii, available = schedule.ii_ticks, loop.scratchpad.total_bytes - loop.scratchpad.reserved_bytes
    places: list[Place] = []
    for buffer in loop.buffers:
        size = -(-buffer.size_bytes // buffer.granule_bytes) * buffer.granule_bytes
        ring = schedule.addresses[buffer.name]
        for at in ring:
            if at % buffer.align_bytes:
                text = f"buffer {buffer.name!r} lies at {at} B, not a multiple of its alignment {buffer.align_bytes} B"
                report("address_alignment", (buffer.name,), text)
            if at < 0 or at + size > available:
                text = f"buffer {buffer.name!r} [{at}, {at + size}) is not inside [0, {available}) B"
                report("address_range", (buffer.name,), text)
        begins = [(schedule.starts[user.op] + user.distance * ii, user.op) for user in buffer.users]
        born, died = min(at for at, _ in begins), max(at + latency[op] for at, op in begins)
        if died - born > len(ring) * ii:
            text = (
                f"buffer {buffer.name!r} lives for {died - born} ticks, but its {len(ring)} copies come back after "
                f"{len(ring) * ii}"
            )
            report("ring_life", (buffer.name,), text)
        for j in iterations:
            at = ring[j % len(ring)]
            if size:
                places.append(Place(born + j * ii, died + j * ii, at, at + size, buffer.name, j))
    places.sort()
    alive: list[Place] = []
    for new in places:
        alive = [old for old in alive if old.end > new.start]
        for old in alive:
            if old.low < new.high and new.low < old.high:
                shared = min(old.high, new.high) - max(old.low, new.low)
                parties = tuple(sorted({old.who, new.who}))
                report("address_overlap", parties, f"buffers {old} and {new} share {shared} B")
        alive.append(new)
