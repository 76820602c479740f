"""Cases about the search itself: exact times, true verdicts, kept limits, proofs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import (
    memory_is_sound,
    problem_file,
    rows,
    run_cli,
    schedule_of,
    workload_file,
)
from cases.neutral import to_problem, to_workload

from hexloom import Workload, solve
from hexloom.formulations import portfolio
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.flat.guard import Guard, Outcome
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution
from hexloom.optimizer import solve as solve_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexloom.formulations.bounds import Bounds
    from hexloom.formulations.problem import Problem, Rule

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


def test_sol_01_long_durations(case: Case) -> None:
    """The time of the process, which others on the machine do not lengthen: a hundredth of the limit is usual."""
    data = case("SOL-01")
    started = time.process_time()
    result = solve(to_problem(data))
    assert time.process_time() - started < 2  # the report waited 15 minutes
    assert (result.status, result.certificate) == ("OPTIMAL", "arithmetic")
    assert result.evaluations <= 2, "nothing is searched"
    schedule = schedule_of(data, limit_s=10)
    assert schedule.makespan == 12_000_000_000
    assert sorted(row.start for row in schedule.rows) == [0, 4_000_000_000, 8_000_000_000]


def test_sol_03_decimals_stay_exact(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("SOL-03")
    inputs = {
        "problem": problem_file(tmp_path, data["exact"]),
        "workload": workload_file(tmp_path, {**to_workload(data["exact"]), "hw": "hexagon-v79"}),
    }
    for source in inputs.values():
        code, out, _ = run_cli(capsys, "solve", source, "--json")
        assert code == 0
        assert '"makespan_us": 0.6,' in out
        _, out, _ = run_cli(capsys, "solve", source)
        assert "schedule" in out
        assert " 0.6 us" in out
        assert "0.60" not in out
        assert "0.599" not in out


def test_sol_03_rounding_is_never_unasked(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("SOL-03")["deadline"]
    result = solve(to_problem(data))
    assert (result.status, result.makespan_us) == ("OPTIMAL", 3)
    result = solve(Workload.from_data(to_workload(data)), "hexagon-v79")
    assert (result.status, result.makespan_us) == ("OPTIMAL", 3)
    forced = workload_file(tmp_path, to_workload(data, tick=1))
    code, _, said = run_cli(capsys, "solve", forced, "--hw", "hexagon-v79")
    assert code == 2
    assert "rounding adds 1 us, use tick 0.5" in said
    assert solve(Workload.from_data(to_workload(data, tick=0.5)), "hexagon-v79").makespan_us == Fraction(3)


def test_sol_04_a_marker_takes_nothing(case: Case) -> None:
    schedule = schedule_of(case("SOL-04"))
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 2)
    assert (rows(schedule)["mark"].start, rows(schedule)["mark"].observed) == (1, 1)


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("presolve", [True, False])
def test_sol_04_in_the_installed_solver(case: Case, presolve: bool, workers: int) -> None:
    """The solver itself, on the model with addresses, from no incumbent."""
    problem = to_problem(case("SOL-04"))
    bounds = lower_bounds(problem)
    options = FlatOptions(True, problem.horizon_ticks, 0, 30.0, False, 0, workers, presolve)
    solutions: list[FlatSolution] = []
    status, _ = FlatModel(problem, bounds.heads_tails, options).solve(solutions.append)
    assert (status, solutions[-1].makespan) == ("OPTIMAL", 2)
    assert solutions[-1].start[problem.op_index["mark"]] == 1


def scaled(data: Any, factor: int, vtcm: int) -> Any:
    """Multiply all bytes and durations."""
    return {
        "machine": {**data["machine"], "vtcm": vtcm * factor},
        "tasks": [{**task, "dur": task["dur"] * factor} for task in data["tasks"]],
        "bufs": [{**b, "bytes": b["bytes"] * factor} for b in data["bufs"]],
    }


@pytest.mark.parametrize("vtcm", [65536, 65535])
def test_sol_06_scale_does_not_change_the_answer(case: Case, vtcm: int) -> None:
    factors = case("SOL-06")["scale_factors"]
    data = case("VTCM-07")
    assert factors == [1, 10, 100]
    answers = set()
    for factor in factors:
        schedule = schedule_of(scaled(data, factor, vtcm), limit_s=3)
        answers.add((schedule.status, Fraction(schedule.makespan, factor)))
    assert answers == {("OPTIMAL", 85 if vtcm == 65536 else 120)}


@pytest.mark.parametrize("factor", [1, 100])
@pytest.mark.parametrize("presolve", [True, False])
def test_sol_06_workers_agree(case: Case, factor: int, presolve: bool) -> None:
    """The solver itself, on the model with addresses, from no incumbent."""
    problem = to_problem(scaled(case("VTCM-07"), factor, 65536))
    bounds = lower_bounds(problem)
    answers = set()
    for workers in (1, 8, 16):
        options = FlatOptions(True, problem.horizon_ticks, bounds.best.ticks, 30.0, False, 0, workers, presolve)
        solutions: list[FlatSolution] = []
        status, _ = FlatModel(problem, bounds.heads_tails, options).solve(solutions.append)
        answers.add((status, Fraction(solutions[-1].makespan, factor)))
    assert answers == {("OPTIMAL", 85)}


def test_sol_06_a_verdict_against_a_verified_plan(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A solver that always says INFEASIBLE: the plan of the list scheduler stays, and the user is told."""
    monkeypatch.setattr(Guard, "solve", lambda *_: Outcome("INFEASIBLE", 0, None))
    monkeypatch.setattr(portfolio, "EVENT_OPS", 0)
    monkeypatch.setattr(solve_module, "configuration_bound", lambda *_, **__: None)
    monkeypatch.setattr(solve_module, "lower_bounds", without_scratchpad)
    data = scaled(case("VTCM-07"), 1, 65535)
    schedule = schedule_of(data)
    assert (schedule.status, schedule.makespan) == ("FEASIBLE", 120)
    assert "internal error: solver verdict contradicts a verified plan" in schedule.notes
    code, out, _ = run_cli(capsys, "solve", problem_file(tmp_path, data), "--time-limit", "500ms")
    assert code == 0
    assert "internal error: solver verdict contradicts a verified plan" in out


