from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from hexloom import solve
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.lower import Lowered, lower
from hexloom.optimizer.workload import Workload

V81 = load_hw("hexagon-v81")
BARE = V81.with_values({"overheads.op": 0})


def work(*tasks: dict[str, Any], **keys: Any) -> Workload:
    return Workload.from_data({"name": "w", "tasks": list(tasks), **keys})


def task(name: str, *ops: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"name": name, "ops": list(ops), **keys}


def op(name: str, us: Any, engine: str = "hvx", **keys: Any) -> dict[str, Any]:
    return {"name": name, "engine": engine, "duration_us": us, **keys}


def ticks(lowered: Lowered) -> dict[str, int]:
    return {o.name: o.modes[0].latency_ticks for o in lowered.problem.ops}


# --- the tick -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durations", "tick", "expected"),
    [
        (["39.5625", "38.6875"], "1/16", [633, 619]),
        ([6, 4], "2", [3, 2]),
        (["1/3", "0.5"], "1/6", [2, 3]),
        ([0], "1", [0]),
        (["19.666", 1], "1/500", [9833, 500]),
    ],
)
def test_the_tick_is_the_largest_that_keeps_given_durations_exact(
    durations: list[Any], tick: str, expected: list[int]
) -> None:
    lowered = lower(work(task("t", *(op(f"a{k}", us) for k, us in enumerate(durations)))), BARE)
    assert lowered.problem.tick_us == tick
    assert list(ticks(lowered).values()) == expected


def test_computed_costs_are_rounded_up_to_nanoseconds() -> None:
    """8,192 B at 45.8 GB/s take 178.865 ns."""
    write = {"name": "a", "engine": "dma", "transfer_bytes": 8192, "direction": "write"}
    lowered = lower(work(task("t", write, op("b", 1))), BARE)
    tick = lowered.problem.tick
    assert tick is not None
    assert tick.denominator == 1000
    assert ticks(lowered)["a"] * tick * 1000 == 179
    assert ticks(lowered)["b"] * tick == 1


def test_entry_is_in_the_tick_and_in_the_problem() -> None:
    lowered = lower(work(task("t", op("a", 1))), V81)
    assert lowered.problem.tick_us == "1/25"
    assert lowered.problem.entry_ticks == lowered.loops[0].entry_ticks == 111  # 4.44 us


def test_a_forced_tick_must_represent_given_durations() -> None:
    given = task("t", op("a", "39.5625"), op("b", "38.5"))
    assert lower(work(given, tick_us="0.0625"), BARE).problem.tick_us == "1/16"
    with pytest.raises(InvalidInputError) as raised:
        lower(work(given, tick_us=1), BARE)
    assert str(raised.value) == "tick_us 1: rounding adds 0.9375 us, use tick 0.0625"


@pytest.mark.parametrize("tick", ["1e-300", "1e300"])
def test_a_forced_tick_must_be_a_number_that_others_can_read(tick: str) -> None:
    with pytest.raises(InvalidInputError, match="is not between 1e-18 and 1e18; choose a tick in this range"):
        lower(work(task("t", op("a", 1)), tick_us=tick), V81)


def test_a_forced_tick_rounds_computed_costs_up() -> None:
    write = {"name": "a", "engine": "dma", "transfer_bytes": 8192, "direction": "write"}
    lowered = lower(work(task("t", write), tick_us=1), V81)
    assert ticks(lowered) == {"a": 1}
    assert lowered.problem.entry_ticks == 5


# --- names and copies -----------------------------------------------------------------------------------


def test_names_are_prefixed_only_when_there_are_several_tasks() -> None:
    one = task("one", op("a", 1, buffers=["x"]), op("b", 1, after=["a"]), buffers=[{"name": "x", "size_bytes": 4}])
    alone = lower(work(one), V81).problem
    assert [o.name for o in alone.ops] == ["a", "b"]
    both = lower(work(one, {**one, "name": "two"}), V81)
    assert [o.name for o in both.problem.ops] == ["one/a", "one/b", "two/a", "two/b"]
    assert [(e.before, e.after) for e in both.problem.precedences] == [("one/a", "one/b"), ("two/a", "two/b")]
    assert [(b.name, b.ops) for b in both.problem.buffers] == [("one/x", ("one/a",)), ("two/x", ("two/a",))]
    assert [loop.loop for loop in both.loops] == [("one/a", "one/b"), ("two/a", "two/b")]
    assert [loop.task for loop in both.loops] == ["one", "two"]


def test_copies_are_tasks_of_their_own() -> None:
    lowered = lower(work(task("t", op("a", 1), copies=3)), V81)
    assert [o.name for o in lowered.problem.ops] == ["t.0/a", "t.1/a", "t.2/a"]
    assert [o.task for o in lowered.problem.ops] == ["t.0", "t.1", "t.2"]
    with pytest.raises(InvalidInputError, match=r"two tasks are named 't\.1'"):
        lower(work(task("t", op("a", 1), copies=2), task("t.1", op("a", 1))), V81)
    with pytest.raises(InvalidInputError, match="above 100,000 ops"):
        lower(work(task("t", op("a", 1), copies=100_001)), V81)


# --- engines --------------------------------------------------------------------------------------------


def test_only_engines_in_use_are_in_the_problem() -> None:
    lowered = lower(
        work(task("t", op("a", 1, "dma", owner=3), op("b", 1, "mine")), engines=[{"name": "mine"}, {"name": "idle"}]),
        V81,
    )
    assert [(e.name, e.units, e.kind) for e in lowered.problem.engines] == [
        ("hvx", 8, "worker"),
        ("mine", 1, "resource"),
        ("dma", 1, "pipe"),
        ("dma_queue3", 1, "pipe"),
    ]


