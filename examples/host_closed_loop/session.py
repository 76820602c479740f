"""Runs plans on this host with real work; says when everything ran, and whether an execution was left alone."""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from hexloom.emit.host import RUNTIME, find_compiler, measured_of, write_runtime
from hexloom.emit.job import job_of
from hexloom.emit.tables import make_tables
from hexloom.optimizer.traces.importer import read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom import Schedule, Trace, Workload

CLASSES = ("gemm", "gemm_stream", "add", "norm", "copy")
"""By the numbers that loop.c gives them."""

MATRIX, VECTOR = CLASSES[:2], CLASSES[2:]

NEAR_PS = 120_000
"""A hand-over that takes less is one between cores that lie near: 24 to 106 ns were seen, else 140 to 180."""

LOST_NS, LOST_PART = 60_000, 0.01
"""A thread that was kept from its core for more than both is not clean."""

FLAGS = ("-std=c11", "-O3", "-pthread")


@dataclass(frozen=True)
class Job:
    """A plan to run: its workload, its schedule, and the class and units of work of each op by name."""

    name: str
    workload: Workload
    schedule: Schedule
    work: dict[str, tuple[str, int]]


@dataclass(frozen=True)
class Repetition:
    """One execution: nanoseconds from the start of all threads to the last end, and its records.

    ``near`` is None where the cores were moved while it ran. Records are (queue, task, slice, phase, start, end).
    ``paces`` are nanoseconds of a little work just before and after it, by core, 0 where nothing ran: others on the
    host share the cores, and slow what runs by half and more.
    """

    span_ns: int
    near: bool | None
    clean: bool
    probe_ps: int
    rows: tuple[tuple[int, ...], ...]
    paces: tuple[int, int] = (0, 0)


class Session:
    """A process that holds all jobs; close it, or use it in ``with``."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = {job.name: k for k, job in enumerate(jobs)}
        self.tables = [make_tables(job.schedule) for job in jobs]
        self.of = list(jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="hexloom_loop_")
        folder = Path(self._folder.name)
        names = []
        for k, (job, tables) in enumerate(zip(jobs, self.tables, strict=True)):
            (folder / f"{k}").write_bytes(tables.to_bytes())
            of = [job.work[job.schedule.problem.ops[task.op].name] for task in tables.tasks]
            words = b"".join(struct.pack("<II", CLASSES.index(name), units) for name, units in of)
            (folder / f"{k}.work").write_bytes(words)
            names.append(str(folder / f"{k}"))
        self.process = subprocess.Popen(
            [str(build(folder)), *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._folder.cleanup()

    def run(self, name: str, times: int) -> list[Repetition]:
        """Execute a job so many times."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{self.jobs[name]} {times}\n")
        self.process.stdin.flush()
        found: list[tuple[list[int], list[tuple[int, ...]]]] = []
        for line in self.process.stdout:
            if line.startswith("end"):
                return [_repetition(head, rows) for head, rows in found]
            if line.startswith("run"):
                found.append(([int(word) for word in line.split()[1:]], []))
            else:
                found[-1][1].append(tuple(int(word) for word in line.split()))
        raise RuntimeError(f"the program ended while it ran {name!r}")

    def trace(self, name: str, repetitions: Sequence[Repetition]) -> Trace:
        """Return repetitions of a job as one trace, read as every trace is."""
        k = self.jobs[name]
        return trace_of(self.of[k], repetitions)


def trace_of(job: Job, repetitions: Sequence[Repetition]) -> Trace:
    """Return repetitions of a job as one trace, read as every trace is; the first one, set apart, stands twice."""
    again = [repetitions[0], *repetitions] if len(repetitions) > 1 else list(repetitions)
    rows = [
        (queue, task, piece, phase, k, start, end)
        for k, one in enumerate(again)
        for queue, task, piece, phase, start, end in one.rows
    ]
    measured = measured_of(job_of(job.schedule), rows, runs=len(again), kernels="numeric")
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        file.write(measured.to_json())
        file.flush()
        return read_trace(file.name)


def build(folder: Path) -> Path:
    """Build loop.c with the runtime in ``folder``."""
    sources = [*RUNTIME, "hexloom_posix.c"]
    write_runtime(folder)
    here = str(Path(__file__).with_name("loop.c"))
    command = [find_compiler(), *FLAGS, f"-I{folder}", here, *(str(folder / name) for name in sources)]
    subprocess.run([*command, "-o", str(folder / "loop")], check=True)
    return folder / "loop"


def _repetition(head: list[int], rows: list[tuple[int, ...]]) -> Repetition:
    start, before, after, *queues = head
    clean, paces = True, [0, 0]
    for k in range(0, len(queues), 5):
        core, preempted, wall, cpu, paces[core] = queues[k : k + 5]
        clean = clean and preempted == 0 and wall - cpu < max(LOST_NS, LOST_PART * wall)
    near = before < NEAR_PS
    same = near == (after < NEAR_PS)
    span = max(row[5] for row in rows) - start
    return Repetition(span, near if same else None, clean, before, tuple(rows), (paces[0], paces[1]))


def middle(repetitions: Sequence[Repetition]) -> float:
    """Return the median span in microseconds."""
    return median(one.span_ns for one in repetitions) / 1000


def said(value: object) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(value, separators=(",", ":"))
