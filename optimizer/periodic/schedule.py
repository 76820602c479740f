"""The file of a periodic schedule: constant in size, whatever the trip counts."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen, Rule
from hexloom.formulations.ticks import Ticks
from hexloom.optimizer.schedule import BoundRow, Schedule, schedule_hash

WRITTEN, RECURRENCE = "written", "recurrence"
"""Names of bounds: the written schedule's own, where nothing is left out of it, and what waiting for others takes."""


class Stretch(Frozen):
    """A phase: one body run after run.

    ``times`` iterations of every task in one run, ``count`` in all ``runs``. From run ``first`` on, every ``period``
    runs take ``period_ticks`` and do the same: the steady state. ``left_out`` runs, whole periods, are not written
    down. ``interval_ticks`` is the II of the modulo schedule that gave the order: runs take longer where ops slow each
    other.
    """

    times: dict[str, int]
    count: dict[str, int]
    runs: int = Field(ge=1)
    interval_ticks: Ticks
    first: int = Field(default=0, ge=0)
    period: int = Field(default=1, ge=1)
    period_ticks: Ticks = 0
    left_out: int = Field(default=0, ge=0)

    @property
    def advance(self) -> dict[str, int]:
        """Iterations of every task in one period."""
        return {task: n * self.period for task, n in self.times.items()}

    @property
    def periods_left_out(self) -> int:
        """Whole periods that are not written down."""
        return self.left_out // self.period


class Shrink(Frozen):
    """What is shorter in the last iteration: of the ``part``-th op of a stage the rows of a region, or their bytes."""

    stage: str
    part: int = Field(ge=0)
    region: int = Field(ge=0)
    field: Literal["rows", "row_bytes"]


class Tail(Frozen):
    """The last iteration of a task may have less than ``most`` rows or columns, ``step`` apart; here it has the most.

    What shrinks does so in proportion; all else that it touches in DDR is the same.
    """

    task: str
    counts: Literal["rows", "columns"]
    least: int = Field(ge=1)
    most: int = Field(ge=1)
    step: int = Field(ge=1)
    shrinks: tuple[Shrink, ...] = ()


class PeriodicSchedule(Frozen):
    """A plan for ``trips`` iterations of every task, written down by few of them; times in ticks.

    ``written`` is a schedule without the runs that the stretches leave out. ``grown`` holds, for every stretch that
    leaves any out, the schedule with one period more of it: the same with its steady state once more, which is how
    anyone sees that the rest goes on like that. ``bounds`` are for all iterations, ``tails`` say which tasks may have a
    shorter last one: as shorter ops never break a plan, it holds for these, too.
    """

    schema_: Literal["hexloom.periodic_schedule/1"] = Field(default="hexloom.periodic_schedule/1", alias="schema")
    name: Text
    tool: Text
    machine: Text
    machine_digest: str
    workload_digest: str
    contention: Rule
    seed: int | None = None
    trips: dict[str, int]
    stretches: tuple[Stretch, ...] = Field(min_length=1)
    makespan: Ticks
    lower_bound: Ticks
    bounds: tuple[BoundRow, ...] = Field(min_length=1)
    baselines: dict[str, Ticks | None]
    notes: tuple[str, ...] = ()
    tails: tuple[Tail, ...] = ()
    written: Schedule
    grown: tuple[Schedule | None, ...]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    @property
    def gap(self) -> Fraction:
        """Relative distance of the makespan to the lower bound."""
        return Fraction(self.makespan - self.lower_bound) / self.makespan if self.makespan else Fraction(0)

    def us(self, ticks: int | Fraction) -> Fraction:
        """Ticks in microseconds."""
        return self.written.us(ticks)

    def to_json(self) -> str:
        """Return the schedule file: the same bytes for the same schedule."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a schedule file; raises pydantic.ValidationError when it is not one."""
        return cls.model_validate_json(text)


def periodic_hash(schedule: PeriodicSchedule) -> int:
    """Return what `schedule_hash` is for single ops: the hash of what is written down, and of all trips."""
    return schedule_hash(schedule.written, json.dumps(schedule.trips))
