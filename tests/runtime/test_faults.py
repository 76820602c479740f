"""What goes wrong is told by its first sign, within the deadline; everybody stops, and nothing is left behind."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compile.tiny import tiny
from runtime.test_descriptors import workload_of as tiles
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom import solve
from hexloom.emit import records
from hexloom.emit.c_tables import tables_of
from hexloom.emit.tables import make_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from runtime.hosts import Host

    from hexloom.emit.rows import Tables
    from hexloom.optimizer.schedule import Schedule

HERE = Path(__file__).parent
NOTHING = {"task": None, "queue": None, "event": None}


def task_named(schedule: Schedule, tables: Tables, name: str) -> int:
    return next(t for t, task in enumerate(tables.tasks) if schedule.problem.ops[task.op].name == name)


@pytest.mark.parametrize("how", ["gcc", "tsan", "asan"])
def test_a_kernel_that_fails_stops_everybody(how: str, host_of: Callable[[str], Host]) -> None:
    schedule = examples.small()
    tables = make_tables(schedule)
    failing = task_named(schedule, tables, "gemm.matmul[2]")
    said = host_of(how)(schedule, fail=failing, transfer_us=200, runs=2)
    assert (said["code"], said["task"], said["detail"], said["stuck"]) == ("KERNEL_ERROR", failing, 7, 0)
    assert (said["queue"], said["executed"], said["faults"]) == (tables.tasks[failing].queue, 0, 0)


@pytest.mark.parametrize("how", ["gcc", "tsan"])
def test_a_kernel_that_is_late_is_a_timeout_of_who_waits_for_it(how: str, host_of: Callable[[str], Host]) -> None:
    schedule = tiny()
    tables = make_tables(schedule)
    slow = task_named(schedule, tables, "dequantize.0")
    said = host_of(how)(schedule, slow=f"{slow}:200", timeout_ms=60)
    assert (said["code"], said["stuck"]) == ("TIMEOUT", 0)
    assert said["task"] == task_named(schedule, tables, "matmul.0")
    assert said["event"] == tables.tasks[slow].trigger_event
    assert (said["seen"], said["expected"]) == (0, 2)
    assert 0.06e9 <= said["elapsed_ns"] < 0.5e9


def test_a_wait_of_an_entry_is_told_as_that_of_its_task(host_of: Callable[[str], Host]) -> None:
    schedule = examples.two_waits()
    tables = make_tables(schedule)
    slow, gang = (task_named(schedule, tables, name) for name in ("near", "gang"))
    said = host_of("gcc")(schedule, slow=f"{slow}:330", timeout_ms=200)
    assert (said["code"], said["task"], said["event"]) == ("TIMEOUT", gang, tables.tasks[slow].trigger_event)
    assert tables.tasks[gang].wait_event != said["event"]
    assert (said["seen"], said["expected"], said["stuck"]) == (0, 1, 0)


def test_a_kernel_that_does_not_return_is_counted(host_of: Callable[[str], Host]) -> None:
    """Nobody waits for it, so that only the one who started the threads can notice; it cannot be joined."""
    schedule = tiny()
    tables = make_tables(schedule)
    last = task_named(schedule, tables, "matmul.1")
    said = host_of("gcc")(schedule, slow=f"{last}:600", timeout_ms=50)
    assert (said["code"], said["task"], said["event"], said["stuck"]) == ("TIMEOUT", last, None, 1)
    assert 0.05e9 <= said["elapsed_ns"] < 0.4e9


def test_a_transfer_that_is_never_done_is_a_timeout(host_of: Callable[[str], Host]) -> None:
    said = host_of("tsan")(tiny(), lost=1, timeout_ms=60)
    tables = make_tables(tiny())
    waiting = {task_named(tiny(), tables, name) for name in ("load.0", "matmul.0", "matmul.1")}
    assert (said["code"], said["stuck"], said["undrained"]) == ("TIMEOUT", 0, 0)
    assert said["task"] in waiting | {task_named(tiny(), tables, "dequantize.0")}
    assert said["elapsed_ns"] < 0.5e9


def test_a_transfer_that_fails_is_told(host_of: Callable[[str], Host]) -> None:
    said = host_of("tsan")(tiny(), failing=1)
    assert (said["code"], said["task"], said["detail"]) == (
        "DMA_ERROR",
        task_named(tiny(), make_tables(tiny()), "load.0"),
        -5,
    )


def test_a_result_that_never_comes_is_a_timeout(host_of: Callable[[str], Host]) -> None:
    """A late task that nobody waits for: the execution does not end well while its result does not exist."""
    found = 0
    for seed in range(30):
        schedule = random_schedule(seed, 16)
        tables = make_tables(schedule)
        late = [t for t, task in enumerate(tables.tasks) if task.flags & records.TASK_ASYNC]
        if not late or found == 3:
            continue
        found += 1
        said = host_of("gcc")(schedule, silent=late[-1], timeout_ms=50)
        assert (said["code"], said["stuck"]) == ("TIMEOUT", 0)
        if said["task"] != late[-1]:
            assert said["event"] == tables.tasks[late[-1]].trigger_event
    assert found == 3


@pytest.mark.parametrize("stay", [0, 1])
def test_after_an_error_everything_begins_anew(stay: int, host_of: Callable[[str], Host], tmp_path: Path) -> None:
    """With threads that stay, too; and beside those that do, one that cannot be started."""
    blob = make_tables(tiny()).to_bytes()
    (tmp_path / "tables.bin").write_bytes(blob)
    assert c_program("again.c", host_of("tsan"), tmp_path / "tables.bin", stay) == (
        "KERNEL_ERROR OK OK KERNEL_ERROR OK NO_THREAD OK OK\n"
    )


# --- what is refused --------------------------------------------------------------------------------------


def test_a_memory_that_is_too_small_is_refused(host_of: Callable[[str], Host]) -> None:
    said = host_of("asan")(tiny(), short=0)
    assert (said["code"], said["detail"], said["seen"], said["expected"]) == ("BAD_BINDING", 0, 8191, 8192)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"abi_major": 7}, "the tables have another ABI"),
        ({"abi_minor": 7}, "the tables are newer than this code"),
        ({"task_bytes": 65}, "the records have other sizes"),
        ({"magic": 1}, "these are not tables of hexloom"),
        ({"task_count": 99}, "the tables have another length than their header says"),
    ],
)
def test_another_version_is_refused(change: dict[str, int], problem: str, host_of: Callable[[str], Host]) -> None:
    tables = make_tables(tiny())
    tables = replace(tables, header=replace(tables.header, **change)).sealed()
    said = host_of("asan").run(tables.to_bytes())
    assert (said["code"], said["problem"]) == ("BAD_TABLE", problem)


def test_tables_that_never_end_are_refused(host_of: Callable[[str], Host]) -> None:
    tables = make_tables(tiny())
    e = tables.entries
    said = host_of("asan").run(replace(tables, entries=(e[1], e[0], *e[2:])).sealed().to_bytes())
    assert (said["code"], said["problem"]) == ("BAD_TABLE", "a queue never comes to its end")


def c_program(name: str, host: Host, *arguments: object) -> str:
    """Build a C file of this folder with the runtime, run it, and return what it prints."""
    program = host.folder / name.removesuffix(".c")
    if not program.exists():
        host.link(HERE / name, program)
    ran = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("tiny", 11),
        ("moves", 97),
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ("tiny", "in place", "moves")),
    ],
)
def test_no_flipped_bit_is_accepted(name: str, every: int, host_of: Callable[[str], Host], tmp_path: Path) -> None:
    """Of tables as they lie in memory each bit is turned over: with the checksums as they were all are refused.

    With checksums that fit (every so many bits), what is not refused runs to an end, to an error, or to a deadline; and
    reads nothing that is not its own, say the sanitizers.
    """
    if name == "moves":  # what transfers move is in the tables, too
        schedule = solve(tiles(1), time_limit_s=0.05, contention="none").schedule
        assert schedule is not None
        blob = tables_of(schedule, descriptors=True).to_bytes()
    else:
        blob = make_tables(tiny() if name == "tiny" else examples.in_place()).to_bytes()
    (tmp_path / "tables.bin").write_bytes(blob)
    told = c_program("flips.c", host_of("asan"), tmp_path / "tables.bin", every).split()
    assert told[0] == told[1] == str(8 * len(blob))
    assert int(told[2]) > 300 // every  # harmless ones: numbers that only kernels read, such as the tile
