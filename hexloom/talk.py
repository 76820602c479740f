"""What all commands share: exit codes, how they say something beside their results, and what they ask of input.

Exit codes: 0 done and checked; 1 proven infeasible; 2 bad input; 3 limit reached with no answer; 4 a check failed.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.schedule import Schedule
from hexloom.optimizer.workload import read_data, wrong_kind

if TYPE_CHECKING:
    from pathlib import Path

DONE, INFEASIBLE, BAD_INPUT, NO_PLAN, CHECK_FAILED = range(5)

DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")


def say(message: str, code: int) -> int:
    """Say why a command ends with ``code``, in one line, and return it."""
    tell(f"hexloom: {message}".replace("\n", " "))
    return code


def tell(line: str) -> None:
    """Say something beside the results; a log that is full must not change how the run ends."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def seconds(text: str) -> float:
    """Return the seconds of a time limit as it is written on the command line."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(f"--time-limit {text!r}: write 10s, 500ms, 2m or 1h")
    return float(match[1]) * {"ms": 0.001, "s": 1, "": 1, "m": 60, "h": 3600}[match[2]]


def check_folder(folder: Path) -> None:
    """Refuse, before the search rather than after it, a folder that cannot be written."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InvalidInputError(f"--out {folder}: {there} is not a folder; name one that is, or a new one")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InvalidInputError(f"--out {folder}: {there} cannot be written; name another folder")


def load_schedule(source: Path) -> Schedule:
    """Read a schedule file."""
    return schedule_of(source, read_data(source))


def schedule_of(source: Path, data: Any) -> Schedule:
    """Return the schedule that the data of a file are."""
    fault = wrong_kind(data, "schedule")
    if fault is not None:
        raise InvalidInputError(f"{source}: {fault}")
    try:
        return Schedule.model_validate(data)
    except ValidationError as error:
        raise InvalidInputError(f"{source}: not a schedule: {explain(error, Schedule)}") from None
