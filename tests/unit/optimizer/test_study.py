"""Studies: tasks side by side without a plan, switches, points of sweeps, and their log."""

from __future__ import annotations

import errno
import json
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from unit.small import buffer, move, on, problem

from hexloom import InvalidInputError, Workload, load_hw, solve
from hexloom.optimizer.lower import loops_of
from hexloom.optimizer.study.ablations import (
    ABLATIONS,
    DoesNotApplyError,
    ablate,
    conversion_apart,
    names_of,
    synchronous_transfers,
)
from hexloom.optimizer.study.concurrent import concurrent
from hexloom.optimizer.study.fields import point_of
from hexloom.optimizer.study.grid import field_of, places_of
from hexloom.optimizer.study.journal import Journal
from hexloom.optimizer.study.scaled import with_grain, with_ratio
from hexloom.optimizer.study.study import study
from hexloom.optimizer.study.sweep import sweep

if TYPE_CHECKING:
    from pathlib import Path

WORK: dict[str, Any] = {
    "schema": "hexloom.workload/1",
    "name": "pair",
    "hw": "hexagon-v79",
    "tasks": [
        {
            "name": "mm",
            "ops": [
                {"name": "load", "engine": "dma", "duration_us": 8},
                {"name": "mul", "engine": "hmx", "duration_us": 20, "after": ["load"]},
                {"name": "out", "engine": "hvx", "units": "all", "duration_us": 6, "after": ["mul"]},
            ],
        },
        {"name": "rows", "ops": [{"name": "row", "engine": "hvx", "units": "all", "duration_us": 12}]},
    ],
}


def work(**changes: Any) -> Workload:
    return Workload.from_data({**WORK, **changes})


# --- tasks side by side


def test_engines_are_given_first_come_first_served() -> None:
    """Task a holds hmx for [0, 4), then wants hvx; b came for it at 0 and holds both units for [0, 10)."""
    p = problem(
        on("hmx", "a1", 4, task="a"),
        on("hvx", "a2", 3, task="a"),
        on("hvx", "b1", 10, task="b"),
        on("hmx", "b2", 2, task="b"),
        after="a1>a2 b1>b2",
    )
    side = concurrent(p, loops_of(p), "none")
    assert side.timeline is not None
    times = {name: (t.start, t.end) for name, t in side.timeline.times.items()}
    assert times == {"a1": (0, 4), "a2": (10, 13), "b1": (0, 10), "b2": (10, 12)}
    assert (side.alone, side.timeline.makespan) == (7 + 12, 13)


def test_scratchpad_is_given_first_come_first_served() -> None:
    """a and b fit together and c does not: it begins when a, the first to end, gives its bytes back."""
    p = problem(
        on("hmx", "a", 4, task="a"),
        on("hvx", "b", 9, task="b"),
        on("hmx", "c", 5, task="c"),
        buffers=(buffer("x", 40, "a"), buffer("y", 50, "b"), buffer("z", 30, "c")),
        capacity=100,
    )
    side = concurrent(p, loops_of(p), "none")
    assert side.timeline is not None
    assert side.waited == ("c",)
    assert (side.timeline.times["c"].start, side.timeline.makespan) == (4, 9)


def test_what_cannot_run_without_a_plan_says_why() -> None:
    p = problem(on("hmx", "a", 4), buffers=(buffer("x", 8, "a", address=0),), capacity=10)
    side = concurrent(p, loops_of(p), "none")
    assert side.timeline is None
    assert "pinned" in side.why
    big = problem(on("hmx", "a", 4), buffers=(buffer("x", 11, "a"),), capacity=10)
    assert "does not fit into 10 B" in concurrent(big, loops_of(big), "none").why


