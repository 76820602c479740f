"""What does the runtime itself cost on this host: per task, per hand-over between threads, per task in the tables?

Kernels are empty. Rows: what, us (median, of one task on one worker or of one hand-over), us_low, us_high (of the
executions). ``dispatch``: one worker. ``dispatch_2``: two workers that need nothing of each other. ``triggered``:
every task triggers an event of its own. ``awaited``: the same, and each waits for the one before, of its own queue.
``handover_spin`` and ``handover_futex``: two workers wait for each other in turn, looking or sleeping; on fewer than
two processors spinning is left out. ``execute`` and ``execute_stay``: a whole execution of six queues of one task, with
threads that are started and joined, and with threads that stay. ``looped`` and ``looped_awaited``: as ``dispatch`` and
``awaited``, in a loop of 20 tasks. Bytes per task are those of a solved example, ``looped_bytes`` those of a periodic
one for 10^3 and for 10^6 iterations. ``packets`` (of v73, counted in the emulator) are from one kernel to the next one,
for tasks as in ``dispatch``, ``triggered`` and ``awaited``; ``lines_mean_and_most`` the cache lines of tables that a
queue comes to with an entry, of these and of the example. ``code_bytes`` are those of this host and of v73, compiled
for size.
``--quick`` takes fewer executions.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatch_packets import lines_per_task, packets_per_task

from hexloom import Workload, solve
from hexloom.emit import records
from hexloom.emit.awaited import awaited
from hexloom.emit.hexagon import FLAGS as HEXAGON_FLAGS
from hexloom.emit.hexagon import NEWEST, find_clang
from hexloom.emit.host import FLAGS, RUNTIME, find_compiler
from hexloom.emit.looped import make_looped_tables
from hexloom.emit.records import NONE
from hexloom.emit.rows import (
    Advance,
    Await,
    Binding,
    Body,
    Entry,
    Event,
    Header,
    Loop,
    Parameter,
    Queue,
    Tables,
    Task,
)
from hexloom.emit.tables import make_tables
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.solve import solve_periodic

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
TASKS = 20_000
HANDOVERS = 2_000
FOREVER = 2**32 - 1
"""Looks at a counter before its waiter sleeps: it never does."""


def tables_of(queues: list[list[tuple[int | None, list[int]]]]) -> Tables:
    """Return tables of tasks that use no memory: for each queue its tasks, as (event it triggers, events it awaits).

    Every event is triggered once.
    """
    tasks: list[Task] = []
    entries: list[Entry] = []
    rows: list[Queue] = []
    triggered = {event for queue in queues for event, _ in queue if event is not None}
    waiters = dict.fromkeys(sorted(triggered), 0)
    for q, queue in enumerate(queues):
        before = len(entries)
        for event, others in queue:
            waits = awaited({Await(other, 1): [q] for other in others})
            entries += (*waits.entries(q), Entry(len(tasks), records.RUN, 0, 0))
            trigger = NONE if event is None else event
            tasks.append(Task(0, records.HVX, 0, 0, 0, 0, 0, q, 1, 0, 0, waits.own.event, waits.own.threshold, trigger))
            for other in others:
                waiters[other] += 1
        rows.append(Queue(0, q, records.HVX, 0, before, len(entries) - before))
    events = tuple(Event(1, n) for n in waiters.values())
    header = Header(0, len(tasks), 0, len(events), len(rows), len(entries), 0, 1, 0, 0)
    return Tables(
        header=header,
        tasks=tuple(tasks),
        operands=(),
        events=events,
        queues=tuple(rows),
        entries=tuple(entries),
        buffers=(),
        bindings=(Binding(0, 1, records.VTCM, 0),),
        groups=("t",),
        stages=(("t", ""),),
        engines=("hvx",),
        markers=(),
    ).sealed()


def looped_tables(body: int, laps: int, *, chained: bool) -> Tables:
    """Return a queue of one task, a loop of ``body`` tasks, and one task behind it, which use no memory.

    With ``chained`` each task of the loop triggers an event, and waits for the one before it.
    """
    flat = tables_of([[(None, []) for _ in range(body + 2)]])
    events = tuple(Event(0, 1) for _ in range(body)) if chained else ()
    tasks: list[Task] = []
    for t, task in enumerate(flat.tasks):
        inside = chained and 0 < t <= body
        if inside:  # the first one waits for the last one of the lap before: in the first lap for nothing yet
            task = replace(task, wait_event=(t - 2) % body, wait_threshold=int(t > 1), trigger_event=t - 1)
        tasks.append(task)
    if chained:  # a task before the loop triggers what the first lap waits for
        tasks[0] = replace(tasks[0], trigger_event=body - 1)
        tasks[1] = replace(tasks[1], wait_event=body - 1, wait_threshold=1)
        events = (*events[:-1], Event(1, 1))
    made = replace(
        flat,
        tasks=tuple(tasks),
        events=events,
        loops=(Loop(1, body, 0, len(events), 0),),
        bodies=(Body(1, body),),
        parameters=(Parameter(records.LAPS, 0, 1, 2**30, 1, laps),),
        advances=(Advance(1),),
    )
    counts = {f"{record.name}_count": len(rows) for _, record, rows in made.parts}
    return replace(made, header=replace(made.header, **counts, group_count=1)).sealed()


def looped_bytes() -> dict[str, int]:
    """Return the bytes of the tables of one workload for 10^3 and 10^6 iterations."""
    found = {}
    for count in (10**3, 10**6):
        ops = [
            {"name": "load_{i}", "stage": "load", "engine": "dma", "duration_us": 3, "after": ["work_{i-2}"]},
            {"name": "work_{i}", "stage": "work", "engine": "hmx", "duration_us": 5, "after": ["load_{i}"]},
        ]
        task = {"name": "t", "ops": [{"for": "i", "count": count, "ops": ops}]}
        data = {"schema": "hexloom.workload/1", "name": "loop", "hw": "hexagon-v79", "tasks": [task]}
        periodic = solve_periodic(Workload.from_data(data, "loop"), time_limit_s=0.5, contention="none", seed=1)
        found[str(count)] = len(make_looped_tables(periodic).to_bytes())
    return found


def build(folder: Path) -> Path:
    """Build the program that executes tables."""
    include = ["-I", str(ROOT / "emit" / "runtime"), "-I", str(ROOT / "emit" / "include")]
    sources = [str(ROOT / "emit" / "runtime" / name) for name in (*RUNTIME, "hexloom_posix.c")]
    program = folder / "runtime"
    here = str(Path(__file__).with_suffix(".c"))
    subprocess.run([find_compiler(), *FLAGS, *include, here, *sources, "-o", str(program)], check=True)
    return program


def code_bytes(folder: Path, compiler: list[str]) -> int | None:
    """Return the bytes of code of the runtime, compiled for size, where `size` is there to count them."""
    total = 0
    for name in RUNTIME:
        include = ["-I", str(ROOT / "emit" / "runtime"), "-I", str(ROOT / "emit" / "include")]
        source, target = str(ROOT / "emit" / "runtime" / name), str(folder / f"{name}.o")
        subprocess.run([*compiler, "-std=c11", "-Os", *include, "-c", source, "-o", target], check=True)
        try:
            said = subprocess.run(["size", target], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return None
        total += int(said.splitlines()[1].split()[0])
    return total


def hexagon_code_bytes(folder: Path) -> int | None:
    """Return the bytes of code of the runtime for v73; None where no compiler is there for it."""
    try:
        clang = find_clang()
    except InvalidInputError:
        return None
    return code_bytes(folder, [clang, *(flag for flag in HEXAGON_FLAGS if flag != "-O2"), f"-mcpu=hexagon{NEWEST}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer executions")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    executions = 15 if args.quick else 101
    plain: list[tuple[int | None, list[int]]] = [(None, []) for _ in range(TASKS)]
    turns: list[list[tuple[int | None, list[int]]]] = [[], []]
    for k in range(HANDOVERS):
        turns[k % 2].append((k, [k - 1] if k else []))
    short = tables_of([[(None, [])] for _ in range(6)])
    measured: dict[str, tuple[Tables, int, int]] = {
        "dispatch": (tables_of([plain]), TASKS - 1, 200),
        "dispatch_2": (tables_of([plain, plain]), TASKS - 1, 200),
        "triggered": (tables_of([[(k, []) for k in range(TASKS)]]), TASKS - 1, 200),
        "awaited": (tables_of([[(k, [k - 1] if k else []) for k in range(TASKS)]]), TASKS - 1, 200),
        "handover_futex": (tables_of(turns), HANDOVERS - 2, 0),
        "looped": (looped_tables(20, TASKS // 20, chained=False), TASKS, 200),
        "looped_awaited": (looped_tables(20, TASKS // 20, chained=True), TASKS, 200),
        "execute": (short, 0, 0),
        "execute_stay": (short, 0, 0),
    }
    if (os.cpu_count() or 1) > 1:
        measured["handover_spin"] = (tables_of(turns), HANDOVERS - 2, FOREVER)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        program = build(folder)
        for what, (tables, steps, spins) in measured.items():
            (folder / "tables").write_bytes(tables.to_bytes())
            command = [
                str(program),
                str(folder / "tables"),
                str(executions),
                str(spins),
                str(int(what == "execute_stay")),
            ]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            pairs = [tuple(map(int, line.split())) for line in said.splitlines()]
            each = sorted(inside / steps / 1000 if steps else whole / 1000 for inside, whole in pairs)
            row: dict[str, Any] = {"what": what, "us": round(statistics.median(each), 4)}
            rows.append({**row, "us_low": round(each[0], 4), "us_high": round(each[-1], 4)})
            if not args.json:
                print(*(f"{key}={value}" for key, value in rows[-1].items()), flush=True)
        text_bytes = {"host": code_bytes(folder, [find_compiler()]), NEWEST: hexagon_code_bytes(folder)}
    schedule = solve(
        Workload.load(ROOT / "examples" / "ffn_and_norm" / "workload.yaml"), time_limit_s=1, seed=0
    ).schedule
    assert schedule is not None
    example = make_tables(schedule)
    shapes: dict[str, Callable[[int], Tables]] = {
        "dispatch": lambda n: tables_of([[(None, []) for _ in range(n)]]),
        "triggered": lambda n: tables_of([[(k, []) for k in range(n)]]),
        "awaited": lambda n: tables_of([[(k, [k - 1] if k else []) for k in range(n)]]),
    }
    lines = {name: lines_per_task(shape(200)) for name, shape in shapes.items()} | {"example": lines_per_task(example)}
    us = {row["what"]: row["us"] for row in rows}
    answer = {
        "machine": f"{platform.machine()}, {platform.system()}, {os.cpu_count()} processors",
        "versions": {name: version(name) for name in ("hexloom",)},
        "rows": rows,
        "summary": {
            "dispatch_us_median": us["dispatch"],
            "handover_spin_us_median": us.get("handover_spin"),
            "handover_futex_us_median": us["handover_futex"],
            "execute_us_median": us["execute"],
            "execute_stay_us_median": us["execute_stay"],
            "bytes_per_task": round(len(example.to_bytes()) / len(example.tasks), 1),
            "looped_us_median": us["looped"],
            "looped_bytes": looped_bytes(),
            "code_bytes": text_bytes,
            "task_record_bytes": records.TASK.size_bytes,
            "packets": packets_per_task(shapes),
            "lines_mean_and_most": {name: [round(mean, 2), most] for name, (mean, most) in lines.items()},
        },
    }
    print(json.dumps(answer, indent=1) if args.json else f"summary: {answer['summary']}")


if __name__ == "__main__":
    main()
