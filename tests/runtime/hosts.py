"""The program that runs tables on this host, built for tests in several ways, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compile.conftest import CLANG, ROOT, Compiler
from looped import shown

from hexloom.emit.chosen import laps_for_trips, parameters_for
from hexloom.emit.flow import flow_words
from hexloom.emit.host import HOST, RUNTIME
from hexloom.emit.job import plain_tables
from hexloom.emit.numbers import make_numbers
from hexloom.emit.tables import make_tables

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.periodic.trial import Source
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.workload import Workload

HERE = Path(__file__).parent
SOURCES = (*RUNTIME, *HOST)
INCLUDES = ("-I", ROOT / "emit" / "include", "-I", ROOT / "emit" / "runtime")
STEPS = ("-include", HERE / "steps.h", "-D_GNU_SOURCE")
GCC = ("gcc", "cc")
WAYS: dict[str, tuple[tuple[str, ...], tuple[str | Path, ...]]] = {
    "gcc": (GCC, ("-O0",)),
    "clang": (CLANG, ("-O2",)),
    "asan": (GCC, ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", *STEPS)),
    "tsan": (GCC, ("-O0", "-g", "-fsanitize=thread", *STEPS)),
}
"""Compiler and flags; the ones with sanitizers lose their processor at every step."""


def compile_c(how: str, *arguments: str | Path) -> None:
    """Compile with all warnings as errors, in one of the ``WAYS``."""
    programs, flags = WAYS[how]
    Compiler(programs, ("-std=c11", "-pthread"))(*flags, *INCLUDES, *arguments)


def build(how: str, folder: Path) -> Host:
    """Compile the runtime and what belongs to it, and link a program that reads its tables from a file."""
    objects = []
    for name in SOURCES:
        objects.append(folder / f"{name}.o")
        compile_c(how, "-c", ROOT / "emit" / "runtime" / name, "-o", objects[-1])
    main = '#include "hexloom_host.h"\nint main(int argc, char **argv) { return hexloom_host(NULL, argc, argv); }\n'
    (folder / "main.c").write_text(main, encoding="utf-8")
    host = Host(how, folder / "host", folder, tuple(objects))
    host.link(folder / "main.c", host.program)
    return host


@dataclass(frozen=True)
class Host:
    how: str
    program: Path
    folder: Path
    objects: tuple[Path, ...]

    def link(self, source: Path, program: Path) -> None:
        """Build another program with the same objects."""
        compile_c(self.how, source, *self.objects, "-o", program)

    def __call__(self, schedule: Schedule, tables: Tables | None = None, **arguments: object) -> dict[str, Any]:
        """Run ``tables``, by default those of ``schedule``, and see that its problem's order is kept; what it says."""
        flow = flow_words(schedule.problem, make_tables(schedule))
        return self.run((tables or make_tables(schedule)).to_bytes(), flow, **arguments)

    def run_loops(
        self, periodic: PeriodicSchedule, tables: Tables, which: int = 0, **arguments: object
    ) -> dict[str, Any]:
        """Run tables with loops, with the laps that are written down, or with those of one of the grown schedules."""
        laps, schedule = shown(periodic, tables)[which]
        problem = schedule.problem
        plain = plain_tables(periodic, tables, laps, problem)
        (self.folder / "plain.bin").write_bytes(plain.to_bytes())
        parameters = ",".join(map(str, parameters_for(tables, laps)))
        loops = {"plain": self.folder / "plain.bin", "parameters": parameters}
        return self.run(tables.to_bytes(), flow_words(problem, plain), **{**loops, **arguments})

    def run_trips(
        self,
        periodic: PeriodicSchedule,
        tables: Tables,
        source: Source,
        trips: dict[str, int],
        **arguments: object,
    ) -> dict[str, Any]:
        """Run tables with loops for so many iterations of every task, and see that the order of these is kept."""
        laps = laps_for_trips(tables, trips)
        problem = source.problem(trips)
        plain = plain_tables(periodic, tables, laps, problem, trips)
        (self.folder / "plain.bin").write_bytes(plain.to_bytes())
        parameters = parameters_for(tables, laps, trips)
        loops = {"plain": self.folder / "plain.bin", "parameters": ",".join(map(str, parameters))}
        return self.run(tables.to_bytes(), flow_words(problem, plain), **{**loops, **arguments})

    def compute(self, schedule: Schedule, workload: Workload, **arguments: object) -> list[str]:
        """Run ``schedule`` with kernels that compute; what is wrong with the results."""
        tables = make_tables(schedule)
        numbers = make_numbers(schedule, tables, workload, seed=3)
        files = {name: self.folder / f"{name}.bin" for name in ("numbers", "memory", "result")}
        files["numbers"].write_bytes(numbers.words)
        files["memory"].write_bytes(numbers.memory)
        said = self.run(tables.to_bytes(), **{**files, **arguments})
        assert said["code"] == "OK"
        return numbers.faults(files["result"].read_bytes())

    def run(self, blob: bytes, flow: bytes | None = None, **arguments: object) -> dict[str, Any]:
        files = {"tables": self.folder / "tables.bin", "flow": self.folder / "flow.bin"}
        files["tables"].write_bytes(blob)
        files["flow"].write_bytes(flow or b"")
        if flow is None:
            del files["flow"]
        command = [self.program, *(f"{name}={value}" for name, value in {**files, **arguments}.items())]
        # Where a sanitizer finds something, the program ends with another code than its own.
        env = {
            **os.environ,
            "TSAN_OPTIONS": "exitcode=66",
            "ASAN_OPTIONS": "exitcode=66",
            "UBSAN_OPTIONS": "exitcode=66",
        }
        ran = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
        assert ran.stderr == ""
        said: dict[str, Any] = json.loads(ran.stdout)
        assert ran.returncode == (0 if said["code"] == "OK" and said["faults"] == 0 else 1)
        return said
