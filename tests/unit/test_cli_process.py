"""The command line as a process of its own: colours, full disks, closed streams, readers that leave."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from unit.small import on, problem
from unit.test_cli import WORK

import hexloom
from hexloom.__main__ import run
from hexloom.cli import main
from hexloom.optimizer.solve import solve


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work.yaml"
    path.write_text(WORK, encoding="utf-8")
    return path


def process(*arguments: object, **keys: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hexloom", *(str(a) for a in arguments)]
    keys.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, **keys)


def test_colours_only_where_they_are_wanted(work: Path) -> None:
    arguments = ("solve", work, "-q", "--seed", 1)
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    assert "\x1b" not in process(*arguments, env=plain).stdout  # not a terminal
    coloured = re.compile(r"\x1b\[(?:\d;)*3\dm")
    assert coloured.search(process(*arguments, env={**plain, "FORCE_COLOR": "1", "TERM": "xterm-256color"}).stdout)
    both = {**plain, "FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm-256color"}
    assert not coloured.search(process(*arguments, env=both).stdout)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["hw", "list"], ["solve", "WORK", "-q", "--seed", "1", "-o", "-"]])
def test_a_full_disk_is_one_line(work: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ran = process(*[work if a == "WORK" else a for a in arguments], stdout=full)
    assert ran.returncode == 2
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("hexloom: ") and "No space left on device" in last
    assert "Traceback" not in ran.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(("arguments", "code"), [(["WORK", "--seed", "1"], 0), (["no_such_file"], 2)])
def test_a_full_log_does_not_change_how_a_run_ends(work: Path, arguments: list[str], code: int) -> None:
    command = [sys.executable, "-m", "hexloom", "solve", *[str(work) if a == "WORK" else a for a in arguments]]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(command, stdout=subprocess.PIPE, stderr=full, timeout=120).returncode == code


@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        ("solve WORK --seed 1", ">&-", 0),
        ("solve WORK --seed 1", "2>&-", 0),
        ("solve nothing", "2>&-", 2),
        ("solve - -q", "<&-", 2),
        ("hw list", ">&- 2>&-", 0),
    ],
)
def test_closed_streams_are_no_fault(work: Path, arguments: str, closed: str, code: int) -> None:
    line = f"'{sys.executable}' -m hexloom {arguments.replace('WORK', str(work))} {closed}"
    ran = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=120)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    if "<" in closed:
        assert ran.stderr == "hexloom: -: standard input is closed\n"


@pytest.mark.parametrize("words", ["hw show hexagon-v81", "hw list", "kernels show rmsnorm"])
def test_a_reader_that_leaves_is_no_fault(words: str) -> None:
    command = [sys.executable, "-m", "hexloom", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None and ran.stderr is not None
        ran.stdout.close()
        err = ran.stderr.read()
    assert ran.returncode == 0
    assert err == ""


INFEASIBLE = {
    "schema": "hexloom.problem/1",
    "ops": [{"name": "a", "modes": [{"latency_ticks": 3}], "deadline_ticks": 2}],
}
LOOP = """\
schema: hexloom.pipeline/1
name: no_data
iterations: 1..4
buffers: [{name: A, slots: 1}]
threads: [{name: main, body: [{run: use, reads: ["A[i]"]}]}]
"""


@pytest.fixture
def inputs(tmp_path: Path, work: Path) -> dict[str, Path]:
    """Return files by the code that looking at them ends with."""
    assert main(["solve", str(work), "-q", "--seed", "1", "-o", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "schedule.json").read_text(encoding="utf-8"))
    named = {"work": work, "good": tmp_path / "schedule.json"}
    for name, text in {
        "bad": json.dumps({**data, "makespan": 1}),
        "loop": LOOP,
        "never": json.dumps(INFEASIBLE),
        "packing": "id,lower,upper,size\n1,0,9,4\n2,0,9,4\n",
    }.items():
        named[name] = tmp_path / f"{name}.txt"
        named[name].write_text(text, encoding="utf-8")
    return named


@pytest.mark.parametrize(
    ("words", "code", "stream"),
    [
        ("check bad", 4, "stdout"),
        ("check loop", 4, "stderr"),
        ("check good", 0, "stdout"),
        ("solve never", 1, "stderr"),
        ("solve never --json", 1, "stdout"),
        ("solve work --time-limit 0s", 0, "stdout"),
        ("solve work --time-limit 0s", 0, "stderr"),
        ("pack packing --capacity 6", 1, "stdout"),
        ("pack packing -o /dev/stdout", 0, "stderr"),
        ("emit bad -o nowhere", 4, "stdout"),
        ("solve nothing", 2, "stderr"),
    ],
)
def test_a_reader_that_leaves_does_not_change_the_code(
    inputs: dict[str, Path], words: str, code: int, stream: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "hexloom", *(str(inputs.get(word, word)) for word in words.split())]
    try:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {stream: writer}
        ran = subprocess.run(command, timeout=120, **streams)
    finally:
        os.close(writer)
    assert ran.returncode == code
    assert b"Traceback" not in (ran.stdout or b"") + (ran.stderr or b"")


def test_the_front_door_opens_before_all_is_loaded() -> None:
    """So Ctrl-C while the rest loads, which takes seconds on a busy machine, is met by `run` and not by Python."""
    code = "import sys, hexloom, hexloom.__main__; print([m for m in ('pydantic', 'typer') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "[]\n"


def test_a_check_loads_no_solver_and_nothing_that_draws(tmp_path: Path) -> None:
    """Half of its time is loading; these would add a third."""
    result = solve(problem(on("hvx", "a", 2), on("hmx", "b", 3), after="a>b"))
    assert result.schedule is not None
    path = tmp_path / "schedule.json"
    path.write_text(result.schedule.to_json(), encoding="utf-8")
    unwanted = ("ortools", "networkx", "rich", "numpy.ma", "hexloom.formulations.bounds", "hexloom.optimizer.solve")
    code = (
        "import sys; from hexloom.cli import main; done = main(['check', sys.argv[1]]); "
        f"print(done, [m for m in {unwanted} if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines()[-1:] == ["0 []"], ran.stdout + ran.stderr


def test_an_interrupt_while_loading_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Loading(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "hexloom.cli", Loading("hexloom.cli"))
    assert run() == 3
    assert capsys.readouterr() == ("", "hexloom: interrupted before a plan was ready\n")


def test_every_name_of_the_front_door_is_there() -> None:
    assert set(hexloom.__all__) <= set(dir(hexloom))
    assert all(getattr(hexloom, name) is not None for name in hexloom.__all__)
    with pytest.raises(AttributeError, match="module 'hexloom' has no attribute 'slove'"):
        hexloom.slove  # noqa: B018
