"""What tuning found: one row per lever, the range over costs nobody has published, and how much was looked at."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.problem import Frozen
from hexloom.optimizer.kernels.ggml_layout import WeightType
from hexloom.optimizer.tune.parameters import Parameters

Lever = Literal["existing", "chunks", "load_parts", "slices", "order", "all"]


class TuneRow(Frozen):
    """What one lever alone makes of the time of today, in microseconds.

    ``existing``: the loop and the parameters of today. ``chunks``, ``load_parts`` and ``slices`` change these
    parameters in the loop of today; ``order`` finds another order of the same ops, and ``all`` chooses jointly.
    ``saved_us`` is None where today's parameters do not fit.
    """

    lever: Lever
    parameters: Parameters
    makespan_us: float
    saved_us: float | None = None
    lower_bound_us: float | None = None


class RangeRow(Frozen):
    """The same plan and the loop of today, with ``overhead_us`` for every fork/join and every hand-over to the HMX."""

    overhead_us: float
    existing_us: float | None
    makespan_us: float


class Counts(Frozen):
    """How many choices there are, and what became of them.

    With two buffers per edge ``too_large`` pairs of chunks do not fit into the scratchpad, ``too_small`` ones make more
    than 1,000 chunks, and ``alike`` ones as many as a more even pair. Of the ``choices`` that are left, ``excluded``
    cannot be better than the best by arithmetic, ``solved`` were solved, and ``open`` were neither. ``simulated`` loops
    were run.
    """

    too_large: int
    too_small: int
    alike: int
    choices: int
    excluded: int
    solved: int
    open: int
    simulated: int


class Measured(Frozen):
    """What a log says of the same product: how often it ran, and microseconds; ``vtcm_bytes`` that its layout took.

    ``chunks_known``: these bytes tell in which chunks; else ``existing_parameters`` are the parameter solver's choice.
    """

    runs: int
    median_us: float
    least_us: float
    vtcm_bytes: int | None
    chunks_known: bool


class Tuned(Frozen):
    """The parameters of one kernel for one shape on one machine; times in microseconds.

    All times but those of ``range`` are at ``overhead_us`` for a fork/join and for a hand-over to the HMX.

    ``lower_bound_us`` holds for every choice that was looked at or left open, ``range_us`` is the least and the most
    of ``range``. ``loop_parameters`` are the best for the loop of today: a table of them needs no new runtime.
    ``measured`` is what a log says, where one was given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    schema_: Literal["hexloom.tune/1"] = Field(default="hexloom.tune/1", alias="schema")
    kernel: Literal["matmul_w4a16"]
    m: int
    k: int
    n: int
    weight_type: WeightType
    machine: str
    arch: int
    vtcm_bytes: int
    contention: str
    overhead_us: float
    existing_us: float | None
    existing_parameters: Parameters | None
    makespan_us: float
    lower_bound_us: float
    gap: float
    range_us: tuple[float, float]
    bound_by: str
    parameters: Parameters
    loop_us: float | None
    loop_parameters: Parameters | None
    rows: tuple[TuneRow, ...]
    range: tuple[RangeRow, ...]
    counts: Counts
    notes: tuple[str, ...] = ()
    measured: Measured | None = None

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return self.model_dump_json(indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` has written."""
        return cls.model_validate_json(text)
