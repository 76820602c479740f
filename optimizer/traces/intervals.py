"""Sums over half-open intervals of integers, millions of them at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Ints = NDArray[np.int64]

_HALF = 26


def groups(keys: NDArray[Any]) -> list[tuple[int, Ints]]:
    """Return each value of ``keys`` with the positions that have it, in their order."""
    if len(keys) == 0:
        return []
    order = np.argsort(keys, kind="stable")
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    return [(int(keys[part[0]]), part) for part in np.split(order, cuts)]


def largest_groups(keys: NDArray[Any], values: Ints, most: int) -> tuple[list[Ints], int]:
    """Return the positions of the ``most`` groups of equal ``keys`` with the largest sums, and the number of groups.

    Equal sums come in the order in which their groups begin. Only what is returned becomes objects: there may be as
    many groups as events.
    """
    if len(keys) == 0:
        return [], 0
    order = np.argsort(keys, kind="stable")
    begins = np.concatenate(([0], np.flatnonzero(np.diff(keys[order])) + 1))
    high = np.add.reduceat(values[order] >> _HALF, begins)
    low = np.add.reduceat(values[order] & ((1 << _HALF) - 1), begins)
    high += low >> _HALF
    low &= (1 << _HALF) - 1
    ranked = np.lexsort((order[begins], -low, -high))[:most]
    ends = np.append(begins[1:], len(keys))
    return [order[begins[k] : ends[k]] for k in ranked.tolist()], len(begins)


class Spans(NamedTuple):
    """Intervals ``[starts, ends)``, of equal length each."""

    starts: Ints
    ends: Ints

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> Spans:
        """Return spans from ``(start, end)`` pairs."""
        both = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
        return cls(both[:, 0], both[:, 1])

    def pairs(self) -> list[tuple[int, int]]:
        """Return ``(start, end)`` pairs."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))


def total(values: Ints) -> int:
    """Return the exact sum, however large: high and low halves are added apart."""
    low = (1 << _HALF) - 1
    return (int((values >> _HALF).sum()) << _HALF) + int((values & low).sum())


def length(spans: Spans) -> int:
    """Return the sum of the lengths: what is covered twice counts twice."""
    return total(spans.ends - spans.starts)


def merged(spans: Spans) -> Spans:
    """Return what ``spans`` cover as intervals that do not touch, in order; empty ones cover nothing."""
    some = spans.ends > spans.starts
    starts, ends = spans.starts[some], spans.ends[some]
    if len(starts) == 0:
        return Spans(starts, ends)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    new = starts[1:] > ends[:-1]
    return Spans(starts[np.concatenate(([True], new))], ends[np.concatenate((new, [True]))])


def together(many: Sequence[Spans]) -> Spans:
    """Return all of several spans."""
    none = np.empty(0, np.int64)
    return Spans(
        np.concatenate([none, *(spans.starts for spans in many)]),
        np.concatenate([none, *(spans.ends for spans in many)]),
    )


def common(a: Spans, b: Spans) -> int:
    """Return the time that two merged spans share."""
    return length(a) + length(b) - length(merged(together([a, b])))


def most_at_once(spans: Spans) -> int:
    """Return how many of ``spans`` hold at one moment, at most."""
    some = spans.ends > spans.starts
    starts, ends = np.sort(spans.starts[some]), np.sort(spans.ends[some])
    if len(starts) == 0:
        return 0
    # At its start each span is the k-th to begin; those that ended by then are gone.
    return int((np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")).max())


def clipped(spans: Spans, start: int, end: int) -> Spans:
    """Return the parts of ``spans`` inside ``[start, end)``; what lies outside becomes empty."""
    starts = np.clip(spans.starts, start, end)
    return Spans(starts, np.maximum(starts, np.clip(spans.ends, start, end)))


def gaps(spans: Spans, start: int, end: int) -> Spans:
    """Return the parts of ``[start, end)`` that merged spans leave free."""
    inside = merged(clipped(spans, start, end))
    starts = np.concatenate(([start], inside.ends))
    ends = np.concatenate((inside.starts, [end]))
    some = ends > starts
    return Spans(starts[some], ends[some])
