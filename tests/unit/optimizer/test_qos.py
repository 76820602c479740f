"""Streams that must answer in time: choices against brute force, headroom that is never overdrawn, replays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexloom import InvalidInputError, load_hw
from hexloom.optimizer.qos.choice import Fused, Table, filling, fusion, headroom
from hexloom.optimizer.qos.measure import table_of
from hexloom.optimizer.qos.model import Qos, arrival_times
from hexloom.optimizer.qos.replay import POLICIES, Step, replay
from hexloom.optimizer.qos.report import qos

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

SPEC: dict[str, Any] = {
    "schema": "hexloom.qos/1",
    "name": "tacker",
    "deadline_us": 50,
    "guard_us": 4,
    "stream": [{"name": "tc", "duration_us": 10}],
    "fillers": [{"name": "cd", "duration_us": 8}],
    "pairs": [{"stream": "tc", "filler": "cd", "fused_us": 12}],
    "arrivals_us": [0, 100],
}


@st.composite
def fused_times(draw: DrawFn, alone: int, most: int) -> Fused:
    taken = sorted(draw(st.sets(st.integers(1, most), max_size=3)))
    ns, points = alone, []
    for x in taken:
        ns += draw(st.integers(0, 40))
        points.append((x, ns))
    return Fused(alone, tuple(points))


@st.composite
def part_times(draw: DrawFn, count: int) -> Fused:
    taken = sorted({count, *draw(st.sets(st.integers(1, count), max_size=2))})
    ns, points = 0, []
    for x in taken:
        ns += draw(st.integers(1, 40))
        points.append((x, ns))
    return Fused(0, tuple(points))


@st.composite
def tables(draw: DrawFn) -> Table:
    stream = tuple(draw(st.lists(st.integers(1, 20), min_size=1, max_size=3)))
    fillers = draw(st.integers(1, 2))
    iterations = tuple(draw(st.integers(1, 6)) for _ in range(fillers))
    rows = tuple(tuple(draw(st.none() | fused_times(alone, iterations[f])) for f in range(fillers)) for alone in stream)
    deadline = sum(stream) + draw(st.integers(0, 60))
    parts = tuple(draw(st.none() | part_times(count)) for count in iterations)
    return Table(
        stream,
        tuple(draw(st.integers(1, 15)) for _ in range(fillers)),
        iterations,
        rows,
        deadline,
        draw(st.integers(0, deadline - sum(stream))),
        parts,
    )


@given(st.data(), st.integers(1, 30), st.integers(1, 20), st.integers(0, 60), st.integers(0, 8))
def test_the_part_that_is_taken_is_the_best_one(
    data: st.DataObject, alone: int, each: int, room: int, left: int
) -> None:
    pair = data.draw(fused_times(alone, 8))
    gains = {x: x * each - (pair.ns(x) - alone) for x in range(min(left, pair.most) + 1) if pair.ns(x) - alone <= room}
    best = max(gains.values())
    taken, gain = pair.take(each, room, left)
    assert gain == max(0, best)
    assert taken == min(x for x in gains if gains[x] == best) if best > 0 else taken == 0


def test_tackers_rule_by_hand() -> None:
    """It fuses where T_tc + T_cd > T_fuse and T_fuse - T_tc is within the headroom; what it gains is the difference."""
    table = table_of(Qos.from_data(SPEC), None)
    assert headroom(table, [(0, 0)], 0) == 50_000 - 4_000 - 10_000
    choice = fusion(table, 0, 2_000, [1])
    assert choice is not None
    assert (choice.kind, choice.ns, choice.extra) == ("fuse", 12_000, 2_000)
    assert fusion(table, 0, 1_999, [1]) is None  # one nanosecond short
    slow = table_of(Qos.from_data({**SPEC, "pairs": [{"stream": "tc", "filler": "cd", "fused_us": 18}]}), None)
    assert fusion(slow, 0, 10**9, [1]) is None  # 10 + 8 is not above 18


def test_akers_part_where_the_whole_does_not_fit() -> None:
    """Co-run to 13 us with 6 iterations, alone after that: 6 iterations of 2 us gain 9, all 10 gain 9 - 8 + 8 = 9."""
    points = {6: 13, 10: 21}
    spec = {
        **SPEC,
        "fillers": [{"name": "cd", "duration_us": 20, "iterations": 10}],
        "pairs": [{"stream": "tc", "filler": "cd", "points": points}],
    }
    table = table_of(Qos.from_data(spec), None)
    (pair,) = table.fused[0]
    assert pair is not None
    assert pair.take(2_000, 10**9, 10) == (6, 9_000)
    assert pair.take(2_000, 3_000, 10) == (6, 9_000)
    assert pair.take(2_000, 1_000, 10) == (2, 3_000)
    assert pair.take(2_000, 10**9, 4) == (4, 6_000)


def test_a_part_by_itself_takes_what_beginning_again_costs() -> None:
    """8 iterations take 16 alone, half of them 12: a loop prepares its inputs first. 12 leave room for no more."""
    table = Table((10,), (2,), (8,), ((None,),), 50, 0, (Fused(0, ((4, 12), (8, 16))),))
    choice = filling(table, 12, [8], "fill")
    assert choice is not None
    assert (choice.taken, choice.ns, choice.extra) == (4, 12, 12)
    plain = filling(replace(table, parts=()), 12, [8], "fill")
    assert plain is not None and plain.taken == 6


@pytest.mark.slow
def test_parts_of_a_task_are_solved_by_themselves() -> None:
    """A quarter of the columns of a matmul takes more than a quarter of it: its rows are prepared each time."""
    task = {"name": "mm", "kernel": "matmul_w4a16", "m": 256, "k": 512, "n": 1024, "m_chunk": 256, "n_chunk": 64}
    spec = {**SPEC, "fillers": [{"name": "cd", "task": task}], "pairs": []}
    table = table_of(Qos.from_data(spec), load_hw("hexagon-v79"), time_limit_s=0)
    assert table.iterations == (16,)
    assert table.alone(0, 4) > 4 * table.iteration[0]
    assert table.alone(0, 16) <= 16 * table.iteration[0] < table.alone(0, 16) + 16


@settings(max_examples=40)
@given(tables(), st.lists(st.integers(0, 60), min_size=1, max_size=12), st.sampled_from(tuple(POLICIES)))
def test_no_query_is_late_that_comes_no_sooner_than_its_work(table: Table, gaps: list[int], policy: Any) -> None:
    """Where gaps are at least the work of a query, whatever fills in, every answer comes in time less the guard.

    By induction: the query before is answered by its due time, so this one starts with headroom that is not negative,
    and nothing takes more than the headroom.
    """
    arrivals, now = [], 0
    for gap in gaps:
        now += table.work + gap
        arrivals.append(now)
    found = replay(table, tuple(arrivals), policy)
    for end, arrived in zip(found.answered, arrivals, strict=True):
        assert 0 < end - arrived <= table.deadline - table.guard
    steps_hold(table, found.steps)


@settings(max_examples=40)
@given(tables(), st.lists(st.integers(0, 80), min_size=1, max_size=12), st.sampled_from(tuple(POLICIES)))
def test_no_choice_takes_more_than_the_headroom(table: Table, times: list[int], policy: Any) -> None:
    arrivals = tuple(sorted(times))
    found = replay(table, arrivals, policy)
    steps_hold(table, found.steps)
    assert all(end >= arrived + table.work for end, arrived in zip(found.answered, arrivals, strict=True))
    done: dict[int, int] = {}
    for step in found.steps:  # what was recorded is what the plain sum over waiting queries says
        if step.query >= 0 or step.kind == "reorder":
            waiting = [q for q, at in enumerate(arrivals) if at <= step.start and done.get(q, 0) < len(table.stream)]
            work, least = 0, table.deadline
            for q in waiting:
                work += sum(table.stream[done.get(q, 0) :])
                least = min(least, arrivals[q] + table.deadline - table.guard - step.start - work)
            assert step.room == least
        if step.query >= 0:
            done[step.query] = done.get(step.query, 0) + 1
    counts = [sum(step.taken for step in found.steps if step.filler == f) for f in range(len(table.iteration))]
    assert counts == found.iterations


def steps_hold(table: Table, steps: list[Step]) -> None:
    before = 0
    for step in steps:
        assert before <= step.start < step.end
        before = step.end
        assert step.extra <= max(0, step.room)
        alone = table.stream[step.kernel] if step.query >= 0 else 0
        assert step.end - step.start == alone + step.extra


def test_a_report_and_its_policies() -> None:
    spec = {**SPEC, "arrivals_us": None, "arrivals": {"count": 300, "every_us": 60, "seed": 3}}
    del spec["arrivals_us"]
    found = qos(Qos.from_data(spec), None)
    rows = {row.policy: row for row in found.rows}
    assert list(rows) == list(POLICIES)
    assert rows["alone"].late == 0 and rows["whole"].fused > 0
    assert rows["whole"].filler_ns > rows["alone"].filler_ns
    assert rows["alone"].median_ns <= rows["reorder"].median_ns
    assert type(found).from_json(found.to_json()) == found
    assert found == qos(Qos.from_data(spec), None)


def test_kernels_that_are_tasks_are_solved() -> None:
    ops = {
        engine: {
            "name": "t",
            "ops": [{"for": "i", "count": 4, "ops": [{"name": "o.{i}", "engine": engine, "duration_us": 5}]}],
        }
        for engine in ("hmx", "hvx")
    }
    spec = {
        **SPEC,
        "stream": [{"name": "tc", "task": ops["hmx"]}],
        "fillers": [{"name": "cd", "task": ops["hvx"]}],
        "pairs": [],
    }
    table = table_of(Qos.from_data(spec), load_hw("hexagon-v79"), time_limit_s=0.1)
    (pair,) = table.fused[0]
    assert pair is not None
    assert table.iterations == (4,)
    assert 20_000 <= table.stream[0] < 22_000
    assert pair.ns(4) == table.stream[0]  # both at once
    with pytest.raises(InvalidInputError, match="name a machine"):
        table_of(Qos.from_data(spec), None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"deadline_us": "1/3"}, "nanoseconds"),
        ({"pairs": [{"stream": "tc", "filler": "xx", "fused_us": 1}]}, "no such"),
        ({"pairs": [{"stream": "tc", "filler": "cd", "fused_us": 1}]}, "must not fall"),
        ({"pairs": [{"stream": "tc", "filler": "cd", "points": {9: 20}}]}, "has 1"),
        ({"arrivals_us": [5, 1]}, "back in time"),
        ({"stream": [{"name": "tc"}]}, "duration_us or task"),
        ({"schema": "hexloom.workload/1"}, "workload"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as error:
        table_of(Qos.from_data({**SPEC, **change}), None)
    assert "\n" not in str(error.value)


def test_random_arrivals_are_those_of_their_seed() -> None:
    spec = {key: value for key, value in SPEC.items() if key != "arrivals_us"}
    times = [
        arrival_times(Qos.from_data({**spec, "arrivals": {"count": 500, "every_us": 10, "seed": seed}}))
        for seed in (1, 1, 2)
    ]
    assert times[0] == times[1] != times[2]
    assert list(times[0]) == sorted(times[0])
    assert 8_000 * 500 < times[0][-1] < 12_000 * 500
