"""`hexloom study`, `hexloom opportunities` and `hexloom qos`: what they print, their files, and how they end."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import jsonschema
import pytest
from traces import GGML, TABLE

from hexloom.cli import main
from hexloom.optimizer.schemas import schema_texts

if TYPE_CHECKING:
    from collections.abc import Callable

Run = tuple[int, str, str]

WORK = """\
schema: hexloom.workload/1
name: pair
hw: hexagon-v79
tasks:
  - name: mm
    ops:
      - {name: load, engine: dma, duration_us: 8}
      - {name: mul, engine: hmx, duration_us: 20, after: [load]}
  - name: rows
    ops:
      - {name: row, engine: hvx, units: all, duration_us: 12}
"""

QOS = """\
schema: hexloom.qos/1
name: stream
deadline_us: 50
stream: [{name: tc, duration_us: 10}]
fillers: [{name: cd, duration_us: 8}]
pairs: [{stream: tc, filler: cd, fused_us: 12}]
arrivals_us: [0, 100]
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    def _run(*arguments: object) -> Run:
        code = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return _run


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work.yaml"
    path.write_text(WORK, encoding="utf-8")
    return path


def valid(kind: str, data: Any) -> Any:
    jsonschema.validate(data, json.loads(schema_texts()[f"{kind}.schema.json"]))
    return data


