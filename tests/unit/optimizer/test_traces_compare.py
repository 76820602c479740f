"""A schedule against runs of it: the simulator writes them, so every number is known."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
import yaml
from damage import damaged
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import rerun, written
from unit.small import buffer, held, move, on, problem, run

from hexloom import InvalidInputError, Workload, load_hw, solve
from hexloom.emit.comparison_svg import COLOURS, LONGER, comparison_svg, error_colour
from hexloom.emit.timeline import timeline_json
from hexloom.optimizer.traces.bubbles import REASONS, Bubbles
from hexloom.optimizer.traces.compare import compare
from hexloom.optimizer.traces.comparison import OpError, Pair
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.match import modes_of
from hexloom.optimizer.traces.replay import lengths_of, replayed

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.formulations.problem import Op
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.trace import Trace

PAIR = """\
{schema: hexloom.workload/1, name: pair, hw: hexagon-v79, tasks: [
 {name: mm, kernel: matmul_w4a16, m: 64, k: 256, n: 512}, {name: norm, kernel: rmsnorm, rows: 24, cols: 1024}]}
"""


@pytest.fixture(scope="module")
def small() -> Schedule:
    """Loads, vector and matrix work of two tasks in 8 ns ticks."""
    ops = []
    for k in range(4):
        ops += [
            move(f"load.{k}", 40, issue=3, poll=2, task="a", stage="load", tile=k),
            on("hvx", f"prepare.{k}", 25, task="a", stage="prepare", tile=k),
            on("hmx", f"mm.{k}", 31, task="a", stage="mm", tile=k),
        ]
    ops += [on("hvx", f"row.{k}", 17, task="b", stage="row", tile=k) for k in range(5)]
    edges = " ".join(f"load.{k}>prepare.{k} prepare.{k}>mm.{k}" for k in range(4))
    buffers = tuple(buffer(f"raw.{k}", 100, f"load.{k}", f"prepare.{k}") for k in range(4))
    work = problem(*ops, after=edges, buffers=buffers, capacity=200, tick_us="1/125", entry_ticks=10)
    found = solve(work, seed=1, time_limit_s=1).schedule
    assert found is not None
    return found


@pytest.fixture(scope="module")
def pair() -> Schedule:
    """A matmul and a norm of the kernel library, which slow each other."""
    found = solve(Workload.from_data(yaml.safe_load(PAIR), "pair"), seed=1, time_limit_s=1).schedule
    assert found is not None
    return found


def trace_of(folder: Path, text: str) -> Trace:
    path = folder / "trace.json"
    path.write_text(text)
    return read_trace(path)


def test_a_run_as_predicted_differs_in_nothing(small: Schedule, tmp_path: Path) -> None:
    found = compare(small, trace_of(tmp_path, written(small, [rerun(small)])))
    assert found.makespan.predicted == found.makespan.measured == small.makespan
    assert (found.by_durations, found.by_dispatch, found.error) == (0, 0, 0.0)
    assert found.measured_gain == found.gain == small.gain
    assert all(row.error == 0 and row.skew_us == 0 and row.makespan_effect_us == 0 for row in found.stages)
    assert all(row.busy.predicted == row.busy.measured for row in found.engines)
    assert all(row.accidental == 0 and row.idle.predicted == row.idle.measured for row in found.bubbles)
    assert found.inversions == ()
    assert (found.matching.by_name, found.matching.missing, found.matching.unknown) == (17, (), ())


def test_our_own_timeline_is_a_run_as_predicted(small: Schedule, tmp_path: Path) -> None:
    found = compare(small, trace_of(tmp_path, timeline_json(small)))
    assert found.makespan.predicted == found.makespan.measured
    assert found.measured_gain == small.gain
    assert found.matching.missing == ()


def test_one_slower_stage_is_named_and_explains_the_makespan(small: Schedule, tmp_path: Path) -> None:
    def slower(op: Op) -> Fraction:
        return Fraction(8, 5) if op.stage == "mm" else Fraction(1)

    times = rerun(small, slower)
    found = compare(small, trace_of(tmp_path, written(small, [times])))
    made = max(max(t.observed, t.end) for t in times.values())
    assert found.makespan.measured == made > small.makespan
    assert found.by_durations == made - small.makespan
    assert found.by_dispatch == 0
    first = found.stages[0]
    assert (first.stage, first.engine, first.ops) == ("mm", "hmx", 4)
    assert first.error == pytest.approx(50 / 31 - 1)  # 31 * 1.6 is 49.6, and a tick is whole
    assert first.makespan_effect_us == pytest.approx(float((made - small.makespan) * Fraction(1, 125)))
    assert all(row.error == 0 for row in found.stages[1:])


def test_slower_ops_are_no_loss_of_overlap_between_tasks(small: Schedule, tmp_path: Path) -> None:
    """Everything takes half as long again: tasks alone do, too, so what they save together grows with them."""
    by = Fraction(3, 2)
    data = json.loads(written(small, [rerun(small)]))
    origin = min(record["start_ns"] for record in data["records"])
    for record in data["records"]:
        for key in ("start_ns", "end_ns"):
            record[key] = origin + round((record[key] - origin) * by)
    found = compare(small, trace_of(tmp_path, json.dumps(data)))
    assert found.gain is not None and found.measured_gain is not None
    was, now = found.gain, found.measured_gain
    made = small.makespan - small.problem.entry_ticks
    assert now.existing - now.total == small.problem.entry_ticks + made * by
    alone = was.overlap_between_tasks + made - was.tail
    assert now.overlap_within_tasks == was.overlap_within_tasks - (by - 1) * alone
    assert now.overlap_between_tasks - now.tail == by * (was.overlap_between_tasks - was.tail)


def test_time_that_no_duration_explains_is_dispatch(small: Schedule, tmp_path: Path) -> None:
    """Everything after the middle begins 1 us later than it could: nobody took longer."""
    data = json.loads(written(small, [rerun(small)]))
    middle = sorted(r["start_ns"] for r in data["records"])[len(data["records"]) // 2]
    for record in data["records"]:
        if record["start_ns"] >= middle:
            record["start_ns"] += 1000
            record["end_ns"] += 1000
        elif record["end_ns"] > middle:
            record["end_ns"] = max(record["end_ns"], middle)
    found = compare(small, trace_of(tmp_path, json.dumps(data)))
    assert found.makespan.measured == small.makespan + 125
    assert found.by_dispatch > 0
    assert found.by_durations + found.by_dispatch == 125


def factors(seed: int) -> Any:
    def factor(op: Op) -> Fraction:
        return Fraction(60 + crc32(f"{seed} {op.name}".encode()) % 100, 100)

    return factor


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6))
def test_everything_sums_up_exactly(small: Schedule, tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("run")
    times = rerun(small, factors(seed))
    found = compare(small, trace_of(folder, written(small, [times])))
    made = max(max(t.observed, t.end) for t in times.values())
    assert found.makespan.measured == made
    assert found.by_durations + found.by_dispatch == made - small.makespan
    assert small.gain is not None and found.measured_gain is not None
    assert found.measured_gain.existing - found.measured_gain.total == made
    for one, makespan in ((rerun(small), small.makespan), (times, made)):
        split = Bubbles(small.problem, small.plan, modes_of(small), one, {}).by_engine(makespan)
        for engine, of in split.items():
            queues = [queue for queue in small.plan.queues if queue.engine == engine]
            assert set(of.idle) == set(REASONS)
            assert all(ticks >= 0 for ticks in of.idle.values())
            assert of.work + sum(of.idle.values()) == makespan * len(queues)


def test_the_replay_of_a_prediction_is_the_prediction(small: Schedule) -> None:
    modes = modes_of(small)
    times = rerun(small)
    lengths = {name: lengths_of(modes[name], at) for name, at in times.items()}
    assert replayed(small, modes, lengths) == small.makespan


@pytest.mark.slow
def test_under_contention_the_parts_still_sum_up(pair: Schedule, tmp_path: Path) -> None:
    as_is = compare(pair, trace_of(tmp_path, written(pair, [rerun(pair)])))
    assert abs(as_is.error) < 1e-4, "times are rounded to nanoseconds"
    assert pair.gain is not None and as_is.measured_gain is not None
    off = Fraction(as_is.measured_gain.contention_cost) - Fraction(pair.gain.contention_cost)
    assert abs(off) * (pair.problem.tick or 1) < Fraction(1, 20)
    found = compare(pair, trace_of(tmp_path, written(pair, [rerun(pair, factors(3))])))
    assert found.measured_gain is not None
    assert found.measured_gain.total == found.measured_gain.existing - found.makespan.measured
    difference = found.measured_gain.total - pair.gain.total
    assert difference == found.makespan.predicted - found.makespan.measured


def test_cycles_of_another_clock_are_not_the_models_error(pair: Schedule, tmp_path: Path) -> None:
    """The same cycles at half the clock take twice the time: each stage says that the clock did it."""
    machine = load_hw("hexagon-v79")
    khz = int(machine.core_mhz * 1000)
    data = json.loads(written(pair, [rerun(pair)], khz=khz))
    data["clock"]["khz"] = khz // 2
    found = compare(pair, trace_of(tmp_path, json.dumps(data)), machine=machine)
    assert found.error == pytest.approx(1, abs=0.01)
    assert found.clock_text is not None and "1,063.0 MHz" in found.clock_text and "-50.0%" in found.clock_text
    for row in found.stages:
        if row.engine != "dma" and row.predicted_us > 1:
            assert row.error == pytest.approx(1, abs=0.01)
            assert row.clock_error == pytest.approx(1, abs=0.01)


def test_several_runs_the_first_apart_and_the_median_shown(small: Schedule, tmp_path: Path) -> None:
    speeds = [3, 1, Fraction(6, 5), Fraction(7, 5)]
    runs = [rerun(small, lambda _, by=by: Fraction(by)) for by in speeds]
    found = compare(small, trace_of(tmp_path, written(small, runs)))
    assert (found.matching.runs, found.matching.run) == (4, 2)
    (row,) = [row for row in found.stages if row.stage == "mm"]
    assert row.first_run_us == pytest.approx(3 * 31 * 0.008)
    assert row.median_us == pytest.approx(37 * 0.008)


def test_names_by_pattern_and_order(small: Schedule, tmp_path: Path) -> None:
    """A trace of another recorder: stages by their name, tiles in the order of time."""
    rows = {row.op: row for row in small.rows}
    events = []
    for op in small.problem.ops:
        if op.stage != "load":
            start, end = (float(small.us(t)) for t in (rows[op.name].start, rows[op.name].end))
            events.append({"name": op.stage, "ph": "X", "ts": start, "dur": end - start, "pid": 1, "tid": op.stage})
    events.append({"name": "somebody else", "ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 9})
    found = compare(small, trace_of(tmp_path, json.dumps(events)))
    assert (found.matching.by_name, found.matching.by_order) == (0, 13)
    assert found.matching.missing == tuple(f"load.{k}" for k in range(4))
    assert found.matching.unknown == ("somebody else",)
    assert all(row.error == pytest.approx(0, abs=1e-3) for row in found.stages)


def test_slices_that_begin_late_are_not_slow(tmp_path: Path) -> None:
    """Two units work 30 ticks each; one begins 20 ticks later: the op took 30, and the rest is the hand-over's."""
    work = problem(
        run("both", held("hvx", 30, units=2), task="t"), on("hmx", "m", 5, task="t"), after="both>m", tick_us="1"
    )
    plan = solve(work, seed=1, time_limit_s=0.5).schedule
    assert plan is not None
    data = json.loads(written(plan, [rerun(plan)]))
    head = next(record for record in data["records"] if record["op"] == "both")
    data["workers"].append({"engine": "hvx", "unit": 1, "kind": "hvx", "dropped": 0})
    late = head | {"worker": len(data["workers"]) - 1}
    for record in (late, *(r for r in data["records"] if r["op"] == "m")):
        record["start_ns"] += 20_000
        record["end_ns"] += 20_000
    data["workers"][head["worker"]] = {"engine": "hvx", "unit": 0, "kind": "hvx", "dropped": 0}
    data["records"].append(late)
    found = compare(plan, trace_of(tmp_path, json.dumps(data)))
    (row,) = [row for row in found.stages if row.engine == "hvx"]
    assert (row.median_us, row.error) == (30, 0)