def test_threads_must_exist() -> None:
    """v81 has nine hardware threads: eight HVX workers and one for HMX."""
    tasks = task("t", op("a", 1), op("b", 1, "hmx"), op("c", 1, "mine"))
    assert lower(work(tasks, engines=[{"name": "mine", "units": 4}]), V81).problem.engine_index["mine"] == 2
    with pytest.raises(InvalidInputError) as raised:
        lower(work(tasks, engines=[{"name": "mine", "kind": "worker"}]), V81)
    assert "needs 10 hardware threads (hvx 8, hmx 1, mine 1), hexagon-v81 has 9" in str(raised.value)


@pytest.mark.parametrize("name", ["hvx", "hmx", "dma"])
def test_the_machines_engines_are_not_the_users(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"engine '{name}' is the machine's"):
        lower(work(task("t", op("a", 1)), engines=[{"name": name}]), V81)


def test_scratchpad_is_that_of_the_machine() -> None:
    kept = lower(work(task("t", op("a", 1))), V81.with_values({"vtcm.reserved_bytes": 4096})).problem.scratchpad
    assert (kept.total_bytes, kept.available_bytes) == (8 << 20, (8 << 20) - 4096)


# --- the rest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "asks", "unit", "numbers"),
    [
        (12, {"channels": {"g": "9GB/s"}}, "1", (12_000, 9_000)),
        ("1/3", {"channels": {"g": "200MB/s"}}, "1/3", (1_000, 600)),
        (1e-9, {"channels": {"g": "1MB/s"}}, "1/1000000", (1, 10**6)),
        (0.002, {"channels": {"g": "1.9MB/s"}}, "1/10", (20, 19)),
        (0.001, {"channels": {"g": "0.1MB/s"}}, "1/10", (10, 1)),
        (0.002, {"bytes": {"g": 19}}, "1/1000000", (2 * 10**6, 1_900_000)),  # in 10 us
        (12, {"bytes": {"g": 9_999}}, "1/10000", (12 * 10**7, 9_999_000)),  # 999.9 MB/s, to a millionth
        (12, {"bytes": {"g": 10_009}}, "1", (12_000, 1_000)),  # what is known to a thousandth is not told finer
        (10**6, {"bytes": {"g": 1}}, "1/10", (10**10, 1)),  # as fine as the capacity allows
        (10**9, {"bytes": {"g": 1}}, "1", (10**12, 0)),
    ],
)
def test_a_channel_has_a_unit_in_which_its_rates_are_whole(
    capacity: object, asks: dict[str, object], unit: str, numbers: tuple[int, int]
) -> None:
    problem = lower(work(task("t", op("a", 10, **asks)), channels=[{"name": "g", "rate_gb_s": capacity}]), V81).problem
    (channel,), (pull,) = problem.channels, problem.ops[0].modes[0].pulls
    assert (channel.unit_mb_s, (channel.capacity, pull.rate)) == (unit, numbers)


def test_rates_of_too_many_digits_are_refused() -> None:
    asked = op("a", 2, channels={"g": "0.123456789MB/s"})
    with pytest.raises(InvalidInputError, match=r"channel 'g': .* of 1/10{9} MB/s, and 12000 MB/s are more"):
        lower(work(task("t", asked), channels=[{"name": "g", "rate_gb_s": 12}]), V81)


@pytest.mark.parametrize(
    ("capacity", "rate", "us"), [(0.002, "1.9MB/s", 1900), (0.001, "0.1MB/s", 1000), ("1/3", "200MB/s", 1200)]
)
def test_two_slow_streams_take_what_they_take(capacity: object, rate: str, us: int) -> None:
    ops = [op(e, 1000, engine=e, channels={"g": rate}) for e in ("hvx", "hmx")]
    result = solve(work(task("t", *ops), channels=[{"name": "g", "rate_gb_s": capacity}]), V81, seed=1, time_limit_s=2)
    assert result.makespan_us == us + Fraction("4.44")


@pytest.mark.parametrize(("tick", "kept"), [(None, ("1", 7)), (2, ("2", 3))])
def test_the_tick_divides_deadlines_unless_it_is_given(tick: int | None, kept: tuple[str, int]) -> None:
    """A coarser tick of the user's rounds them down."""
    given = {} if tick is None else {"tick_us": tick}
    lowered = lower(work(task("t", op("a", 2, deadline_us=7), op("b", 4)), **given), BARE)
    assert (lowered.problem.tick_us, [o.deadline_ticks for o in lowered.problem.ops]) == (kept[0], [kept[1], None])


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        (task("t", op("a", 1), op("a", 1)), "two ops are named 'a'"),
        (task("t", op("a", 1, after=["b"]), op("b", 1, after=["a"])), "the dependencies form a cycle"),
        (task("t", op("a", "1e300"), op("b", 1)), "add up to about 10^301 ticks, above the limit"),
        (task("t", op("a", "1e-300")), "only a tick of about 10^-299 us represents all durations"),
        (
            task("t", *(op(f"a{k}", f"1/{10**300 + k}") for k in range(2_000))),  # takes minutes to add up
            "write durations with fewer digits, or set tick_us",
        ),
        (
            task("t", op("a", 1, buffers=["x"]), buffers=[{"name": "x", "size_bytes": 1, "address": 3}]),
            "buffer 'x' is pinned at 3, not a multiple of its alignment 128",
        ),
    ],
)
def test_what_the_integer_problem_refuses_is_an_error_of_the_workload(tasks: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        lower(work(tasks), V81)
    assert says in str(raised.value)
    assert str(raised.value).startswith("workload 'w'")
    assert "\n" not in str(raised.value)
