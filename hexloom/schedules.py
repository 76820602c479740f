"""Reading schedule files for the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.schedule import Schedule
from hexloom.optimizer.workload import read_data, wrong_kind

if TYPE_CHECKING:
    from pathlib import Path


def load_schedule(source: Path) -> Schedule:
    """Return the schedule in a file; raises InvalidInputError where it holds none."""
    return schedule_from(source, read_data(source))


def schedule_from(source: Path, data: Any) -> Schedule:
    """Return the schedule that was read from ``source``; raises InvalidInputError where it is none."""
    fault = wrong_kind(data, "schedule")
    if fault is not None:
        raise InvalidInputError(f"{source}: {fault}")
    try:
        return Schedule.model_validate(data)
    except ValidationError as error:
        raise InvalidInputError(f"{source}: not a schedule: {explain(error, Schedule)}") from None
