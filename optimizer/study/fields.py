"""What a sweep varies: any field of the workload or the machine by its dotted path, and a few things beside them.

``tasks.norm.rows``, ``tasks.*.depth``, ``tasks.0.ops.2.duration_us`` lead into the workload (items of lists by
position, by ``name``, or all of them), ``vtcm.total_bytes`` or ``overheads.fork_join`` to a number of the machine,
which may also be ``low``, ``high`` or ``value``. `KNOBS` have names of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hexloom.formulations.problem import Problem
from hexloom.hwmodels import Machine, MachineFileError, load_hw
from hexloom.hwmodels.errors import did_you_mean
from hexloom.hwmodels.quantity import exact
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KNOBS = {
    "hw": "machine",
    "contention": "rule for shared channels",
    "work_ratio": "work of all tasks after the first, as a multiple of the first one's",
    "jitter": "part by which each op takes more or less than the plan was made for",
    "sync_grain": "tiles that a stage waits for at once",
}
"""Fields that are none of the workload or of the machine."""

Value = int | float | str | bool


@dataclass(frozen=True)
class Point:
    """The input of one point: what is solved, and what is done to the problem before and after."""

    work: Workload | Problem
    machine: Machine | None
    contention: str
    ratio: Fraction | None = None
    jitter: Fraction | None = None
    grain: int | None = None


def point_of(work: Workload | Problem, machine: Machine | None, contention: str, values: Mapping[str, Value]) -> Point:
    """Return the input with ``values`` in place of what it has.

    Raises
    ------
    InvalidInputError
        There is no such field, or it does not take the value.
    """
    if "hw" in values:
        machine = load_hw(str(values["hw"]))
    numbers = {} if machine is None else dict(machine.quantities())
    words = {} if machine is None else {f"behaviour.{key}": 1 for key in type(machine.behaviour).model_fields}
    of_machine = {name: value for name, value in values.items() if name in numbers or name in words}
    if of_machine:
        assert machine is not None
        try:
            machine = machine.with_values({name: _exact(value) for name, value in of_machine.items()})
        except MachineFileError as error:
            raise InvalidInputError(str(error)) from None
    of_work = {name: v for name, v in values.items() if name not in of_machine and name not in KNOBS}
    if of_work:
        data = work.model_dump(mode="json", by_alias=True)
        for name, value in of_work.items():
            path = name.split(".")
            if path[0] not in data or not list(_set(data, path, value)):
                tops = [*KNOBS, *numbers, *data]
                raise InvalidInputError(
                    f"--sweep {name}: neither the input nor the machine has such a field{did_you_mean(name, tops)}"
                )
        work = _validated(work, data, of_work)
    return Point(
        work,
        machine,
        str(values.get("contention", contention)),
        _fraction("work_ratio", values),
        _fraction("jitter", values),
        _grain(values),
    )


def _validated(work: Workload | Problem, data: Any, values: Mapping[str, Value]) -> Workload | Problem:
    if isinstance(work, Workload):
        said = ", ".join(f"{name}={value}" for name, value in values.items())
        return Workload.from_data(data, f"workload with {said}")
    try:
        return Problem.model_validate(data)
    except ValidationError as error:
        raise InvalidInputError(explain(error, Problem)) from None


def _exact(value: Value) -> Any:
    """Return numbers exactly; words as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return exact(str(value))
    except ValueError:
        return value


def _fraction(name: str, values: Mapping[str, Value]) -> Fraction | None:
    if name not in values:
        return None
    found = _exact(values[name])
    if name == "work_ratio" and (not isinstance(found, Fraction) or found <= 0):
        raise InvalidInputError(f"--sweep {name}: {values[name]!r} is no number above 0")
    if not isinstance(found, Fraction) or found < 0:
        raise InvalidInputError(f"--sweep {name}: {values[name]!r} is no part from 0 on; write 0.1 for a tenth")
    return found


def _grain(values: Mapping[str, Value]) -> int | None:
    if "sync_grain" not in values:
        return None
    found = _exact(values["sync_grain"])
    if not isinstance(found, Fraction) or found.denominator != 1 or found < 1:
        raise InvalidInputError(f"sync_grain {values['sync_grain']}: write a whole number of tiles from 1 on")
    return int(found)


def _set(data: Any, path: list[str], value: Value) -> Iterator[None]:
    """Set what ``path`` leads to; yield once per place. The last key may be missing: defaults are not written."""
    key, rest = path[0], path[1:]
    if isinstance(data, list):
        for k, item in enumerate(data):
            named = isinstance(item, dict) and key in (item.get("name"), item.get("for"))
            if key not in ("*", str(k)) and not named:
                continue
            if rest:
                yield from _set(item, rest, value)
            else:
                data[k] = value
                yield
    elif isinstance(data, dict) and not rest:
        data[key] = value
        yield
    elif isinstance(data, dict) and isinstance(data.get(key), dict | list):
        yield from _set(data[key], rest, value)