def test_study_prints_groups_and_writes_a_picture(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    arguments = ("study", work, "--seed", 1, "--time-limit", "100ms", "-q", "-o", tmp_path / "out")
    code, out, _ = run(*arguments)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:6]] == [
        "serial", "existing", "concurrent", "fused_serial", "plan",
    ]  # fmt: skip
    picture = (tmp_path / "out" / "study.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "fused_serial" in picture
    code, out, _ = run(*arguments, "--json", "--ablate", "no_task_overlap", "--ablate", "no_staging")
    found = valid("study", json.loads(out))
    assert code == 0
    assert found == json.loads((tmp_path / "out" / "study.json").read_text(encoding="utf-8"))
    assert (tmp_path / "out" / "study.svg").read_text(encoding="utf-8") == picture
    assert {row["name"]: row["status"] for row in found["ablations"]}["no_staging"] == "INVALID"


@pytest.mark.slow
def test_a_sweep_writes_tables_and_pictures(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    sweep = ["--sweep", "work_ratio=0.1..10:log4", "--sweep", "ddr.total_gb_s=40,50,60", "--workers", 1]
    arguments = ["study", work, "-o", folder, "--time-limit", "0s", *sweep]
    code, out, _ = run(*arguments)
    assert code == 0
    assert "points    12: " in out
    with (folder / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert {row["work_ratio"] for row in rows} == {"0.1", "0.464159", "2.15443", "10"}
    for row in rows:
        parts = [float(row[name]) for name in ("saved_entries", "overlap_within_tasks", "overlap_between_tasks")]
        costs = [float(row[name]) for name in ("contention_cost", "tail")]
        assert sum(parts) - sum(costs) == pytest.approx(float(row["existing"]) - float(row["plan"]), abs=1e-4)
    pytest.importorskip("matplotlib")
    names = sorted(path.name for path in folder.glob("*.svg"))
    assert names == ["line_ddr_total_gb_s.svg", "line_work_ratio.svg", "map_work_ratio_ddr_total_gb_s.svg"]
    bytes_of = {name: (folder / name).read_bytes() for name in names}
    line = bytes_of["line_work_ratio.svg"].decode()
    assert "do not co-schedule" in line and "break-even" in line
    assert run(*arguments, "--json")[0] == 0
    assert {name: (folder / name).read_bytes() for name in names} == bytes_of
    drawn = ["study", work, "-o", tmp_path / "drawn", "--time-limit", "0s", "--workers", 1, "--samples", 5, "--json"]
    code, out, _ = run(*drawn, "--sweep", "work_ratio=0.1..10:log", "--sweep", "jitter=0..0.5")
    assert code == 0
    assert len(json.loads(out)["rows"]) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sweep", "work_ratio=1"], "--out"),
        (["--samples", 5], "--samples goes with --sweep"),
        (["--scheduler", "here:1"], "--scheduler goes with --sweep"),
        (["--ablate", "nothing"], "known:"),
        (["--sweep", "work_rato=1", "-o", "OUT"], "did you mean 'work_ratio'"),
        (["--sweep", "work_ratio=1..2", "-o", "OUT"], "--samples"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    run: Callable[..., Run], work: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    code, _, err = run("study", work, *(str(tmp_path / "o") if a == "OUT" else a for a in arguments), "-q")
    assert code == 2
    assert said in err and err.count("\n") == 1


def test_opportunities_of_a_log_and_of_a_table(run: Callable[..., Run], tmp_path: Path) -> None:
    for name, text in (("a.log", GGML), ("table.txt", TABLE)):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        code, out, _ = run("opportunities", path, "--hw", "hexagon-v79", "--time-limit", "0s", "-o", tmp_path / "o")
        assert code == 0
        assert "saves" in out.splitlines()[0] or "little" in out.splitlines()[0]
        code, out, _ = run("opportunities", path, "--hw", "hexagon-v79", "--time-limit", "0s", "--json")
        found = valid("opportunities", json.loads(out))
        assert found == json.loads((tmp_path / "o" / "opportunities.json").read_text(encoding="utf-8"))
    code, _, err = run("opportunities", tmp_path / "none.onnx", "--hw", "hexagon-v79")
    assert code == 2 and err.count("\n") == 1
    code, _, err = run("opportunities", path, "--hw", "hexagon-v79", "--dim", "a=1")
    assert code == 2 and ".onnx" in err
    code, _, err = run("opportunities", path, "--hw", "hexagon-v79", "--tokens", 1)
    assert code == 2 and ".gguf" in err


def test_qos_prints_every_policy(run: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "qos.yaml"
    path.write_text(QOS, encoding="utf-8")
    code, out, _ = run("qos", path, "-o", tmp_path / "o")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["alone", "reorder", "whole", "part"]
    code, out, _ = run("qos", path, "--json")
    assert code == 0
    assert valid("qos_report", json.loads(out)) == json.loads((tmp_path / "o" / "qos.json").read_text(encoding="utf-8"))
    code, _, err = run("solve", path)
    assert code == 2 and "hexloom qos" in err


@pytest.mark.slow
def test_the_example_of_a_stream(run: Callable[..., Run]) -> None:
    """No answer is late; fusing brings more than idle time does, and parts more than whole fillers."""
    example = Path(__file__).resolve().parents[2] / "examples" / "qos_stream" / "stream.yaml"
    code, out, _ = run("qos", example, "--json", "--time-limit", "100ms")
    assert code == 0
    rows = {row["policy"]: row for row in json.loads(out)["rows"]}
    assert all(row["late"] == 0 for row in rows.values())
    assert rows["part"]["fused"] > rows["whole"]["fused"] > 0
    assert rows["whole"]["filler_ns"] > rows["alone"]["filler_ns"]
    assert rows["part"]["filler_ns"] > rows["whole"]["filler_ns"]


def test_tables_hold_no_tabs_for_pipes(run: Callable[..., Run], work: Path) -> None:
    _, out, _ = run("study", work, "--seed", 1, "--time-limit", "0s", "-q")
    assert "\t" not in out and io.StringIO(out).readline().startswith("group")


def test_a_study_of_what_cannot_fit_ends_as_proven(run: Callable[..., Run], tmp_path: Path) -> None:
    path = tmp_path / "tight.yaml"
    big = "{name: big, size_bytes: 9MiB}"
    path.write_text(
        "schema: hexloom.workload/1\nname: tight\nhw: hexagon-v79\ntasks:\n"
        f"  - {{name: sums, buffers: [{big}], ops: [{{name: add, engine: hvx, duration_us: 2, buffers: [big]}}]}}\n",
        encoding="utf-8",
    )
    code, out, err = run("study", path, "--time-limit", "0s", "-q")
    assert (code, out) == (1, "")
    assert "no plan to compare with: op 'add' needs" in err


def test_fillers_without_number_are_refused(
    run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hexloom.optimizer.qos.replay.MOST_FILLS", 100)
    path = tmp_path / "stream.yaml"
    path.write_text(QOS.replace("[0, 100]", "[0, 1000000000]"), encoding="utf-8")
    code, _, err = run("qos", path)
    assert code == 2
    assert "more than 100 fillers run while no query waits" in err


def test_a_point_beyond_all_sizes_is_invalid_alone(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    how = ("--workers", 1, "--time-limit", "0s", "-q", "-o", tmp_path / "o")
    code, out, _ = run("study", work, "--sweep", "work_ratio=1,1e17", *how)
    assert code == 0
    assert "1 INVALID" in out
    assert "the durations add up to about" in out


def test_a_sweep_of_which_no_point_can_be_studied_is_bad_input(
    run: Callable[..., Run], work: Path, tmp_path: Path
) -> None:
    how = ("--workers", 1, "--time-limit", "0s", "-q", "-o", tmp_path / "o")
    code, _, err = run("study", work, "--sweep", "jitter=1.5,2", *how)
    assert code == 2
    assert "no point of the sweep can be studied: jitter 1.5: write a part" in err and err.count("\n") == 1


def test_a_file_of_another_kind_is_named(run: Callable[..., Run], work: Path) -> None:
    code, _, err = run("solve", work, "--robust", work, "-q")
    assert code == 2
    assert "this is a workload, not a durations" in err
