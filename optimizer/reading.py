"""Reading files of hexloom into plain data, with errors of one line that say where."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import yaml

from hexloom.hwmodels.plain_data import PlainLoader, extent_fault, unreadable
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

LONGEST_FLOW_YAML = 100_000
"""Characters up to which text that begins like JSON, and is none, is tried as YAML."""

READERS = {
    "workload": "`hexloom solve` reads it",
    "problem": "`hexloom solve` reads it",
    "schedule": "`hexloom check` reads it",
    "periodic_schedule": "`hexloom check`, `emit`, `run`, `report` and `compare` read it",
    "pipeline": "`hexloom check` reads it",
    "machine": "give it as --hw",
    "qos": "`hexloom qos` reads it",
    "study": "a report; nothing reads it again",
    "comparison": "a report; nothing reads it again",
    "opportunities": "a report; nothing reads it again",
    "qos_report": "a report; nothing reads it again",
    "robustness": "a report; nothing reads it again",
    "trace_summary": "a report; nothing reads it again",
    "what_if": "`hexloom report` reads it, with --what-if",
    "infeasibility": "`hexloom report` reads it",
    "durations": "`hexloom solve` reads it, with --robust",
    "trace": "`hexloom compare` and `hexloom calibrate` read it",
    "tables": "the side-car of C tables; give the schedule.json that they come from",
}


def wrong_kind(data: Any, wanted: str) -> str | None:
    """Return what ``data`` is where its schema says that it is another file of hexloom than ``wanted``."""
    schema = data.get("schema") if isinstance(data, dict) else None
    kind = schema.removeprefix("hexloom.").partition("/")[0] if isinstance(schema, str) else ""
    if kind == wanted or kind not in READERS:
        return None
    what = f"file of {kind}" if kind.endswith("s") or kind[0] in "aeiou" else kind
    return f"this is a {what}, not a {wanted}: {READERS[kind]}"


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse in JSON what `_UniqueKeys` refuses in YAML."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for k, (key, _) in enumerate(pairs) if any(key == earlier for earlier, _ in pairs[:k]))
        raise ValueError(f"key {twice!r} is written twice")
    return found


def read_data(path: Path) -> Any:
    """Read YAML or JSON from ``path`` (``-``: standard input) into plain data; one-line errors."""
    text = read_text(path)
    try:
        if path.suffix == ".json":
            return _flat(json.loads(text, object_pairs_hook=_unique_keys), path)
        if text.lstrip().startswith("{"):
            # JSON without a name, such as a schedule from a pipe; the YAML reader would take minutes for it.
            short = len(text) <= LONGEST_FLOW_YAML
            with contextlib.suppress(*[json.JSONDecodeError] if short else []):
                return _flat(json.loads(text, object_pairs_hook=_unique_keys), path)
        return _flat(yaml.load(text, Loader=PlainLoader), path)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{path}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        raise InvalidInputError(f"{path}: not YAML{where}: {what}") from None
    except InvalidInputError:
        raise
    except (RecursionError, ValueError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {unreadable(error)}") from None


def read_text(path: Path) -> str:
    """Read ``path`` (``-``: standard input) as UTF-8; one-line errors."""
    if str(path) == "-" and sys.stdin is None:
        raise InvalidInputError("-: standard input is closed")
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}: cannot be read: {unreadable(error)}") from None
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    return text.removeprefix("\ufeff")


def _flat(data: Any, path: Path) -> Any:
    fault = extent_fault(data)
    if fault is not None:
        raise InvalidInputError(f"{path}: {fault}")
    return data
