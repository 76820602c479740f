"""The port that rides on ggml-hexagon: compiled against its declarations or its tree, run on queues like its own."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compile.conftest import HEXAGON, HEXAGON_CLANG, ROOT, Compiler
from compile.tiny import tiny
from runtime.hosts import HERE, INCLUDES, Host, compile_c
from runtime.test_faults import task_named
from unit.emit import examples
from unit.emit.randoms import random_schedule

from hexloom.emit import records
from hexloom.emit.tables import make_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.schedule import Schedule

VENDOR = HERE / "vendor"
GGML = ("-I", VENDOR / "ggml", "-I", VENDOR, "-I", HERE)
SOURCE = ROOT / "emit" / "runtime" / "hexloom_ggml.c"
DELAYS = {"runs": 3, "delay_us": 100, "transfer_us": 200, "prove": 1}


@pytest.fixture(scope="module")
def riding(host_of: Callable[[str], Host], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Host]:
    """The program of other tests, whose threads and transfers are those of ggml's queues."""
    known: dict[str, Host] = {}

    def one(how: str) -> Host:
        if how not in known:
            folder, plain = tmp_path_factory.mktemp(f"ggml_{how}"), host_of(how)
            sources = {
                "hexloom_host.c": (ROOT / "emit" / "runtime", ("-include", HERE / "ggml_host.h", "-D_GNU_SOURCE")),
                "hexloom_ggml.c": (ROOT / "emit" / "runtime", GGML),
                "ggml_queues.c": (HERE, GGML),
                "ggml_host.c": (HERE, GGML),
            }
            made = [folder / f"{name}.o" for name in sources]
            for (name, (where, flags)), target in zip(sources.items(), made, strict=True):
                compile_c(how, *flags, "-c", where / name, "-o", target)
            kept = [path for path in plain.objects if path.name != "hexloom_host.c.o"]
            host = Host(how, folder / "host", folder, (*kept, *made))
            host.link(plain.folder / "main.c", host.program)
            known[how] = host
        return known[how]

    return one


# --- compiling --------------------------------------------------------------------------------------------


def test_the_port_compiles_against_the_tree_of_ggml(tmp_path: Path) -> None:
    """Against ggml's own headers; what those need of the vendor's SDK is declared beside this test."""
    tree = os.environ.get("HEXLOOM_GGML")
    if tree is None:
        pytest.skip("HEXLOOM_GGML names no tree of ggml")
    found = next((p for p in (Path(tree), Path(tree) / "ggml") if (p / "src" / "ggml-hexagon" / "htp").is_dir()), None)
    assert found is not None, f"there is no src/ggml-hexagon/htp in {tree}"
    flags = (*HEXAGON, "-mcpu=hexagonv73", "-std=gnu11", "-O2")  # its headers say asm
    theirs = ("-isystem", found / "src" / "ggml-hexagon" / "htp", "-isystem", VENDOR / "sdk", "-isystem", VENDOR)
    Compiler(HEXAGON_CLANG, flags)(*INCLUDES, *theirs, "-c", SOURCE, "-o", tmp_path / "it.o")


# --- running ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["gcc", "tsan"])
def test_tables_run_on_queues_of_ggml(how: str, riding: Callable[[str], Host]) -> None:
    for make in (tiny, examples.small, examples.hostile, examples.in_place):
        said = riding(how)(make(), seed=3, **DELAYS)
        assert (said["code"], said["faults"], said["executed"], said["stuck"]) == ("OK", 0, 3, 0)


@pytest.mark.slow
def test_random_tables_run_or_are_refused_for_what_ggml_has_not(riding: Callable[[str], Host]) -> None:
    ran = 0
    for seed in range(16):
        schedule = random_schedule(seed, 16)
        tables = make_tables(schedule)
        hmx = [q for q in tables.queues if q.kind == records.HMX]
        owns = any(
            e.action in (records.START, records.WAIT)
            for q in hmx
            for e in tables.entries[q.first_entry : q.first_entry + q.entry_count]
        )
        said = riding("asan" if seed % 8 == 0 else "gcc")(
            schedule, seed=seed, stay=seed % 2, spins=seed % 3 * 50, ring=4, **DELAYS
        )
        if len(hmx) > 1 or owns:
            assert said["code"] == "BAD_SETUP" and "queue of HMX" in said["problem"]
            continue
        assert (said["code"], said["faults"], said["executed"]) == ("OK", 0, 3), seed
        ran += 1
    assert ran >= 5


