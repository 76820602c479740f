"""The CSV format of minimalloc: a buffer per row, with its lifetime and size; packed files have a column of offsets.

Columns, in any order, the first four required: ``id``, ``lower``, ``upper``, ``size``, ``alignment``, ``gaps``,
``offset``, ``hint``. Lifetimes are half-open. As in minimalloc, ``buffer`` and ``buffer_id`` stand for ``id``,
``begin`` and ``start`` for ``lower``; ``end`` stands for ``upper`` but names the last moment alive. An offset in the
input is a pin. Gaps (times within its life when a buffer is not used) and hints are refused, empty ones are not.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Buffer
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIASES = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower", "end": "upper"}

REQUIRED = ("id", "lower", "upper", "size")

OPTIONAL = ("alignment", "gaps", "offset", "hint")

LARGEST = 2**53 - 1
"""Of any number in a file: above it one is no longer exact in JSON readers that use doubles."""


@dataclass(frozen=True)
class BufferTable:
    """The rows of a file as they were written, and what they mean; lifetimes are half-open."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    buffers: tuple[Buffer, ...]
    lifetimes: tuple[tuple[int, int], ...]

    def with_offsets(self, offsets: Sequence[int]) -> str:
        """Return the file with its rows unchanged but for the column ``offset``, which comes last if it is new."""
        columns = list(self.columns)
        if "offset" not in columns:
            columns.append("offset")
        at = columns.index("offset")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for row, offset in zip(self.rows, offsets, strict=True):
            writer.writerow([*row[:at], str(offset), *row[at + 1 :]])
        return text.getvalue()


def read_table(text: str, source: str) -> BufferTable:
    """Read a file of buffers.

    Raises
    ------
    InvalidInputError
        One line: the file, the row (the header is row 1), the column, the value, and what to write.
    """
    try:
        lines = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise InvalidInputError(f"{source}: not CSV: {error}") from None
    numbered = [(k, tuple(map(str.strip, line))) for k, line in enumerate(lines, start=1) if any(map(str.strip, line))]
    if not numbered:
        raise InvalidInputError(f"{source}: no header; write id,lower,upper,size and one row per buffer")
    header = numbered[0][1]
    names = [ALIASES.get(name, name) for name in header]
    _check_header(source, header, names)
    buffers: list[Buffer] = []
    lifetimes: list[tuple[int, int]] = []
    seen: dict[str, int] = {}
    for k, row in numbered[1:]:
        if len(row) != len(header):
            raise InvalidInputError(f"{source}: row {k} has {len(row)} values, the header {len(header)}")
        values = dict(zip(names, row, strict=True))
        where = f"{source}: row {k} ({values['id']!r})"
        if not values["id"]:
            raise InvalidInputError(f"{source}: row {k}: the id is empty; give every buffer a name of its own")
        if values["id"] in seen:
            raise InvalidInputError(f"{where}: row {seen[values['id']]} has the same id; ids must differ")
        seen[values["id"]] = k
        buffers.append(_buffer(where, values))
        lifetimes.append(_lifetime(where, values, last_named="end" in header))
    return BufferTable(header, tuple(row for _, row in numbered[1:]), tuple(buffers), tuple(lifetimes))


def _check_header(source: str, header: Sequence[str], names: Sequence[str]) -> None:
    for written, name in zip(header, names, strict=True):
        if name not in REQUIRED + OPTIONAL:
            known = ", ".join(REQUIRED + OPTIONAL)
            raise InvalidInputError(f"{source}: unknown column {written!r}; known are {known}")
        if names.count(name) > 1:
            raise InvalidInputError(f"{source}: column {name!r} is there twice; keep one")
    for name in REQUIRED:
        if name not in names:
            raise InvalidInputError(f"{source}: there is no column {name!r}; write id,lower,upper,size")


def _buffer(where: str, values: dict[str, str]) -> Buffer:
    if values.get("gaps"):
        fault = f"{where}: gaps {values['gaps']!r} are not supported; leave them empty, or split the buffer at its gaps"
        raise InvalidInputError(fault)
    if values.get("hint"):
        raise InvalidInputError(
            f"{where}: hint {values['hint']!r} is not supported; leave it empty, or pin by 'offset'"
        )
    align = _number(where, values, "alignment", least=1) if values.get("alignment") else 1
    pin = _number(where, values, "offset", least=0) if values.get("offset") else None
    if pin is not None and pin % align:
        raise InvalidInputError(f"{where}: offset {pin} is not a multiple of alignment {align}; move the pin")
    size = _number(where, values, "size", least=0)
    return Buffer(name=values["id"], size_bytes=size, align_bytes=align, address=pin)


def _lifetime(where: str, values: dict[str, str], *, last_named: bool) -> tuple[int, int]:
    lower = _number(where, values, "lower", least=-LARGEST)
    upper = _number(where, values, "upper", least=-LARGEST) + last_named
    if upper < lower:
        raise InvalidInputError(f"{where}: upper {values['upper']} is before lower {lower}; swap them")
    return lower, upper


def _number(where: str, values: dict[str, str], column: str, least: int) -> int:
    text = values[column]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise InvalidInputError(f"{where}: {column} {text[:40]!r} is not a whole number; write digits such as 4096")
    number = int(text) if len(digits) <= 20 else LARGEST + 1
    if not least <= number <= LARGEST:
        raise InvalidInputError(f"{where}: {column} {text[:40]} is not between {least} and {LARGEST}")
    return number
