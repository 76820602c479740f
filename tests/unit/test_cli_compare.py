"""`hexloom compare`: what it prints, its files, and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from measured import rerun, written
from traces import GGML, TEXTS, chrome
from unit.small import move, on, problem

from hexloom import solve
from hexloom.cli import main
from hexloom.optimizer.schemas import schema_texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexloom import Schedule

Run = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    def _run(*arguments: object) -> Run:
        code = main(["compare", *(str(a) for a in arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return _run


@pytest.fixture(scope="module")
def plan() -> Schedule:
    ops = move("load", 40, issue=3, poll=2, task="a"), on("hvx", "cook", 25, task="b"), on("hmx", "mm", 31, task="a")
    found = solve(problem(*ops, after="load>mm", tick_us="1/125"), seed=1, time_limit_s=1).schedule
    assert found is not None
    return found


@pytest.fixture
def files(plan: Schedule, tmp_path: Path) -> tuple[Path, Path]:
    """A schedule, and a trace whose makespan is 25 % longer."""
    schedule, trace = tmp_path / "schedule.json", tmp_path / "trace.json"
    schedule.write_text(plan.to_json())
    data = json.loads(written(plan, [rerun(plan)]))
    last = max(record["end_ns"] for record in data["records"])
    for record in data["records"]:
        record["end_ns"] += round(plan.makespan * 8 / 4) if record["end_ns"] == last else 0
    trace.write_text(json.dumps(data))
    return schedule, trace


@pytest.mark.parametrize("form", TEXTS)
def test_every_format_gets_a_screen(run: Callable[..., Run], tmp_path: Path, form: str) -> None:
    path = tmp_path / "trace"
    path.write_bytes(TEXTS[form].encode())
    code, out, err = run(path, "--top", 2)
    assert (code, err) == (0, "")
    assert "events" in out.splitlines()[0]
    assert len(out.splitlines()) > 4
    code, out, _ = run(path, "--json", "--format", form)
    assert code == 0
    data = json.loads(out)
    data.pop("floors")
    jsonschema.validate(data, json.loads(schema_texts()["trace_summary.schema.json"]))


def test_a_ggml_op_with_its_floor(run: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "op.log"
    path.write_text(GGML.replace("MUL_MAT+ADD", "MUL_MAT"))
    code, out, _ = run(path, "--hw", "hexagon-v79", "--top", 1)
    assert code == 0
    assert "times in cycles at 1666.7 MHz" in out
    assert "bound by: " in out
    assert "predicted: matmul_w4a16 8 x 64 x 64 takes at least" in out
    assert "hexloom tune matmul_w4a16 8 64 64 --type q4_0 --hw hexagon-v79" in out
    floors = json.loads(run(path, "--hw", "hexagon-v79", "--json")[1])["floors"]
    assert [(f["op"], f["kernel"]) for f in floors] == [(0, "matmul_w4a16"), (1, "add")]
    assert all(0 < f["floor_us"] <= f["loop_us"] for f in floors)


def test_with_a_schedule(run: Callable[..., Run], files: tuple[Path, Path], tmp_path: Path) -> None:
    code, out, err = run(*files, "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    for word in ("matched   3 of 3 ops, 3 by name", "predicted 0.", "+25.0", "saved entries", "a/mm", "dispatch"):
        assert word in out or word == "dispatch", word
    data = json.loads((tmp_path / "out" / "comparison.json").read_text())
    jsonschema.validate(data, json.loads(schema_texts()["comparison.schema.json"]))
    assert (tmp_path / "out" / "comparison.svg").read_text().startswith("<svg")
    code, out, _ = run(*files, "--json")
    assert (code, json.loads(out)) == (0, data)


@pytest.mark.parametrize(("limit", "code"), [("10%", 4), ("0.1", 4), ("30%", 0), ("0.3", 0), ("26 %", 0), ("0%", 4)])
def test_fail_above_is_for_machines(run: Callable[..., Run], files: tuple[Path, Path], limit: str, code: int) -> None:
    got, _, err = run(*files, "--fail-above", limit)
    assert got == code
    assert err.count("\n") == (1 if code else 0)
    assert not code or "more than" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{trace}", "--fail-above", "10%"], "give SCHEDULE and TRACE"),
        (["{trace}", "-o", "{folder}"], "give SCHEDULE and TRACE"),
        (["{schedule}", "{trace}", "--fail-above", "much"], "write 10% or 0.1"),
        (["{schedule}", "{trace}", "--fail-above", "-1%"], "write 10% or 0.1"),
        (["{schedule}", "{trace}", "{trace}"], "3 files"),
        (["{trace}", "{trace}"], "schedule"),
        (["{schedule}", "{schedule}"], "this is a file of hexloom.schedule/1, not a trace"),
        (["{trace}", "--format", "perfetto"], "known are"),
        (["{trace}", "--unit", "us"], "says its units"),
        (["{trace}", "--mhz", "x"], "write a clock"),
        (["{trace}", "--mhz", "100"], "not cycles"),
        (["{trace}", "--hw", "hexagon-v999"], "unknown machine"),
        (["{folder}/none.json"], "No such file"),
        (["{folder}"], "directory"),
    ],
)
def test_bad_arguments(
    run: Callable[..., Run], files: tuple[Path, Path], tmp_path: Path, arguments: list[str], says: str
) -> None:
    places: dict[str, Any] = {"schedule": files[0], "trace": files[1], "folder": tmp_path}
    code, out, err = run(*(a.format(**places) for a in arguments))
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_units_and_clocks_of_a_chrome_trace(run: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(chrome())
    assert "times in cycles at 1943.6 MHz" in run(path, "--unit", "cycles", "--mhz", "1943.6")[1]
    assert "times in ns" in run(path)[1]


def test_warnings_come_first(run: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "op.log"
    path.write_text(GGML + "ggml-hex: HTP0 trace-evt DMA: thread 0 info 9 start 77\n")
    lines = run(path)[1].splitlines()
    assert lines[1].startswith("warning: 1 start without a stop, not counted (DMA info 9 of thread 0")


MATMUL = (
    "ggml-hex: HTP0 profile-op MUL_MAT|w x act -> out|256:256 x 256:35 -> 256:35|q4_0 x f32 -> f32|s|"
    "hmx-tiled vtcm 8000000|usec 20 cycles 42300 start 1 mhz 2115.0\n"
)


def test_what_tuning_would_change_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "op.log"
    path.write_text(MATMUL)
    assert main(["compare", str(path), "--tune", "1s"]) == 2
    assert "--tune is for a trace alone, and needs the machine" in capsys.readouterr().err
    assert main(["compare", str(path), "--hw", "hexagon-v79", "--tune", "soon"]) == 2
    assert "--tune 'soon': write 10s" in capsys.readouterr().err


@pytest.mark.slow
def test_tuning_the_ops_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "op.log"
    path.write_text(MATMUL)
    assert main(["compare", str(path), "--hw", "hexagon-v79", "--tune", "500ms"]) == 0
    assert "tuned MUL_MAT 35 x 256 x 256: " in capsys.readouterr().out
    assert main(["compare", str(path), "--hw", "hexagon-v79", "--tune", "500ms", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["tuned"]
    assert (report["op"], report["m"]) == (0, 35)
    assert report["makespan_us"] <= report["existing_us"]
