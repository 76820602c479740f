from __future__ import annotations

import io
import json
import re
from fractions import Fraction

import pytest
from rich.console import Console
from unit.small import buffer, on, problem

from hexloom import Result, Workload, solve
from hexloom.emit.figures import number, short
from hexloom.emit.summary import busy_fractions, result_numbers, summary
from hexloom.optimizer.schedule import Advice


def text_of(result: Result, files: dict[str, str] | None = None) -> str:
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(summary(result, files or {}))
    return out.getvalue()


@pytest.fixture(scope="module")
def solved() -> Result:
    tiles = {
        "for": "i",
        "count": 3,
        "ops": [
            {"name": "cook{i}", "engine": "hvx", "units": "all", "duration_us": 3, "buffers": ["x{i}"]},
            {"name": "mm{i}", "engine": "hmx", "duration_us": 7, "after": ["cook{i}"], "buffers": ["x{i}"]},
        ],
        "buffers": [{"name": "x{i}", "size_bytes": "1MiB"}],
    }
    other = {"name": "n", "engine": "hvx", "units": "all", "duration_us": 5}
    tasks = [{"name": "a", "ops": [tiles]}, {"name": "b", "ops": [other]}]
    return solve(Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": tasks}), seed=1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(1134839, 1000), "1,134.839"),
        (Fraction(3, 5), "0.6"),
        (Fraction(1, 3), "0.333"),
        (Fraction(1200), "1,200"),
        (Fraction(0), "0"),
        (Fraction(-5, 2), "-2.5"),
    ],
)
def test_numbers_for_people(value: Fraction, text: str) -> None:
    assert short(value) == text


def test_numbers_for_programs() -> None:
    assert (number(Fraction(4, 2)), number(Fraction(1, 4))) == (2, 0.25)
    assert isinstance(number(Fraction(2)), int)


def test_the_summary_in_a_pipe_has_no_cut_lines_and_no_spaces_at_their_ends(solved: Result) -> None:
    out = io.StringIO()
    Console(file=out, width=40, color_system=None, soft_wrap=True).print(summary(solved, {"a": "b"}))
    lines = out.getvalue().splitlines()
    starts = [
        "w on hexagon-v81",
        "serial",
        "existing",
        "schedule",
        "bound",
        "gain",
        "busy",
        "scratchpad",
        "advice",
        "note",
        "files",
    ]
    assert [line.split("  ")[0].split(" at")[0] for line in lines] == starts
    assert all(line == line.rstrip() for line in lines)
    ends = {line.index(" us  ") for line in lines[1:5]}
    assert len(ends) == 1  # the times stand in a column


def test_a_problem_without_a_name_has_a_head() -> None:
    text = text_of(solve(problem(on("hvx", "a", 1), name=""), seed=1))
    assert text.splitlines()[0].startswith("(no name)  OPTIMAL")


def test_busy_is_the_share_from_first_to_last_work(solved: Result) -> None:
    """hmx works 7 7 7 without a break; hvx 3 3 3 and 5 between the first cook and the last of them."""
    assert solved.schedule is not None
    shares = busy_fractions(solved.schedule)
    assert shares["hmx"] == 1.0
    assert 14 / 21 <= shares["hvx"] <= 1


def test_the_summary_has_the_numbers(solved: Result) -> None:
    text = text_of(solved, {"schedule.json": "out/schedule.json"})
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "w on hexagon-v81  OPTIMAL, checked  7 ops" in text
    assert "37.88 us" in lines["existing"] and "43.88 us" in lines["serial"]
    assert "28.44 us" in lines["schedule"] and "1.332x faster than existing" in lines["schedule"]
    assert "reached: no schedule is shorter; heads_tails (arithmetic)" in lines["bound"]
    assert "9.44 us = 4.44 saved entries + 0 overlap within tasks + 5 between tasks - 0 contention" in lines["gain"]
    assert "hmx 100.0%" in lines["busy"]
    assert "at most" in lines["scratchpad"] and "of 8,388,608 B (8,192 KiB)" in lines["scratchpad"]
    assert "co-schedule the tasks" in lines["advice"]
    assert "files     out/schedule.json" in text


