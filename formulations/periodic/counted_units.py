"""Who holds which unit of an engine that is only counted: a modulo schedule says how many, a plan needs their numbers.

Instances are given the lowest units that are free, by their starts: as many as are at work at one time have always
been enough for that, and after a while it repeats itself. That repeat is the ring, also of the first iterations, in
which some of these instances are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.periodic.loop import Loop
    from hexloom.formulations.periodic.schedule import ModuloSchedule

    Rings = dict[str, dict[str, tuple[tuple[int, ...], ...]]]

MOST_TURNS, LAPS = 12, 4
"""Iterations after which units are the same again, at most; and how often all of these are looked at."""


def with_counted_units(loop: Loop, schedule: ModuloSchedule) -> ModuloSchedule:
    """Return ``schedule`` with rings for counted engines too; as it is where no ring is found or none is needed."""
    units: Rings = {name: dict(of) for name, of in schedule.units.items()}
    for engine in loop.engines:
        if engine.kind == "resource" and engine.units > 1:
            rings = _rings(loop, schedule, engine.name, engine.units)
            for name, ring in rings.items():
                units.setdefault(name, {})[engine.name] = ring
    return schedule.model_copy(update={"units": units})


def _rings(loop: Loop, schedule: ModuloSchedule, engine: str, count: int) -> dict[str, tuple[tuple[int, ...], ...]]:
    uses = {op.name: use for op in loop.ops for use in op.mode.uses if use.engine == engine and use.ticks > 0}
    if not uses or any(use.unit_ids is not None for use in uses.values()):
        return {}
    interval = schedule.ii_ticks
    first = min(schedule.starts[name] for name in uses)
    begun = max(schedule.starts[name] - first for name in uses) // interval + 1  # runs until all are at work
    most = begun + LAPS * MOST_TURNS
    free = [first] * count
    held: dict[tuple[str, int], tuple[int, ...]] = {}
    for start, name, run in sorted(
        (schedule.starts[name] + k * interval, name, k) for name in uses for k in range(most)
    ):
        units = tuple(u for u in range(count) if free[u] <= start)[: uses[name].units]
        for u in units:
            free[u] = start + uses[name].ticks
        held[name, run] = units
    for turns in range(1, MOST_TURNS + 1):
        late = range(most - begun - (LAPS - 1) * turns, most - begun)
        if all(held[name, k] == held[name, k - turns] for name in uses for k in late):
            last = range(most - begun - turns, most - begun)
            return {name: tuple(held[name, k] for k in sorted(last, key=lambda k: k % turns)) for name in uses}
    return {}
