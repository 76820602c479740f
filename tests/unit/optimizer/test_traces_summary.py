"""What a trace says by itself: sums over intervals, verdicts, classes, and floors."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexloom import load_hw
from hexloom.optimizer.traces.floors import Floors, task_of
from hexloom.optimizer.traces.intervals import (
    Spans,
    clipped,
    common,
    gaps,
    groups,
    largest_groups,
    length,
    merged,
    most_at_once,
    total,
)
from hexloom.optimizer.traces.spans import busy, common_ticks
from hexloom.optimizer.traces.summary import quantile, summarize
from hexloom.optimizer.traces.trace import LONGEST, Trace

if TYPE_CHECKING:
    from hexloom.optimizer.traces.trace import Kind

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda t: (t[0], t[0] + t[1])), max_size=12)


def covered(spans: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in spans for t in range(start, end)}


@given(a=SPANS, b=SPANS, window=st.tuples(st.integers(0, 30), st.integers(0, 12)))
def test_sums_over_intervals_are_those_over_moments(
    a: list[tuple[int, int]], b: list[tuple[int, int]], window: tuple[int, int]
) -> None:
    one, other = Spans.of(a), Spans.of(b)
    assert length(one) == sum(end - start for start, end in a)
    assert length(merged(one)) == len(covered(a)) == busy(a)
    assert common(merged(one), merged(other)) == len(covered(a) & covered(b)) == common_ticks(a, b)
    at_once = [sum(start <= t < end for start, end in a) for t in range(60)]
    assert most_at_once(one) == max(at_once)
    start, end = window[0], window[0] + window[1]
    inside = set(range(start, end))
    assert length(merged(clipped(one, start, end))) == len(covered(a) & inside)
    free = gaps(merged(one), start, end).pairs()
    assert covered(free) == inside - covered(a)
    pairs = merged(one).pairs()
    assert all(end < start for (_, end), (start, _) in pairwise(pairs))


def test_sums_beyond_64_bits_are_exact() -> None:
    assert total(np.full(5000, LONGEST - 1, np.int64)) == 5000 * (LONGEST - 1)
    assert groups(np.array([3, 1, 3, 1, 2])) == [(1, pytest.approx([1, 3])), (2, [4]), (3, pytest.approx([0, 2]))]


def test_quantiles_are_values_that_occurred() -> None:
    values = np.arange(1, 101)
    assert (quantile(values, 1, 2), quantile(values, 19, 20), quantile(values[:1], 19, 20)) == (50, 95, 1)


def op_with(*spans: tuple[str, Kind, int, int], ticks: int = 100) -> Trace:
    trace = Trace("test", "cycles")
    op = trace.add("OP", "op", trace.lane("ops", "op", "ops"), 1000, ticks)
    for engine, kind, start, end in spans:
        lane = trace.lane((engine, "lane"), engine, engine)
        trace.add("e", kind, lane, 1000 + start, end - start, op=op, exact=kind != "transfer")
    return trace


@pytest.mark.parametrize(
    ("spans", "bound", "says"),
    [
        ([("hmx", "work", 0, 90), ("hvx", "work", 0, 50)], "engine", "hmx works 90% of the time"),
        ([("dma", "transfer", 0, 95)], "engine", "dma works at most 95% of the time"),
        ([("hmx", "work", 0, 50), ("hvx", "work", 50, 95)], "turns", "engines take turns (hmx 50%, hvx 45%; beside"),
        ([("hmx", "work", 0, 30), ("hvx", "work", 10, 40)], "waiting", "no recorded engine works 60% of the time"),
        ([("hmx", "work", 0, 70), ("hvx", "work", 40, 95)], "mixed", "hmx works most, 70%"),
        ([("hvx", "overhead", 0, 95)], "unknown", "no work of an engine was recorded"),
        ([], "unknown", "no work of an engine was recorded"),
    ],
)
def test_what_bounds_an_op(spans: list[tuple[str, Kind, int, int]], bound: str, says: str) -> None:
    (op,) = summarize(op_with(*spans)).ops
    assert op.bound_by == bound
    assert op.reason.startswith(says), op.reason


def test_an_event_longer_than_its_op_is_cut_in_its_window() -> None:
    (op,) = summarize(op_with(("hmx", "work", 50, 170))).ops
    assert (op.engines[0].busy_ticks, op.idle_ticks) == (50, 50)


def test_a_cold_first_run_stands_apart_in_its_class() -> None:
    trace = Trace("test", "cycles")
    lane = trace.lane("hmx", "hmx", "256")
    for k, ticks in enumerate([87_938, 8000, 8010, 7990, 8020, 8000, 7980, 8005]):
        trace.add("Conv", "work", lane, k * 100_000, ticks)
    (row,) = summarize(trace).classes
    assert (row.cold, row.first_ticks, row.median_ticks, row.count) == (True, 87_938, 8000, 8)


def test_batches_are_summed_and_never_compared() -> None:
    trace = Trace("test", "ns")
    lane = trace.lane("hvx", "hvx", "T0")
    for batch in range(3):
        trace.add("a", "work", lane, 10**9 * (3 - batch), 40, batch=batch)
        trace.add("a", "work", lane, 10**9 * (3 - batch) + 60, 40, batch=batch)
    summary = summarize(trace)
    assert (summary.span_ticks, summary.idle_ticks, summary.engines[0].busy_ticks) == (300, 60, 240)


@pytest.mark.parametrize(
    ("op", "detail", "task"),
    [
        ("MUL_MAT", "2048:6144 x 2048:742 -> 6144:742|q4_0 x f32 -> f32|hmx", ("matmul_w4a16", 742, 2048, 6144)),
        ("MUL_MAT", "2048:6144:1:1 x 2048:1:1:1 -> 6144:1|q4_0 x f32 -> f32|", ("gemv", None, 2048, 6144)),
        ("MUL_MAT", "64:64 x 64:8:2 -> 64:8:2|q4_0 x f32 -> f32|", None),
        ("MUL_MAT", "64:64 x 32:8 -> 64:8|q4_0 x f32 -> f32|", None),
        ("MUL_MAT", "64:64 x 64:8 -> 64:8|iq4_nl x f32 -> f32|", None),
        ("MUL_MAT", "64 x 64 -> 1|q4_0 x f32 -> f32|", ("gemv", None, 64, 1)),
        ("RMS_NORM", "2048:7:3 -> 2048:7:3|f32 -> f32|", ("rmsnorm", 21, 2048)),
        ("RMS_NORM", "2048:7 -> 2048:7|f16 -> f16|", None),
        ("FLASH_ATTN_EXT", "64:1 x 64:9 -> 64:1|f32|", None),
        ("MUL_MAT", "", None),
        ("ADD", "0:5|f32|", None),
    ],
)
def test_which_kernel_does_what_an_op_does(op: str, detail: str, task: tuple[object, ...] | None) -> None:
    found = task_of(op, detail)
    if task is None:
        assert found is None
        return
    assert found is not None
    if task[0] == "rmsnorm":
        assert (found["kernel"], found["rows"], found["cols"]) == task
    else:
        assert (found["kernel"], found.get("m"), found["k"], found["n"]) == task


def test_floors_are_computed_once_and_refuse_what_no_kernel_takes() -> None:
    floors = Floors(load_hw("hexagon-v79"))
    detail = "512:1024 x 512:32 -> 1024:32|q4_0 x f32 -> f32|"
    first = floors.of("MUL_MAT", detail)
    assert first is not None and floors.of("MUL_MAT", detail) is first
    assert first.loop_us is not None and 0 < first.floor_us <= first.loop_us
    assert floors.of("MUL_MAT", "33:64 x 33:8 -> 64:8|q4_0 x f32 -> f32|") is None, "k is no multiple of 32"
    assert floors.of("MUL_MAT", "999999:999999 x 999999:999999|q4_0|") is None


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from((0, 1, 2, 7, 2**51, 2**52 - 1))), max_size=40),
    st.integers(1, 4),
)
def test_the_largest_groups_are_those_of_exact_sums(rows: list[tuple[int, int]], most: int) -> None:
    """Sums of a few thousand of the longest durations leave 64 bits; order of equal sums is that of the file."""
    keys, values = np.array([k for k, _ in rows]), np.array([v for _, v in rows], dtype=np.int64)
    found, count = largest_groups(keys, values, most)
    places: dict[int, list[int]] = {}
    for i, (key, _) in enumerate(rows):
        places.setdefault(key, []).append(i)
    wanted = sorted(places.values(), key=lambda of: (-sum(rows[i][1] for i in of), of[0]))
    assert count == len(places)
    assert [of.tolist() for of in found] == wanted[:most]


def test_sums_beyond_64_bits() -> None:
    values = np.full(5000, 2**52 - 1, dtype=np.int64)
    keys = np.arange(5000) % 2
    keys[0] = 1
    found, count = largest_groups(keys, values, 1)
    assert count == 2 and len(found[0]) == 2501
