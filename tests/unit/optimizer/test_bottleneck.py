"""Which engine limits, by the bounds of a schedule."""

from __future__ import annotations

import pytest

from hexloom.optimizer.bottleneck import bottleneck_of, limiting_engine
from hexloom.optimizer.schedule import BoundRow


def bound(name: str, ticks: int, engine: str | None = None) -> BoundRow:
    return BoundRow(name=name, ticks=ticks, engine=engine, detail="")


@pytest.mark.parametrize(
    ("bounds", "engine"),
    [
        # A little work of dma between much of hvx: hvx must work for 99 % of the least time.
        ([bound("heads_tails", 1000, "dma"), bound("engine_work", 990, "hvx"), bound("channel_bytes", 7, "d")], "hvx"),
        ([bound("heads_tails", 1000, "dma"), bound("engine_work", 900, "hvx"), bound("channel_bytes", 8, "d")], "dma"),
        ([bound("heads_tails", 1000, "hmx"), bound("engine_work", 990, "hmx")], "hmx"),
        ([bound("heads_tails", 1000, "hmx"), bound("critical_path", 999)], "hmx"),
        ([bound("engine_work", 1000, "hmx"), bound("steady_interval", 999, "hvx")], "hmx"),
        ([bound("scratchpad", 1000), bound("engine_work", 999, "hvx")], None),
    ],
)  # fmt: skip
def test_what_must_work_nearly_all_the_time_limits(bounds: list[BoundRow], engine: str | None) -> None:
    assert limiting_engine(bounds) == engine
    assert bottleneck_of(bounds) == (engine or "scratchpad")
