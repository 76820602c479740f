"""Exit codes and messages of the command line: 0 done, 1 infeasible, 2 bad input, 3 no plan, 4 a check failed."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hexloom import Schedule, check_schedule, list_hw
from hexloom import cli as cli_module
from hexloom.cli import main
from hexloom.optimizer.errors import CheckFailedError
from hexloom.optimizer.kernels import KERNELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.solve import Result

WORK = """\
name: small
hw: hexagon-v81
tasks:
  - name: a
    ops:
      - for: i
        count: 3
        ops:
          - {name: "cook{i}", engine: hvx, units: all, duration_us: 3}
          - {name: "mm{i}", engine: hmx, duration_us: 7, after: ["cook{i}"]}
  - {name: b, ops: [{name: n, engine: hvx, units: all, duration_us: 5}]}
"""
PROBLEM = {"schema": "hexloom.problem/1", "ops": [{"name": "a", "modes": [{"latency_ticks": 3}]}]}
PINS = {
    **PROBLEM,
    "scratchpad": {"total_bytes": 8},
    "ops": [{"name": n, "modes": [{"latency_ticks": 1}]} for n in "abc"],
    "precedences": [{"before": "a", "after": "b"}, {"before": "b", "after": "c"}],
    "buffers": [
        {"name": "x", "size_bytes": 4, "address": 0, "ops": ["a", "c"]},
        {"name": "y", "size_bytes": 4, "address": 0, "ops": ["b"]},
    ],
}
KEYS = {  # what the design says `solve --json` prints
    *("status", "makespan_us", "lower_bound_us", "gap", "plan_bound_us", "plan_gap", "certificate", "serial_us"),
    *("existing_us", "baselines", "bounds", "bottleneck", "gain", "overlap", "contention", "wall_s", "files"),
}

Run = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    def _run(*arguments: object) -> Run:
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return _run


@pytest.fixture
def refused(run: Callable[..., Run]) -> Callable[..., str]:
    """Run something that must end in one line on standard error and nothing else."""

    def _refused(*arguments: object, code: int = 2) -> str:
        got, out, err = run(*arguments)
        assert (got, out) == (code, "")
        assert err.startswith("hexloom: ")
        assert err.endswith("\n") and err.count("\n") == 1
        return err.removeprefix("hexloom: ").rstrip("\n")

    return _refused


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work.yaml"
    path.write_text(WORK, encoding="utf-8")
    return path


def written(tmp_path: Path, data: Any, name: str = "input.json") -> Path:
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


# --- 0: done --------------------------------------------------------------------------------------------


def test_solve_writes_checked_files(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    code, out, err = run("solve", work, "-o", tmp_path / "new" / "out", "--seed", 1)
    assert code == 0
    files = {p.name for p in (tmp_path / "new" / "out").iterdir()}
    assert files >= {"gantt.svg", "schedule.json", "timeline.json", "small.h", "small.c"}
    schedule = Schedule.from_json((tmp_path / "new" / "out" / "schedule.json").read_text(encoding="utf-8"))
    assert check_schedule(schedule) == []
    assert "OPTIMAL, checked" in out
    assert "existing" in out and "bound" in out and "advice" in out
    assert "best" in err and "bound" in err  # progress


def test_solve_under_rigid_channels(run: Callable[..., Run], tmp_path: Path) -> None:
    """Two ops of 3 that want 60 of 100 each take turns; the files are those of the problem as it was given."""
    modes = [
        {"uses": [{"engine": e, "ticks": 3}], "latency_ticks": 3, "pulls": [{"channel": "bus", "rate": 60}]}
        for e in "vw"
    ]
    source = {
        "schema": "hexloom.problem/1",
        "engines": [{"name": "v"}, {"name": "w"}],
        "channels": [{"name": "bus", "capacity": 100}],
        "ops": [{"name": f"o{k}", "modes": [mode]} for k, mode in enumerate(modes)],
    }
    given = written(tmp_path, source)
    code, out, _ = run("solve", given, "--contention", "rigid", "--json", "-q", "--seed", 1, "-o", tmp_path / "out")
    numbers = json.loads(out)
    assert code == 0
    assert (numbers["status"], numbers["makespan_ticks"], numbers["contention"]) == ("OPTIMAL", 6, "rigid")
    schedule = tmp_path / "out" / "schedule.json"
    assert json.loads(schedule.read_text(encoding="utf-8"))["problem"]["channels"] == [
        {"name": "bus", "capacity": 100, "unit_mb_s": None}
    ]
    assert run("check", schedule)[0] == 0
    cut = json.loads(schedule.read_text(encoding="utf-8"))
    cut["plan"]["waits"] = []
    code, out, _ = run("check", written(tmp_path, cut, "cut.json"))
    assert code == 4
    assert "share_unordered: ops 'o0' and 'o1' demand 120 of 'bus', which has 100" in out
    code, out, _ = run("solve", given, "--contention", "none", "--json", "-q", "--seed", 1)
    assert (json.loads(out)["makespan_ticks"], json.loads(out)["contention"]) == (3, "none")
    # By default both go at 100 of 120: each works 3.6 instead of 3 ticks, and loses 0.6 to the other.
    code, out, _ = run("solve", given, "--json", "-q", "--seed", 1)
    numbers = json.loads(out)
    assert (numbers["makespan_ticks"], numbers["contention"]) == (3.6, "fluid")
    assert numbers["contention_cost"] == {
        "channels": {"bus": 0.6},
        "interference": 0.0,
        "pairs": [{"first": ["", "o0"], "second": ["", "o1"], "lost": 1.2}],
    }


def test_solve_json_has_the_designed_keys(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    code, out, err = run("solve", work, "--json", "--seed", 1, "--quiet", "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    numbers = json.loads(out)
    assert set(numbers) >= KEYS
    assert numbers["status"] == "OPTIMAL" and numbers["optimal_in"] == "free_start"
    assert numbers["makespan_us"] == numbers["lower_bound_us"] == numbers["bounds"]["heads_tails"] == 28.44
    assert numbers["gap"] == numbers["plan_gap"] == 0
    assert numbers["existing_us"] == numbers["baselines"]["existing"] == pytest.approx(2 * 4.44 + 24 + 5)
    gain = numbers["gain"]
    parts = gain["saved_entries"] + gain["overlap_within_tasks"] + gain["overlap_between_tasks"]
    assert gain["total"] == pytest.approx(parts - gain["contention_cost"] - gain["tail"])
    assert gain["total"] == pytest.approx(numbers["existing_us"] - numbers["makespan_us"])
    assert (numbers["contention"], numbers["contention_cost"]) == ("fluid", None)
    assert set(numbers["overlap"]) == {"hvx", "hmx"}
    assert all(Path(path).is_file() for path in numbers["files"].values())


def test_a_problem_in_ticks_says_so(run: Callable[..., Run], tmp_path: Path) -> None:
    code, out, _ = run("solve", written(tmp_path, PROBLEM), "--json", "-q", "--seed", 1)
    numbers = json.loads(out)
    assert code == 0
    assert (numbers["makespan_ticks"], numbers["existing_ticks"], numbers["unit"]) == (3, 3, "ticks")
    assert "makespan_us" not in numbers
    assert "3 ticks" in run("solve", written(tmp_path, PROBLEM), "-q", "--seed", 1)[1]


def test_standard_input_and_output(run: Callable[..., Run], work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(WORK))
    code, out, err = run("solve", "-", "-o", "-", "--seed", 1, "-q")
    assert code == 0
    assert "OPTIMAL, checked" in err
    assert out == run("solve", work, "-o", "-", "--seed", 1, "-q")[1]
    monkeypatch.setattr(sys, "stdin", io.StringIO(out))
    code, said, _ = run("check", "-")
    assert (code, said.splitlines()[0]) == (0, "small: checked, no violation (7 ops, 3 waits, 0 buffers)")


def test_json_beside_a_schedule_on_standard_output_does_not_mix(run: Callable[..., Run], work: Path) -> None:
    _, out, _ = run("solve", work, "-o", "-", "--json", "--seed", 1, "-q")
    assert Schedule.from_json(out).name == "small"


def test_check_json(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    run("solve", work, "-o", tmp_path, "-q", "--seed", 1)
    code, out, _ = run("check", tmp_path / "schedule.json", "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["violations"]) == (0, True, [])
    assert [claim.split()[0] for claim in found["on_trust"]] == ["baselines"]


PIPELINE = """\
schema: hexloom.pipeline/1
name: copies
iterations: 1..100
buffers: [{name: A, slots: 2}]
queues: [{name: dma, kind: dma, entries: 3}]
threads:
  - name: main
    body:
      - {push: dma, job: load, writes: ["A[i]"]}
      - {wait: dma}
      - {run: use, reads: ["A[i]"]}
