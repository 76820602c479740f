"""Units of engines: what an op wants of them, and when they are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from hexloom.formulations.problem import Mode, Problem, Use


def wish_for(problem: Problem, modes: Sequence[Mode]) -> Hashable:
    """Return what an op needs to start, as a key: ops with equal wishes are blocked together."""
    return tuple(
        (mode.dma.owner_engine, mode.dma.owner_unit, *((u.engine, u.units) for u in problem.share_uses(mode)))
        if mode.dma is not None
        else tuple((use.engine, use.units, use.unit_ids) for use in mode.uses if use.ticks > 0)
        for mode in modes
    )


def idle_units(problem: Problem, now: float) -> dict[str, list[float]]:
    """Return, for each engine whose units have names, until when each unit is busy: ``now``."""
    return {e.name: [now] * e.units for e in problem.engines if e.kind not in ("pipe", "share")}


def free_units(use: Use, busy: Sequence[float], now: float) -> tuple[int, ...] | None:
    """Return units that ``use`` may take now: those that it names, or the first free ones; None for too few."""
    if use.unit_ids is not None:
        return use.unit_ids if all(busy[u] <= now for u in use.unit_ids) else None
    if use.units == len(busy) == 1:
        return (0,) if busy[0] <= now else None
    free = [u for u, until in enumerate(busy) if until <= now]
    return tuple(free[: use.units]) if len(free) >= use.units else None


def available_at(use: Use, busy: Sequence[float]) -> float:
    """Return when the units that ``use`` asks for will be free."""
    if use.unit_ids is not None:
        return max(busy[u] for u in use.unit_ids)
    return sorted(busy)[use.units - 1]
