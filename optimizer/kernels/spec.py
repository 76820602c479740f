"""The base of everything a user writes: closed against unknown keys, with the nearest known key named."""

from __future__ import annotations

import difflib
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, get_args

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
            known = _keys_of(cls)
            allowed = {*known, *cls.model_fields}
            faults = [_unknown(key, known) for key in data if key not in allowed]
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
    lines = []
    faults = error.errors()
    for fault in faults:
        if fault["type"] == "too_short" and any(
            len(other["loc"]) > len(fault["loc"]) and other["loc"][: len(fault["loc"])] == fault["loc"]
            for other in faults
        ):
            continue  # It is short because of the faults of its items.
        where = ""
        path = fault["loc"]
        unknown = fault["type"] == "extra_forbidden"
        for part in path[:-1] if unknown else path:
            where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else str(part)
        text = str(fault["ctx"]["error"]) if "error" in fault.get("ctx", {}) else fault["msg"]
        if unknown:
            at = None if model is None else _model_at(model, path[:-1])
            text = _unknown(path[-1], [] if at is None else _keys_of(at))
        elif fault["type"] not in ("value_error", "missing") and not isinstance(fault["input"], dict | list):
            text += f", got {fault['input']!r}"
        lines.append(f"{where}: {text}" if where else text)
    return "; ".join(line.replace("\n", " ") for line in lines)
