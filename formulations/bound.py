"""A proven lower bound on the makespan: what it is called, and why it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.ticks import Moment


@dataclass(frozen=True, slots=True)
class Bound:
    """A proven lower bound on the makespan.

    ``ticks`` may be a fraction where ops slow each other. ``engine`` is the engine or channel it names as the
    bottleneck, None where it is none (a path, the scratchpad, several together). ``detail`` says in words where it
    comes from, ``load`` how much of it is work there: of equal bounds the one with the most load is kept.
    """

    name: str
    ticks: Moment
    engine: str | None
    detail: str
    load: Moment = 0
