"""The files of a sweep: one row per point and one column per thing, and a manifest of what was run."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from hexloom.optimizer.study.points import GROUPS, PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = (
    "status",
    "ops",
    *GROUPS,
    "lower_bound",
    "gap",
    "bottleneck",
    *PARTS,
    "saves",
    "together",
    "answer",
    "note",
)
"""After the number of the point and its fields; times in the unit of the input, ``saves`` and ``together`` are parts
of the existing time.
"""


def csv_text(fields: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows, in the order of the points, as CSV; what does not exist is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["point", *fields, *COLUMNS])
    for number, row in enumerate(rows):
        cells = [row["values"].get(field) for field in fields] + [row.get(column) for column in COLUMNS]
        writer.writerow([number, *("" if cell is None else cell for cell in cells)])
    return out.getvalue()


def write_parquet(path: Path, fields: Sequence[str], rows: Sequence[dict[str, Any]]) -> bool:
    """Write the same as Parquet where pyarrow is there; return whether it is."""
    if importlib.util.find_spec("pyarrow") is None:
        return False
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, list[Any]] = {"point": list(range(len(rows)))}
    for field in fields:
        columns[field] = _of_one_type([row["values"].get(field) for row in rows])
    for column in COLUMNS:
        columns[column] = _of_one_type([row.get(column) for row in rows])
    beside = path.with_name(f".{path.name}")
    pyarrow.parquet.write_table(pyarrow.table(columns), beside)
    beside.replace(path)
    return True


def _of_one_type(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1:
        return [None if value is None else str(value) for value in values]
    return values


def versions() -> dict[str, str]:
    """Return what ran: hexloom, Python, and the packages that decide about results."""
    found = {"python": platform.python_version()}
    for name in ("hexloom", "ortools", "numpy", "networkx", "pulp", "distributed", "pyarrow"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def manifest_text(
    base: dict[str, Any], asked: dict[str, Any], rows: Sequence[dict[str, Any]], files: Sequence[Path]
) -> str:
    """Return what was run, by whom, and the hashes of what came of it; no date, path or host."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    data = {
        "schema": "hexloom.sweep/1",
        "base": base,
        "asked": asked,
        "points": len(rows),
        "statuses": dict(sorted(counts.items())),
        "versions": versions(),
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files},
    }
    return json.dumps(data, indent=1) + "\n"
