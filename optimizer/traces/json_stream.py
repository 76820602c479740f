"""JSON files of any size, one record at a time: the elements of an array, or of the arrays at the keys of an object.

The array form of a trace may lack its closing bracket, so what is cut there is counted and the rest kept. Whatever
else is cut or malformed is an error that says where.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.numbers import NOT_A_NUMBER, decimal, integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.traces.findings import Findings
    from hexloom.optimizer.traces.source import Source

SPACE = " \t\r\n"
NO_SPACE = re.compile(r"[^ \t\r\n]")
LONGEST_RECORD = 1 << 24
"""Characters of one record of a stream."""

LONGEST_VALUE = 1 << 28
"""Characters of any other value."""

WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
NEAR_END = 16
"""A fault that close to the end of what was read may be of a record that goes on; no token but text is longer."""


def _constant(_: str) -> Any:
    return NOT_A_NUMBER


_DECODER = json.JSONDecoder(parse_float=decimal, parse_int=integer, parse_constant=_constant, strict=False)


class _CutError(Exception):
    """The file ends inside a value."""


class Record(NamedTuple):
    """One element of the array at ``key`` ("" in the array form), or (``whole``) the value of a key of the object."""

    key: str
    value: Any
    whole: bool


class Records:
    """The records of one JSON file.

    Parameters
    ----------
    source
        The file.
    streamed
        Keys of the object form whose arrays are given element by element.
    findings
        Where a cut last record is counted.
    partial
        Whether an object that is cut gives what it holds instead of an error.
    """

    def __init__(self, source: Source, streamed: tuple[str, ...], findings: Findings, *, partial: bool = False) -> None:
        self._source = source
        self._streamed = streamed
        self._findings = findings
        self._partial = partial
        self._pieces = source.text()
        self._buffer = ""
        self._at = 0
        self._before = 0
        self._given = 0

    def __iter__(self) -> Iterator[Record]:
        """Yield the records in the order of the file.

        Raises
        ------
        InvalidInputError
            If the file is no JSON, ends inside an object, or holds a value too large to be one of a trace.
        """
        first = self._peek()
        if first == "[":
            self._at += 1
            yield from self._elements("", bare=True)
        elif first == "{":
            self._at += 1
            try:
                yield from self._members()
            except _CutError:
                if not self._partial:
                    raise self._error(
                        f"the object ends in the middle, after {self._given:,} records; write the trace again, "
                        "or import what is there with --partial"
                    ) from None
                self._findings.add("incomplete", "the file ends inside its object")
                return
        else:
            raise self._error("this is not a JSON object or array")
        if self._peek():
            self._findings.add("trailing", f"{self._source.name}: at character {self._before + self._at}")

    def _members(self) -> Iterator[Record]:
        if self._must_peek() == "}":
            self._at += 1
            return
        while True:
            if self._must_peek() != '"':
                raise self._error("a name in quotes is missing")
            key = str(self._value(LONGEST_RECORD))
            if self._must_peek() != ":":
                raise self._error(f"a colon is missing after {key[:40]!r}")
            self._at += 1
            if self._must_peek() == "[" and key in self._streamed:
                self._at += 1
                yield from self._elements(key, bare=False)
            else:
                yield Record(key, self._value(LONGEST_VALUE), whole=True)
            mark = self._must_peek()
            self._at += 1
            if mark == "}":
                return
            if mark != ",":
                self._at -= 1
                raise self._error("a comma is missing between the keys of the object")

    def _elements(self, key: str, *, bare: bool) -> Iterator[Record]:
        """Yield the elements of an array whose bracket was read; ``bare``: it may end with the file."""
        while True:
            mark = self._peek() if bare else self._must_peek()
            if mark == "]":
                self._at += 1
                return
            if not mark:
                return
            if mark == ",":
                self._at += 1
                continue
            try:
                value = self._value(LONGEST_RECORD)
            except _CutError:
                if not bare:
                    raise
                self._findings.add("incomplete")
                self._at = len(self._buffer)
                return
            self._given += 1
            yield Record(key, value, whole=False)
            mark = self._peek() if bare else self._must_peek()
            if mark and mark not in ",]":
                raise self._error("a comma is missing between two records")

    def _value(self, longest: int) -> Any:
        """Decode the value that begins here."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._at)
            except json.JSONDecodeError as error:
                far = error.pos < len(self._buffer) - NEAR_END and not error.msg.startswith("Unterminated string")
                if far:
                    self._at = error.pos
                    raise self._error(error.msg[:1].lower() + error.msg[1:]) from None
                if len(self._buffer) - self._at > longest:
                    raise self._error(f"a value of more than {longest} characters") from None
                cut, after = self._is_cut(error), error.pos - self._at
                if not self._read(max(1, len(self._buffer) - self._at)):
                    if not cut:
                        self._at += after
                        raise self._error(error.msg[:1].lower() + error.msg[1:]) from None
                    raise _CutError from None
                continue
            except RecursionError:
                raise self._error("values nested too deep to be a trace") from None
            if end == len(self._buffer) and self._buffer[self._at] not in '"{[' and self._read(1):
                continue  # a number may go on
            self._at = end
            return value

    def _is_cut(self, error: json.JSONDecodeError) -> bool:
        """Whether a fault at the end of the file is that the file ends; ``NEAR_END`` holds the longest word."""
        rest = self._buffer[error.pos :].strip(SPACE)
        word = len(rest) < NEAR_END and any(text.startswith(rest) for text in WORDS)
        return word or error.msg.startswith(("Unterminated string", "Invalid \\"))

    def _read(self, least: int) -> bool:
        """Read on, dropping what was decoded; False at the end of the file."""
        left = self._buffer[self._at :]
        self._before += self._at
        self._at = 0
        got = 0
        parts = [left]
        for piece in self._pieces:
            parts.append(piece)
            got += len(piece)
            if got >= least:
                break
        self._buffer = "".join(parts)
        return got > 0

    def _peek(self) -> str:
        """Return the next character that is no space, "" at the end of the file."""
        while True:
            found = NO_SPACE.search(self._buffer, self._at)
            if found is not None:
                self._at = found.start()
                return found[0]
            self._at = len(self._buffer)
            if not self._read(1):
                return ""

    def _must_peek(self) -> str:
        found = self._peek()
        if not found:
            raise _CutError
        return found

    def _error(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"{self._source.name}: character {self._before + self._at}: {what}")


def document(source: Source, findings: Findings) -> Any:
    """Return a whole JSON file that is small enough to be read at once."""
    text: list[str] = []
    size = 0
    for piece in source.text():
        text.append(piece)
        size += len(piece)
        if size > LONGEST_VALUE:
            raise InvalidInputError(f"{source.name}: more than {LONGEST_VALUE} characters, above any summary")
    whole = "".join(text).strip(SPACE)
    try:
        value, end = _DECODER.raw_decode(whole)
    except json.JSONDecodeError as error:
        raise InvalidInputError(f"{source.name}: character {error.pos}: not JSON: {error.msg}") from None
    except RecursionError:
        raise InvalidInputError(f"{source.name}: values nested too deep to be a trace") from None
    if end < len(whole):
        findings.add("trailing", f"{source.name}: at character {end}")
    return value
