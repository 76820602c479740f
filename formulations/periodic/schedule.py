"""A modulo schedule: when the ops of iteration 0 start, and who takes turns where in the iterations after it."""

from __future__ import annotations

from math import lcm
from typing import Literal

from pydantic import ConfigDict, Field

from hexloom.formulations.mode import Frozen


class ModuloSchedule(Frozen):
    """Iteration ``j`` of an op starts at ``starts[op] + j * ii_ticks``.

    ``units[op][engine]`` is a ring: iteration ``j`` holds the units of its entry ``j`` modulo its length. So is
    ``addresses[buffer]``, in bytes. The whole repeats after ``unroll`` iterations.
    """

    schema_: Literal["hexloom.modulo_schedule/1"] = Field(default="hexloom.modulo_schedule/1", alias="schema")
    ii_ticks: int = Field(ge=1)
    starts: dict[str, int]
    units: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = Field(default_factory=dict)
    addresses: dict[str, tuple[int, ...]] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    @property
    def unroll(self) -> int:
        """Iterations after which all rings are at their beginning again."""
        rings = [len(ring) for by_engine in self.units.values() for ring in by_engine.values()]
        return lcm(1, *rings, *(len(ring) for ring in self.addresses.values()))
