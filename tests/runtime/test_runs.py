"""Tables executed by real threads, with delays everywhere: nobody reads early, nothing that lives is overwritten."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from compile.conftest import CLANG, DEVICE, HEXAGON, HEXAGON_CLANG, ROOT, Compiler
from compile.tiny import tiny
from looped import random_loops
from runtime.hosts import GCC, INCLUDES
from runtime.tampered import waits_of, without_wait
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.emit import records
from hexloom.emit.hexagon import find_zig
from hexloom.emit.host import RUNTIME
from hexloom.emit.tables import make_tables
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.hosts import Host

    from hexloom.emit.rows import Tables
    from hexloom.optimizer.schedule import Schedule

VENDOR = ROOT / "tests" / "runtime" / "vendor"
FOLDER = ROOT / "emit" / "runtime"
MADE: dict[str, Callable[[], Schedule]] = {
    "tiny": tiny,
    "small": examples.small,
    "hostile": examples.hostile,
    "in place": examples.in_place,
    "draining": examples.draining,
}
FOR_HEXAGON = ("hexloom_hexraw.c", "hexloom_hexmain.c", "hexloom_qurt.c", "hexloom_ggml.c")
MANY = int(os.environ.get("HEXLOOM_RUNS", "30"))
DELAYS = {"runs": 3, "delay_us": 200, "transfer_us": 300, "prove": 1}


# --- compiling --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("programs", [GCC, CLANG], ids=["gcc", "clang"])
@pytest.mark.parametrize("name", sorted({path.name for path in FOLDER.glob("*.c")} - set(FOR_HEXAGON)))
def test_every_file_compiles_by_itself(name: str, programs: tuple[str, ...]) -> None:
    Compiler(programs, ("-std=c11",))(*INCLUDES, "-fsyntax-only", FOLDER / name)


@pytest.mark.parametrize("arch", [pytest.param("v68", marks=pytest.mark.slow), "v73"])
def test_the_runtime_needs_no_library_of_the_device(arch: str, tmp_path: Path) -> None:
    flags = (*HEXAGON, f"-mcpu=hexagon{arch}", "-std=c11", "-O2")
    assert f"hexagon-{arch}" in DEVICE
    for name in (*RUNTIME, "hexloom_kernels.c", "hexloom_numeric.c"):
        Compiler(HEXAGON_CLANG, flags)(*INCLUDES, "-c", FOLDER / name, "-o", tmp_path / "it.o")


@pytest.mark.parametrize("arch", [pytest.param("v68", marks=pytest.mark.slow), "v73"])
def test_ports_for_hexagon_compile(arch: str, tmp_path: Path) -> None:
    for name in ("tables", "plain", "flow", "numbers", "memory"):
        (tmp_path / f"{name}.bin").write_bytes(b"")
    vendors = (f"-I{VENDOR}", f"-I{VENDOR / 'ggml'}")
    flags = (*HEXAGON, f"-mcpu=hexagon{arch}", "-std=c11", "-O2", f"-I{tmp_path}", f"-Wa,-I{tmp_path}", *vendors)
    for name in FOR_HEXAGON:
        Compiler(HEXAGON_CLANG, flags)(*INCLUDES, "-c", FOLDER / name, "-o", tmp_path / "it.o")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["v75", "v79", "v81"])
def test_ports_compile_for_later_ones(arch: str, tmp_path: Path) -> None:
    """Where transfers have wide descriptors; by the clang of ziglang."""
    try:
        zig = find_zig()
    except InvalidInputError as missing:
        pytest.skip(str(missing))
    vendors = (f"-I{VENDOR}", f"-I{VENDOR / 'ggml'}", "-isystem", zig.parent / "lib" / "include")
    compiler = Compiler((str(zig),), ("clang", *HEXAGON, f"-mcpu=hexagon{arch}", "-std=c11", "-O2"))
    for name in ("hexloom_qurt.c", "hexloom_ggml.c"):
        compiler(*INCLUDES, *vendors, "-c", FOLDER / name, "-o", tmp_path / "it.o")


@pytest.mark.parametrize("flags", [("-std=c99",), ("-x", "c++", "-std=c++11")], ids=["c99", "c++11"])
@pytest.mark.parametrize("name", sorted({path.name for path in FOLDER.glob("*.h")} - {"hexloom_run.h"}))
def test_headers_are_c99_and_c_plus_plus(name: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "it.c").write_text(f'#include "{name}"\n#include "{name}"\n', encoding="utf-8")
    Compiler(("gcc", "g++", "cc"), flags)(*INCLUDES, "-fsyntax-only", tmp_path / "it.c")


def test_files_of_the_runtime_stay_short() -> None:
    for path in (*FOLDER.iterdir(), *(FOLDER.parent / "include").iterdir()):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 420, path.name
        assert max(map(len, lines)) <= 120, path.name


# --- running ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_known_tables_run(name: str, host_of: Callable[[str], Host]) -> None:
    schedule = MADE[name]()
    for main in ("none", 0):
        said = host_of("gcc")(schedule, seed=1, main=main, **DELAYS)
        assert (said["code"], said["faults"], said["executed"], said["stuck"]) == ("OK", 0, 3, 0)


def test_random_tables_run(host_of: Callable[[str], Host]) -> None:
    for seed in range(40):
        said = host_of("gcc")(random_schedule(seed, 20), seed=seed, spins=seed % 3 * 100, stay=seed % 2, **DELAYS)
        assert (said["code"], said["faults"]) == ("OK", 0), seed


@pytest.mark.parametrize("how", ["tsan", "asan"])
def test_sanitizers_find_nothing(how: str, host_of: Callable[[str], Host]) -> None:
    for seed in range(12):
        said = host_of(how)(random_schedule(seed, 16), seed=seed, spins=seed % 2 * 50, stay=seed % 3 % 2, **DELAYS)
        assert (said["code"], said["faults"]) == ("OK", 0), seed


@pytest.mark.slow
@pytest.mark.parametrize("how", ["tsan", "asan"])
def test_sanitizers_find_nothing_in_many_runs(how: str, host_of: Callable[[str], Host]) -> None:
    """Plans, 50 times each, of which every fifth one is of loops; ``HEXLOOM_RUNS=200`` makes 10,000 executions."""
    options = {"runs": 50, "delay_us": 50, "transfer_us": 100}
    for seed in range(MANY):
        made = random_loops(seed, 1, 5) if seed % 5 == 0 else None
        if made is not None:
            said = host_of(how).run_loops(*made, seed=seed, spins=seed % 2 * 50, stay=seed % 3 % 2, **options)
            assert (said["code"], said["faults"], said["executed"]) == ("OK", 0, 50), seed
            continue
        said = host_of(how)(
            random_schedule(seed, 20),
            seed=seed,
            spins=seed % 2 * 50,
            stay=seed % 3 % 2,
            **options,
        )
        assert (said["code"], said["faults"], said["executed"]) == ("OK", 0, 50), seed


def test_stacks_of_16_kib_are_enough(host_of: Callable[[str], Host]) -> None:
    said = host_of("gcc")(examples.small(), stack=16384, **DELAYS)
    assert (said["code"], said["faults"]) == ("OK", 0)


def test_a_transfer_of_more_parts_than_the_ring_has_places(host_of: Callable[[str], Host]) -> None:
    """A store looks at what two steps wrote, and at its own bytes: its parts make room for each other."""
    step = examples.compute("step", "t", "step", 0, "hmx", 10)
    both = examples.compute("both", "t", "step", 1, "hvx", 10, (1, 2))
    store = examples.transfer("store", "t", "store", 0, 0, 10)
    buffer = examples.Buffer(name="b", size_bytes=4096, ops=("step", "both", "store"))
    schedule = examples.schedule_of(
        examples.problem_of([([step, both, store], examples.chain(["step", "both", "store"]), [buffer])])
    )
    for ring in (1, 2, 4):
        said = host_of("gcc")(schedule, ring=ring, timeout_ms=2000, **DELAYS)
        assert (said["code"], said["faults"]) == ("OK", 0)


def test_transfers_under_way_make_room_for_each_other(host_of: Callable[[str], Host]) -> None:
    """Three stores are started one after the other: places of the first are free once it is done, seen or not."""
    rows = []
    for k in range(3):
        steps = [examples.compute(f"step{k}.{n}", f"t{k}", "step", n, "hmx", 10) for n in range(2)]
        store = examples.transfer(f"store{k}", f"t{k}", "store", 0, 0, 500)
        names = [op.name for op in (*steps, store)]
        buffer = examples.Buffer(name=f"b{k}", size_bytes=4096, ops=tuple(names))
        rows.append(([*steps, store], examples.chain(names), [buffer]))
    schedule = examples.schedule_of(examples.problem_of(rows))
    (owner,) = [q for q in schedule.plan.queues if any(e.action == "start" for e in q.entries)]
    assert [e.action for e in owner.entries] == ["start"] * 3 + ["wait"] * 3
    for ring in (1, 2, 4):
        said = host_of("gcc")(schedule, ring=ring, timeout_ms=2000, **DELAYS)
        assert (said["code"], said["faults"]) == ("OK", 0), ring


def test_counters_count_on_over_many_executions(host_of: Callable[[str], Host]) -> None:
    """No reset between executions: with many of them thresholds grow."""
    said = host_of("gcc")(tiny(), runs=3000, stay=1)
    assert (said["code"], said["faults"], said["executed"]) == ("OK", 0, 3000)


# --- what the kernels see ---------------------------------------------------------------------------------


def test_a_missing_wait_is_seen(host_of: Callable[[str], Host]) -> None:
    """Without a wait, whoever should have waited comes before the one it waits for, if that one takes its time."""
    schedule = examples.small()
    tables = make_tables(schedule)
    seen = 0
    for number, wait in enumerate(waits_of(tables)):
        waiter = wait.task
        producer = next(t for t, x in enumerate(tables.tasks) if x.trigger_event == wait.event)
        if tables.tasks[producer].kind == records.DMA:
            continue
        wrong = without_wait(tables, number).sealed()
        slow = [f"{producer}:30:{k}" for k in range(tables.tasks[producer].slice_count)]
        found = any(host_of("gcc")(schedule, wrong, slow=one)["faults"] > 0 for one in slow)
        assert touch(tables, producer, waiter) or not found
        seen += found
    assert seen >= 8  # some pairs share bytes, but not those that the slices which come too early write


def touch(tables: Tables, one: int, other: int) -> bool:
    """Whether two tasks use the same bytes."""
    spans = []
    for task in (tables.tasks[one], tables.tasks[other]):
        used = tables.operands[task.first_operand : task.first_operand + task.operand_count]
        spans.append([(o.offset, o.offset + tables.buffers[o.buffer].bytes) for o in used])
    return any(a < d and c < b for a, b in spans[0] for c, d in spans[1])


def test_who_leans_on_the_order_of_transfers_is_seen(host_of: Callable[[str], Host]) -> None:
    """The owner sees two loads done, the second one first, and who uses both waits for the second one alone.

    On a machine that does transfers in order this would go well.
    """
    schedule = examples.schedule_of(two_loads(), "two loads")
    tables = make_tables(schedule)
    assert host_of("gcc")(schedule, transfer_us=2000, runs=5)["faults"] == 0
    owner = [k for k, e in enumerate(tables.entries) if tables.tasks[e.task].kind == records.DMA]
    assert [tables.entries[k].action for k in owner] == [records.START, records.START, records.WAIT, records.WAIT]
    entries = list(tables.entries)
    entries[owner[2]], entries[owner[3]] = entries[owner[3]], entries[owner[2]]
    wrong = replace(tables, entries=tuple(entries)).sealed()
    assert host_of("gcc")(schedule, wrong, transfer_us=2000, runs=60, timeout_ms=1000)["faults"] > 0


def two_loads() -> examples.Problem:
    ops = [examples.transfer(f"load{k}", "t", "load", k, 0, 10) for k in range(2)]
    ops.append(examples.compute("use", "t", "use", 0, "hmx", 10))
    return examples.problem_of(
        [
            (
                ops,
                [examples.Precedence(before=f"load{k}", after="use") for k in range(2)],
                [examples.Buffer(name=f"b{k}", size_bytes=4096, ops=(f"load{k}", "use")) for k in range(2)],
            )
        ]
    )


# --- traces -----------------------------------------------------------------------------------------------


def test_traces_tell_every_entry_in_order(host_of: Callable[[str], Host], tmp_path: Path) -> None:
    schedule = examples.small()
    tables = make_tables(schedule)
    said = host_of("gcc")(schedule, trace=tmp_path / "trace", records=10000, runs=2, transfer_us=50)
    assert (said["code"], said["dropped"]) == ("OK", 0)
    rows = [tuple(map(int, line.split())) for line in (tmp_path / "trace").read_text(encoding="utf-8").splitlines()]
    actions = {2: records.RUN, 3: records.START, 4: records.WAIT}
    for q, queue in enumerate(tables.queues):
        mine = [row for row in rows if row[0] == q]
        assert all(a[5] <= a[6] <= b[5] for a, b in itertools.pairwise(mine))
        entries = tables.entries[queue.first_entry : queue.first_entry + queue.entry_count]
        entries = tuple(e for e in entries if e.action != records.AFTER)
        done = [(row[1], row[2], actions[row[3]]) for row in mine if row[3] in actions]
        assert done == [(e.task, e.slice, e.action) for e in entries] * 2
        waited = [row[1] for row in mine if row[3] == 1]
        waiting = [
            e.task for e in entries if e.action != records.WAIT and tables.tasks[e.task].wait_event != records.NONE
        ]
        assert waited == waiting * 2


def test_all_waits_before_a_task_are_one_in_the_trace(host_of: Callable[[str], Host], tmp_path: Path) -> None:
    schedule = examples.two_waits()
    tables = make_tables(schedule)
    near, gang = (next(t for t, x in enumerate(tables.tasks) if x.op == op) for op in (1, 2))
    said = host_of("gcc")(schedule, trace=tmp_path / "trace", records=100, runs=2, slow=f"{near}:30", timeout_ms=5000)
    assert said["code"] == "OK"
    rows = [tuple(map(int, line.split())) for line in (tmp_path / "trace").read_text(encoding="utf-8").splitlines()]
    waits = [row for row in rows if row[1] == gang and row[3] == 1]
    assert len(waits) == 2 * 2
    long = [row[6] - row[5] > 15_000_000 for row in waits if row[2] == 1]  # the slice that does not come after it
    assert long == [True, True]


def test_a_full_trace_counts_what_it_drops(host_of: Callable[[str], Host], tmp_path: Path) -> None:
    schedule = examples.small()
    every = host_of("gcc")(schedule, trace=tmp_path / "all", records=10000)
    few = host_of("gcc")(schedule, trace=tmp_path / "few", records=5)
    kept = len((tmp_path / "few").read_text(encoding="utf-8").splitlines())
    assert every["dropped"] == 0
    assert kept + few["dropped"] == len((tmp_path / "all").read_text(encoding="utf-8").splitlines())
