"""The base of everything a user writes: closed against unknown keys, with the nearest known key named."""

from __future__ import annotations

import difflib
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from hexloom.formulations.configuration.certificate import RATIONAL
from hexloom.formulations.mode import FACTOR, UNIT, printable
from hexloom.formulations.problem import TICK
from hexloom.hwmodels.quantity import exact, parse_bytes, parse_rate
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from hexloom.hwmodels import Machine


LARGEST_DENOMINATOR = 999_999_999
"""Of a factor between classes of ops: what a problem holds."""


def _not_negative(value: Any) -> Fraction:
    number = exact(value)
    if number < 0:
        raise ValueError(f"must not be negative, got {value}")
    return number


def _part_of_one(value: Any) -> Fraction:
    number = exact(value)
    if not 0 < number <= 1:
        raise ValueError(f"must be above 0 and at most 1, got {value}")
    if number.denominator > LARGEST_DENOMINATOR:
        raise ValueError(
            f"as a fraction its denominator is above {LARGEST_DENOMINATOR:,}: write at most 8 decimals, or a fraction "
            f"with a smaller one, got {value}"
        )
    return number


def _plain_number(value: Fraction) -> int | str:
    return value.numerator if value.denominator == 1 else str(value)


Microseconds = Annotated[
    Fraction,
    BeforeValidator(_not_negative),
    PlainSerializer(_plain_number),
    WithJsonSchema({"type": ["number", "string"], "description": "microseconds, decimals are exact"}),
]
GigabytesPerSecond = Annotated[
    Fraction,
    BeforeValidator(_not_negative),
    PlainSerializer(_plain_number),
    WithJsonSchema({"type": ["number", "string"], "description": "10^9 bytes a second, decimals are exact"}),
]
Rate = Annotated[
    Fraction,
    BeforeValidator(parse_rate),
    PlainSerializer(lambda rate: f"{_plain_number(rate)}MB/s"),
    WithJsonSchema({"type": "string", "description": "a rate with its unit: 20GB/s or 800MB/s"}),
]
Factor = Annotated[
    Fraction,
    BeforeValidator(_part_of_one),
    PlainSerializer(_plain_number),
    WithJsonSchema({"type": ["number", "string"], "description": "above 0, at most 1: 0.85 or 17/20"}),
]
Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema({"type": ["integer", "string"], "description": "bytes: 65536, 0x10000 or 64KiB"}),
]
Count = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]
ONE_LINE = r"^[^\x00-\x1f]+$"
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=ONE_LINE), AfterValidator(printable)]
NO_BREAKS = r"^[^\x00-\x1f]*$"
ClassName = Annotated[str, Field(max_length=200, pattern=NO_BREAKS), AfterValidator(printable)]
"""What `interference` calls ops; empty for none."""


ACTIONS = ("run", "push", "wait", "signal", "barrier")
KINDS = {
    "tasks": (
        "explicit",
        "matmul_w4a16",
        "matmul_w4a8",
        "matmul_id",
        "attention",
        "gemv",
        "rmsnorm",
        "copy",
        "softmax",
        "swiglu",
        "add",
    ),
    "ops": ("op", "loop"),
    **dict.fromkeys(("prologue", "body", "epilogue"), ACTIONS),
}
"""What stands in a path of pydantic behind a position in these lists, and not in the file."""

PATTERNS = {
    ONE_LINE: "String should not hold line breaks or other control characters",
    NO_BREAKS: "String should not hold line breaks or other control characters",
    FACTOR: "should be a fraction above 0 and at most 1 of at most 9 digits above and below, such as '17/20'",
    TICK: "should be a fraction above 0, such as '1/1000'",
    UNIT: "should be a fraction above 0 of at most 19 digits above and below, such as '1/1000'",
    RATIONAL: "should be a fraction of at least 0, such as '3/4'",
    r"^[a-z]\w*$": "should be a small letter, and letters, digits or _ after it",
    r"^[A-Za-z_]\w*$": "should be a letter or _, and letters, digits or _ after it",
}
"""What a string that must match one of these should be."""

MOST_FAULTS = 10
"""Faults named in one message."""

LONGEST_VALUE = 60
"""Characters of a wrong value shown."""