@pytest.mark.parametrize(
    ("variable", "value", "problem"),
    [
        ("GGML_THREADS", "1", "there are more queues than threads of the work queue"),
        ("GGML_WITHOUT_HMX", "1", "a queue is that of HMX, and this session has none"),
    ],
)
def test_a_session_that_has_too_little_is_refused(
    variable: str, value: str, problem: str, riding: Callable[[str], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    said = riding("gcc")(examples.small())
    assert (said["code"], said["problem"]) == ("BAD_SETUP", problem)


def test_one_thread_of_the_work_queue_is_enough_for_one_queue(
    riding: Callable[[str], Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller alone, with what HMX does beside it, as far as there are such queues."""
    monkeypatch.setenv("GGML_THREADS", "1")
    ops = [examples.compute("a", "t", "a", 0, "hmx", 10), examples.compute("b", "t", "b", 0, "hmx", 10)]
    schedule = examples.schedule_of(examples.problem_of([(ops, examples.chain(["a", "b"]), [])]))
    assert {q.kind for q in make_tables(schedule).queues if q.entry_count} == {records.HMX}
    said = riding("gcc")(schedule, **DELAYS)
    assert (said["code"], said["executed"]) == ("OK", 3)


@pytest.mark.parametrize("how", ["gcc", "tsan"])
def test_a_kernel_that_fails_stops_everybody(how: str, riding: Callable[[str], Host]) -> None:
    schedule = examples.small()
    failing = task_named(schedule, make_tables(schedule), "gemm.matmul[2]")
    said = riding(how)(schedule, fail=failing, transfer_us=200, runs=2)
    assert (said["code"], said["task"], said["detail"]) == ("KERNEL_ERROR", failing, 7)
    assert (said["executed"], said["stuck"], said["undrained"]) == (0, 0, 0)


def test_a_kernel_that_takes_too_long_is_a_timeout(riding: Callable[[str], Host]) -> None:
    """In a worker, and in the thread of HMX; the queues of ggml wait until it has returned after all."""
    schedule = tiny()
    tables = make_tables(schedule)
    slow = task_named(schedule, tables, "dequantize.0")
    said = riding("tsan")(schedule, slow=f"{slow}:200", timeout_ms=60)
    assert (said["code"], said["task"]) == ("TIMEOUT", task_named(schedule, tables, "matmul.0"))
    last = task_named(schedule, tables, "matmul.1")
    said = riding("gcc")(schedule, slow=f"{last}:300", timeout_ms=50)
    assert (said["code"], said["task"], said["stuck"]) == ("TIMEOUT", last, 0)
    assert said["elapsed_ns"] >= 0.25e9


def test_transfers_that_are_lost_or_fail_are_told(riding: Callable[[str], Host]) -> None:
    schedule = tiny()
    load = task_named(schedule, make_tables(schedule), "load.0")
    said = riding("tsan")(schedule, failing=1)
    assert (said["code"], said["task"], said["detail"], said["undrained"]) == ("DMA_ERROR", load, -3, 1)
    said = riding("tsan")(schedule, lost=1, timeout_ms=60)
    assert (said["code"], said["stuck"], said["undrained"]) == ("TIMEOUT", 0, 1)
    assert said["elapsed_ns"] < 1e9


def test_a_transfer_too_long_for_a_descriptor_is_not_pushed(riding: Callable[[str], Host]) -> None:
    """Before v75 ggml would make several of it, and wait for them in between; here the kernel has to."""
    schedule = long_load()
    said = riding("gcc")(schedule)
    assert (said["code"], said["detail"]) == ("DMA_ERROR", -2)


def long_load() -> Schedule:
    ops = [examples.transfer("load", "t", "load", 0, 0, 10), examples.compute("use", "t", "use", 0, "hmx", 10)]
    buffer = examples.Buffer(name="b", size_bytes=2**25, ops=("load", "use"))
    problem = examples.problem_of([(ops, examples.chain(["load", "use"]), [buffer])])
    return examples.schedule_of(problem.model_copy(update={"scratchpad": examples.Scratchpad(total_bytes=2**26)}))


def test_tables_that_are_not_sound_are_refused(riding: Callable[[str], Host]) -> None:
    """The queue of HMX is looked at before tables are checked."""
    tables = make_tables(tiny())
    queues = tuple(replace(q, entry_count=2**31) if q.kind == records.HMX else q for q in tables.queues)
    said = riding("asan")(tiny(), replace(tables, queues=queues).sealed())
    assert (said["code"], said["problem"]) == ("BAD_SETUP", "the queue of HMX is not in the tables")