def without_scratchpad(problem: Problem, rule: Rule) -> Bounds:
    """Leave something to prove."""
    bounds = lower_bounds(problem, rule)
    return replace(bounds, found=tuple(b for b in bounds.found if b.name not in ("scratchpad", "turns")))


def blocks(count: int, tiles: int) -> dict[str, Any]:
    """Return blocks of load 4, vector 5, matrix 6 with one tile each."""
    tasks = []
    for k in range(count):
        tasks += [
            {"id": f"L{k}", "eng": "dma", "dur": 4, "bufs": [f"b{k}"]},
            {"id": f"V{k}", "eng": "hvx", "dur": 5, "after": [f"L{k}"]},
            {"id": f"M{k}", "eng": "hmx", "dur": 6, "after": [f"V{k}"], "bufs": [f"b{k}"]},
        ]
    machine = {"dma": 1, "hvx": 1, "hmx": 1, "vtcm": tiles}
    return {"machine": machine, "tasks": tasks, "bufs": [{"id": f"b{k}", "bytes": 1} for k in range(count)]}


@pytest.mark.parametrize(("count", "three", "two"), [(2, 21, 21), (4, 33, 36), (6, 45, 51)])
def test_sol_07_few_blocks(case: Case, count: int, three: int, two: int) -> None:
    assert case("SOL-07")["generate"]["blocks"] == 600
    for tiles, makespan in ((3, three), (2, two)):
        schedule = schedule_of(blocks(count, tiles), limit_s=5)
        assert (schedule.status, schedule.makespan) == ("OPTIMAL", makespan)