class Spec(BaseModel):
    """Frozen and closed; an unknown key is an error that names the nearest known one."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = _keys_of(cls)
            allowed = {*known, *cls.model_fields}
            faults = [_unknown(key, known) for key in data if key not in allowed]
            if faults:
                raise ValueError("; ".join(faults))
        return data


class LastTile(NamedTuple):
    """What the last iteration of a loop counts in: how many it has, how many all others have, and how far apart."""

    counts: Literal["rows", "columns"]
    have: int
    whole: int
    step: int


class KernelSpec(Spec):
    """A task of the workload; many are loops over equal tiles."""

    def iterations(self, machine: Machine) -> int | None:
        """Return how often the loop of the task runs on ``machine``, None where it is not one loop."""
        return None

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the same task with so many ``iterations``, of which the last is that of the whole task."""
        raise NotImplementedError(f"{type(self).__name__} is not one loop")

    def last_tile(self, machine: Machine) -> LastTile | None:
        """Return what there is in the last iteration of the loop; None where it cannot be shorter than the others."""
        return None

    def with_last_tile(self, machine: Machine, count: int) -> Self:
        """Return the same task with so many rows or columns in its last iteration."""
        raise NotImplementedError(f"the last iteration of {type(self).__name__} is as long as the others")


def workers_of(machine: Machine, task: str, wanted: int | None) -> int:
    """Return how many HVX workers a task gets: what it asks for, else all.

    Raises
    ------
    InvalidInputError
        It asks for more than the machine has.
    """
    have = machine.hvx_contexts
    if wanted is not None and wanted > have:
        raise InvalidInputError(
            f"task {task!r}: workers = {wanted}, but {machine.name} has {have} HVX contexts; use at most {have}"
        )
    return have if wanted is None else wanted


def _keys_of(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _unknown(key: Any, known: list[str]) -> str:
    near = difflib.get_close_matches(str(key), known, 1, 0.5)
    near = near or [name for name in known if name.startswith(f"{key}_")][:1]
    return f"unknown key {key!r}" + (f" (did you mean {near[0]!r}?)" if near else "")


def _model_at(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel] | None:
    """Return the model that ``path``, keys and positions from ``model`` on, leads to."""
    found: type[BaseModel] | None = model
    for key in path:
        if isinstance(key, int) or found is None:
            continue
        fields = {field.alias or name: field for name, field in found.model_fields.items()}
        found = _model_in(fields[key].annotation) if key in fields else None
    return found


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Return one line with every fault of ``error``: where, what, and the value.

    ``model`` is what was validated, where it is no `Spec`: its keys are then offered for unknown ones.
    """
    said: dict[str, list[str]] = {}
    got: dict[str, str] = {}
    faults = error.errors()
    for fault in faults:
        if fault["type"] == "too_short" and any(
            len(other["loc"]) > len(fault["loc"]) and other["loc"][: len(fault["loc"])] == fault["loc"]
            for other in faults
        ):
            continue  # It is short because of the faults of its items.
        path = fault["loc"]
        unknown = fault["type"] == "extra_forbidden"
        text = str(fault["ctx"]["error"]) if "error" in fault.get("ctx", {}) else _plain(fault)
        if path[-1:] == ("[key]",):
            path, text = path[:-2], re.sub("^(String|Input) ", "a name in it ", text)
        where = _place(path[:-1] if unknown else path)
        if unknown:
            at = None if model is None else _model_at(model, path[:-1])
            text = _unknown(path[-1], [] if at is None else _keys_of(at))
        elif fault["type"] not in ("value_error", "missing") and not isinstance(fault["input"], dict | list):
            value = repr(fault["input"])
            got[where] = f", got {value if len(value) <= LONGEST_VALUE else value[:LONGEST_VALUE] + '...'}"
        if text not in said.setdefault(where, []):
            said[where].append(text)
    lines = []
    for where, texts in said.items():
        joined = (" or " if where in got else "; ").join(texts) + got.get(where, "")
        lines.append(f"{where}: {joined}" if where else joined)
    if len(lines) > MOST_FAULTS:
        lines[MOST_FAULTS:] = [f"and {len(lines) - MOST_FAULTS} more faults"]
    return "; ".join(line.replace("\n", " ") for line in lines)


def _place(path: tuple[int | str, ...]) -> str:
    """Return where in the file ``path`` leads, without what only says which kind of task, op or number was tried."""
    where = ""
    for k, part in enumerate(path):
        if isinstance(part, int):
            where += f"[{part}]"
            continue
        tried = k > 1 and isinstance(path[k - 1], int) and part in KINDS.get(str(path[k - 2]), ())
        if tried or part.startswith(("constrained-", "literal[")):
            continue
        where += "['']" if not part else f".{part}" if where else part
    return where


def _plain(fault: ErrorDetails) -> str:
    """Return what pydantic says in words of the file rather than of Python."""
    if fault["type"] == "string_pattern_mismatch" and fault["ctx"]["pattern"] in PATTERNS:
        return PATTERNS[fault["ctx"]["pattern"]]
    text = str(fault["msg"]).replace("a valid tuple", "a list").replace("Tuple should", "List should")
    return re.sub(r"a valid dictionary or instance of \w+", "keys and values", text)
