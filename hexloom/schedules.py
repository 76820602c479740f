"""Reading schedule files for the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.periodic.check import check_periodic_schedule
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.reading import read_data, wrong_kind
from hexloom.optimizer.schedule import Schedule

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.optimizer.check import Violation


def load_schedule(source: Path) -> Schedule:
    """Return the schedule in a file; raises InvalidInputError where it holds none."""
    return schedule_from(source, read_data(source))


def load_any_schedule(source: Path) -> Schedule | PeriodicSchedule:
    """Return the schedule in a file, flat or periodic; raises InvalidInputError where it holds none."""
    data = read_data(source)
    return periodic_from(source, data) if is_periodic(data) else schedule_from(source, data)


def is_periodic(data: Any) -> bool:
    """Whether ``data`` says of itself that it is a periodic schedule."""
    return isinstance(data, dict) and str(data.get("schema", "")).startswith("hexloom.periodic_schedule/")


def periodic_from(source: Path, data: Any) -> PeriodicSchedule:
    """Return the periodic schedule that was read from ``source``; raises InvalidInputError where it is none."""
    try:
        return PeriodicSchedule.model_validate(data)
    except ValidationError as error:
        raise InvalidInputError(f"{source}: not a periodic schedule: {explain(error, PeriodicSchedule)}") from None


def violations_of(schedule: Schedule | PeriodicSchedule) -> list[Violation]:
    """Return what the checker finds."""
    if isinstance(schedule, PeriodicSchedule):
        return check_periodic_schedule(schedule)
    return check_schedule(schedule)


def schedule_from(source: Path, data: Any) -> Schedule:
    """Return the schedule that was read from ``source``; raises InvalidInputError where it is none."""
    fault = wrong_kind(data, "schedule")
    if fault is not None:
        raise InvalidInputError(f"{source}: {fault}")
    try:
        return Schedule.model_validate(data)
    except ValidationError as error:
        raise InvalidInputError(f"{source}: not a schedule: {explain(error, Schedule)}") from None
