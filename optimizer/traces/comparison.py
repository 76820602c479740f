"""What `hexloom compare` says of a schedule and a measured run of it: data, all times in microseconds or ticks."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from hexloom.formulations.problem import Frozen
from hexloom.formulations.ticks import Ticks
from hexloom.optimizer.schedule import Gain
from hexloom.optimizer.traces.findings import Finding


class Pair(Frozen):
    """The same quantity predicted and measured, in ticks."""

    predicted: Ticks
    measured: Ticks


class StageRow(Frozen):
    """Durations of the ops of one stage on one engine, in microseconds.

    Statistics are over all runs but a first one that stands apart. ``error`` is that of the median, as a part of the
    prediction; ``clock_error`` is the part of it that a clock other than the machine file's explains. ``exact`` is
    False where transfers end when they were seen, so that durations are upper bounds. ``makespan_effect_us`` is what
    the measured durations of this stage alone do to the predicted makespan.
    """

    task: str
    stage: str
    engine: str
    ops: int
    predicted_us: float
    median_us: float
    p95_us: float
    first_run_us: float | None
    error: float | None
    clock_error: float | None
    skew_us: float
    exact: bool
    makespan_effect_us: float


class EngineUse(Frozen):
    """One engine: how long at least one unit works, and how many on average, predicted and measured, in ticks."""

    engine: str
    units: int
    busy: Pair
    total: Pair


class OverlapUse(Frozen):
    """Ticks during which two engines both work."""

    engines: tuple[str, str]
    together: Pair


class BubbleRow(Frozen):
    """Idle ticks of all queues of an engine for one reason; ``deliberate`` is what the plan foresaw of the measured."""

    engine: str
    reason: str
    idle: Pair
    deliberate: Ticks
    accidental: Ticks


class Inversion(Frozen):
    """Pairs of ops of one engine that began in another order than predicted, and one of them."""

    engine: str
    pairs: int
    example: tuple[str, str]


class ClockRow(Frozen):
    """A clock of the trace: its rate, and that of the machine file where it has one (DDR has none).

    ``offset_us`` is by how much its zero was moved, where the trace does not say it and the plan does: no op begins
    before what it waits for has ended, which leaves ``low_us`` to ``high_us``.
    """

    domain: str
    mhz: float | None
    machine_mhz: float | None
    offset_us: float | None
    low_us: float | None
    high_us: float | None


class Matching(Frozen):
    """How ops and events found each other."""

    ops: int
    by_name: int
    by_order: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    runs: int
    run: int


class OpError(Frozen):
    """One op in the chosen run, in ticks: when it worked, or when its bytes moved."""

    op: str
    start: Pair
    end: Pair


class Comparison(Frozen):
    """A schedule held against a measured run of it; times are ticks of the schedule unless a name says microseconds.

    ``error = (measured - predicted) / predicted`` of the makespan. It is the sum of what the measured durations explain
    (``by_durations``) and of what they do not: hand-over, waiting, the order of things (``by_dispatch``).
    ``clocks`` are those of a trace that has several. ``other_plan`` says that the trace is of another plan.
    ``gain`` are the five parts for the prediction, ``measured_gain`` for the run; each sums to its own gain, and their
    difference to the difference of the makespans, exactly.
    """

    schema_: Literal["hexloom.comparison/1"] = Field(default="hexloom.comparison/1", alias="schema")
    name: str
    form: str
    unit: str
    tick_us: str | None
    makespan: Pair
    error: float
    by_durations: Ticks
    by_dispatch: Ticks
    clock_mhz: float | None
    machine_mhz: float | None
    clock_text: str | None
    clocks: tuple[ClockRow, ...]
    other_plan: str | None
    matching: Matching
    stages: tuple[StageRow, ...]
    engines: tuple[EngineUse, ...]
    overlaps: tuple[OverlapUse, ...]
    bubbles: tuple[BubbleRow, ...]
    inversions: tuple[Inversion, ...]
    gain: Gain | None
    measured_gain: Gain | None
    rows: tuple[OpError, ...]
    warnings: tuple[Finding, ...]
    notes: tuple[Finding, ...]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """Return the file: the same bytes for the same schedule and trace."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"
