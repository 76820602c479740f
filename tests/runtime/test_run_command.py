from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import jsonschema
import pytest
from compile.tiny import tiny
from runtime.test_numbers import ATTENTION, MATMUL, TASKS, W4A8, workload_of
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom import solve
from hexloom.cli import main
from hexloom.emit import hexagon
from hexloom.emit.c_tables import tables_of
from hexloom.emit.hexagon import ARCHITECTURES, NEWEST, build_device, find_clang, find_emulator, find_zig
from hexloom.emit.host import write_runtime
from hexloom.emit.records import AFTER, DMA, TASK_ASYNC
from hexloom.emit.tables import make_tables
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.measured import Measured
from hexloom.optimizer.schemas import schema_texts

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.emit.rows import Task
    from hexloom.optimizer.schedule import Schedule


@pytest.fixture(autouse=True)
def quick_compiler(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built here runs once; optimising it takes longer than running it."""
    wrapper = tmp_path_factory.mktemp("cc") / "cc"
    wrapper.write_text('#!/bin/sh\nexec cc "$@" -O0\n', encoding="utf-8")
    wrapper.chmod(stat.S_IRWXU)
    monkeypatch.setenv("CC", str(wrapper))


def written(schedule: Schedule, folder: Path) -> str:
    (folder / "schedule.json").write_text(schedule.to_json(), encoding="utf-8")
    return str(folder / "schedule.json")


def test_run_measures_every_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = examples.small().model_copy(update={"baselines": {}})
    trace, chrome = tmp_path / "trace.json", tmp_path / "chrome.json"
    arguments = ["run", written(schedule, tmp_path), "-o", str(trace), "--chrome", str(chrome), "--runs", "2"]
    assert main(arguments) == 0
    tables = make_tables(schedule)
    assert f"executed 2 times with {len(tables.queues)} threads on this host: each of {len(tables.tasks)} tasks" in (
        capsys.readouterr().out
    )
    text = trace.read_text(encoding="utf-8")
    jsonschema.validate(json.loads(text), json.loads(schema_texts()["trace.schema.json"]))
    measured = Measured.model_validate_json(text)
    assert measured.to_json() == text
    assert min(record.start_ns for record in measured.records) == 0
    done = [record for record in measured.records if record.phase != "wait"]
    assert len(done) == 2 * sum(entry.action != AFTER for entry in tables.entries)
    assert {record.op for record in done} == {schedule.problem.ops[task.op].name for task in tables.tasks}
    events = json.loads(chrome.read_text(encoding="utf-8"))["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(measured.records)


def test_the_trace_can_be_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", written(tiny(), tmp_path), "-o", "-"]) == 0
    assert Measured.model_validate_json(capsys.readouterr().out).name == "tiny"


def test_numbers_and_kept_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    assert main(["run", written(tiny(), tmp_path), "--json", "--keep", str(kept)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ok"], said["code"], said["faults"], said["tasks"], said["workers"]) == (True, "OK", 0, 6, 3)
    assert {"main.c", "plan.c", "hexloom_runtime.c", "host"} <= {path.name for path in kept.iterdir()}


def test_a_deadline_that_passes_is_told_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = ["--timeout-ms", "1", "--delay-us", "400000", "--seed", "3"]
    assert main(["run", written(tiny(), tmp_path), *slow]) == 4
    assert "TIMEOUT at task '" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("compiler", "told"), [("no-such-compiler", "no C compiler: no-such-compiler"), ("false", "the C compiler failed")]
)
def test_a_missing_or_failing_compiler_is_told(
    compiler: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiler == "false":
        compiler = str(tmp_path / "false")
        (tmp_path / "false").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tmp_path / "false").chmod(stat.S_IRWXU)
    monkeypatch.setenv("CC", compiler)
    assert main(["run", written(tiny(), tmp_path)]) == 2
    assert told in capsys.readouterr().err


def test_a_plan_that_fails_its_check_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = tiny()
    plan = schedule.plan.model_copy(update={"waits": ()})
    assert main(["run", written(schedule.model_copy(update={"plan": plan}), tmp_path)]) == 4
    assert "not run" in capsys.readouterr().err


def test_a_trace_too_long_to_keep_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", written(tiny(), tmp_path), "--runs", "1000000"]) == 2
    assert "above the limit" in capsys.readouterr().err


def test_run_computes_and_refuses_another_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload, other = workload_of(TASKS["softmax"]), workload_of(TASKS["add"])
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    (tmp_path / "s.json").write_text(schedule.to_json(), encoding="utf-8")
    for name, work in (("w.json", workload), ("other.json", other)):
        (tmp_path / name).write_text(work.to_json(), encoding="utf-8")
    assert main(["run", str(tmp_path / "s.json"), "--workload", str(tmp_path / "w.json")]) == 0
    assert "tasks are those of numpy" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "s.json"), "--workload", str(tmp_path / "other.json")]) == 2
    assert "was not made from this workload" in capsys.readouterr().err


@pytest.mark.slow
def test_transfers_that_are_in_the_tables_move_real_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named tensors are parts of one memory: what one task stores the next one loads, and no kernel moves it."""
    rows = {"rows": 21, "cols": 40}
    tasks = [
        {"name": "norm", "kernel": "rmsnorm", "input": "x", "output": "y", **rows},
        {"name": "soft", "kernel": "softmax", "input": "y", "output": "z", **rows},
        {**ATTENTION, "keys": "k", "values": "v"},
        MATMUL,
    ]
    workload = workload_of(tasks)
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    tables = tables_of(schedule, descriptors=True)
    said = {tables.stages[task.stage] for task in tables.tasks if task.descriptor_count}
    assert {("norm", "load"), ("norm", "store"), ("soft", "load"), ("soft", "store"), ("f", "kv_load")} <= said
    assert set(tables.tensors) == {"x", "y", "z", "k", "v"}
    (tmp_path / "w.json").write_text(workload.to_json(), encoding="utf-8")
    with_numbers = ["--workload", str(tmp_path / "w.json")]
    run = ["run", written(schedule, tmp_path), "--descriptors"]
    assert main([*run, *with_numbers, "--keep", str(tmp_path / "kept"), "--runs", "2"]) == 0
    assert "tasks are those of numpy" in capsys.readouterr().out
    assert "hexloom_descriptor" in (tmp_path / "kept" / "plan.c").read_text(encoding="utf-8")
    assert main(run) == 2
    assert "add --workload" in capsys.readouterr().err
    assert main([*run, *with_numbers, "--target", "hexagon-v73"]) == 2
    assert "not on hexagon-v73" in capsys.readouterr().err


def test_without_named_tensors_nothing_is_in_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = workload_of(TASKS["softmax"])
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    (tmp_path / "w.json").write_text(workload.to_json(), encoding="utf-8")
    run = ["run", written(schedule, tmp_path), "--descriptors", "--workload", str(tmp_path / "w.json")]
    assert main(run) == 2
    assert "no task of 'w' moves a tensor with a name" in capsys.readouterr().err


@pytest.mark.parametrize("arch", [pytest.param(arch, marks=pytest.mark.slow) for arch in ("v68", "v79")] + ["v73"])
def test_run_computes_on_an_emulated_hexagon(arch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_emulator(), find_zig() if arch == "v79" else find_clang()
    except InvalidInputError as missing:
        pytest.skip(str(missing))
    tasks = [*TASKS["q8_0 in slices"], *TASKS["rmsnorm"], *TASKS["gemv"], ATTENTION, {**W4A8, "weight_type": "i8"}]
    workload = workload_of(tasks)
    schedule = solve(workload, time_limit_s=0.05).schedule
    assert schedule is not None
    (tmp_path / "w.json").write_text(workload.to_json(), encoding="utf-8")
    trace = tmp_path / "trace.json"
    arguments = ["--workload", str(tmp_path / "w.json"), "--target", f"hexagon-{arch}", "-o", str(trace)]
    assert main(["run", written(schedule, tmp_path), *arguments]) == 0
    said = capsys.readouterr().out
    assert f"on an emulated hexagon-{arch}: the results of" in said and "are those of numpy" in said
    measured = Measured.model_validate_json(trace.read_text(encoding="utf-8"))
    assert (measured.target, measured.kernels) == (f"hexagon-{arch}", "numeric")
    entries = [e for e in make_tables(schedule).entries if e.action != AFTER]
    assert sum(record.phase != "wait" for record in measured.records) == len(entries)


@pytest.mark.slow
@pytest.mark.parametrize("arch", [arch for arch in ARCHITECTURES if arch not in ("v68", "v73", "v79")])
def test_programs_link_for_all_that_is_known(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are not run here: without optimisation, which takes most of the time."""
    try:
        find_clang() if arch <= NEWEST else find_zig()
    except InvalidInputError as missing:
        pytest.skip(str(missing))
    monkeypatch.setattr(hexagon, "FLAGS", tuple("-O0" if flag == "-O2" else flag for flag in hexagon.FLAGS))
    for name in ("tables", "plain", "flow", "numbers", "memory"):
        (tmp_path / f"{name}.bin").write_bytes(b"")
    write_runtime(tmp_path)
    build_device(tmp_path, arch)
    program = (tmp_path / "device").read_bytes()
    flags = int.from_bytes(program[36:40], "little")
    assert program[:4] == b"\x7fELF" and flags & 0xFFF == int(arch[1:], 16)  # e_flags of ELF32 name the processor


def test_without_a_compiler_for_later_ones_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hexagon, "find_emulator", lambda: "qemu-hexagon")
    monkeypatch.setattr(hexagon, "find_spec", lambda name: None)
    assert main(["run", written(tiny(), tmp_path), "--target", "hexagon-v81"]) == 2
    assert "no compiler for Hexagon after v73: ziglang is not installed; pip install ziglang" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "told"),
    [("v73", "known are host"), ("hexagon-v99", "are there for v68")],
)
def test_targets_that_cannot_be_are_refused(
    target: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", written(tiny(), tmp_path), "--target", target]) == 2
    assert told in capsys.readouterr().err


def has_everything(tasks: tuple[Task, ...]) -> bool:
    """Whether there are late tasks, transfers, and tasks of several slices."""
    late = any(task.flags & TASK_ASYNC for task in tasks)
    return late and any(task.kind == DMA for task in tasks) and any(task.slice_count > 1 for task in tasks)


def test_patterns_move_on_an_emulated_hexagon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_emulator(), find_clang()
    except InvalidInputError as missing:
        pytest.skip(str(missing))
    schedule = next(s for s in map(random_schedule, range(99), [16] * 99) if has_everything(make_tables(s).tasks))
    assert main(["run", written(schedule, tmp_path), "--target", "hexagon-v73", "--runs", "3"]) == 0
    assert "executed 3 times with" in capsys.readouterr().out
