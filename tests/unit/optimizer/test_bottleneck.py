"""What limits a schedule has the name that a user knows, and what is said of it is true."""

from __future__ import annotations

from typing import Any

import pytest

from hexloom import Result, Workload, solve
from hexloom.optimizer.bottleneck import bottleneck_of, in_words, limiting_engine
from hexloom.optimizer.schedule import BoundRow


def row(name: str, engine: str | None = None, detail: str = "", ticks: int = 9) -> BoundRow:
    return BoundRow(name=name, ticks=ticks, engine=engine, detail=detail)


@pytest.mark.parametrize(
    ("rows", "name", "words"),
    [
        ([row("heads_tails", "hmx")], "hmx", "hmx is the bottleneck"),
        ([row("configuration", "gather"), row("critical_path")], "gather", "gather is the bottleneck"),
        (
            [row("critical_path", detail="2 ops in a row from a to b")],
            "critical_path",
            "the longest chain of dependencies (2 ops in a row from a to b) is the bottleneck",
        ),
        ([row("critical_path"), row("engine_work", "hvx")], "hvx", "hvx is the bottleneck"),
        ([row("scratchpad")], "scratchpad", "the scratchpad is the bottleneck"),
        ([row("turns")], "scratchpad", "the scratchpad is the bottleneck"),
        ([row("configuration"), row("critical_path")], "several", "no engine or channel alone is the bottleneck"),
        ([row("search"), row("turns")], "scratchpad", "the scratchpad is the bottleneck"),
        ([row("search", "hvx"), row("critical_path")], "hvx", "hvx is the bottleneck"),
        ([row("search")], "several", "no engine or channel alone is the bottleneck"),
    ],
)
def test_what_limits(rows: list[BoundRow], name: str, words: str) -> None:
    assert (bottleneck_of(rows), in_words(rows)) == (name, words)


def rows_of(*rows: tuple[str, int, str | None]) -> list[BoundRow]:
    return [row(name, engine, ticks=ticks) for name, ticks, engine in rows]


@pytest.mark.parametrize(
    ("rows", "engine"),
    [
        # A little work of dma between much of hvx: hvx must work for 99 % of the least time.
        (rows_of(("heads_tails", 1000, "dma"), ("engine_work", 990, "hvx"), ("channel_bytes", 700, "dma")), "hvx"),
        (rows_of(("heads_tails", 1000, "dma"), ("engine_work", 900, "hvx"), ("channel_bytes", 800, "dma")), "dma"),
        (rows_of(("heads_tails", 1000, "hmx"), ("engine_work", 990, "hmx")), "hmx"),
        (rows_of(("heads_tails", 1000, "hmx"), ("critical_path", 999, None)), "hmx"),
        (rows_of(("engine_work", 1000, "hmx"), ("steady_interval", 999, "hvx")), "hmx"),
        (rows_of(("scratchpad", 1000, None), ("engine_work", 999, "hvx")), None),
    ],
)
def test_what_must_work_nearly_all_the_time_limits(rows: list[BoundRow], engine: str | None) -> None:
    assert limiting_engine(rows) == engine
    assert bottleneck_of(rows) == (engine or "scratchpad")


def solved(ops: list[dict[str, Any]], **keys: Any) -> Result:
    data = {"name": "t", "hw": "hexagon-v81", "tasks": [{"name": "mine", "ops": ops}], **keys}
    return solve(Workload.from_data(data), seed=1, time_limit_s=3)


def test_the_channel_of_two_independent_ops() -> None:
    """9 + 9 of 12 GB/s, 40 and 70 us: the priced bound is the best, and all that it prices passes the channel."""
    result = solved(
        [
            {"name": "a", "engine": "hvx", "duration_us": 40, "channels": {"gather": "9GB/s"}},
            {"name": "b", "engine": "hmx", "duration_us": 70, "channels": {"gather": "9GB/s"}},
        ],
        channels=[{"name": "gather", "rate_gb_s": 12}],
    )
    assert result.schedule is not None
    assert result.schedule.bounds[0].name == "configuration"
    assert result.bottleneck == "gather"
    assert result.schedule.advice is not None
    assert result.schedule.advice.reason.endswith("; gather is the bottleneck")


def test_one_op_is_no_chain() -> None:
    result = solved([{"name": "a", "engine": "hvx", "duration_us": 40}])
    assert result.schedule is not None
    assert result.schedule.advice is not None
    assert result.schedule.advice.reason.endswith("(op a alone) is the bottleneck")