def test_groups_of_a_pair_by_hand() -> None:
    """existing 34 + 12 us of work and what entries and hand-overs cost; the plan hides the row under the matmul."""
    found = study(work(), seed=1, time_limit_s=0.2)
    times = {g.name: g.makespan for g in found.groups}
    assert all(t is not None for t in times.values())
    overheads = Fraction(times["existing"] or 0) - 46
    assert 0 <= overheads < 5
    assert times["serial"] == times["existing"] == times["fused_serial"]
    assert (times["existing"] or 0) - (times["plan"] or 0) == 12
    assert found.group("plan").gain is not None
    assert found.group("plan").gain.overlap_between_tasks >= 12  # type: ignore[union-attr]
    assert type(found).from_json(found.to_json()) == found


# --- switches


def test_switches_change_what_they_say() -> None:
    machine = load_hw("hexagon-v79")
    plan = study(work(), seed=1, time_limit_s=0.2).makespan("plan")
    assert plan is not None

    def without(name: str, of: Workload | None = None) -> Any:
        return ablate(name, of or work(), machine, plan, 0.1, "fluid", 1)

    assert without("no_task_overlap").costs == 12
    assert without("no_conversion_overlap").costs == 0  # the row belongs to another task
    assert without("no_staging").status == "INVALID"
    assert without("no_dma_overlap").costs == 0  # the row fits under the matmul all the same
    staged = {"name": "n", "kernel": "rmsnorm", "rows": 24, "cols": 256}
    kernels = work(tasks=[staged])
    rows = {name: without(name, kernels) for name in ("no_staging", "no_double_buffering", "one_hvx_slice")}
    assert all(row.makespan is not None for row in rows.values())
    assert rows["one_hvx_slice"].makespan > rows["no_double_buffering"].makespan
    sliced = work(tasks=[{"name": "m", "kernel": "matmul_w4a16", "m": 32, "k": 64, "n": 64, "slices": True}])
    assert without("fork_join", sliced).makespan is not None
    assert without("events", sliced).status == "INVALID"
    assert names_of(["all"]) == tuple(ABLATIONS)
    with pytest.raises(InvalidInputError, match="did you mean"):
        names_of(["no_task_overlp"])


def test_a_synchronous_transfer_holds_its_owner_and_its_pipe() -> None:
    p = problem(move("load", 8, owner=1, issue=2, poll=1, latency=9), on("hvx", "row", 5))
    mode = synchronous_transfers(p).ops[0].modes[0]
    assert (mode.dma, mode.overhead_ticks, mode.latency_ticks) == (None, 2, 9)
    assert {(u.engine, u.ticks, u.unit_ids) for u in mode.uses} == {("hvx", 9, (1,)), ("ddr", 8, None)}
    with pytest.raises(DoesNotApplyError):
        synchronous_transfers(problem(on("hvx", "row", 5)))


def test_conversion_apart_keeps_hvx_and_hmx_of_one_task_from_each_other() -> None:
    """Two tasks of 4 on each engine: 8 together; with conversion apart each task takes 8, and both still 8 together."""
    ops = [on(engine, f"{task}_{engine}", 4, task=task) for task in "ab" for engine in ("hmx", "hvx")]
    assert solve(problem(*ops), seed=1, time_limit_s=0.5).makespan_us == 8
    assert solve(conversion_apart(problem(*ops)), seed=1, time_limit_s=0.5).makespan_us == 8
    assert solve(problem(*ops[:2]), seed=1, time_limit_s=0.5).makespan_us == 4
    assert solve(conversion_apart(problem(*ops[:2])), seed=1, time_limit_s=0.5).makespan_us == 8


# --- fields and values