def test_transfers_seen_late_are_bounds(small: Schedule, tmp_path: Path) -> None:
    found = compare(small, trace_of(tmp_path, written(small, [rerun(small)], exact=False)))
    exact = {row.stage: row.exact for row in found.stages}
    assert exact == {"load": False, "prepare": True, "mm": True, "row": True}


def test_ops_that_began_the_other_way_round(tmp_path: Path) -> None:
    work = problem(
        on("hvx", "a", 30, task="t"), on("hvx", "b", 10, task="t"), on("hvx", "c", 25, task="t"), tick_us="1"
    )
    plan = solve(work, seed=1, time_limit_s=1).schedule
    assert plan is not None
    data = json.loads(written(plan, [rerun(plan)]))
    by_start = sorted(data["records"], key=lambda r: r["start_ns"])
    assert by_start[0]["start_ns"] == by_start[1]["start_ns"] < by_start[2]["start_ns"]
    late, early = by_start[2], by_start[1]
    origin = by_start[0]["start_ns"]
    late["start_ns"], late["end_ns"] = origin + 1000, late["end_ns"] - late["start_ns"] + origin + 1000
    early["start_ns"], early["end_ns"] = origin + 5000, early["end_ns"] + 5000
    found = compare(plan, trace_of(tmp_path, json.dumps(data)))
    assert [(row.engine, row.pairs) for row in found.inversions] == [("hvx", 1)]
    assert found.inversions[0].example == (early["op"], late["op"])


