"""What all commands share: exit codes, how they say something beside their results, and what they ask of input.

Exit codes: 0 done and checked; 1 proven infeasible; 2 bad input; 3 limit reached with no answer; 4 a check failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hexloom.optimizer.check import Violation

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


def seconds(text: str, option: str = "--time-limit") -> float:
    """Return the seconds of ``option``, a time limit, as it is written on the command line."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidInputError(f"{option} {text!r}: write 10s, 500ms, 2m or 1h")
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


def tell_check(
    source: Path, violations: Sequence[Violation], done: str, on_trust: Sequence[str], *, as_json: bool
) -> int:
    """Say what a check found, ``done`` if that is nothing, and what it takes on trust; return the exit code."""
    if as_json:
        rows = [{"kind": v.kind, "parties": list(v.parties), "message": v.message} for v in violations]
        print(json.dumps({"ok": not violations, "violations": rows, "on_trust": list(on_trust)}, indent=1))
    elif not violations:
        print(done)
        for claim in on_trust:
            print(f"not checked: {claim}")
    else:
        for v in violations:
            print(f"{v.kind}: {v.message}")
        say(f"{source}: {len(violations)} violations", CHECK_FAILED)
    return CHECK_FAILED if violations else DONE
