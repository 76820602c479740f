"""The plain way to the smallest interval of a tiny loop: all starts, then all units, then all addresses."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from math import lcm
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.mode import Engine
    from hexloom.formulations.periodic.loop import Loop
    from hexloom.formulations.periodic.schedule import ModuloSchedule


def smallest_interval(loop: Loop, upto: int) -> int | None:
    """Return the smallest interval of at most ``upto`` ticks that some schedule has."""
    return next((ii for ii in range(1, upto + 1) if feasible(loop, ii)), None)


def feasible(loop: Loop, ii: int) -> bool:
    """Whether any 1-periodic schedule has interval ``ii``; rings have the copies that are alive, or their depth."""
    if not _flows(loop, ii):
        return False
    return any(_units(loop, ii, starts) and addresses_exist(loop, ii, starts) for starts in _all_starts(loop, ii))


def shortest(loop: Loop, ii: int) -> int:
    """Return the least ticks from the first start to the last end of an iteration, of all schedules at ``ii``."""
    return min(
        max(starts[op.name] + op.latency_ticks for op in loop.ops) - min(starts.values())
        for starts in _all_starts(loop, ii)
        if _units(loop, ii, starts) and addresses_exist(loop, ii, starts)
    )


def respected(loop: Loop, schedule: ModuloSchedule) -> bool:
    """Whether a schedule with units and addresses of the right number holds; all of it is written into cells."""
    ii, starts = schedule.ii_ticks, schedule.starts
    if min(starts.values()) < 0 or not _holds(loop, ii, starts) or not _flows(loop, ii):
        return False
    period = schedule.unroll * ii
    held: Counter[tuple[str, int, int]] = Counter()
    for op in loop.ops:
        for use in op.mode.uses:
            ring = schedule.units.get(op.name, {}).get(use.engine, ())
            for j in range(schedule.unroll if ring else 0):
                if use.unit_ids is not None and set(ring[j % len(ring)]) != set(use.unit_ids):
                    return False
                for unit, t in product(ring[j % len(ring)], range(use.ticks)):
                    held[use.engine, unit, (starts[op.name] + j * ii + t) % period] += 1
    for b in loop.buffers:
        born, life = _life(loop, ii, starts, b.name)
        ring_of = schedule.addresses[b.name]
        if life > len(ring_of) * ii:
            return False
        for j in range(schedule.unroll):
            low = ring_of[j % len(ring_of)]
            if low % b.align_bytes or not 0 <= low <= loop.scratchpad.available_bytes - b.occupied_bytes:
                return False
            for n, t in product(range(b.occupied_bytes), range(life)):
                held["", low + n, (born + j * ii + t) % period] += 1
    return max(held.values(), default=0) <= 1


def _flows(loop: Loop, ii: int) -> bool:
    """Whether a fluid channel moves in an interval what an iteration asks for."""
    for channel in loop.channels if loop.rule == "fluid" else ():
        moved = [p.rate * op.latency_ticks for op in loop.ops for p in op.mode.pulls if p.channel == channel.name]
        if sum(moved) > channel.capacity * ii:
            return False
    return True


def _all_starts(loop: Loop, ii: int) -> Iterator[dict[str, int]]:
    """Enumerate starts that satisfy dependencies, depths, counts and channels, the first op in the first interval.

    The others are at most as many intervals away as all delays, each rounded up, and all copies together.
    """
    delays = [op.latency_ticks if e.delay_ticks is None else e.delay_ticks
              for e in loop.dependencies for op in loop.ops if op.name == e.before]  # fmt: skip
    longest = [max((d for d, e in zip(delays, loop.dependencies, strict=True) if e.before == op.name), default=0)
               for op in loop.ops]  # fmt: skip
    free = [b for b in loop.buffers if len(b.users) > 1]
    far = sum(-(-(d + ii - 1) // ii) for d in longest) + sum(
        loop.scratchpad.available_bytes // b.occupied_bytes for b in free
    )
    chosen: dict[str, int] = {}

    def extend(k: int) -> Iterator[dict[str, int]]:
        if k == len(loop.ops):
            yield chosen
            return
        for start in range(ii) if k == 0 else range(-far * ii, (far + 1) * ii):
            chosen[loop.ops[k].name] = start
            if _holds(loop, ii, chosen):
                yield from extend(k + 1)
            del chosen[loop.ops[k].name]

    return extend(0)


def _holds(loop: Loop, ii: int, starts: dict[str, int]) -> bool:
    """Whether what is chosen so far satisfies all that speaks of it alone."""
    latency = {op.name: op.latency_ticks for op in loop.ops}
    for e in loop.dependencies:
        if e.before in starts and e.after in starts:
            delay = latency[e.before] if e.delay_ticks is None else e.delay_ticks
            if starts[e.after] + ii * e.distance < starts[e.before] + delay:
                return False
    for b in loop.buffers:
        if all(user.op in starts for user in b.users):
            copies = -(-_life(loop, ii, starts, b.name)[1] // ii)
            if copies > (b.depth or copies) or copies * b.occupied_bytes > loop.scratchpad.available_bytes:
                return False
    amounts = {e.name: [0] * ii for e in loop.engines} | {c.name: [0] * ii for c in loop.channels}
    room = {e.name: e.units for e in loop.engines} | {c.name: c.capacity for c in loop.channels}
    for op in loop.ops:
        if op.name in starts:
            held = [(u.engine, u.ticks, u.units) for u in op.mode.uses]
            if loop.rule == "rigid":
                held += [(p.channel, op.latency_ticks, p.rate) for p in op.mode.pulls]
            for what, ticks, amount in held:
                for t in range(ticks):
                    amounts[what][(starts[op.name] + t) % ii] += amount
    return all(max(row) <= room[what] for what, row in amounts.items())


def _units(loop: Loop, ii: int, starts: dict[str, int]) -> bool:
    """Whether rings of units exist: of each op as many turns as it holds intervals."""
    return all(_units_of(loop, ii, starts, engine) for engine in loop.engines if loop.needs_units(engine))


def _units_of(loop: Loop, ii: int, starts: dict[str, int], engine: Engine) -> bool:
    uses = [(op, use) for op in loop.ops for use in op.mode.uses if use.engine == engine.name]
    rings = [-(-use.ticks // ii) for _, use in uses]
    period = lcm(1, *rings) * ii
    turns = [(i, k) for i, ring in enumerate(rings) for k in range(ring)]

    def fits(at: int, busy: frozenset[tuple[int, int]]) -> bool:
        if at == len(turns):
            return True
        i, k = turns[at]
        op, use = uses[i]
        sets = [use.unit_ids] if use.unit_ids is not None else list(combinations(range(engine.units), use.units))
        for units in sets:
            cells = {
                (u, (starts[op.name] + j * ii + t) % period)
                for u in units
                for j in range(k, period // ii, rings[i])
                for t in range(use.ticks)
            }
            if not cells & busy and fits(at + 1, busy | cells):
                return True
        return False

    return fits(0, frozenset())


def _life(loop: Loop, ii: int, starts: dict[str, int], name: str) -> tuple[int, int]:
    """Return when the buffer is born, and for how many ticks it lives."""
    buffer = next(b for b in loop.buffers if b.name == name)
    latency = {op.name: op.latency_ticks for op in loop.ops}
    begins = [(starts[user.op] + ii * user.distance, user.op) for user in buffer.users]
    born = min(at for at, _ in begins)
    return born, max(at + latency[op] for at, op in begins) - born


def addresses_exist(loop: Loop, ii: int, starts: dict[str, int]) -> bool:
    """Whether every copy finds bytes that are its own whenever it is alive."""
    lives = [(b, *_life(loop, ii, starts, b.name)) for b in loop.buffers]
    copies = [b.depth or -(-life // ii) for b, _, life in lives]
    period = lcm(1, *copies) * ii
    turns = [(i, k) for i, ring in enumerate(copies) for k in range(ring)]

    def fits(at: int, busy: frozenset[tuple[int, int]]) -> bool:
        if at == len(turns):
            return True
        i, k = turns[at]
        b, born, life = lives[i]
        when = {(born + j * ii + t) % period for j in range(k, period // ii, copies[i]) for t in range(life)}
        for low in range(0, loop.scratchpad.available_bytes - b.occupied_bytes + 1, b.align_bytes):
            cells = {(low + n, t) for n in range(b.occupied_bytes) for t in when}
            if not cells & busy and fits(at + 1, busy | cells):
                return True
        return False

    return fits(0, frozenset())
