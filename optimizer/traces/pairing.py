"""Starts and stops of one key made to spans; what finds no partner is counted, never guessed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hexloom.optimizer.traces.findings import Findings

Key = tuple[int, str, int]
"""(thread, event, info)."""


class Edge(NamedTuple):
    """One end of a span.

    A queue hands over in order, so its stops belong to the oldest open start; other work of one thread nests, and an
    older start that is still open has lost its stop.
    """

    key: Key
    stops: bool
    at: int
    first_in_first_out: bool = True


def paired(edges: Iterable[Edge], findings: Findings) -> list[tuple[Key, int, int]]:
    """Return ``(key, start, end)`` of all pairs, in order of their stops."""
    opened: dict[Key, deque[int]] = {}
    found: list[tuple[Key, int, int]] = []
    for edge in edges:
        waiting = opened.setdefault(edge.key, deque())
        if not edge.stops:
            waiting.append(edge.at)
            continue
        if not waiting:
            findings.add("unpaired_stop", _words(edge.key, edge.at))
            continue
        start = waiting.popleft() if edge.first_in_first_out else waiting.pop()
        if edge.at < start:
            findings.add("rejected", f"{_words(edge.key, start)} stops {start - edge.at} before it starts")
            continue
        found.append((edge.key, start, edge.at))
    for key, waiting in opened.items():
        for at in waiting:
            findings.add("unpaired_start", _words(key, at))
    return found


def _words(key: Key, at: int) -> str:
    thread, event, info = key
    return f"{event} info {info} of thread {thread} at {at}"
