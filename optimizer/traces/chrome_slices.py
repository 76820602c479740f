"""Begin and end records of a Chrome trace made to slices, as viewers nest them; what does not pair is counted."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.optimizer.traces.findings import Findings

BEGIN, END = 0, 1

DEEPEST = 256
"""Slices of a track that are open at once, and are looked through for a name."""

Slice = tuple[int, int, int]
"""(name number, start, end)."""


class Track:
    """The begin and end records of one track, in the order of the file."""

    __slots__ = ("names", "phases", "sorted", "times")

    def __init__(self) -> None:
        self.times, self.phases, self.names = array("q"), array("b"), array("q")
        self.sorted = True

    def add(self, phase: int, time: int, name: int) -> None:
        """Add a record; ``name`` is a number for its name, -1 for none."""
        if self.times and time < self.times[-1]:
            self.sorted = False
        self.times.append(time)
        self.phases.append(phase)
        self.names.append(name)

    def slices(self, findings: Findings, texts: list[str]) -> Iterator[Slice]:
        """Yield the slices: an end belongs to the innermost open begin, of its name where it states one.

        Records that are not in order of time are sorted, at one time ends before begins; records that are in order
        stay as they are, since only their order tells a slice of no length from two that touch.
        """
        order: Sequence[int] = range(len(self.times))
        if not self.sorted:
            order = sorted(order, key=lambda i: (self.times[i], self.phases[i] == BEGIN, i))
        stack: list[tuple[int, int]] = []
        for i in order:
            name, time = self.names[i], self.times[i]
            if self.phases[i] == BEGIN:
                if len(stack) >= DEEPEST:
                    left, since = stack.pop(0)
                    findings.add("unpaired_start", f"{texts[left] if left >= 0 else 'a slice'} at {since}")
                stack.append((name, time))
                continue
            depth = len(stack) - 1
            if name >= 0:
                while depth >= 0 and stack[depth][0] not in (name, -1):
                    depth -= 1
            if depth < 0:
                findings.add("unpaired_stop", f"{texts[name] if name >= 0 else 'a slice'} at {time}")
                continue
            for left, since in stack[depth + 1 :]:
                findings.add("unpaired_start", f"{texts[left] if left >= 0 else 'a slice'} at {since}")
            begun, since = stack[depth]
            del stack[depth:]
            yield begun if begun >= 0 else name, since, time
        for left, since in stack:
            findings.add("unpaired_start", f"{texts[left] if left >= 0 else 'a slice'} at {since}")


def partial_overlaps(starts: list[int], lengths: list[int]) -> int:
    """Return how many spans of one track begin inside another one and end after it.

    They are in order of start, of equal starts the longer one first. Spans that nest or are
    equal do not count.
    """
    found = 0
    stack: list[int] = []
    for start, ticks in zip(starts, lengths, strict=True):
        end = start + ticks
        while stack and stack[-1] <= start:
            stack.pop()
        if stack and end > stack[-1]:
            found += 1
            continue
        stack.append(end)
    return found