@pytest.mark.slow
@pytest.mark.parametrize(("tiles", "makespan", "bound"), [(3, 3609, "hmx"), (2, 4506, "scratchpad")])
def test_sol_07_at_full_size(case: Case, tiles: int, makespan: int, bound: str) -> None:
    """Three times the budget of the case: the gate's machine is shared, and what takes how long is for benchmarks."""
    data = case("SOL-07")
    problem = to_problem(blocks(data["generate"]["blocks"], tiles))
    result = solve(problem, time_limit_s=3 * data["budget_s"])
    assert result.schedule is not None
    memory_is_sound(result.schedule)
    assert result.makespan_us == makespan
    assert result.bottleneck == bound
    assert result.gap is not None and result.gap <= Fraction(6, 4506)


def test_sol_09_greedy_meets_a_bound(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "solve", lambda *_: pytest.fail("the solver was called"))
    data = case("SOL-09")
    result = solve(to_problem(data))
    schedule = result.schedule
    assert schedule is not None
    assert (result.status, schedule.makespan, result.certificate) == ("OPTIMAL", 30, "arithmetic")
    assert result.bottleneck == "hvx"
    assert "engine hvx: head 4 ticks + load 24 ticks + tail 2 ticks" in schedule.bounds[0].detail
    assert result.evaluations <= 2, "the list schedule is the proof, nothing is searched"


SOLVE = """
import sys
from hexloom.cli import main
for source in sys.argv[2:]:
    out = f"{sys.argv[1]}/{source[-9:-5]}"
    assert main(["solve", source, "-o", out, "--seed", "7", "--time-limit", "300ms", "-q"]) == 0
"""


@pytest.mark.slow
def test_sol_10_same_bytes_in_every_process(case: Case, tmp_path: Path) -> None:
    """Once where a list schedule is proven at once, once where the search runs to its limit."""
    data = case("VTCM-07")
    sources = [tmp_path / "easy.json", tmp_path / "hard.json"]
    for source, vtcm in zip(sources, (65536, 65535), strict=True):
        problem = to_problem(data, machine={**data["machine"], "vtcm": vtcm})
        source.write_text(problem.model_dump_json(by_alias=True), encoding="utf-8")
    runs = case("SOL-10")["runs"]
    assert runs == 5
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SOLVE, tmp_path / f"run{run}", *sources],
            env={**os.environ, "PYTHONHASHSEED": str(run * 1000 + 1)},
            stdout=subprocess.DEVNULL,
        )
        for run in range(runs)
    ]
    assert [process.wait(timeout=300) for process in processes] == [0] * runs
    for source, makespan in zip(sources, (85, 120), strict=True):
        texts = [(tmp_path / f"run{run}" / source.stem / "schedule.json").read_bytes() for run in range(runs)]
        assert len({hashlib.sha256(text).hexdigest() for text in texts}) == 1
        folders = [tmp_path / f"run{run}" / source.stem for run in range(runs)]
        assert {path.suffix for path in folders[0].iterdir()} == {".json", ".svg", ".html", ".h", ".c"}
        for path in folders[0].iterdir():
            assert len({(folder / path.name).read_bytes() for folder in folders}) == 1, path.name
        assert json.loads(texts[0])["makespan"] == makespan


def test_sol_12_many_equal_tasks(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("SOL-12")
    started = time.process_time()
    result = solve(to_problem(data))
    assert time.process_time() - started < 2
    assert (result.status, result.makespan_us, result.certificate) == ("OPTIMAL", 70, "arithmetic")
    assert result.evaluations <= 2, "the bound proves it, nothing is searched"
    schedule = schedule_of(data, limit_s=10)
    said = "the scratchpad cannot bind: all buffers side by side take 400 B of 1,000 B; it was left out of the search"
    assert schedule.notes == (said,)
    _, out, _ = run_cli(capsys, "solve", problem_file(tmp_path, data))
    assert said in out.replace("\n", " ")
    tight = schedule_of(data, machine={**data["machine"], "vtcm": 399})
    assert tight.notes == ()
