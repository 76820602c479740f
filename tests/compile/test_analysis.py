"""Static analysers find nothing in the runtime, its ports and its kernels, nor in tables as they are emitted.

What they are not asked, and why, stands in `.clang-tidy` and beside the flags here.
"""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from compile.conftest import HEXAGON, ROOT
from unit.emit import examples

from hexloom.emit.files import write_emission

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

RUNTIME = ROOT / "emit" / "runtime"
VENDOR = ROOT / "tests" / "runtime" / "vendor"
INCLUDES = [f"-I{path}" for path in (ROOT / "emit" / "include", RUNTIME, VENDOR, VENDOR / "ggml")]
FOR_HEXAGON = {RUNTIME / f"hexloom_{name}.c" for name in ("hexraw", "hexmain", "qurt")}
HOST = sorted(set(RUNTIME.glob("*.c")) - FOR_HEXAGON)
CPPCHECK = (
    *("--std=c11", "--enable=warning,performance,portability", "--inconclusive", "--quiet", "--error-exitcode=9"),
    "--suppress=missingIncludeSystem",  # it needs no standard library to know its functions
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Tables of a plan with names of all kinds; what their self test does is in the runtime, too."""
    folder = tmp_path_factory.mktemp("emitted")
    write_emission(examples.hostile(), folder, "plan")
    return [folder / "plan.c"]


def found(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    return program


def said(command: Sequence[str | Path]) -> tuple[int, str]:
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT)
    return ran.returncode, ran.stdout + ran.stderr


def test_the_analyser_of_gcc_finds_nothing(emitted: list[Path], tmp_path: Path) -> None:
    gcc = found("gcc")
    flags = ("-std=c11", "-O1", "-fanalyzer", "-Wall", "-Wextra", "-Werror", *INCLUDES, "-c")
    with ThreadPoolExecutor(2) as pool:
        ran = pool.map(lambda path: said([gcc, *flags, path, "-o", tmp_path / f"{path.stem}.o"]), [*HOST, *emitted])
        assert set(ran) == {(0, "")}


def test_cppcheck_finds_nothing(emitted: list[Path]) -> None:
    assert said([found("cppcheck"), *CPPCHECK, *INCLUDES, RUNTIME, *emitted]) == (0, "")


@pytest.mark.parametrize("where", ["host", "hexagon"])
def test_clang_tidy_finds_nothing(where: str, emitted: list[Path]) -> None:
    tidy = found("clang-tidy-19")
    flags = ["-std=c11", *INCLUDES]
    paths = [*HOST, *emitted]
    if where == "hexagon":
        flags, paths = [*flags, *HEXAGON, "-mcpu=hexagonv73"], sorted(FOR_HEXAGON)
    config = f"--config-file={ROOT / '.clang-tidy'}"  # emitted files lie elsewhere
    with ThreadPoolExecutor(2) as pool:
        ran = pool.map(lambda path: said([tidy, "--quiet", config, path, "--", *flags]), paths)
        assert [(code, text) for code, text in ran if code != 0 or "warning:" in text] == []


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("gcc", "#include <stdlib.h>\nvoid f(void) { char *p = malloc(9); if (p) *p = 1; }\n"),
        ("cppcheck", "int f(int k) { int a[3] = {0, 0, 0}; if (k < 9) return a[3]; return 0; }\n"),
        ("clang-tidy-19", "int f(int k) { int x; return k > 1 ? x : 2; }\n"),
    ],
)
def test_an_analyser_that_is_asked_finds_a_fault(name: str, code: str, tmp_path: Path) -> None:
    """The flags ask for something at all."""
    path = tmp_path / "fault.c"
    path.write_text(code, encoding="utf-8")
    program = found(name)
    commands: dict[str, list[str | Path]] = {
        "gcc": [program, "-O1", "-fanalyzer", "-Werror", "-c", path, "-o", tmp_path / "it.o"],
        "cppcheck": [program, *CPPCHECK, path],
        "clang-tidy-19": [program, f"--config-file={ROOT / '.clang-tidy'}", path, "--", "-std=c11"],
    }
    assert said(commands[name])[0] != 0
