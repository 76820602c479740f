"""The base of everything a user writes: closed against unknown keys, with the nearest known key named."""

from __future__ import annotations

import difflib
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from hexloom.hwmodels.quantity import exact, parse_bytes
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine


def _not_negative(value: Any) -> Fraction:
    number = exact(value)
    if number < 0:
        raise ValueError(f"must not be negative, got {value}")
    return number


def _plain_number(value: Fraction) -> int | str:
    return value.numerator if value.denominator == 1 else str(value)


Microseconds = Annotated[
    Fraction,
    BeforeValidator(_not_negative),
    PlainSerializer(_plain_number),
    WithJsonSchema({"type": ["number", "string"], "description": "microseconds, decimals are exact"}),
]
Bytes = Annotated[
    int,
    BeforeValidator(parse_bytes),
    WithJsonSchema({"type": ["integer", "string"], "description": "bytes: 65536, 0x10000 or 64KiB"}),
]
Count = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")]


class Spec(BaseModel):
    """Frozen and closed; an unknown key is an error that names the nearest known one."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys_only(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = [field.alias or name for name, field in cls.model_fields.items()]
            allowed = {*known, *cls.model_fields}
            faults = []
            for key in data:
                if key not in allowed:
                    near = difflib.get_close_matches(str(key), known, 1, 0.5)
                    near = near or [name for name in known if name.startswith(f"{key}_")][:1]
                    faults.append(f"unknown key {key!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
            if faults:
                raise ValueError("; ".join(faults))
        return data


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


def explain(error: ValidationError) -> str:
    """Return one line with every fault of ``error``: where, what, and the value."""
    lines = []
    faults = error.errors()
    for fault in faults:
        place = fault["loc"]
        if fault["type"] == "too_short" and any(
            len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in faults
        ):
            continue  # it is short only because its items are wrong, and these are named
        where = ""
        for part in fault["loc"]:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
        text = str(fault["ctx"]["error"]) if "error" in fault.get("ctx", {}) else fault["msg"]
        if fault["type"] not in ("value_error", "missing") and not isinstance(fault["input"], dict | list):
            text += f", got {fault['input']!r}"
        lines.append(f"{where}: {text}" if where else text)
    return "; ".join(line.replace("\n", " ") for line in lines)
