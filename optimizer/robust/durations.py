"""How durations scatter: `hexloom.durations/1`, ranges or samples, as parts of what is predicted."""

from __future__ import annotations

import fnmatch
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, model_validator

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import Frozen
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.reading import read_data, wrong_kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hexloom.formulations.problem import Op, Problem

LEAST, MOST = 0.05, 20.0
"""A duration between a twentieth of what is predicted and twenty times it: beyond, the prediction is another one."""

MOST_SAMPLES = 100_000
PERCENT = re.compile(r"(?:±|\+-|\+/-)?\s*(\d{1,9}(?:\.\d+)?)\s*%")

Part = Annotated[float, Field(ge=LEAST, le=MOST, allow_inf_nan=False)]


class Spread(Frozen):
    """The durations of some ops, as parts of what is predicted: 1.1 is a tenth longer.

    ``ops`` is a pattern of names of ops, or of ``task/stage``. They scatter evenly in ``range``, or are drawn from
    ``samples``; each op by itself, or all of the row together where ``per`` is ``run`` (a clock, a throttled memory).
    """

    ops: Text = "*"
    range: tuple[Part, Part] | None = None
    samples: tuple[Part, ...] | None = Field(default=None, min_length=2, max_length=MOST_SAMPLES)
    per: Literal["op", "run"] = "op"

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.range is None) == (self.samples is None):
            raise ValueError(f"row {self.ops!r}: give either range or samples")
        if self.range is not None and self.range[0] > self.range[1]:
            raise ValueError(f"row {self.ops!r}: range {self.range[0]} to {self.range[1]} goes down; swap its ends")
        return self

    def draw(self, source: np.random.Generator, count: int, ops: int) -> NDArray[np.float64]:
        """Return ``count`` x ``ops`` parts."""
        shape = (count, ops if self.per == "op" else 1)
        if self.samples is not None:
            found = source.choice(np.array(self.samples), size=shape)
        else:
            assert self.range is not None
            found = source.uniform(*self.range, size=shape)
        return np.broadcast_to(found, (count, ops))


class Durations(Frozen):
    """Rows; several that fit an op all act on it, as a clock for all beside a scatter of its own. Others are exact."""

    schema_: Literal["hexloom.durations/1"] = Field(default="hexloom.durations/1", alias="schema")
    source: Text = ""
    rows: tuple[Spread, ...] = Field(min_length=1)

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    @classmethod
    def of(cls, text: str) -> Durations:
        """Return what ``text`` says: ``10%`` for each op by itself, or the name of a file.

        Raises
        ------
        InvalidInputError
            It is neither, or the file is none of durations.
        """
        match = PERCENT.fullmatch(text.strip())
        if match is not None:
            part = float(match[1]) / 100
            if not 0 < part <= 1 - LEAST:
                raise InvalidInputError(f"durations {text!r}: write more than 0 % and at most {1 - LEAST:.0%}")
            return cls(source=f"each op within {match[1]} %", rows=(Spread(range=(1 - part, 1 + part)),))
        if not text.strip() or text.strip().endswith("%"):
            raise InvalidInputError(f"durations {text!r}: write 10%, or the name of a file of hexloom.durations/1")
        if PERCENT.fullmatch(f"{text.strip()}%") is not None and not Path(text).exists():
            raise InvalidInputError(
                f"durations {text!r}: there is no such file; write {text.strip()}% for a percentage"
            )
        return cls.from_data(read_data(Path(text)), text)

    @classmethod
    def from_data(cls, data: Any, source: str = "durations") -> Durations:
        """Validate plain data; ``source`` names it in errors."""
        if (fault := wrong_kind(data, "durations")) is not None:
            raise InvalidInputError(f"{source}: {fault}")
        if not isinstance(data, dict):
            raise InvalidInputError(f"{source}: expected keys and values of hexloom.durations/1, or 10%")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise InvalidInputError(f"{source}: {explain(error, cls)}") from None

    def to_json(self) -> str:
        """Return the file."""
        return self.model_dump_json(by_alias=True, indent=1, exclude_none=True) + "\n"

    def factors(self, problem: Problem, count: int, seed: int) -> NDArray[np.float64]:
        """Return for ``count`` runs, a row each, the parts of all ops of ``problem``, in its order.

        The same seed gives the same runs, whatever plan they are asked for: common random numbers.

        Raises
        ------
        InvalidInputError
            If a row fits no op, or several of them make an op endless.
        """
        found = np.ones((count, len(problem.ops)))
        source = np.random.default_rng(seed)
        for row in self.rows:
            mine = [i for i, op in enumerate(problem.ops) if _fits(row.ops, op)]
            if not mine:
                stages = sorted({_stage(op) for op in problem.ops})
                raise InvalidInputError(
                    f"durations: no op fits {row.ops!r}; stages here are {', '.join(stages[:8])}"
                    + (f" and {len(stages) - 8} more" if len(stages) > 8 else "")
                )
            found[:, mine] *= row.draw(source, count, len(mine))
        return np.clip(found, LEAST**2, MOST**2)


def _stage(op: Op) -> str:
    return f"{op.task}/{op.stage}"


def _fits(pattern: str, op: Op) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in (op.name, _stage(op)))


def p95(values: NDArray[np.float64]) -> float:
    """Return the 95th percentile: the smallest value that at least 95 % of all are not above."""
    ordered = np.sort(values)
    return float(ordered[max(0, math.ceil(0.95 * len(ordered)) - 1)])
