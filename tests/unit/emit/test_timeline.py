from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from unit.emit import examples

from hexloom.emit.timeline import timeline_json
from hexloom.formulations.problem import Engine, Mode, Op, Problem, Use

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule

Events = list[dict[str, Any]]


def read(schedule: Schedule) -> dict[str, Any]:
    """Numbers as exact decimals, so that sums are those of what is written."""
    found: dict[str, Any] = json.loads(timeline_json(schedule), parse_float=Decimal)
    return found


def names(events: Events, what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == what}


def tracks(events: Events) -> dict[tuple[str, str], Events]:
    processes = {pid: name for (pid, _), name in names(events, "process_name").items()}
    threads = names(events, "thread_name")
    found: dict[tuple[str, str], Events] = defaultdict(list)
    for event in events:
        if event["ph"] in "Xi":
            found[processes[event["pid"]], threads[event["pid"], event["tid"]]].append(event)
    return found


@pytest.fixture(params=["small", "large", "hostile"])
def schedule(request: pytest.FixtureRequest) -> Schedule:
    found: Schedule = request.getfixturevalue(request.param)
    return found


def test_slices_have_a_length_and_do_not_overlap_on_their_track(schedule: Schedule) -> None:
    last: dict[tuple[int, int], Decimal] = {}
    for event in read(schedule)["traceEvents"]:
        if event["ph"] != "X":
            continue
        track = event["pid"], event["tid"]
        assert event["dur"] > 0
        assert event["ts"] >= last.get(track, 0)
        assert {"task", "stage", "tile", "mode"} <= set(event["args"]) or event["name"] == "entry"
        last[track] = event["ts"] + event["dur"]


def test_events_are_in_order_of_time_after_the_names(schedule: Schedule) -> None:
    events = read(schedule)["traceEvents"]
    kinds = [event["ph"] == "M" for event in events]
    assert kinds == sorted(kinds, reverse=True)
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)


def test_async_spans_nest_and_are_closed(schedule: Schedule) -> None:
    open_spans: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for event in read(schedule)["traceEvents"]:
        key = event["pid"], event.get("cat", ""), event.get("id", "")
        if event["ph"] == "b":
            open_spans[key].append(event["name"])
        elif event["ph"] == "e":
            assert open_spans[key].pop() == event["name"]
    assert open_spans
    assert not any(open_spans.values())


def test_arrows_are_paired_and_start_in_slices(schedule: Schedule) -> None:
    events = read(schedule)["traceEvents"]
    slices = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "X"}
    ends: dict[str, dict[int, Any]] = {"s": {}, "f": {}}
    for event in events:
        if event["ph"] in ends:
            assert event["id"] not in ends[event["ph"]]
            assert (event["pid"], event["tid"], event["ts"]) in slices
            assert event["ph"] == "s" or event["bp"] == "e"
            ends[event["ph"]][event["id"]] = event["ts"]
    assert ends["s"].keys() == ends["f"].keys()
    assert all(ends["s"][i] <= ends["f"][i] for i in ends["s"])


def test_every_dependency_between_slices_has_an_arrow(small: Schedule) -> None:
    events = read(small)["traceEvents"]
    assert sum(event["ph"] == "s" for event in events) == len(small.problem.precedences)


def test_the_work_of_hmx_adds_up(small: Schedule) -> None:
    found = tracks(read(small)["traceEvents"])["engines", "hmx"]
    by_category: dict[str, Decimal] = defaultdict(Decimal)
    for event in found:
        by_category[event["cat"]] += event["dur"]
    assert by_category == {"work": 6 * 17, "overhead": 6 * Decimal("0.4")}


def test_tracks_are_engines_threads_and_owners(small: Schedule) -> None:
    events = read(small)["traceEvents"]
    found = tracks(events)
    assert {name for process, name in found if process == "engines"} == {
        "hmx",
        *(f"hvx[{u}]" for u in range(5)),
        "dma[0]",
        "dma[1]",
    }
    assert ("hardware threads", "hvx[2]") in found
    waits = [e for e in found["hardware threads", "hvx[2]"] if e["cat"] == "dma_wait"]
    rows = {f"dma_wait {row.op}": row for row in small.rows}
    assert waits
    for event in waits:
        row = rows[event["name"]]
        assert Fraction(event["ts"]) == small.us(row.wait_start)
        assert Fraction(event["dur"]) == small.us(row.observed - row.wait_start)
    owners = {e["name"] for e in events if e["ph"] == "b" and e["name"].startswith("DMA of")}
    assert owners == {f"DMA of hvx[{u}]" for u in range(5)}


def test_phases_of_a_transfer_fill_its_span(large: Schedule) -> None:
    spans: dict[str, list[Decimal]] = {}
    phases: dict[str, list[Decimal]] = defaultdict(list)
    for event in read(large)["traceEvents"]:
        if event["ph"] in "be" and event["pid"] == 3:
            target = spans.setdefault(event["id"], []) if event["name"].startswith("DMA of") else phases[event["id"]]
            target.append(event["ts"])
    for span, (start, end) in spans.items():
        inner = phases[span]
        assert inner[0] == start
        assert inner[-1] == end
        assert inner[1:-1:2] == inner[2:-1:2]


def test_counters_return_to_none(small: Schedule) -> None:
    last: dict[str, Any] = {}
    peak: dict[str, Any] = defaultdict(int)
    for event in read(small)["traceEvents"]:
        if event["ph"] == "C":
            (value,) = event["args"].values()
            last[event["name"]] = value
            peak[event["name"]] = max(peak[event["name"]], value)
    assert last.keys() == {"VTCM bytes", "DMA in flight", "busy fraction of dma"}
    assert not any(last.values())
    assert peak["busy fraction of dma"] == 1


def test_the_file_says_what_it_is(small: Schedule, hostile: Schedule) -> None:
    data = read(small)["otherData"]
    assert (data["schema"], data["tick_us"], data["contention"]) == ("hexloom.timeline/1", "1/1000", "none")
    assert data["makespan_us"] == Decimal(small.makespan) / 1000
    assert "time" not in data
    bare = read(hostile)["otherData"]
    assert (bare["tick_us"], bare["makespan_ticks"]) == (None, hostile.makespan)
    assert "1 tick is drawn as 1 us" in bare["time"]


def test_names_come_back_as_they_are(hostile: Schedule) -> None:
    events = read(hostile)["traceEvents"]
    assert f"work {examples.BAD}" in {event["name"] for event in events}
    assert f"mark {examples.BAD}" in {event["name"] for event in events if event.get("cat") == "no unit"}


def test_the_same_schedule_gives_the_same_bytes(small: Schedule) -> None:
    again = type(small).from_json(small.to_json())
    assert timeline_json(small) == timeline_json(again)
    assert timeline_json(small).isascii()


@pytest.mark.parametrize("tick", ["1/3", "7/1497", "1/1000", "3", "1/1099511627776"])
def test_neighbours_touch_whatever_the_tick(tick: str) -> None:
    mode = Mode(uses=(Use(engine="e", ticks=1000),), latency_ticks=1000)
    ops = tuple(Op(name=f"op{k}", modes=(mode,)) for k in range(50))
    schedule = examples.schedule_of(Problem(tick_us=tick, engines=(Engine(name="e"),), ops=ops))
    slices = [e for e in read(schedule)["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    assert len(slices) == 50
    for k, event in enumerate(slices):
        assert abs(Fraction(event["ts"]) - 1000 * k * Fraction(tick)) <= Fraction(1, 10**9)
        assert k == 0 or event["ts"] == slices[k - 1]["ts"] + slices[k - 1]["dur"]