def test_what_shortens_the_plan_costs_nothing() -> None:
    """9 + 9 of 12 GB/s, 40 and 70 us. Alone with the channel both work at 2/3: b ends at 60 + 30. Where a is slowed to
    17/20 it asks for 7.65: at 12/16.65 of that a takes 65.294 and b, which has 22.941 left then, 88.235.
    """
    ops = [
        {"name": "a", "engine": "hvx", "duration_us": 40, "channels": {"gather": "9GB/s"}, "class": "rows"},
        {"name": "b", "engine": "hmx", "duration_us": 70, "channels": {"gather": "9GB/s"}, "class": "streams"},
    ]
    data = {
        "name": "w",
        "hw": "hexagon-v81",
        "channels": [{"name": "gather", "rate_gb_s": 12}],
        "interference": [{"victim": "rows", "cause": "streams", "factor": "17/20"}],
        "tasks": [{"name": "t", "ops": ops}],
    }
    result = solve(Workload.from_data(data), seed=1, time_limit_s=2)
    assert "92.675 us" in text_of(result)
    (line,) = [line for line in text_of(result).splitlines() if line.startswith("channels")]
    assert "gather costs 18.235 us (" in line and "limit); without interference it takes 1.765 us longer" in line
    assert "-" not in line


def test_flips_are_named(solved: Result) -> None:
    assert solved.schedule is not None
    advice = Advice(answer="keep", reason="because", flips=("op high: pipeline", "fork_join high: co_schedule"))
    other = Result("OPTIMAL", solved.schedule.model_copy(update={"advice": advice}), None, 1.0)
    text = text_of(other)
    assert "keep what exists: do not fuse these: because" in text
    assert "the answer changes inside a published range: op high: pipeline; fork_join high: co_schedule" in text
    calm = Result(
        "OPTIMAL", solved.schedule.model_copy(update={"advice": advice.model_copy(update={"flips": ()})}), None, 1
    )
    assert "no unknown overhead changes this inside its range" in text_of(calm)
    not_asked = advice.model_copy(update={"flips": None})
    silent = Result("OPTIMAL", solved.schedule.model_copy(update={"advice": not_asked}), None, 1)
    assert "whether an overhead changes this was not asked" in text_of(silent)


def test_a_gap_and_a_missing_baseline(solved: Result) -> None:
    assert solved.schedule is not None
    half = solved.schedule.makespan // 2
    changes = {"lower_bound": half, "baselines": {"serial": 99, "existing": None}, "gain": None, "advice": None}
    text = text_of(Result("FEASIBLE", solved.schedule.model_copy(update=changes), None, 1.0))
    assert re.search(r"gap 50\.\d\d%", text)
    assert "does not fit into the scratchpad, breaks a deadline, or waits for itself" in text
    assert "faster" not in text and "gain" not in text and "advice" not in text


def test_no_engine_and_no_tick() -> None:
    result = solve(problem(on("hvx", "a", 0)), seed=1)
    text = text_of(result)
    assert "busy      no engine" in text
    assert "0 ticks" in text
    assert "scratchpad" not in text


def test_infeasible_and_limit() -> None:
    big = solve(problem(on("hvx", "a", 1), buffers=(buffer("x", 9, "a"),), capacity=8))
    assert text_of(big).startswith("INFEASIBLE: op 'a' needs 9 B of scratchpad at once, 8 B are available")
    numbers = result_numbers(big, {})
    assert (numbers["status"], numbers["infeasibility"]["short"]) == ("INFEASIBLE", 1)
    assert "makespan_us" not in numbers
    assert text_of(Result("LIMIT", None, None, 1.0)).startswith("no plan found within the limit")


def test_numbers_are_json(solved: Result) -> None:
    numbers = json.loads(json.dumps(result_numbers(solved, {"a": "b"})))
    assert numbers["files"] == {"a": "b"}
    assert numbers["makespan_us"] == 28.44
    assert numbers["advice"]["answer"] == "co_schedule"
    ticks = result_numbers(solve(problem(on("hvx", "a", 2)), seed=1), {})
    assert (ticks["makespan_ticks"], ticks["serial_ticks"]) == (2, 2)