def test_fields_lead_into_the_workload_and_the_machine() -> None:
    machine = load_hw("hexagon-v79")
    values = {
        "tasks.mm.ops.mul.duration_us": 40,
        "tasks.1.ops.0.duration_us": 2.5,
        "vtcm.total_bytes": 4 << 20,
        "overheads.fork_join": "high",
        "contention": "none",
        "work_ratio": 0.5,
    }
    point = point_of(work(), machine, "fluid", values)
    assert isinstance(point.work, Workload) and point.machine is not None
    data = json.loads(point.work.to_json())
    assert data["tasks"][0]["ops"][1]["duration_us"] == 40
    assert Fraction(str(data["tasks"][1]["ops"][0]["duration_us"])) == Fraction(5, 2)
    assert point.machine.vtcm.total_bytes.whole == 4 << 20
    high = machine.overheads.fork_join.range
    assert high is not None and point.machine.overheads.fork_join.value == high[1]
    assert (point.contention, point.ratio) == ("none", Fraction(1, 2))
    with pytest.raises(InvalidInputError, match="neither the input nor the machine"):
        point_of(work(), machine, "fluid", {"vtcm.totl_bytes": 1})
    with pytest.raises(InvalidInputError, match="tasks"):
        point_of(work(), machine, "fluid", {"tasks.mm.ops.mul.duration_us": "long"})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1,2.5,x,true", (1, 2.5, "x", True)),
        ("a=1..9:3", (1, 5, 9)),
        ("a=1..2:4", (1, 2)),
        ("work_ratio=1..3:5", (1, 1.5, 2, 2.5, 3)),
        ("jitter=0..1:3", (0, 0.5, 1)),
        ("a=0.1..10:log3", (0.1, 1, 10)),
        ("a=32..96/32", (32, 64, 96)),
        ("a=1MiB,2KiB", (1 << 20, 2048)),
    ],
)
def test_values_of_a_field(text: str, values: tuple[Any, ...]) -> None:
    assert field_of(text).values == values


@pytest.mark.parametrize(
    "text",
    [
        *("a", "a=", "=1", "a=5..1:3", "a=1..2:1", "a=0..2:log3", "a=1..x:3", "a=1..2/0"),
        *("a=1,,2", "a=8MB", "a=1e400..1e401:3", "a=1..2/0.0.1"),
    ],
)
def test_what_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        field_of(text)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"sync_grain": 1.5}, "sync_grain 1.5: write a whole number"),
        ({"sync_grain": "abc"}, "sync_grain abc: write a whole number"),
        ({"sync_grain": True}, "write a whole number"),
        ({"work_ratio": 0}, "no number above 0"),
        ({"work_ratio": "1/0"}, "no number above 0"),
        ({"work_ratio": "1e99999999"}, "no number above 0"),
        ({"jitter": "10%"}, "write 0.1 for a tenth"),
    ],
)
def test_what_a_knob_does_not_take_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        point_of(work(), load_hw("hexagon-v79"), "fluid", values)


def test_a_grid_and_a_draw() -> None:
    fields = [field_of("a=1,2"), field_of("b=x,y,z")]
    grid = places_of(fields, None, 1)
    assert [place.values for place in grid][:2] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}]
    assert len({place.key for place in grid}) == len(grid) == 6
    drawn = places_of([field_of("a=0.1..10:log"), field_of("b=1..64")], 50, 7)
    assert drawn == places_of([field_of("a=0.1..10:log"), field_of("b=1..64")], 50, 7)
    assert all(0.1 <= p.values["a"] <= 10 and p.values["b"] in range(1, 65) for p in drawn)  # type: ignore[operator]
    below = sum(p.values["a"] < 1 for p in drawn)  # type: ignore[operator]
    assert 15 <= below <= 35  # half of them, in equal ratios
    with pytest.raises(InvalidInputError, match="--samples"):
        places_of([field_of("a=1..2")], None, 1)
    with pytest.raises(InvalidInputError, match="twice"):
        places_of([field_of("a=1"), field_of("a=2")], None, 1)


def test_work_ratio_scales_all_tasks_but_the_first() -> None:
    p = problem(on("hmx", "a", 10, task="a"), on("hvx", "b", 4, task="b"), on("hvx", "c", 1, task="c"), tick_us="1")
    for ratio in (Fraction(1, 10), Fraction(1), Fraction(10)):
        scaled = with_ratio(p, ratio)
        work = {op.name: op.modes[0].latency_ticks * (scaled.tick or 1) for op in scaled.ops}
        assert work["a"] == 10
        assert work["b"] + work["c"] == 10 * ratio
    with pytest.raises(InvalidInputError, match="two tasks"):
        with_ratio(problem(on("hmx", "a", 10)), Fraction(1))


