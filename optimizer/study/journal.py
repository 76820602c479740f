"""The log of a sweep: one line per finished point, appended and never changed, so that a kill loses no finished one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import TYPE_CHECKING, Any, Self

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.study.points import as_line

if TYPE_CHECKING:
    from pathlib import Path

NAME = "points.jsonl"


class Journal:
    """The log in one folder, held by one sweep at a time.

    The first line says what all points begin with. A last line that was cut while it was written is dropped.

    Raises
    ------
    InvalidInputError
        Another sweep writes there, what lies there is of other work, or the disk is full.
    """

    def __init__(self, folder: Path, base: dict[str, Any]) -> None:
        self.path = folder / NAME
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            self.rows = self._read(base)
        except BaseException:
            os.close(self._file)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InvalidInputError(
                f"{self.path}: another sweep writes there; wait for it, or name another folder"
            ) from None

    def _read(self, base: dict[str, Any]) -> dict[str, dict[str, Any]]:
        text = self.path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            os.ftruncate(self._file, whole)
        lines = text[:whole].splitlines()
        if not lines:
            self._write(as_line({"base": base}))
            return {}
        try:
            found = [json.loads(line) for line in lines]
            head, rows = found[0]["base"], {row["key"]: row for row in found[1:]}
        except (ValueError, KeyError, TypeError):
            raise InvalidInputError(f"{self.path}: this is no log of a sweep; name another folder") from None
        if head != base:
            other = ", ".join(sorted(key for key in {*head, *base} if head.get(key) != base.get(key)))
            raise InvalidInputError(
                f"{self.path}: points of another sweep lie there ({other} differ); name another folder"
            )
        return rows

    def append(self, row: dict[str, Any]) -> None:
        """Write a row, and return when it is on the disk."""
        self._write(as_line(row))
        self.rows[row["key"]] = row

    def _write(self, line: str) -> None:
        data = line.encode()
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise InvalidInputError(
                f"{self.path}: {error.strerror or error}; what is finished is kept: make room, and run the same again"
            ) from None
        with contextlib.suppress(OSError):  # a pipe or a special file system has nothing to sync
            os.fsync(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
