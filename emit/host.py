"""Builds the runtime, the tables of a schedule and kernels for this host, runs them, and reads what they measured.

The kernels move patterns that show every wrong order (`runtime/hexloom_flow.c`), or compute (`numbers.py`); transfers
are done by a thread, in random order. So a run shows that the plan holds under that timing, with real threads; its
times are those of this host, not of the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

from hexloom.emit.buffer_map import buffer_map
from hexloom.emit.c_tables import QUEUE_KINDS, SELFTEST_HEADERS, SHARED_HEADERS
from hexloom.emit.files import write_tables
from hexloom.emit.flow import flow_words
from hexloom.emit.records import NONE
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.measured import Measured, MeasuredRecord, MeasuredWorker

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from hexloom.emit.job import Job
    from hexloom.emit.numbers import Numbers
    from hexloom.optimizer.measured import Phase

RUNTIME = ("hexloom_bind.c", "hexloom_wait.c", "hexloom_walk.c", "hexloom_runtime.c")
HOST = (
    "hexloom_posix.c",
    "hexloom_kernels.c",
    "hexloom_numeric.c",
    "hexloom_late.c",
    "hexloom_flow.c",
    "hexloom_arguments.c",
    "hexloom_host.c",
)
COMPILERS = ("cc", "gcc", "clang", "clang-19")
FLAGS = ("-std=c11", "-O3", "-pthread")
PHASES: tuple[Phase, ...] = ("wait", "run", "start", "observe")
"""By the numbers that the runtime gives them, from 1."""

STEM = "plan"
LONGEST_TRACE_BYTES = 1 << 30


@dataclass(frozen=True)
class HostRun:
    """What a run on this host gave.

    ``said`` is what the program says (`hexloom_host.c`): ``code`` OK or the first error, the ``task``, ``queue`` and
    ``event`` it happened at, and ``faults``: how often a task did not find what it should have. ``ops`` and ``buffers``
    are the names behind the numbers of tasks and of the rows of the map, ``wrong`` what numpy says of the results.
    """

    said: dict[str, Any]
    measured: Measured
    ops: tuple[str, ...]
    buffers: tuple[str, ...]
    wrong: tuple[str, ...] = ()

    @classmethod
    def of(cls, job: Job, said: dict[str, Any], measured: Measured, wrong: Sequence[str]) -> HostRun:
        """Put together what a program said and measured, with the names that ``job`` knows."""
        # What happened to a task of a loop is said of its first lap: the status does not know which one it was.
        ops = tuple("" if task.op == NONE else job.problem.ops[task.op].name for task in job.plain.tasks)
        buffers = tuple(row.buffer.name for row in buffer_map(job.problem).rows)
        return cls(said, measured, ops, buffers, tuple(wrong))

    @property
    def ok(self) -> bool:
        """Whether all executions ended, every task found what it should, and every result is right."""
        return bool(self.said["code"] == "OK" and self.said["faults"] == 0 and not self.wrong)

    def explain(self) -> str:
        """Return in one line what went wrong first, with names."""
        said = self.said
        parts = []
        if said["faults"]:
            who = "after the last task" if said["fault_task"] is None else f"task {self.ops[said['fault_task']]!r}"
            parts.append(f"{who}: buffer {self.buffers[said['fault_buffer']]!r} did not hold what it should")
            parts.append(f"so it was {said['faults']} times in all")
        if said["code"] != "OK":
            at = "" if said["task"] is None else f" at task {self.ops[said['task']]!r}"
            parts.append(f"{said['code']}{at}")
        if said["event"] is not None:
            parts.append(f"event {said['event']} was triggered {said['seen']} times of {said['expected']}")
        if said["problem"] is not None:
            parts.append(str(said["problem"]))
        parts += self.wrong
        return ", ".join(parts)


def find_compiler() -> str:
    """Return the C compiler of this host: ``CC``, or one of the usual names.

    Raises
    ------
    InvalidInputError
        When there is none.
    """
    wanted = os.environ.get("CC")
    found = next((path for name in ([wanted] if wanted else COMPILERS) if (path := shutil.which(name))), None)
    if found is None:
        raise InvalidInputError(
            f"no C compiler: {wanted or ', '.join(COMPILERS)} is not on the path; install one, or name it in CC"
        )
    return found


def write_runtime(folder: Path, parts: Collection[str] | None = None) -> list[str]:
    """Write the runtime, its ports and its kernels into ``folder``, or those ``parts`` of it; return their names."""
    for name in (*SHARED_HEADERS, *SELFTEST_HEADERS):
        _copy("include", name, folder)
    written = []
    for item in sorted((resources.files("hexloom.emit") / "runtime").iterdir(), key=lambda item: item.name):
        part, _, kind = item.name.removeprefix("hexloom_").partition(".")
        if kind in ("c", "h") and (parts is None or part in parts):
            _copy("runtime", item.name, folder)
            written.append(item.name)
    return written


def write_host(job: Job, folder: Path) -> list[str]:
    """Write all sources of the program into ``folder``; return the names of those to compile."""
    write_runtime(folder)
    write_tables(job.source, folder, STEM, descriptors=bool(job.tables.descriptors))
    (folder / "main.c").write_text(
        f'#include "hexloom_host.h"\n#include "{STEM}.h"\n\n'
        f"int main(int argc, char **argv) {{\n  hexloom_view view;\n  {STEM}_view(&view);\n"
        "  return hexloom_host(&view, argc, argv);\n}\n",
        encoding="utf-8",
    )
    return ["main.c", f"{STEM}.c", *RUNTIME, *HOST]


def _copy(room: str, name: str, folder: Path) -> None:
    text = (resources.files("hexloom.emit") / room / name).read_text(encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8", newline="\n")


def run_on_host(
    job: Job,
    folder: Path,
    *,
    runs: int = 1,
    seed: int = 0,
    delay_us: int = 0,
    transfer_us: int = 0,
    timeout_ms: int = 10_000,
    numbers: Numbers | None = None,
) -> HostRun:
    """Build the program in ``folder`` and run it.

    ``delay_us`` is the most that a kernel, ``transfer_us`` the most that a transfer is delayed, at random from
    ``seed``. Every wait of the run has the deadline ``timeout_ms``.

    Raises
    ------
    InvalidInputError
        When there is no compiler, the program cannot be built, or it does not run.
    """
    queues = job.plain.queues
    records = runs * max((2 * queue.entry_count for queue in queues), default=0)
    if 32 * records * len(queues) > LONGEST_TRACE_BYTES:
        raise InvalidInputError(
            f"--runs {runs}: the trace would take {32 * records * len(queues)} bytes, above the limit "
            f"{LONGEST_TRACE_BYTES}; run it fewer times"
        )
    compiler = find_compiler()
    sources = write_host(job, folder)
    call([compiler, *FLAGS, *sources, "-o", "host"], folder, "the C compiler failed")
    arguments: dict[str, object] = {
        **_work(job, numbers, folder),
        "trace": "trace.txt",
        "runs": runs,
        "seed": seed,
        "delay_us": delay_us,
        "transfer_us": transfer_us,
        "timeout_ms": timeout_ms,
        "records": records,
        "main": 0,
    }
    program = [str(folder / "host"), *(f"{name}={value}" for name, value in arguments.items())]
    said = json.loads(call(program, folder, "the program failed", (0, 1)))
    lines = (folder / "trace.txt").read_text(encoding="utf-8").splitlines()
    rows = [(*map(int, line.split()),) for line in lines]
    measured = measured_of(job, rows, runs=runs, kernels="flow" if numbers is None else "numeric")
    wrong = [] if numbers is None or said["code"] != "OK" else numbers.faults((folder / "result.bin").read_bytes())
    return HostRun.of(job, said, measured, wrong)


def _work(job: Job, numbers: Numbers | None, folder: Path) -> dict[str, object]:
    """Write down what the kernels do; return the arguments that say so."""
    loops: dict[str, object] = {}
    if job.parameters:
        (folder / "plain.bin").write_bytes(job.plain.to_bytes())
        loops = {"plain": "plain.bin", "parameters": ",".join(map(str, job.parameters))}
    if numbers is None:
        (folder / "flow.bin").write_bytes(flow_words(job.problem, job.plain))
        return {"flow": "flow.bin", **loops}
    (folder / "numbers.bin").write_bytes(numbers.words)
    (folder / "memory.bin").write_bytes(numbers.memory)
    if job.tables.tensors:
        loops["tensors"] = ",".join("{}:{}".format(*numbers.tensors[name]) for name in job.tables.tensors)
    return {"numbers": "numbers.bin", "memory": "memory.bin", "result": "result.bin", **loops}


def call(command: list[str], folder: Path, what: str, good: tuple[int, ...] = (0,)) -> str:
    """Run a program in ``folder`` and return what it prints; raises InvalidInputError where it ends otherwise."""
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode not in good:
        raise InvalidInputError(f"{what}: {command[0]}: {ran.stderr.strip() or f'exit code {ran.returncode}'}")
    return ran.stdout


def measured_of(
    job: Job,
    rows: Sequence[tuple[int, ...]],
    *,
    runs: int,
    kernels: Literal["flow", "numeric"],
    target: str = "host",
) -> Measured:
    """Return the trace of ``rows``: (queue, task, slice, phase, execution, start, end) of each record."""
    first = min((row[5] for row in rows), default=0)
    tables, source = job.plain, job.source
    return Measured(
        name=source.name,
        tool=source.tool,
        machine=source.machine,
        target=target,
        schedule_hash=f"{tables.header.schedule_hash:016x}",
        kernels=kernels,
        runs=runs,
        workers=tuple(
            MeasuredWorker(
                engine=tables.engines[queue.engine] if queue.engine < len(tables.engines) else None,
                unit=queue.unit,
                kind=QUEUE_KINDS[queue.kind],
            )
            for queue in tables.queues
        ),
        records=tuple(
            MeasuredRecord(
                worker=worker,
                task=task,
                op=job.problem.ops[tables.tasks[task].op].name,
                slice=piece,
                run=executed,
                phase=PHASES[phase - 1],
                start_ns=start - first,
                end_ns=end - first,
            )
            for worker, task, piece, phase, executed, start, end in rows
        ),
    )
