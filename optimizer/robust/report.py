"""What scattering durations do to a plan: `hexloom.robustness/1`; data only, times in microseconds (or ticks)."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen


class Makespans(Frozen):
    """The makespan of one plan over many runs; ``p95_low`` to ``p95_high`` is the 95 % interval of ``p95``."""

    predicted: float
    median: float
    mean: float
    p95: float
    p95_low: float
    p95_high: float


class CriticalOp(Frozen):
    """An op, and the part of the runs whose makespan hangs on it."""

    op: str
    part: float


class Robustness(Frozen):
    """Runs of the nominal plan (the shortest when all goes as predicted) and of the plan that was chosen.

    Both saw the same ``fresh`` runs, none of which played a part in the choice among ``orders``. ``p95_gain`` is what
    the best of the others gains over the nominal plan, with its 95 % interval; unless that lies above 0 the nominal
    plan is ``kept``, and ``chosen`` is ``nominal``. ``guards`` are edges that the chosen plan has and the nominal one
    does not. ``critical`` are ops of the chosen plan.
    """

    schema_: Literal["hexloom.robustness/1"] = Field(default="hexloom.robustness/1", alias="schema")
    name: Text
    unit: Literal["us", "ticks"]
    durations: str
    seed: int
    within: float
    orders: int
    samples: int
    fresh: int
    nominal: Makespans
    chosen: Makespans
    kept: bool
    p95_gain: float
    p95_gain_low: float
    p95_gain_high: float
    guards: tuple[tuple[str, str], ...]
    critical: tuple[CriticalOp, ...]
    text: str

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """Return the file: the same bytes for the same plan, durations and seed."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"
