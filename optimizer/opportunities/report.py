"""What was found in a graph: how much of its time has a partner, what the best overlap saves, and why not more."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen

Reason = Literal["dependency", "same engine", "bandwidth", "vtcm", "too little"]

REASONS: dict[Reason, str] = {
    "dependency": "one needs what the other makes, or both stand in a row",
    "same engine": "both need the same engine most of the time",
    "bandwidth": "together they ask for more bytes per second than there are",
    "vtcm": "their buffers do not fit side by side",
    "too little": "overlap would save less than a tenth of the shorter one",
}


class PairFound(Frozen):
    """Two operators that could run together; times in microseconds, ``saves_us`` at most.

    ``ready``: all that both need is there when the first of them starts today. ``overlap_us`` is how long they run at
    the same time in the best set.
    """

    first: Text
    second: Text
    resources: tuple[Text, Text]
    saves_us: float
    ready: bool
    overlap_us: float | None = None


class SetFound(Frozen):
    """Three operators or more of different engines, no two of which are ordered."""

    names: tuple[Text, ...]
    resources: tuple[Text, ...]
    saves_us: float


class KindShare(Frozen):
    """All operators of one kind: the share of the time that they take is the most that hiding all of them saves."""

    op: Text
    count: int
    us: float
    share: float


class Pairs(Frozen):
    """Counts of pairs of operators that take time, and shares of time with a partner."""

    nodes: int
    pairs: int
    independent: int
    ready: int
    complementary: int
    complementary_ready: int
    reasons: dict[Reason, int]
    coverage: float
    coverage_ready: float
    uncovered: dict[Reason, float]


class Solved(Frozen):
    """The best overlap that was found: a request takes ``serial_us`` today and ``makespan_us`` with it.

    No order takes less than ``lower_bound_us``. ``groups`` are the parts that only follow each other, ``largest`` the
    operators of the largest one. ``status`` is ``OPTIMAL`` where time and bound meet.
    """

    status: Literal["OPTIMAL", "FEASIBLE"]
    serial_us: float
    makespan_us: float
    lower_bound_us: float
    saves_us: float
    saves: float
    saves_at_most: float
    groups: int
    largest: int
    pairs: tuple[PairFound, ...] = ()
    activation_bytes_serial: int = 0
    activation_bytes: int = 0
    broken_by_reuse: int = 0


class Opportunities(Frozen):
    """The whole report; ``several`` is what more than one request at a time adds, never mixed with one request's gain.

    Without a graph (sums of a profile) ``one`` and ``pairs`` are None, and only shares are known.
    """

    schema_: Literal["hexloom.opportunities/1"] = Field(default="hexloom.opportunities/1", alias="schema")
    name: Text
    source: Literal["ggml", "onnx", "gguf", "totals"]
    machine: Text
    measured: bool
    operators: int
    total_us: float
    kinds: tuple[KindShare, ...]
    pairs: Pairs | None = None
    best_pairs: tuple[PairFound, ...] = ()
    sets: tuple[SetFound, ...] = ()
    one: Solved | None = None
    requests: int = 1
    several: Solved | None = None
    hazards: Text = ""
    verdict: Text = ""
    notes: tuple[Text, ...] = ()

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    def to_json(self) -> str:
        """Return the report as JSON."""
        return self.model_dump_json(by_alias=True, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raises pydantic.ValidationError when it is something else."""
        return cls.model_validate_json(text)
