"""What the outputs say where ops share channels: two ops of 6 and 3 us that want 60 of 100 bytes/us each."""

from __future__ import annotations

import io
import json
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from hexloom import solve
from hexloom.emit.files import write_tables
from hexloom.emit.gantt import gantt_svg
from hexloom.emit.lanes import View
from hexloom.emit.summary import result_numbers, summary
from hexloom.emit.timeline import timeline_json
from hexloom.formulations.problem import Channel, Engine, Mode, Op, Problem, Pull, Use
from hexloom.optimizer.schedule import Gain

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom import Result, Schedule

PULLS = (Pull(channel="bus", rate=60),)


def op(engine: str, ticks: int) -> Op:
    mode = Mode(uses=(Use(engine=engine, ticks=ticks),), latency_ticks=ticks, pulls=PULLS)
    return Op(name=engine, task=f"task of {engine}", stage="stream", modes=(mode,))


PROBLEM = Problem(
    name="two",
    tick_us="1",
    engines=(Engine(name="v"), Engine(name="w")),
    channels=(Channel(name="bus", capacity=100),),
    ops=(op("v", 6), op("w", 3)),
)


@pytest.fixture(scope="module")
def shared() -> Result:
    """Both at 5/6 of their speed until the short one ends at 3.6; the long one has done 3 of 6 and ends at 6.6."""
    result = solve(PROBLEM, seed=1, time_limit_s=1)
    assert (result.status, result.makespan_us) == ("OPTIMAL", Fraction(33, 5))
    return result


def schedule_of(result: Result) -> Schedule:
    assert result.schedule is not None
    return result.schedule


def test_what_is_served_over_time(shared: Result) -> None:
    assert View(schedule_of(shared)).served() == {"bus": [(0, 100), (Fraction(18, 5), 60), (Fraction(33, 5), 0)]}
    ignored = schedule_of(solve(PROBLEM, contention="none", seed=1))
    assert View(ignored).served() == {"bus": [(0, 120), (3, 60), (6, 0)]}


def test_the_timeline_counts_what_is_served_beside_the_capacity(shared: Result) -> None:
    events = json.loads(timeline_json(schedule_of(shared)))["traceEvents"]
    counter = [(e["ts"], e["args"]) for e in events if e["ph"] == "C" and e["name"] == "bus, bytes/us"]
    assert counter == [
        (0, {"served": 100, "capacity": 100}),
        (3.6, {"served": 60, "capacity": 100}),
        (6.6, {"served": 0, "capacity": 100}),
    ]


def test_the_summary_says_both_gaps_and_what_contention_costs(shared: Result) -> None:
    out = io.StringIO()
    Console(file=out, width=300, color_system=None).print(summary(shared, {}))
    lines = {line.split()[0]: line for line in out.getvalue().splitlines()}
    assert "reached: no schedule is shorter" in lines["bound"]
    assert "reached: no such plan is shorter; for plans whose ops start at events" in lines["plans"]
    assert "bus costs 0.6 us (the same plan if it had no limit)" in lines["channels"]
    assert "task of v/stream and task of w/stream 1.2 us of work lost beside each other" in lines["slowed"]


def test_the_same_for_programs(shared: Result) -> None:
    cost = json.loads(json.dumps(result_numbers(shared, {})))["contention_cost"]
    pair = {"first": ["task of v", "stream"], "second": ["task of w", "stream"], "lost": 1.2}
    assert cost == {"channels": {"bus": 0.6}, "interference": 0.0, "pairs": [pair]}


def test_fractions_of_a_tick_are_written_everywhere(shared: Result, tmp_path: Path) -> None:
    schedule = schedule_of(shared)
    files = write_tables(schedule, tmp_path)
    side_car = json.loads((tmp_path / "two.json").read_text(encoding="utf-8"))
    assert files and side_car["makespan_ticks"] == "33/5"
    assert {task["predicted_ticks"]["done"] for task in side_car["tasks"]} == {"33/5", "18/5"}
    assert "6.6" in gantt_svg(schedule)


def test_a_gain_below_nothing_is_read_back() -> None:
    gain = Gain(
        existing=10,
        saved_entries=0,
        overlap_within_tasks=Fraction(-9, 7),
        overlap_between_tasks=3,
        contention_cost=Fraction(-1, 3),
        tail=-2,
    )
    assert Gain.model_validate_json(gain.model_dump_json()) == gain
