"""What an importer could not take as it stands: counted by kind, with the first example of each."""

from __future__ import annotations

from typing import Literal

from hexloom.formulations.problem import Frozen

Code = Literal[
    "incomplete",
    "malformed",
    "rejected",
    "unpaired_start",
    "unpaired_stop",
    "saturated",
    "dropped",
    "overlap",
    "outside",
    "clock",
    "limit",
    "trailing",
    "duplicate",
    "ignored",
    "bounds",
    "cold",
]

WORDS: dict[Code, tuple[str, str]] = {
    "incomplete": ("incomplete record dropped", "incomplete records dropped"),
    "malformed": ("malformed record dropped", "malformed records dropped"),
    "rejected": (
        "record without a usable time is not counted",
        "records without a usable time are not counted",
    ),
    "unpaired_start": ("start without a stop, not counted", "starts without a stop, not counted"),
    "unpaired_stop": ("stop without a start, not counted", "stops without a start, not counted"),
    "saturated": ("thread filled its trace buffer", "threads filled their trace buffer"),
    "dropped": ("record was dropped by the recorder", "records were dropped by the recorder"),
    "overlap": (
        "event overlaps its neighbour on one track without nesting",
        "events overlap their neighbours on one track without nesting",
    ),
    "outside": ("span belongs to no op", "spans belong to no op"),
    "clock": ("clock does not fit the others", "clocks do not fit the others"),
    "limit": ("value lies beyond what is kept", "values lie beyond what is kept"),
    "trailing": ("piece of text after the end is ignored", "pieces of text after the end are ignored"),
    "duplicate": ("copy of another record is left out", "copies of other records are left out"),
    "ignored": ("record says nothing about time", "records say nothing about time"),
    "bounds": (
        "transfer ends when it was observed: an upper bound",
        "transfers end when they were observed: upper bounds",
    ),
    "cold": ("first run apart", "first runs apart"),
}

BY_DESIGN: frozenset[Code] = frozenset({"duplicate", "ignored", "bounds", "cold"})
"""What the format is known to hold; all else is a warning."""


class Finding(Frozen):
    """``count`` records of one kind, and the first of them in words."""

    code: Code
    count: int
    example: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        one, many = WORDS[self.code]
        more = f" ({self.example})" if self.example else ""
        return f"{self.count:,} {one if self.count == 1 else many}{more}"


class Findings:
    """Counts while a file is read."""

    def __init__(self) -> None:
        self._found: dict[Code, tuple[int, str]] = {}

    def add(self, code: Code, example: str = "", count: int = 1) -> None:
        """Count records of one kind; the first example is kept, on one line and short."""
        before, first = self._found.get(code, (0, ""))
        if not first and example:
            first = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(example.split()))[:160]
        self._found[code] = before + count, first

    def count(self, code: Code) -> int:
        """Return how many records of one kind were counted."""
        return self._found.get(code, (0, ""))[0]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What a reader must know before believing the numbers."""
        return tuple(f for f in self._rows() if f.code not in BY_DESIGN)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What is usual in the format."""
        return tuple(f for f in self._rows() if f.code in BY_DESIGN)

    def _rows(self) -> list[Finding]:
        rows = (Finding(code=code, count=n, example=text) for code, (n, text) in self._found.items() if n)
        return sorted(rows, key=lambda f: list(WORDS).index(f.code))
