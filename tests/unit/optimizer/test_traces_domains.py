"""Traces with several clocks, traces of another plan, the kit's log: what they say, and what is told of them."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import rerun, written

from hexloom import InvalidInputError, Workload, compare, load_hw, read_trace, solve
from hexloom.cli import main
from hexloom.optimizer.schedule import schedule_hash
from hexloom.optimizer.traces.bench_fit import calibrate_bench
from hexloom.optimizer.traces.bench_log import is_bench_log, read_bench_log
from hexloom.optimizer.traces.calibrate import calibrate
from hexloom.optimizer.traces.domains import Domain, offsets

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom import Schedule

WORK = {
    "schema": "hexloom.workload/1",
    "name": "w",
    "hw": "hexagon-v79",
    "tasks": [
        {
            "name": "t",
            "ops": [
                {
                    "for": "i",
                    "count": 4,
                    "ops": [
                        {"name": "cook{i}", "engine": "hvx", "duration_us": 3},
                        {"name": "mm{i}", "engine": "hmx", "duration_us": 5, "after": ["cook{i}"]},
                        {"name": "out{i}", "engine": "hvx", "duration_us": 2, "after": ["mm{i}"]},
                    ],
                }
            ],
        }
    ],
}
HMX_KHZ = 1_063_000
"""Half of what the machine file says of the matrix unit."""


@pytest.fixture(scope="module")
def plan() -> Schedule:
    found = solve(Workload.from_data(WORK), seed=1, time_limit_s=0.2).schedule
    assert found is not None
    return found


def on_own_clock(text: str, zero: int | None, ahead_ns: int = 0) -> str:
    """Return a trace in which the matrix unit counts its own cycles, and is ``ahead_ns`` before the others."""
    data: dict[str, Any] = json.loads(text)
    number = next(k for k, w in enumerate(data["workers"]) if w["engine"] == "hmx")
    first = min(record["start_ns"] for record in data["records"])
    clock: dict[str, Any] = {"domain": "hmx", "khz": HMX_KHZ}
    if zero is not None:
        clock["zero"] = zero
    data["workers"][number]["clock"] = clock
    for record in data["records"]:
        for key in ("start", "end"):
            ns = record.pop(f"{key}_ns") - first
            if record["worker"] == number:
                record[key] = (zero or 0) + round(Fraction((ns + ahead_ns) * HMX_KHZ, 10**6))
            else:
                record[key] = ns
    return json.dumps(data)


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_clock_of_its_own_with_a_known_zero(plan: Schedule, tmp_path: Path) -> None:
    path = _write(tmp_path / "run.json", on_own_clock(written(plan, [rerun(plan)]), zero=123_456_789))
    trace = read_trace(path)
    assert trace.clock == "ns" and {d.name for d in trace.domains.values()} == {"hmx"}
    found = compare(plan, trace, machine=load_hw("hexagon-v79"))
    assert abs(found.error) < 1e-3
    assert all(abs(row.error or 0) < 1e-3 for row in found.stages)
    (clock,) = found.clocks
    assert (clock.domain, clock.mhz, clock.machine_mhz, clock.offset_us) == ("hmx", 1063.0, 2126.0, None)
    errors = {row.stage: row.clock_error for row in found.stages}
    assert errors["mm"] == 1.0 and errors["cook"] is None, "a clock explains only its own domain"


@settings(max_examples=10, deadline=None)
@given(ahead=st.integers(-(10**6), 10**6))
def test_the_plan_says_how_two_clocks_lie(plan: Schedule, tmp_path_factory: pytest.TempPathFactory, ahead: int) -> None:
    path = tmp_path_factory.getbasetemp() / "own.json"
    path.write_text(on_own_clock(written(plan, [rerun(plan)]), zero=None, ahead_ns=ahead))
    found = compare(plan, read_trace(path))
    (clock,) = found.clocks
    assert clock.offset_us is not None and clock.low_us is not None and clock.high_us is not None
    assert clock.low_us - 0.01 <= -ahead / 1000 <= clock.high_us + 0.01
    assert abs(found.error) < 0.01
    assert found.inversions == ()


def test_what_bounds_an_offset() -> None:
    own, other = Domain("hmx", 1000, 0, False), Domain("core", 1000, 0, True)
    spans = [{"a": (other, 0, 10), "b": (own, 4, 9), "c": (None, 12, 20)}]
    found = offsets([own, other], spans, [("a", "b"), ("b", "c"), ("a", "c")])
    assert found[own].low == 6 and found[own].high == 3
    assert offsets([own], spans, [("a", "b")])[own] == (6, 6, None)
    assert offsets([own], spans, [("b", "c")])[own] == (3, None, 3)
    assert offsets([own], spans, [])[own] == (0, None, None)


def test_wrong_clocks_are_told(plan: Schedule, tmp_path: Path) -> None:
    data = json.loads(on_own_clock(written(plan, [rerun(plan)]), zero=0))
    number = next(k for k, w in enumerate(data["workers"]) if w["engine"] == "hmx")
    for clock, said in (
        ({"domain": "gpu", "khz": 1}, "clock domain 'gpu'; write core, hmx, ddr"),
        ({"domain": "hmx"}, "no rate; state its khz"),
        ({"unit": "ticks", "khz": 5}, "unit 'ticks'"),
    ):
        data["workers"][number]["clock"] = clock
        with pytest.raises(InvalidInputError, match=said):
            read_trace(_write(tmp_path / "bad.json", json.dumps(data)))


def test_a_fit_is_made_at_the_clocks_that_traces_state(plan: Schedule, tmp_path: Path) -> None:
    """A trace in cycles at another clock says how fast the core ran; its costs in cycles stay what they are."""
    base, work = load_hw("hexagon-v79"), Workload.from_data(WORK)
    runs = [read_trace(_write(tmp_path / "own.json", on_own_clock(written(plan, [rerun(plan)]), zero=0)))]
    found, fitted = calibrate(base, [(work, plan, runs)])
    rows = {row.name: (row.before, row.value) for row in found.fitted}
    assert rows["clocks.hmx_mhz"] == (2126.0, 1063.0) and "clocks.core_mhz" not in rows
    assert fitted.clocks.hmx_mhz.source == "stated by 1 traces" and fitted.clocks.core_mhz == base.clocks.core_mhz
    cycles = read_trace(_write(tmp_path / "cycles.json", written(plan, [rerun(plan)], khz=1_900_000)))
    found, fitted = calibrate(base, [(work, plan, [cycles])])
    assert {row.name: row.value for row in found.fitted}["clocks.core_mhz"] == 1900.0
    other = read_trace(_write(tmp_path / "other.json", written(plan, [rerun(plan)], khz=2_100_000)))
    with pytest.raises(InvalidInputError, match=r"core clocks from 1,900\.0 to 2,100\.0 MHz"):
        calibrate(base, [(work, plan, [cycles, other])])


# --- of which plan


def test_a_trace_of_another_plan_is_told(plan: Schedule, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(written(plan, [rerun(plan)]))
    mine, other = f"{schedule_hash(plan):016x}", "00000000deadbeef"
    paths = {}
    for name, said in (("same", mine), ("other", other), ("unknown", "0" * 16)):
        paths[name] = _write(
            tmp_path / f"{name}.json", json.dumps({"schema": data["schema"], "schedule_hash": said, **data})
        )
        text = compare(plan, read_trace(paths[name])).other_plan
        assert (text is not None) == (name == "other")
    schedule = _write(tmp_path / "schedule.json", plan.to_json())
    assert main(["compare", str(schedule), str(paths["other"])]) == 0
    out = capsys.readouterr().out
    assert f"hash {other}" in out and mine in out and "give the schedule.json that was run" in out
    work = _write(tmp_path / "w.yaml", yaml.safe_dump(WORK))
    fit = ["calibrate", str(paths["other"]), "--schedule", str(schedule), "--workload", str(work)]
    assert main([*fit, "--hw", "hexagon-v79"]) == 2
    assert f"hash {other}" in capsys.readouterr().err


def test_a_fit_that_begins_at_another_machine_says_what_that_means(
    plan: Schedule, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schedule = _write(tmp_path / "schedule.json", plan.to_json())
    work = _write(tmp_path / "w.yaml", yaml.safe_dump(WORK))
    run = _write(tmp_path / "run.json", written(plan, [rerun(plan)]))
    out = tmp_path / "d.json"
    fit = ["calibrate", str(run), "--schedule", str(schedule), "--workload", str(work), "--durations", str(out)]
    assert main([*fit, "--hw", "hexagon-v81"]) == 0
    said = capsys.readouterr().err
    assert "made for hexagon-v79, the fit begins at hexagon-v81" in said and "--hw hexagon-v79" in said
    rows = json.loads(out.read_text())["rows"]
    assert {row["ops"] for row in rows} == {"t/cook", "t/mm", "t/out"}
    assert main([*fit, "--hw", "hexagon-v79"]) == 0
    assert "made for" not in capsys.readouterr().err
    both = str(tmp_path / "d.yaml")
    assert main([*fit[:-1], both, "--hw", "hexagon-v79", "-o", both]) == 2
    assert "the machine file of --out goes there" in capsys.readouterr().err


def test_a_trace_without_events_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = _write(tmp_path / "empty.json", "[]")
    assert main(["compare", str(empty)]) == 2
    assert "there is no event in it" in capsys.readouterr().err


# --- the kit's log


BENCH = """\
some log 12:00 hexloom-bench clock median_ns 21.0 low_ns 20.0 high_ns 40.0
hexloom-bench start_join median_ns 30000.0 low_ns 25000.0 high_ns 50000.0
hexloom-bench handover_spin median_ns 310.0 low_ns 290.0 high_ns 400.0
hexloom-bench handover_sleep median_ns 9000.0 low_ns 8000.0 high_ns 12000.0
hexloom-bench dma_issue median_ns 55.0 low_ns 50.0 high_ns 70.0
hexloom-bench dma_row median_ns 19.0 low_ns 18.5 high_ns 21.0
hexloom-bench dma_row_bytes_at_once median_ns 10.0 low_ns 9.5 high_ns 10.4
"""


def test_the_kits_log_tells_overheads_and_no_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path / "bench.txt", BENCH)
    assert is_bench_log(path)
    base = load_hw("hexagon-v79")
    found, fitted = calibrate_bench(base, [read_bench_log(path)])
    rows = {row.name: (row.value, row.low, row.high) for row in found.fitted}
    assert rows == {
        "overheads.dma_issue": (pytest.approx(0.055), pytest.approx(0.05), pytest.approx(0.07)),
        "overheads.hmx_handover_spin": (pytest.approx(0.31), pytest.approx(0.29), pytest.approx(0.4)),
        "overheads.hmx_handover_futex": (pytest.approx(9.0), pytest.approx(8.0), pytest.approx(12.0)),
        "dma.row_ns": (pytest.approx(9.0), pytest.approx(8.1), pytest.approx(11.5)),
        "dma.queue_rate_gb_s": (pytest.approx(57.6), pytest.approx(576 / 10.4), pytest.approx(576 / 9.5)),
    }
    refused = {row.name: row for row in found.open}
    assert "starting and joining a thread" in refused["overheads.fork_join"].reason
    assert "loads on all queues at once" in refused["dma.pipe_read_gb_s"].run
    values = dict(fitted.quantities())
    assert values["dma.row_ns"].confidence == "measured" and "micro-benchmarks" in values["dma.row_ns"].source
    assert values["overheads.fork_join"] == dict(base.quantities())["overheads.fork_join"]
    out = tmp_path / "mine.yaml"
    assert main(["calibrate", str(path), "--hw", "hexagon-v79", "-o", str(out)]) == 0
    assert "dma.row_ns" in capsys.readouterr().out
    assert load_hw(out) == fitted


def test_several_logs_are_held_against_each_other_and_nonsense_is_told(tmp_path: Path) -> None:
    first = read_bench_log(_write(tmp_path / "a.txt", BENCH))
    second = read_bench_log(_write(tmp_path / "b.txt", BENCH.replace("median_ns 310.0", "median_ns 341.0")))
    found, _ = calibrate_bench(load_hw("hexagon-v79"), [first, second])
    rows = {row.name: row.value for row in found.fitted}
    assert rows["overheads.hmx_handover_spin"] == pytest.approx(0.3255)
    flat = BENCH.replace("dma_row median_ns 19.0 low_ns 18.5", "dma_row median_ns 9.0 low_ns 8.5")
    refused, _ = calibrate_bench(load_hw("hexagon-v79"), [read_bench_log(_write(tmp_path / "c.txt", flat))])
    assert "no longer than their bytes" in next(row.reason for row in refused.open if row.name == "dma.row_ns")
    bad = BENCH.replace("median_ns 310.0", "median_ns 3.0")
    with pytest.raises(InvalidInputError, match=r"median 3.0 outside 290.0 to 400.0; run it again"):
        read_bench_log(_write(tmp_path / "d.txt", bad))
    with pytest.raises(InvalidInputError, match="no line of hexloom-bench"):
        read_bench_log(_write(tmp_path / "e.txt", "nothing here\n"))
    assert not is_bench_log(tmp_path / "e.txt")
