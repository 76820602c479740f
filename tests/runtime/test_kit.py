from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from compile.conftest import HEXAGON, HEXAGON_CLANG, Compiler
from compile.tiny import tiny
from runtime.hosts import GCC
from runtime.test_descriptors import workload_of as tiles
from runtime.test_runs import VENDOR
from unit.emit import examples
from unit.emit.examples import PIPE, Engine, compute, problem_of

from hexloom import solve
from hexloom.cli import main
from hexloom.emit.host import RUNTIME
from hexloom.emit.kit import write_kit
from hexloom.emit.records import HMX
from hexloom.emit.tables import make_tables

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, stem: str) -> str:
    """Build a kit for this host as its README says, run it, and return what it prints."""
    sources = [f"{stem}.c", f"{stem}_kernels.c", f"{stem}_main.c", "hexloom_posix.c", *RUNTIME]
    Compiler(GCC, ("-std=c11", "-pthread"))(*(folder / name for name in sources), "-o", folder / "program")
    return subprocess.run([folder / "program"], capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["small", "hostile"])
def test_a_kit_builds_and_runs_once_its_kernels_are_written(name: str, tmp_path: Path) -> None:
    schedule = getattr(examples, name)()
    write_kit(schedule, tmp_path, "it")
    assert program(tmp_path, "it").startswith("it: KERNEL_ERROR at task ")
    kernels = tmp_path / "it_kernels.c"
    kernels.write_text(kernels.read_text(encoding="utf-8").replace("return -1;", "return 0;"), encoding="utf-8")
    assert program(tmp_path, "it") == "it: OK\n"


def test_a_kit_needs_no_kernels_for_what_its_tables_say(tmp_path: Path) -> None:
    schedule = solve(tiles(5), time_limit_s=0.05, contention="none").schedule
    assert schedule is not None
    (tmp_path / "s.json").write_text(schedule.to_json(), encoding="utf-8")
    out = tmp_path / "out"
    assert main(["emit", str(tmp_path / "s.json"), "-o", str(out), "--stem", "it", "--kit", "--descriptors"]) == 0
    kernels = out / "it_kernels.c"
    text = kernels.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("static int")] == [
        "static int it_t_work(const hexloom_call *call) {"
    ]
    assert text.count("{NULL, NULL}, /* stage ") == 2
    readme = (out / "README.md").read_text(encoding="utf-8")
    assert "| 1 | tensor x |" in readme and "(descriptors) have none" in readme
    kernels.write_text(text.replace("return -1;", "return 0;"), encoding="utf-8")
    assert program(out, "it") == "it: OK\n"


def test_a_kit_measures_its_machine(tmp_path: Path) -> None:
    write_kit(tiny(), tmp_path, "it")
    sources = [tmp_path / name for name in ("it_bench.c", "hexloom_bench.c", "hexloom_posix.c")]
    Compiler(GCC, ("-std=c11", "-pthread"))(*sources, "-o", tmp_path / "bench")
    said = subprocess.run([tmp_path / "bench"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines()]
    assert [row[1] for row in rows] == [
        *("clock", "start_join", "handover_spin", "handover_sleep", "dma_issue", "dma_row", "dma_row_bytes_at_once"),
    ]
    for row in rows:
        median, low, high = (float(row[k]) for k in (3, 5, 7))
        assert 0 < low <= median <= high


def test_a_kit_compiles_for_the_device(tmp_path: Path) -> None:
    write_kit(tiny(), tmp_path, "it")
    vendors = (f"-I{VENDOR}", f"-I{VENDOR / 'ggml'}")
    compiler = Compiler(HEXAGON_CLANG, (*HEXAGON, "-mcpu=hexagonv73", "-std=c11", *vendors))
    for name in ("it.c", "it_kernels.c", "hexloom_qurt.c", "hexloom_ggml.c", "hexloom_bench.c", *RUNTIME):
        compiler("-c", tmp_path / name, "-o", tmp_path / "it.o")


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_a_kit_builds_with_cmake(tmp_path: Path) -> None:
    write_kit(tiny(), tmp_path, "it")
    for command in (["cmake", "-B", "build"], ["cmake", "--build", "build"], ["ctest", "--test-dir", "build"]):
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


def test_emit_writes_a_kit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.json").write_text(tiny().to_json(), encoding="utf-8")
    assert main(["emit", str(tmp_path / "s.json"), "-o", str(tmp_path / "out"), "--kit"]) == 0
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert sorted(line.rsplit("/", 1)[-1] for line in capsys.readouterr().out.splitlines()) == sorted(files)
    assert {"tiny.c", "tiny_kernels.c", "hexloom_qurt.c", "CMakeLists.txt", "README.md"} <= files
    assert "hexloom_hexmain.c" not in files
    for name in files:
        text = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert str(tmp_path) not in text


def test_the_file_of_kernels_says_what_is_given(tmp_path: Path) -> None:
    write_kit(tiny(), tmp_path, "it")
    text = (tmp_path / "it_kernels.c").read_text(encoding="utf-8")
    assert "/* A transfer: call hexloom_push() for each of its parts, which end in any order. */" in text
    assert "/* Slice call->slice of 2: all of them are called, each on its own thread. */" in text
    assert "/* hexloom_at(call, 0): 640 bytes, of its first task q.0. */" in text


def test_a_kit_says_how_it_is_plugged_into_ggml(tmp_path: Path) -> None:
    schedule = examples.small()
    write_kit(schedule, tmp_path, "it")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    threads = sum(queue.kind != HMX for queue in make_tables(schedule).queues)
    assert f"The session needs {threads} threads in its work queue (`n_threads`) and HMX" in text
    assert all(f"`{name}`" in text for name in (*RUNTIME, "hexloom_ggml.c", "it_kernels.c"))


def test_a_kit_says_why_a_plan_cannot_ride(tmp_path: Path) -> None:
    machine = (Engine(name="hmx", units=2), PIPE)
    problem = problem_of([([compute("a", "t", "a", 0, "hmx", 9), compute("b", "t", "b", 0, "hmx", 9)], [], [])])
    write_kit(examples.schedule_of(problem.model_copy(update={"engines": machine})), tmp_path, "it")
    assert "This plan cannot ride on its queues: it has more than one queue of HMX." in (
        (tmp_path / "README.md").read_text(encoding="utf-8")
    )
