from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hexloom import Workload, solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.schedule import Schedule

ROOT = Path(__file__).resolve().parents[2]
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror")
HEXAGON = ("--target=hexagon-unknown-none-elf", "-mhvx", "-mhvx-length=128B", "-ffreestanding", "-fno-builtin")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew")


@dataclass(frozen=True)
class Compiler:
    """A way to compile a file of C; what is missing skips the test that asks for it."""

    programs: tuple[str, ...]
    flags: tuple[str, ...]

    def __call__(self, *arguments: str | Path) -> None:
        program = next((found for name in self.programs if (found := shutil.which(name))), None)
        if program is None:
            pytest.skip(f"none of {', '.join(self.programs)} is installed")
        command = [program, *self.flags, *STRICT, *map(str, arguments)]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert ran.stderr == ""


CLANG = ("clang-19", "clang-20", "clang-18", "clang-17", "clang-16", "clang-14", "clang")
HEXAGON_CLANG = ("clang-19", "clang-20", "clang-18", "clang-17", "clang-16")
HOST = {
    "gcc-c99": Compiler(("gcc", "cc"), ("-std=c99",)),
    "gcc-c++11": Compiler(("g++",), ("-x", "c++", "-std=c++11")),
    "clang-c99": Compiler(CLANG, ("-std=c99",)),
    "clang-c++11": Compiler(CLANG, ("-x", "c++", "-std=c++11")),
}
DEVICE = {
    f"hexagon-{arch}": Compiler(HEXAGON_CLANG, (*HEXAGON, f"-mcpu=hexagon{arch}", "-std=c99", "-O2"))
    for arch in ("v68", "v73")
}


@pytest.fixture(scope="session")
def solved() -> Callable[[str], Schedule]:
    """Solve an example once."""
    known: dict[str, Schedule] = {}

    def one(name: str) -> Schedule:
        if name not in known:
            found = solve(Workload.load(ROOT / "examples" / name), time_limit_s=1, seed=0).schedule
            assert found is not None
            known[name] = found
        return known[name]

    return one
