"""The example of a million tiles, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hexloom.cli import main

WORKLOAD = Path(__file__).resolve().parents[2] / "examples" / "million_tiles" / "workload.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("million")
    assert main(["solve", str(WORKLOAD), "-o", str(out), "--time-limit", "1s", "--seed", "1"]) == 0
    return out


def test_the_schedule_is_small_and_checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = folder / "schedule.json"
    assert schedule.stat().st_size < 3_000_000
    assert {path.name for path in folder.iterdir()} == {"schedule.json", "timeline.json", "gantt.svg", "report.html"}
    assert main(["check", str(schedule)]) == 0
    assert "1,000,000 x matmul, 1,000,000 x norm" in capsys.readouterr().out


def test_the_numbers_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", str(WORKLOAD), "--time-limit", "1s", "--seed", "1", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["formulation"] == "periodic"
    assert numbers["makespan_us"] == pytest.approx(10_352_173.65, abs=20)
    assert numbers["existing_us"] == pytest.approx(12_400_165.97, abs=20)
    assert numbers["gap"] < 1e-5
    assert numbers["bottleneck"] == "hmx"


def test_tables_of_loops_are_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", str(folder / "schedule.json"), "-o", str(tmp_path)]) == 2
    assert "this is a periodic_schedule, not a schedule" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [["--what-if"], ["--prove-twice"]])
def test_what_only_flat_plans_have_is_refused(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", str(WORKLOAD), "--formulation", "periodic", *options]) == 2
    assert "are for --formulation flat" in capsys.readouterr().err


def test_an_unknown_formulation_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", str(WORKLOAD), "--formulation", "loops"]) == 2
    assert "--formulation 'loops': write auto, flat or periodic" in capsys.readouterr().err


def test_a_corrupted_file_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
    data["stretches"][0]["period_ticks"] = 1
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(data), encoding="utf-8")
    assert main(["check", str(broken)]) == 4
    assert "makespan" in capsys.readouterr().out


def test_the_files_of_loops_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "gantt.svg").mkdir()
    assert main(["solve", str(WORKLOAD), "--time-limit", "1s", "-o", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["gantt.svg"]
