"""Sums over half-open intervals ``(start, end)`` of integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Span = tuple[int, int]


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return what ``spans`` cover as intervals that do not touch, in order; empty ones cover nothing."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def length(spans: Iterable[Span]) -> int:
    """Return the sum of the lengths: what is covered twice counts twice."""
    return sum(end - start for start, end in spans)


def most_at_once(spans: Iterable[Span]) -> int:
    """Return how many of ``spans`` hold at one moment, at most."""
    steps = [(start, 1) for start, end in spans if end > start]
    steps += [(end, -1) for start, end in spans if end > start]
    most = level = 0
    for _, step in sorted(steps):
        level += step
        most = max(most, level)
    return most


def common(a: Sequence[Span], b: Sequence[Span]) -> int:
    """Return the time that two merged lists share."""
    i = j = total = 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


def clipped(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """Return the parts of ``spans`` inside ``[start, end)``."""
    cut = ((max(a, start), min(b, end)) for a, b in spans)
    return [(a, b) for a, b in cut if b > a]


def gaps(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """Return the parts of ``[start, end)`` that a merged list leaves free."""
    found: list[Span] = []
    at = start
    for a, b in clipped(spans, start, end):
        if a > at:
            found.append((at, a))
        at = max(at, b)
    return [*found, (at, end)] if at < end else found
