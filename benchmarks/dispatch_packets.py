"""What the walker does between two kernels, counted: packets of v73 in the emulator, and cache lines of tables.

A packet is what Hexagon issues at once. Programs that execute a table once and twice differ by one execution; those of
20 tasks and of 10 by 10 tasks, with kernels that do nothing (two packets, which are counted). The emulator
writes down every packet that it executes.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hexloom.emit.hexagon import FLAGS, LINK, NEWEST, find_clang, find_emulator
from hexloom.emit.host import RUNTIME, write_runtime
from hexloom.emit.records import AFTER, ENTRY, HEADER, TASK
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hexloom.emit.rows import Tables

FEW, MANY = 10, 20
LINE = 128
"""Bytes of a cache line, on Hexagon and of the runtime's own (HEXLOOM_LINE)."""


def packets_per_task(shapes: Mapping[str, Callable[[int], Tables]]) -> dict[str, float | None]:
    """Return the packets of one task among equal ones, for tables of each shape and of so many tasks.

    None where there is no compiler or no emulator.
    """
    try:
        emulator, clang = find_emulator(), find_clang()
    except InvalidInputError:
        return dict.fromkeys(shapes)
    compiler = [clang, *FLAGS, f"-mcpu=hexagon{NEWEST}"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_runtime(folder)
        shutil.copy(Path(__file__).with_name("runtime_hexagon.c"), folder)
        subprocess.run([*compiler, "-c", *RUNTIME, "hexloom_hexraw.c"], cwd=folder, check=True)
        found: dict[str, float | None] = {}
        for name, tables_of_count in shapes.items():
            whole = []
            for count in (FEW, MANY):
                (folder / "tables.bin").write_bytes(tables_of_count(count).to_bytes())
                one, two = (_packets(folder, compiler, emulator, runs) for runs in (1, 2))
                whole.append(two - one)
            found[name] = (whole[1] - whole[0]) / (MANY - FEW)
    return found


def _packets(folder: Path, compiler: list[str], emulator: str, runs: int) -> int:
    """Return how many packets a program executes that executes the tables in ``folder`` so often."""
    objects = [f"{Path(name).stem}.o" for name in (*RUNTIME, "hexloom_hexraw.c")]
    command = [*compiler, *LINK, f"-DHEXLOOM_RUNS={runs}", "runtime_hexagon.c", *objects, "-o", "count"]
    subprocess.run(command, cwd=folder, check=True)
    run = [emulator, "-cpu", NEWEST, "-one-insn-per-tb", "-d", "exec,nochain", "./count"]
    with subprocess.Popen(run, cwd=folder, stderr=subprocess.PIPE) as emulated:
        assert emulated.stderr is not None
        count = sum(line.startswith(b"Trace") for line in emulated.stderr)
    if emulated.returncode != 0:
        raise RuntimeError(f"the emulated program failed with code {emulated.returncode}")
    return count


def lines_per_task(tables: Tables) -> tuple[float, int]:
    """Return how many cache lines of tables a queue comes to with an entry: new ones on average, and all at most.

    An entry touches its own line and that of its task, where it has one; new are those that the entry before did not
    have. The tables begin at a line. Counters of events lie elsewhere, on lines of their own.
    """
    at: dict[str, int] = {}
    offset = HEADER.size_bytes
    for name, record, rows in tables.parts:
        at[name] = offset
        offset += record.size_bytes * len(rows)
    fresh, most = [], 0
    for queue in tables.queues:
        before: set[int] = set()
        for k in range(queue.first_entry, queue.first_entry + queue.entry_count):
            entry = tables.entries[k]
            spans = [(at["entries"] + k * ENTRY.size_bytes, ENTRY.size_bytes)]
            if entry.action != AFTER:
                spans.append((at["tasks"] + entry.task * TASK.size_bytes, TASK.size_bytes))
            lines = {n for start, size in spans for n in range(start // LINE, (start + size - 1) // LINE + 1)}
            fresh.append(len(lines - before))
            most = max(most, len(lines))
            before = lines
    return sum(fresh) / len(fresh), most
