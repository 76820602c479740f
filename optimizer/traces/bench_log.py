"""The kit's micro-benchmarks (`hexloom_bench.h`): what they say of a machine file, and what they do not.

``hexloom-bench NAME median_ns X low_ns Y high_ns Z`` in any log, whatever stands before it in a line.
"""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.traces.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LINE = re.compile(
    r"hexloom-bench (?P<name>[a-z_]{1,40}) median_ns (?P<median>[\d.]{1,20}) low_ns (?P<low>[\d.]{1,20})"
    r" high_ns (?P<high>[\d.]{1,20})"
)
ROW_BYTES = 576
"""Bytes of a row of its transfers; `hexloom_bench.c` says the same."""

LOOKED_THROUGH = 1 << 20
"""Characters of a file in which the first line must stand."""

DIRECT = {
    "dma_issue": "overheads.dma_issue",
    "handover_spin": "overheads.hmx_handover_spin",
    "handover_sleep": "overheads.hmx_handover_futex",
}
WHY_NOT = {
    "overheads.fork_join": "it times starting and joining a thread, not workers that wait for work",
    "overheads.event_poll": "it times no look at an event",
    "overheads.op": "it runs no op",
    "overheads.batch_entry": "it runs no batch",
    "dma.pipe_read_gb_s": "it uses one queue at a time",
    "dma.pipe_write_gb_s": "it uses one queue at a time, and reads",
}
"""What the log says nothing of, and why."""


class Measure(NamedTuple):
    """Nanoseconds per step: the middle of the rounds, and their extremes."""

    median: float
    low: float
    high: float


class Said(NamedTuple):
    """A number of the machine file as the logs say it, in its unit; ``refused`` says why it is none."""

    name: str
    value: float
    low: float
    high: float
    each: tuple[float, ...]
    refused: str = ""


def is_bench_log(path: str | Path) -> bool:
    """Whether a file is a log of the kit's micro-benchmarks."""
    source, seen = Source(path), 0
    try:
        for line in source.lines():
            seen += len(line)
            if LINE.search(line):
                return True
            if seen > LOOKED_THROUGH:
                break
    finally:
        source.close()
    return False


def read_bench_log(path: str | Path) -> dict[str, Measure]:
    """Return the measurements of a log by name; where it was run several times, the last of each.

    Raises
    ------
    InvalidInputError
        If there is none, or one whose median is outside its own extremes.
    """
    source = Source(path)
    found: dict[str, Measure] = {}
    try:
        for line in source.lines():
            match = LINE.search(line)
            if match is None:
                continue
            try:
                one = Measure(*(float(match[key]) for key in ("median", "low", "high")))
            except ValueError:
                continue
            if not 0 <= one.low <= one.median <= one.high < 1e12:
                raise InvalidInputError(
                    f"{source.name}: {match['name']} has median {one.median} outside {one.low} to {one.high}; "
                    "run it again"
                )
            found[match["name"]] = one
    finally:
        source.close()
    if not found:
        raise InvalidInputError(f"{source.name}: no line of hexloom-bench in it; give what the kit's bench prints")
    return found


def said(logs: Iterable[dict[str, Measure]]) -> list[Said]:
    """Return the numbers that logs say: the middle of their medians, between the least and the most of any round."""
    runs = list(logs)
    found = []
    for key, name in DIRECT.items():
        of = [log[key] for log in runs if key in log]
        if of:
            found.append(_of(name, [Measure(*(x / 1000 for x in one)) for one in of]))
    rows = [
        (log["dma_row"], log["dma_row_bytes_at_once"]) for log in runs if {"dma_row", "dma_row_bytes_at_once"} <= {*log}
    ]
    if rows:
        each = [
            Measure(row.median - once.median, max(0.0, row.low - once.high), max(0.0, row.high - once.low))
            for row, once in rows
        ]
        cost = _of("dma.row_ns", each)
        if cost.value <= 0:
            cost = cost._replace(
                refused="rows took no longer than their bytes at once; rounds scatter more than a row costs"
            )
        found.append(cost)
        rates = [Measure(*(ROW_BYTES / max(x, 1e-9) for x in (once.median, once.high, once.low))) for _, once in rows]
        found.append(_of("dma.queue_rate_gb_s", rates))
    return found


def _of(name: str, measures: list[Measure]) -> Said:
    value = median(one.median for one in measures)
    low, high = min(one.low for one in measures), max(one.high for one in measures)
    return Said(name, value, min(low, value), max(high, value), tuple(one.median for one in measures))
