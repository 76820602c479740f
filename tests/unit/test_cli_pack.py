"""`hexloom pack`: files in minimalloc's format, exit codes and messages."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hexloom.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
"""From minimalloc's documentation: 12 bytes are alive in [0, 9)."""

Run = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    def _run(*arguments: object) -> Run:
        code = main(["pack", *(str(a) for a in arguments)])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return _run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(EXAMPLE, encoding="utf-8")
    return path


def test_packs_into_a_file(run: Callable[..., Run], file: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out.csv"
    code, text, err = run(file, "--capacity", 12, "-o", out)
    assert (code, err) == (0, "")
    assert text.startswith("PACKED, checked: 5 buffers, up to 12 B of 12 B, lower bound 12 B; first fit")
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,lower,upper,size,offset"
    assert [line.rpartition(",")[0] for line in lines] == EXAMPLE.splitlines()[:1] + EXAMPLE.splitlines()[1:]
    # Packed again, its offsets are pins.
    assert run(out, "--capacity", "12", "-o", tmp_path / "again.csv")[0] == 0
    assert (tmp_path / "again.csv").read_bytes() == out.read_bytes()
    code, _, err = run(out, "--capacity", "11")
    assert code == 1
    assert "INFEASIBLE: moment 0: pinned" in err or "INFEASIBLE: pinned" in err


def test_from_standard_input_to_standard_output(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(EXAMPLE))
    code, out, err = run("-", "--capacity", "12B", "-o", "-", "--seed", 1)
    assert code == 0
    assert out.splitlines()[0] == "id,lower,upper,size,offset" and len(out.splitlines()) == 6
    assert err.startswith("PACKED, checked")


def test_the_least_capacity_as_numbers(run: Callable[..., Run], file: Path) -> None:
    code, out, err = run(file, "--json")
    numbers = json.loads(out)
    assert (code, err) == (0, "")
    assert (numbers["status"], numbers["height_bytes"], numbers["lower_bound_bytes"]) == ("PACKED", 12, 12)
    assert (numbers["gap"], numbers["buffers"], numbers["capacity_bytes"]) == (0, 5, None)
    assert set(numbers["offsets"]) == {"b1", "b2", "b3", "b4", "b5"}


def test_what_cannot_fit_is_code_1_with_who_holds_what(run: Callable[..., Run], file: Path, tmp_path: Path) -> None:
    code, out, err = run(file, "--capacity", 11, "-o", tmp_path / "out.csv")
    assert (code, out) == (1, "")
    assert err.startswith(
        "INFEASIBLE: moment 0 needs 12 B of scratchpad at once, 11 B are available: short 1 B; "
        "it holds b1 4 B, b3 4 B, b5 4 B; give at least 12 B"
    )
    assert not (tmp_path / "out.csv").exists()
    numbers = json.loads(run(file, "--capacity", 11, "--json")[1])
    assert (numbers["status"], numbers["offsets"]) == ("INFEASIBLE", None)
    assert {h["buffer"] for h in numbers["infeasibility"]["holders"]} == {"b1", "b3", "b5"}


def test_a_limit_without_a_packing_is_code_3(run: Callable[..., Run]) -> None:
    hard = Path(__file__).resolve().parents[2] / "benchmarks" / "minimalloc" / "E.1048576.csv"
    pinned = hard.read_text(encoding="utf-8").splitlines()
    free = "\n".join(line.rpartition(",")[0] for line in pinned)
    sys.stdin = io.StringIO(free)
    try:
        code, out, err = run("-", "--capacity", "1MiB", "--time-limit", "0s")
    finally:
        sys.stdin = sys.__stdin__
    assert (code, out) == (3, "")
    assert err.startswith("LIMIT: no packing of 215 buffers found, none excluded")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--capacity", "1MB"],
            "--capacity: '1MB' is ambiguous: write 1MiB (1048576 B), or whole bytes without a unit",
        ),
        (["--capacity", "-5"], "--capacity: '-5' is negative: a size is 0 or more bytes"),
        (["--time-limit", "soon"], "--time-limit 'soon': write 10s, 500ms, 2m or 1h"),
        (["--capacity", "99999999999999999"], "capacity 99999999999999999 B is not between 0 and 9007199254740991"),
    ],
)
def test_wrong_options_are_one_line(run: Callable[..., Run], file: Path, arguments: list[str], message: str) -> None:
    assert run(file, *arguments) == (2, "", f"hexloom: {message}\n")


def test_a_missing_file_and_a_bad_one_are_one_line(run: Callable[..., Run], tmp_path: Path) -> None:
    gone = tmp_path / "gone.csv"
    assert run(gone) == (2, "", f"hexloom: {gone}: cannot be read: No such file or directory\n")
    gone.write_text("id,lower,upper,size\nb,0,1,x\n", encoding="utf-8")
    fault = f"hexloom: {gone}: row 2 ('b'): size 'x' is not a whole number; write digits such as 4096\n"
    assert run(gone) == (2, "", fault)


@pytest.mark.slow
@pytest.mark.parametrize("letter", "ABCDFGHK")
def test_minimalloc_is_packed(run: Callable[..., Run], tmp_path: Path, letter: str) -> None:
    """The eleven that minimalloc publishes; those that take several seconds are left to the benchmark."""
    source = Path(__file__).resolve().parents[2] / "benchmarks" / "minimalloc" / f"{letter}.1048576.csv"
    free = tmp_path / "free.csv"
    lines = source.read_text(encoding="utf-8").splitlines()
    free.write_text("\n".join(line.rpartition(",")[0] for line in lines), encoding="utf-8")
    assert run(free, "--capacity", "1MiB", "--time-limit", "120s", "-o", tmp_path / "out.csv")[0] == 0
