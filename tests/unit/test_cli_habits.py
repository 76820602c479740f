"""What every command has in common: --json, exit codes, completion; and what programs and notebooks get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import typer
from reports import small
from unit.emit import examples

from hexloom import talk
from hexloom.cli import app, main
from hexloom.doctor_command import findings
from hexloom.later import Later
from hexloom.schemas_command import schema_names

if TYPE_CHECKING:
    from pathlib import Path

WITHOUT_JSON = {"schemas show"}
"""What it prints is JSON."""


def commands() -> dict[str, Any]:
    """Return every command by its words."""
    found = {}
    for name, listed in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        command = listed.load() if isinstance(listed, Later) else listed
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = command
        else:
            found |= {f"{name} {word}": one for word, one in inner.items()}
    return found


def test_every_command_speaks_json() -> None:
    lacking = {
        words for words, command in commands().items() if not any("--json" in option.opts for option in command.params)
    }
    assert lacking == WITHOUT_JSON


def test_exit_codes_stay_what_they_are() -> None:
    codes = (talk.DONE, talk.INFEASIBLE, talk.BAD_INPUT, talk.NO_PLAN, talk.CHECK_FAILED)
    assert codes == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    "words", [["hw", "list"], ["hw", "show", "hexagon-v79"], ["kernels", "list"], ["kernels", "show", "copy"],
              ["schemas", "list"], ["doctor"]],
)  # fmt: skip
def test_catalogues_are_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_schemas_are_printed_as_they_come(capsys: pytest.CaptureFixture[str]) -> None:
    for name in schema_names():
        assert main(["schemas", "show", name]) == 0
        assert json.loads(capsys.readouterr().out)["$schema"].startswith("https://json-schema.org/")
    assert main(["schemas", "show", "work"]) == 2
    assert "there is no schema 'work'" in capsys.readouterr().err


def test_the_doctor_tells_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("CC", "HEXLOOM_QEMU", "HEXLOOM_CHROMIUM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    found = {one.name: one for one in findings()}
    assert not any(found[name].ok for name in ("compiler", "clang", "qemu-hexagon", "chromium", "cmake"))
    assert found["cp-sat"].ok and found["ortools"].ok and found["python"].ok
    assert main(["doctor"]) == 0  # what is missing is left out, nothing is broken
    told = capsys.readouterr().out
    assert "missing  compiler" in told and "hexloom run has no host to run tables on" in told


def test_a_broken_solver_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from ortools.sat.python import cp_model

    monkeypatch.setattr(cp_model.CpSolver, "objective_value", 13)
    assert main(["doctor"]) == 4
    assert "broken   cp-sat" in capsys.readouterr().out


@pytest.mark.slow
def test_the_shell_completes_machines() -> None:
    environment = {**os.environ, "_HEXLOOM_COMPLETE": "complete_bash", "COMP_WORDS": "hexloom hw show hexagon-v7"}
    ran = subprocess.run(
        [sys.executable, "-m", "hexloom"], env={**environment, "COMP_CWORD": "3"}, capture_output=True, text=True
    )
    assert {"hexagon-v73", "hexagon-v79"} <= set(ran.stdout.split())


def test_emit_says_in_json_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = small().model_copy(update={"baselines": {}})
    (tmp_path / "schedule.json").write_text(plan.to_json(), encoding="utf-8")
    assert main(["emit", str(tmp_path / "schedule.json"), "-o", str(tmp_path / "c"), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert set(files) == {path.name for path in (tmp_path / "c").iterdir()}


def test_rows_are_flat_and_in_the_unit_of_the_schedule() -> None:
    plan = small()
    rows = plan.to_rows()
    assert [row["op"] for row in rows] == [op.name for op in plan.problem.ops]
    assert max(row["observed_us"] for row in rows) == float(plan.us(plan.makespan))
    assert all(row["ready_us"] <= row["start_us"] <= row["end_us"] <= row["observed_us"] for row in rows)
    assert {row["units"] for row in rows if row["stage"] == "matmul"} == {"hmx[0]"}
    assert "start_ticks" in examples.hostile().to_rows()[0]
    json.dumps(rows)


def test_a_notebook_shows_the_picture() -> None:
    html = small()._repr_html_()
    assert html.count("<svg") == html.count("</svg>") == 1
    assert "faster</strong> than what runs today" in html
    assert "<b>" not in examples.hostile()._repr_html_()
