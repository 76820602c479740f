"""The file of a stream that must answer in time: its kernels, what may fill in, and what pairs of them take together.

All times become whole nanoseconds; what is not whole is refused, so that no headroom is ever rounded.
"""

from __future__ import annotations

import random
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from hexloom.formulations.mode import Text
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import Count, Microseconds, Name, Spec, explain
from hexloom.optimizer.reading import wrong_kind
from hexloom.optimizer.workload import Task

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_QUERIES = 1_000_000


class StreamKernel(Spec):
    """A kernel of every query: what it takes alone, or a task of a workload that is solved for it."""

    name: Name
    duration_us: Microseconds | None = None
    task: Task | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.duration_us is None) == (self.task is None):
            raise ValueError(f"kernel {self.name!r}: write duration_us or task, one of them")
        if self.duration_us == 0:
            raise ValueError(f"kernel {self.name!r}: duration_us must be above 0")
        return self


class Filler(StreamKernel):
    """Work of lower rank, as much of it as there is room for.

    It is a loop of ``iterations`` equal ones; a part of them can be taken along, and the rest comes later.
    """

    iterations: Count = 1


class Pair(Spec):
    """What a kernel of the stream takes together with a filler: in all, or by how many iterations are taken along."""

    stream: Name
    filler: Name
    fused_us: Microseconds | None = None
    points: dict[int, Microseconds] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.fused_us is None) == (not self.points):
            raise ValueError(f"pair {self.stream!r} and {self.filler!r}: write fused_us or points, one of them")
        if any(taken < 1 for taken in self.points):
            raise ValueError(f"pair {self.stream!r} and {self.filler!r}: points begin at 1 iteration")
        return self


class Arrivals(Spec):
    """``count`` queries, one every ``every_us``; with a ``seed`` at random, at that rate on average."""

    count: Annotated[int, Field(ge=1, le=MOST_QUERIES, strict=True)]
    every_us: Annotated[Microseconds, Field(gt=0)]
    seed: int | None = None


class Qos(Spec):
    """Queries of ``stream``, each due ``deadline_us`` after it arrives; ``guard_us`` of that is never given away."""

    schema_: Literal["hexloom.qos/1"] = Field(default="hexloom.qos/1", alias="schema")
    name: Name
    title: Text = ""
    hw: Name | None = None
    deadline_us: Annotated[Microseconds, Field(gt=0)]
    guard_us: Microseconds = Fraction(0)
    stream: tuple[StreamKernel, ...] = Field(min_length=1)
    fillers: tuple[Filler, ...] = Field(min_length=1)
    pairs: tuple[Pair, ...] = ()
    arrivals_us: tuple[Microseconds, ...] = ()
    arrivals: Arrivals | None = None

    @model_validator(mode="after")
    def _names_hold(self) -> Self:
        kernels, fillers = ({of.name for of in group} for group in (self.stream, self.fillers))
        if len(fillers) < len(self.fillers):
            raise ValueError("two fillers have one name; names must differ")
        for pair in self.pairs:
            if pair.stream not in kernels or pair.filler not in fillers:
                raise ValueError(f"pair {pair.stream!r} and {pair.filler!r}: there is no such kernel or filler")
        if bool(self.arrivals_us) == (self.arrivals is not None):
            raise ValueError("write arrivals_us or arrivals, one of them")
        if list(self.arrivals_us) != sorted(self.arrivals_us):
            raise ValueError("arrivals_us must not go back in time")
        return self

    @classmethod
    def from_data(cls, data: Any, source: str = "qos") -> Qos:
        """Validate plain data; ``source`` names it in errors.

        Raises
        ------
        InvalidInputError
            One line with every fault.
        """
        if not isinstance(data, dict):
            raise InvalidInputError(f"{source}: expected keys and values")
        fault = wrong_kind(data, "qos")
        if fault is not None:
            raise InvalidInputError(f"{source}: {fault}")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidInputError(f"{source}: {explain(error)}") from None


def whole_ns(us: Fraction, what: str) -> int:
    """Return nanoseconds.

    Raises
    ------
    InvalidInputError
        They are not whole.
    """
    ns = us * 1000
    if ns.denominator != 1:
        raise InvalidInputError(f"{what}: {float(us):g} us is no whole number of nanoseconds; round it")
    return int(ns)


def arrival_times(spec: Qos) -> tuple[int, ...]:
    """Return when every query arrives, in nanoseconds, ascending."""
    if spec.arrivals is None:
        return tuple(whole_ns(us, "arrivals_us") for us in spec.arrivals_us)
    every = whole_ns(spec.arrivals.every_us, "arrivals.every_us")
    if spec.arrivals.seed is None:
        return tuple(k * every for k in range(spec.arrivals.count))
    draw = random.Random(spec.arrivals.seed)
    return tuple(_running(round(draw.expovariate(1 / every)) for _ in range(spec.arrivals.count)))


def _running(steps: Iterable[int]) -> Iterable[int]:
    total = 0
    for step in steps:
        total += step
        yield total