def test_a_coarser_grain_waits_for_the_last_tile_of_its_group() -> None:
    ops = [on("hmx", f"{s}{t}", 1, task="k", stage=s, tile=t) for t in range(4) for s in "ab"]
    p = problem(*ops, after=" ".join(f"a{t}>b{t}" for t in range(4)))
    edges = {(e.before, e.after) for e in with_grain(p, 2).precedences}
    assert {("a1", "b0"), ("a1", "b1"), ("a3", "b2"), ("a3", "b3")} <= edges
    ring = problem(*ops, after=" ".join(f"a{t}>b{t}" for t in range(4)) + " b0>a1")
    with pytest.raises(InvalidInputError, match="deeper rings"):
        with_grain(ring, 2)


# --- the log


BASE = {"name": "x", "seed": 1}


def row(key: str) -> dict[str, Any]:
    return {"key": key, "values": {"a": key}, "status": "OPTIMAL"}


def test_a_torn_last_line_is_dropped_and_all_others_stay(tmp_path: Path) -> None:
    with Journal(tmp_path, BASE) as journal:
        journal.append(row("1"))
        journal.append(row("2"))
    text = journal.path.read_bytes()
    for cut in range(1, len(text) - text[:-1].rfind(b"\n") - 1):
        journal.path.write_bytes(text[:-cut])
        with Journal(tmp_path, BASE) as again:
            assert list(again.rows) == ["1"]
            again.append(row("2"))
        assert journal.path.read_bytes() == text


def test_the_log_of_another_sweep_or_of_a_running_one_is_refused(tmp_path: Path) -> None:
    with Journal(tmp_path, BASE), pytest.raises(InvalidInputError, match="another sweep writes there"):
        Journal(tmp_path, BASE)
    with pytest.raises(InvalidInputError, match="seed differ"):
        Journal(tmp_path, {**BASE, "seed": 2})
    (tmp_path / "points.jsonl").write_text("no json\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="no log of a sweep"):
        Journal(tmp_path, BASE)


def test_a_disk_without_room_loses_no_finished_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the second row is written before the disk is full: it is dropped, and the first one stays."""
    write = os.write
    with Journal(tmp_path, BASE) as journal:
        journal.append(row("1"))

        def full(file: int, data: bytes) -> int:
            if len(data) < len(line):
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(file, data[: len(data) // 2])

        line = json.dumps(row("2"))
        monkeypatch.setattr("os.write", full)
        with pytest.raises(InvalidInputError, match="No space left on device; what is finished is kept"):
            journal.append(row("2"))
        monkeypatch.undo()
    with Journal(tmp_path, BASE) as again:
        assert list(again.rows) == ["1"]


def test_a_sweep_goes_on_where_it_was_stopped_with_the_same_results(tmp_path: Path) -> None:
    specs = ["work_ratio=0.5,1,2", "jitter=0,0.2", "tasks.rows.ops.row.units=all,bad"]

    def run(folder: Path, stop_at: int | None = None) -> list[int]:
        seen: list[int] = []

        def on_row(done: int, points: int, of: dict[str, Any] | None) -> None:
            assert points == 12
            if of is not None:
                seen.append(done)
                if done == stop_at:
                    raise KeyboardInterrupt

        sweep(work(), None, specs, folder, time_limit_s=0, workers=1, on_row=on_row)
        return seen

    assert run(tmp_path / "whole") == list(range(1, 13))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", stop_at=5)
    assert run(tmp_path / "cut") == list(range(6, 13))
    assert run(tmp_path / "cut") == []
    for name in ("results.csv", "manifest.json", "results.parquet"):
        whole = tmp_path / "whole" / name
        if whole.exists():  # Parquet where pyarrow is there
            assert whole.read_bytes() == (tmp_path / "cut" / name).read_bytes()
    lines = (tmp_path / "whole" / "results.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 13
    assert sum(",INVALID," in line for line in lines) == 6
    manifest = json.loads((tmp_path / "whole" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["statuses"]["INVALID"] == 6
    assert manifest["base"]["workload"] == work().digest()