def test_what_cannot_be_compared_is_told(small: Schedule, tmp_path: Path) -> None:
    strange = [{"name": "x", "ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1}]
    with pytest.raises(InvalidInputError, match="no op of schedule 'problem' is in the trace; its events are x"):
        compare(small, trace_of(tmp_path, json.dumps(strange)))
    data = json.loads(written(small, [rerun(small)]))
    data["clock"] = {"unit": "cycles"}
    trace = trace_of(tmp_path, json.dumps(data))
    with pytest.raises(InvalidInputError, match="unknown clock; say it with --mhz"):
        compare(small, trace)
    assert compare(small, trace, khz=1_000_000).error == 0, "one cycle a nanosecond"


def test_the_file_and_the_picture(small: Schedule, tmp_path: Path) -> None:
    def slower(op: Op) -> Fraction:
        return Fraction(3, 2) if op.stage == "mm" else Fraction(1)

    found = compare(small, trace_of(tmp_path, written(small, [rerun(small, slower)])))
    again = type(found).model_validate_json(found.to_json())
    assert again == found
    picture = comparison_svg(small, found)
    assert picture == comparison_svg(small, found)
    assert picture.count(LONGER[0]) >= 4, "the slow stage is red"
    assert "mm.0: predicted" in picture
    assert picture.startswith("<svg") and "NaN" not in picture

    def row(was: int, now: int) -> OpError:
        zero = Pair(predicted=0, measured=0)
        return OpError(op="x", start=zero, end=Pair(predicted=was, measured=now))

    colours = [error_colour(row(100, now)) for now in (70, 90, 100, 115, 130)]
    assert colours == [*(colour for _, colour, _ in COLOURS), LONGER[0]]
    assert error_colour(row(0, 0)) == COLOURS[2][1]
    assert error_colour(row(0, 5)) == LONGER[0]


@settings(max_examples=60)
@given(seed=st.integers(0, 2**40), steps=st.integers(1, 4))
def test_a_damaged_run_is_told_or_compared(
    small: Schedule, tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged-run"
    path.write_bytes(damaged(written(small, [rerun(small)]), seed, steps))
    try:
        found = compare(small, read_trace(path, "records", partial=True))
    except InvalidInputError as error:
        said = str(error)
    else:
        said = "read"
        assert found.by_durations + found.by_dispatch == found.makespan.measured - found.makespan.predicted
        assert found.measured_gain is not None
        assert found.measured_gain.total == found.measured_gain.existing - found.makespan.measured
        assert all(row.accidental >= 0 for row in found.bubbles)
        assert comparison_svg(small, found)
    assert "\n" not in said
