"""Standard output and error: a reader that leaves, or a log that is full, does not change how a run ends."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _Dropping(io.FileIO):
    """A file that takes no more once a write has failed, which is said unless it failed for a ``harmless`` reason."""

    def __init__(self, descriptor: int, harmless: type[OSError]) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._harmless = harmless
        self._failed = False

    def write(self, data: Any, /) -> int:
        if not self._failed:
            try:
                return super().write(data)
            except OSError as error:
                self._failed = True
                if not isinstance(error, self._harmless):
                    raise
        return memoryview(data).nbytes


def patient_streams() -> None:
    """Let this process write on when the reader of its output has left; what is said to a closed stream is not wanted.

    Without it Python, typer and rich each end the program where it stands, with a code that means something else. Of
    results only a reader that leaves is no fault; talk may be lost for any reason.
    """
    for name, harmless in (("stdout", BrokenPipeError), ("stderr", OSError)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(io.FileIO(os.devnull, "wb")), "utf-8"))
        elif stream is getattr(sys, f"__{name}__") and not stream.isatty():
            raw = io.BufferedWriter(_Dropping(stream.fileno(), harmless))
            lines = stream.line_buffering
            patient = io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=lines)
            setattr(sys, name, patient)
