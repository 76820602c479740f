"""Bytes and text of a trace file: plain or gzip in any number of members, a piece at a time, with progress."""

from __future__ import annotations

import codecs
import shutil
import sys
import tempfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hexloom.optimizer.traces.findings import Findings

PIECE = 1 << 18
"""Bytes that are read at once."""

LONGEST_LINE = 1 << 20
"""Characters of a line that are looked at; no format has longer ones."""

GZIP = b"\x1f\x8b"
OTHER_MAGIC = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd; unpack it first",
    b"BZh": "bzip2; unpack it first",
    b"\xfd7zXZ": "xz; unpack it first",
    b"SQLite format 3": "a database",
    b"\x7fELF": "a program",
}


class Source:
    """A trace file that can be read more than once.

    Parameters
    ----------
    path
        File; "-" is standard input, which is copied to a temporary file first.
    on_progress
        Called with bytes read and bytes in all, now and then.
    """

    def __init__(self, path: str | Path, on_progress: Callable[[int, int], None] | None = None) -> None:
        self.name = str(path)
        self._on_progress = on_progress
        self._copy: IO[bytes] | None = None
        if self.name == "-":
            self.name = "standard input"
            self._copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
            shutil.copyfileobj(sys.stdin.buffer, self._copy)
        self._path = Path(path)
        self.was_cut = False

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the file, unpacked; ``was_cut`` afterwards says that a packed file ended too early.

        Raises
        ------
        InvalidInputError
            If the file cannot be read, or is packed in a way that is not known.
        """
        try:
            yield from self._unpacked()
        except OSError as error:
            raise InvalidInputError(f"{self.name}: {error.strerror or error}") from None

    def _raw(self) -> Iterator[bytes]:
        file = self._copy or self._path.open("rb")
        try:
            file.seek(0, 2)
            total = file.tell()
            file.seek(0)
            done = 0
            while piece := file.read(PIECE):
                done += len(piece)
                yield piece
                if self._on_progress is not None:
                    self._on_progress(done, total)
        finally:
            if file is not self._copy:
                file.close()

    def _unpacked(self) -> Iterator[bytes]:
        raw = self._raw()
        head = next(raw, b"")
        for magic, what in OTHER_MAGIC.items():
            if head.startswith(magic):
                raise InvalidInputError(f"{self.name}: this is {what}; give the trace itself")
        self.was_cut = False
        if not head.startswith(GZIP):
            yield head
            yield from raw
            return
        inflate = zlib.decompressobj(31)
        data = head
        while True:
            try:
                out = inflate.decompress(data, PIECE)
            except zlib.error as error:
                raise InvalidInputError(f"{self.name}: damaged gzip data: {error}") from None
            if out:
                yield out
            if inflate.eof:
                data = inflate.unused_data.lstrip(b"\0") or next(raw, b"").lstrip(b"\0")
                if not data or data[:1] != GZIP[:1]:  # padding, or what somebody appended
                    return
                inflate = zlib.decompressobj(31)  # the next member
                continue
            data = inflate.unconsumed_tail or (b"" if out else next(raw, b""))
            if not data and not out:
                self.was_cut = True
                return

    def text(self) -> Iterator[str]:
        """Yield the text of the file: UTF-8, or UTF-16 where it begins so; what is no text becomes U+FFFD."""
        decoder: codecs.IncrementalDecoder | None = None
        for piece in self.pieces():
            if decoder is None:
                wide = piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                decoder = codecs.getincrementaldecoder("utf-16" if wide else "utf-8-sig")("replace")
            text = decoder.decode(piece)
            if text:
                yield text
        if decoder is not None and (text := decoder.decode(b"", final=True)):
            yield text

    def lines(self, findings: Findings | None = None) -> Iterator[str]:
        """Yield the lines of the file without their ends; longer ones than `LONGEST_LINE` are cut, and counted."""
        left: list[str] = []
        held = 0
        for piece in self.text():
            *whole, rest = piece.replace("\r\n", "\n").split("\n")
            for line in whole:
                full = "".join([*left, line])
                left, held = [], 0
                yield self._fitted(full, findings)
            if held < LONGEST_LINE:
                left.append(rest)
            held += len(rest)
        if left and any(left):
            yield self._fitted("".join(left), findings)

    def _fitted(self, line: str, findings: Findings | None) -> str:
        if len(line) > LONGEST_LINE:
            if findings is not None:
                findings.add("limit", f"a line of more than {LONGEST_LINE} characters")
            line = line[:LONGEST_LINE]
        return line.rstrip("\r")

    def close(self) -> None:
        """Forget the copy of standard input."""
        if self._copy is not None:
            self._copy.close()