"""


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    path = tmp_path / "copies.yaml"
    path.write_text(PIPELINE, encoding="utf-8")
    return path


def test_check_proves_a_pipeline(run: Callable[..., Run], copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "copies: proven safe for every trip count from 1 to 100 (1 thread, "
    code, out, err = run("check", copies)
    assert (code, err) == (0, "") and out.startswith(said)
    monkeypatch.setattr(sys, "stdin", io.StringIO(PIPELINE))
    assert run("check", "-")[1].startswith(said)
    found = json.loads(run("check", copies, "--json")[1])
    assert (found["ok"], found["status"], found["violations"], found["proven_to"]) == (True, "safe", [], 100)


def test_check_breaks_a_pipeline(run: Callable[..., Run], copies: Path) -> None:
    copies.write_text(PIPELINE.replace("      - {wait: dma}\n", ""), encoding="utf-8")
    code, out, err = run("check", copies)
    assert code == 4
    sentence = (
        "use[0] reads A[0] in slot 0 of A while load[0] (pushed to dma at step 1, not yet waited for) "
        "may still be writing it"
    )
    assert out.splitlines() == [
        f"copies: read before write: {sentence}",
        "to mend it: let use[0] wait for load[0]",
        "the shortest interleaving that shows it, with n = 1:",
        "   1  main  i=0  push dma: load[0]; writes A[0] (slot 0)",
        "   2  main  i=0  use[0]; reads A[0] (slot 0)",
    ]
    assert err == f"hexloom: {copies}: read before write with n = 1, after 2 steps: {sentence}\n"
    code, out, _ = run("check", copies, "--json")
    assert (code, json.loads(out)["violations"][0]["kind"]) == (4, "read_before_write")


def test_check_refuses_a_pipeline_in_one_line(refused: Callable[..., str], copies: Path) -> None:
    copies.write_text(PIPELINE.replace("wait: dma", "wait: dna"), encoding="utf-8")
    said = "thread 'main', body[1]: there is no queue or event 'dna' (did you mean 'dma'?)"
    assert refused("check", copies) == f"{copies}: {said}"
    copies.write_text(PIPELINE.replace("slots: 2", "slots: 0"), encoding="utf-8")
    assert refused("check", copies).startswith(f"{copies}: buffers[0].slots: ")
    assert refused("solve", copies) == f"{copies}: this is a pipeline, not a workload: `hexloom check` reads it"


def test_check_at_its_limit_says_what_is_known(
    refused: Callable[..., str], run: Callable[..., Run], copies: Path
) -> None:
    said = refused("check", copies, "--time-limit", "0s", code=3)
    assert said.startswith(f"{copies}: not decided") and said.endswith("give it more with --time-limit")
    code, out, _ = run("check", copies, "--time-limit", "0s", "--json")
    assert (code, json.loads(out)["status"]) == (3, "undecided")


@pytest.mark.parametrize("odd", ["\n", "\x85", "\u2028", "\x7f", "\u200b"])
def test_names_that_break_lines_are_refused(refused: Callable[..., str], tmp_path: Path, odd: str) -> None:
    op = {"name": "a", "engine": "hvx", "duration_us": 3}
    work = {"name": "w", "hw": "hexagon-v81", "tasks": [{"name": "t", "ops": [op]}]}
    kinds = ({"name": f"o{odd}p"}, {"stage": f"s{odd}t"}, {"class": f"c{odd}d"})
    inputs: list[dict[str, Any]] = [{**work, "tasks": [{"name": "t", "ops": [{**op, **kind}]}]} for kind in kinds]
    inputs += [{**work, "name": f"w{odd}x"}, {**work, "channels": [{"name": f"c{odd}d", "rate_gb_s": 1}]}]
    one = PROBLEM["ops"][0]
    inputs += [{**PROBLEM, "name": f"p{odd}q"}, {**PROBLEM, "ops": [{**one, "name": f"o{odd}p"}]}]
    inputs += [{**PROBLEM, "ops": [{**one, "task": f"t{odd}u"}]}, {**PROBLEM, "engines": [{"name": f"e{odd}f"}]}]
    inputs += [{**PROBLEM, "buffers": [{"name": f"b{odd}c", "size_bytes": 1}]}]
    for data in inputs:
        said = refused("solve", written(tmp_path, data), "-q")
        assert said.isprintable()
        assert "line break" in said


def test_what_check_takes_on_trust_is_said(run: Callable[..., Run], tmp_path: Path) -> None:
    run("solve", written(tmp_path, PROBLEM), "-o", tmp_path, "-q", "--seed", 1)
    file = tmp_path / "schedule.json"
    today = "baselines serial 3 ticks and existing 3 ticks, the parts of the gain and the reasons of the advice"
    today += " rest on the loops of today; solve the workload again to see them"
    assert json.loads(run("check", file, "--json")[1])["on_trust"] == [today]
    schedule = json.loads(file.read_text(encoding="utf-8"))
    schedule["plan_bound"], schedule["lower_bound"] = 3, 1
    schedule.update(status="OPTIMAL", optimal_in="event_driven", certificate="search")
    schedule["bounds"] = [{"name": "search", "ticks": 1, "engine": None, "detail": "says so"}]
    code, out, _ = run("check", written(tmp_path, schedule, "claims.json"))
    assert code == 0
    assert out.splitlines()[1:] == [
        "not checked: the lower bound of 1 ticks rests on a search; solve again to prove it",
        "not checked: the bound of 3 ticks for event-driven plans rests on a search; solve again to prove it",
        f"not checked: {today}",
    ]


def test_a_machine_file_of_ones_own(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    shipped = Path(cli_module.__file__).parent / "hwmodels" / "data" / "hexagon-v79.yaml"
    mine = written(
        tmp_path, shipped.read_text(encoding="utf-8").replace("name: hexagon-v79", "name: mine"), "mine.yaml"
    )
    code, out, _ = run("solve", work, "--hw", mine, "-q", "--seed", 1)
    assert code == 0
    assert "small on mine" in out


@pytest.mark.parametrize("limit", ["0s", "500ms", "0.01m", "1", "0h"])
def test_limits_have_units(run: Callable[..., Run], work: Path, limit: str) -> None:
    assert run("solve", work, "-q", "--time-limit", limit)[0] == 0


def test_catalogues(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    code, out, _ = run("hw", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(list_hw())
    code, out, _ = run("hw", "show", "hexagon-v81")
    assert code == 0
    assert "queue_rate_gb_s" in out and "55.6 GB/s" in out
    code, out, _ = run("hw", "show", "hexagon-v81", "--json")
    assert json.loads(out)["name"] == "hexagon-v81"
    code, out, _ = run("kernels", "list")
    assert [line.split()[0] for line in out.splitlines()] == list(KERNELS)
    for name, spec in KERNELS.items():
        code, out, _ = run("kernels", "show", name)
        assert code == 0
        keys = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
        assert {field.alias or key for key, field in spec.model_fields.items()} <= keys


def test_version_and_help(run: Callable[..., Run]) -> None:
    assert run("--version")[:2] == (0, "hexloom 0.1.0\n")
    for words in (["--help"], ["solve", "--help"], ["hw", "--help"]):
        code, out, _ = run(*words)
        assert code == 0
        assert "Usage: hexloom" in out
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("Usage: hexloom") and "Commands:\n" in err


# --- 1: infeasible --------------------------------------------------------------------------------------


def test_what_if_and_a_second_proof(run: Callable[..., Run], work: Path) -> None:
    code, out, _ = run("solve", work, "--what-if", "--prove-twice", "--time-limit", "500ms", "--seed", 1, "-q")
    assert code == 0
    lines = out.splitlines()
    table = lines[next(k for k, line in enumerate(lines) if line.startswith("what if")) :]
    assert table[0].split() == ["what", "if", "value", "makespan", "bound", "gap", "bottleneck"]
    assert any(line.startswith("vtcm  ") and " KiB " in line for line in table)
    assert any(line.startswith("hvx  ") and " contexts " in line for line in table)
    code, out, _ = run("solve", work, "--what-if", "--json", "--time-limit", "500ms", "--seed", 1, "-q")
    found = json.loads(out)
    assert code == 0
    assert {row["field"] for row in found["what_if"]["rows"]} >= {"vtcm", "hvx", "ddr", "dma"}
    assert "proved_twice" in found


def test_infeasible_is_one(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    big = written(
        tmp_path,
        "name: big\nhw: hexagon-v81\ntasks:\n  - name: t\n    buffers: [{name: x, size_bytes: 9MiB}]\n"
        "    ops: [{name: a, engine: hvx, duration_us: 1, buffers: [x]}]\n",
        "big.yaml",
    )
    code, out, err = run("solve", big, "-o", tmp_path / "out")
    assert (code, out) == (1, "")
    first, *more = err.splitlines()
    assert first.startswith("INFEASIBLE: op 'a'") and "short 1,048,576 B" in first
    assert [line.split()[0] for line in more if not line.startswith(" ")] == ["conflict", "levers"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"infeasibility.json", "report.html"}
    assert run("solve", work, "-q", "--seed", 1, "-o", tmp_path / "out")[0] == 0
    assert run("solve", big, "-q", "-o", tmp_path / "out")[2].startswith(
        f"{tmp_path / 'out'}: no plan was written; what lies there is the plan of an earlier run\nINFEASIBLE: "
    )
    code, out, _ = run("solve", big, "--json", "-q")
    assert code == 1
    found = json.loads(out)
    assert (found["status"], found["infeasibility"]["short"], found["files"]) == ("INFEASIBLE", 1 << 20, {})
    assert run("solve", written(tmp_path, WORK.replace("units: all", "units: 9"), "wide.yaml"))[0] == 1


# --- 2: bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--bogus"], "No such option"),
        (["nope"], "No such command 'nope'"),
        (["solve"], "Missing argument 'INPUT'"),
        (["solve", "WORK", "--hwx", "v81"], "No such option"),
        (["solve", "WORK", "--seed", "x"], "Invalid value for '--seed'"),
        (["solve", "WORK", "--time-limit", "abc"], "--time-limit 'abc': write 10s, 500ms, 2m or 1h"),
        (["solve", "WORK", "--time-limit", "-5s"], "--time-limit '-5s'"),
        (["solve", "WORK", "--hw", "hexagon-v82"], "unknown machine 'hexagon-v82' (did you mean 'hexagon-v81'?)"),
        (["solve", "WORK", "--hw", "none.yaml"], "machine file 'none.yaml' cannot be read: No such file or directory"),
        (["solve", "WORK", "--contention", "fluids"], "contention 'fluids' is not available in this version"),
        (["solve", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["check", "none.json"], "none.json: cannot be read: No such file or directory"),
        (["check", "WORK"], "not a schedule: "),
        (["hw", "show", "v81"], "unknown machine 'v81' (did you mean 'hexagon-v81'?)"),
        (["kernels", "show", "rmsnrm"], "there is no kernel 'rmsnrm'; known: matmul_w4a16, rmsnorm, copy"),
    ],
)
def test_bad_arguments(refused: Callable[..., str], work: Path, arguments: list[str], says: str) -> None:
    assert says in refused(*[work if a == "WORK" else a for a in arguments])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.yaml", b"", "expected keys and values"),
        ("empty.json", b"", "not JSON at line 1"),
        ("cut.yaml", WORK.encode()[:-40], "not YAML at line"),
        ("cut.json", json.dumps(PROBLEM).encode()[:-5], "not JSON at line 1"),
        ("binary.yaml", bytes(range(256)), "cannot be read"),
        ("zeros.yaml", b"\0" * 100, "not YAML"),
        ("list.yaml", b"- 1\n", "expected keys and values, got list"),
        ("twice.yaml", b"name: a\nname: b\n", "key 'name' is written twice"),
        ("unknown.yaml", WORK.replace("duration_us: 5", "duration: 5").encode(), "(did you mean 'duration_us'?)"),
        ("nohw.yaml", WORK.replace("hw: hexagon-v81", "title: x").encode(), "no machine is named"),
        ("problem.json", json.dumps({**PROBLEM, "ops": []}).encode(), "ops: List should have at least 1 item"),
        ("nan.json", json.dumps(PROBLEM).replace("3", "NaN").encode(), "latency_ticks: Input should be a finite"),
        ("deep.json", b"[" * 100_000, "cannot be read"),
        ("latency.yaml", WORK.replace("duration_us: 5", "duration_us: 5, latency_us: 1").encode(), "latency_us 1 is"),
    ],
)
def test_bad_files(refused: Callable[..., str], tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    said = refused("solve", path)
    assert says in said
    if "latency" not in name and "nohw" not in name:
        assert str(path) in said
    assert refused("check", path)


def test_folders_and_files_that_cannot_be_read(refused: Callable[..., str], tmp_path: Path, work: Path) -> None:
    assert "Is a directory" in refused("solve", tmp_path)
    if os.geteuid() != 0:
        work.chmod(0)
        assert "Permission denied" in refused("solve", work)


def test_an_output_folder_that_is_a_file(
    refused: Callable[..., str], work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = written(tmp_path, "mine", "taken")
    monkeypatch.setattr("hexloom.optimizer.solve.solve", None)  # refused before the search, which may take an hour
    for out in (target, target / "below"):
        said = refused("solve", work, "-q", "--seed", 1, "-o", out)
        assert said == f"--out {out}: {target} is not a folder; name one that is, or a new one"
    assert target.read_text(encoding="utf-8") == "mine"


def test_an_output_folder_that_cannot_be_written(
    refused: Callable[..., str], work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    assert refused("solve", work, "-o", tmp_path / "new").endswith(f"{tmp_path} cannot be written; name another folder")


def test_a_file_that_cannot_be_written_is_named(
    refused: Callable[..., str], work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    said = refused("solve", work, "-q", "--seed", 1, "-o", tmp_path / "out")
    assert said == f"{tmp_path / 'out' / 'schedule.json'}: No space left on device"
    assert list((tmp_path / "out").iterdir()) == []


def test_a_machine_has_no_use_beside_a_problem(refused: Callable[..., str], tmp_path: Path) -> None:
    said = refused("solve", written(tmp_path, PROBLEM), "--hw", "hexagon-v81")
    assert said.endswith("is a problem in ticks, which needs no machine; drop it")


def test_a_workload_is_no_schedule(refused: Callable[..., str], work: Path) -> None:
    work.write_text("schema: hexloom.workload/1\n" + WORK, encoding="utf-8")
    assert refused("check", work) == f"{work}: this is a workload, not a schedule: `hexloom solve` reads it"


def test_standard_input_that_is_no_workload(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    for text, says in (("", "-: expected keys"), ("{", "-: not YAML"), ("[1]", "-: expected keys")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert refused("solve", "-").startswith(says)


# --- 3 and 4 --------------------------------------------------------------------------------------------


def test_no_plan_and_no_proof_is_three(run: Callable[..., Run], tmp_path: Path) -> None:
    code, out, err = run("solve", written(tmp_path, PINS), "-o", tmp_path / "out", "--time-limit", "0s")
    assert (code, out) == (3, "")
    assert err == "no plan found within the limit, and none is excluded: give more time\n"
    assert (
        json.loads(run("solve", written(tmp_path, PINS), "--json", "-q", "--time-limit", "0s")[1])["status"] == "LIMIT"
    )


def test_an_interrupt_before_a_plan_is_three(
    refused: Callable[..., str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr("hexloom.optimizer.solve.solve", interrupted)
    assert refused("solve", work, code=3) == "interrupted before a plan was ready"


def test_an_interrupt_while_writing_says_so(
    refused: Callable[..., str], work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("hexloom.emit.timeline.timeline_json", interrupted)
    said = refused("solve", work, "-q", "--seed", 1, "-o", tmp_path / "out", code=3)
    assert said == f"interrupted while writing to {tmp_path / 'out'}; what is there may be of different runs"


def test_an_edited_schedule_is_four_and_names_both_parties(run: Callable[..., Run], work: Path, tmp_path: Path) -> None:
    run("solve", work, "-o", tmp_path, "-q", "--seed", 1)
    file = tmp_path / "schedule.json"
    schedule = json.loads(file.read_text(encoding="utf-8"))
    schedule["plan"]["waits"] = [w for w in schedule["plan"]["waits"] if w["after"] != "a/mm1"]
    file.write_text(json.dumps(schedule), encoding="utf-8")
    code, out, err = run("check", file)
    assert code == 4
    assert "dependency_unordered: " in out
    assert "a/cook1" in out and "a/mm1" in out
    assert err.count("\n") == 1 and "violations" in err
    code, out, _ = run("check", file, "--json")
    assert code == 4
    found = json.loads(out)
    assert not found["ok"]
    assert ["a/cook1", "a/mm1"] in [v["parties"] for v in found["violations"]]


def test_a_schedule_of_our_own_that_fails_is_four(
    refused: Callable[..., str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Result:
        raise CheckFailedError("a is wrong")

    monkeypatch.setattr("hexloom.optimizer.solve.solve", broken)
    assert refused("solve", work, code=4).endswith("please report it: a is wrong")
