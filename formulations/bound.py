"""A proven lower bound on the makespan: what it is called, and why it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven lower bound on the makespan.

    ``engine`` is the engine it names as the bottleneck, None for a path. ``detail`` says in words where it comes
    from, ``load`` how much of it is work on the engine: of equal bounds the one with the most load is kept.
    """

    name: str
    ticks: int
    engine: str | None
    detail: str
    load: int = 0
