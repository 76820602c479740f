"""Tables with loops executed by real threads: laps, rings, transfers over laps, and what is refused at binding."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from compile.conftest import ROOT
from looped import LOOPS, looped, random_loops, shown
from runtime.hosts import compile_c
from runtime.tampered import waits_of, without_wait
from runtime.test_run_command import quick_compiler

from hexloom.cli import main
from hexloom.emit import records
from hexloom.emit.chosen import least_laps
from hexloom.emit.hexagon import find_clang, find_emulator
from hexloom.emit.records import NONE
from hexloom.emit.tables import make_tables
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.hosts import Host

__all__ = ["quick_compiler"]

DELAYS = {"runs": 2, "delay_us": 60, "transfer_us": 90}
WORK = """
schema: hexloom.workload/1
name: rows_and_tiles
hw: hexagon-v79
tasks:
  - {name: matmul, kernel: matmul_w4a16, weight_type: q4_0, m: 32, k: 64, n: 19200, m_chunk: 32, n_chunk: 32}
  - {name: norm, kernel: rmsnorm, rows: 4800, cols: 64, mode: direct, rows_per_block: 8}
"""


@pytest.mark.parametrize("name", LOOPS)
def test_known_loops_run(name: str, host_of: Callable[[str], Host]) -> None:
    periodic, tables = looped(name)
    for seed in range(1 + len(tables.loops)):
        said = host_of("gcc").run_loops(periodic, tables, seed, seed=seed, stay=seed % 2, spins=50 * seed, **DELAYS)
        assert (said["code"], said["faults"], said["executed"], said["stuck"]) == ("OK", 0, 2, 0)


@pytest.mark.parametrize("how", ["tsan", "asan"])
def test_sanitizers_find_nothing_in_loops(how: str, host_of: Callable[[str], Host]) -> None:
    for seed, name in enumerate(("stream",)):
        said = host_of(how).run_loops(*looped(name), seed=seed, spins=seed * 30, stay=seed % 2, **DELAYS)
        assert (said["code"], said["faults"]) == ("OK", 0), name


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gcc", "tsan", "asan"])
def test_random_loops_run(how: str, host_of: Callable[[str], Host]) -> None:
    ran = 0
    for seed in range(200, 204):
        made = random_loops(seed)
        if made is None:
            continue
        for k in range(len(shown(*made))):
            said = host_of(how).run_loops(*made, k, seed=seed, spins=seed % 3 * 40, stay=k % 2, **DELAYS)
            assert (said["code"], said["faults"]) == ("OK", 0), seed
            ran += 1
    assert ran > 3


@pytest.mark.slow
def test_many_laps_need_no_more_than_few(host_of: Callable[[str], Host]) -> None:
    """Counters, rings and transfers over 1,002 laps, twice: kernels do nothing."""
    _, tables = looped("stream")
    said = host_of("clang").run(tables.to_bytes(), parameters=f"1002,{NONE}", runs=2, transfer_us=0, spins=100)
    assert (said["code"], said["executed"]) == ("OK", 2)


@pytest.mark.slow
def test_a_missing_wait_is_seen_by_the_kernels(host_of: Callable[[str], Host]) -> None:
    """Without a wait of the lap, some timing of some seed is wrong, and the kernels see it.

    That every one is needed is shown where all timings are tried; threads here meet only some of them.
    """
    periodic, tables = looped("stream")
    (loop,) = tables.loops
    waits = [k for k, x in enumerate(waits_of(tables)) if 0 <= x.task - loop.first_task < loop.task_count]
    assert waits
    shown = 0
    for wait in waits:
        broken = without_wait(tables, wait).sealed()
        seen = (
            host_of("gcc").run_loops(periodic, broken, seed=seed, spins=1000, delay_us=delay, transfer_us=900 - delay)
            for seed in range(6)
            for delay in (0, 800)
        )
        shown += any(said["faults"] > 0 or said["code"] != "OK" for said in seen)
    assert shown > 0


def test_parameters_out_of_range_have_their_own_status(host_of: Callable[[str], Host]) -> None:
    _, tables = looped("stream")
    parameter, _ = tables.parameters
    for value, nearest in ((parameter.least - 1, parameter.least), (0, parameter.least), (2**32 - 1, parameter.most)):
        said = host_of("gcc").run(tables.to_bytes(), parameters=f"{value},1")
        assert (said["code"], said["seen"], said["expected"], said["executed"]) == ("BAD_PARAMETER", value, nearest, 0)
    said = host_of("gcc").run(tables.to_bytes(), parameters=f"{parameter.least + parameter.step + 1},1")
    assert (said["code"], said["expected"]) == ("BAD_PARAMETER", parameter.least + parameter.step)
    said = host_of("gcc").run(tables.to_bytes(), parameters="20,20,20")
    assert (said["code"], said["problem"]) == ("BAD_SETUP", "there are more or fewer parameters than in the tables")


def test_tables_of_another_abi_say_so(host_of: Callable[[str], Host]) -> None:
    tables = looped("stream")[1]
    old = replace(tables, header=replace(tables.header, abi_major=0)).sealed()
    said = host_of("gcc").run(old.to_bytes())
    assert (said["code"], said["problem"]) == ("BAD_TABLE", "the tables have another ABI")


def test_what_is_wrong_with_loops_is_found_at_binding(host_of: Callable[[str], Host]) -> None:
    _, t = looped("stream")
    (loop,) = t.loops
    in_lap = next(k for k in range(loop.first_task, loop.first_task + 3) if t.tasks[k].wait_event != records.NONE)
    transfer = next(k for k, task in enumerate(t.tasks) if task.kind == records.DMA)

    def changed(rows: tuple[Any, ...], at: int, **to: int) -> tuple[Any, ...]:
        """Return the rows with one of them changed."""
        return (*rows[:at], replace(rows[at], **to), *rows[at + 1 :])

    never = t.events[t.tasks[in_lap].wait_event].triggers + 1  # the trigger of the only lap is the last one
    wrong = {
        "a queue waits for what never is": replace(t, tasks=changed(t.tasks, in_lap, wait_threshold=10**6)),
        "a queue never comes to its end": replace(t, tasks=changed(t.tasks, in_lap, wait_threshold=never)),
        "an event is triggered more often": replace(t, parameters=changed(t.parameters, 0, most=2**31 + 4)),
        "a parameter has no range": replace(t, parameters=changed(t.parameters, 0, least=0)),
        "the bodies of a queue do not follow": replace(t, bodies=changed(t.bodies, 0, entry_count=10**5)),
        "an event is triggered another number": replace(
            t, bodies=changed(t.bodies, 0, entry_count=t.bodies[0].entry_count - 1)
        ),
        "an entry of a loop is not that": replace(
            t, bodies=changed(t.bodies, 1, entry_count=t.bodies[1].entry_count - 1)
        ),
        "a lap triggers an event of no": replace(t, loops=changed(t.loops, 0, event_count=1)),
        "a transfer names slots": replace(t, tasks=changed(t.tasks, transfer, first_slot=999)),
    }
    for problem, tables in wrong.items():
        said = host_of("gcc").run(tables.sealed().to_bytes())
        assert said["code"] == "BAD_TABLE" and said["problem"].startswith(problem), (problem, said)


@pytest.mark.parametrize("how", ["clang", pytest.param("asan", marks=pytest.mark.slow)])
def test_every_bit_of_looped_tables_counts(how: str, host_of: Callable[[str], Host], tmp_path: Path) -> None:
    """As they are, flipped tables are refused; with checksums made to fit, those that are taken do no harm."""
    tables = looped("sliced")[1]
    laps, trips = tables.parameters
    least = replace(laps, usual=laps.least + 6, most=laps.least + 12)
    fewer = {name: getattr(trips, name) - getattr(laps, name) + getattr(least, name) for name in ("usual", "most")}
    small = replace(tables, parameters=(least, replace(trips, **fewer)))
    (tmp_path / "it.bin").write_bytes(small.sealed().to_bytes())
    host = host_of(how)
    program = tmp_path / "flips"
    compile_c(host.how, ROOT / "tests" / "runtime" / "flips.c", *host.objects, "-o", program)
    ran = subprocess.run([program, tmp_path / "it.bin", "37"], capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stderr) == (0, "")
    bits, refused, taken = map(int, ran.stdout.split())
    assert refused == bits and 0 < taken < bits


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loops")
    (folder / "work.yaml").write_text(WORK, encoding="utf-8")
    arguments = ["solve", str(folder / "work.yaml"), "--formulation", "periodic", "--seed", "1", "--time-limit", "0.3s"]
    assert main([*arguments, "-o", str(folder), "-q"]) == 0
    return folder


@pytest.mark.slow
def test_a_periodic_schedule_is_run_with_other_trip_counts(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule, work = str(solved / "schedule.json"), str(solved / "work.yaml")
    data = json.loads((solved / "schedule.json").read_text(encoding="utf-8"))
    side_car = json.loads((solved / "rows_and_tiles.json").read_text(encoding="utf-8"))
    assert side_car["abi"] == [1, 0] and len(side_car["loops"]) >= 1
    runs = [s["runs"] - s["left_out"] + 6 * s["period"] * (s["left_out"] > 0) for s in data["stretches"]]
    assert main(["run", schedule, "--workload", work, "--times", ",".join(map(str, runs))]) == 0
    assert "the results of" in capsys.readouterr().out
    assert main(["run", schedule, "--times", ",".join(map(str, runs))]) == 2
    assert "give it with --workload" in capsys.readouterr().err
    assert main(["run", schedule, "--workload", work, "--times", ",".join("1" for _ in runs)]) == 2
    assert "the plan is proven for" in capsys.readouterr().err
    assert main(["run", schedule, "--times", "many"]) == 2


@pytest.mark.slow
def test_results_of_any_number_of_iterations_are_those_of_numpy(
    solved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", str(solved / "schedule.json"), "--workload", str(solved / "work.yaml"), "--trips"]
    assert main([*run, "matmul=3,norm=67"]) == 0  # fewer than are written down, and no whole laps
    assert "the results of" in capsys.readouterr().out
    for trips, what in (
        ("matmul", "write tasks with a number each"),
        ("norm=0,matmul=1", "at least one"),
        ("other=3", "take those of"),
    ):
        assert main([*run, trips]) == 2
        assert what in capsys.readouterr().err
    assert main([*run, "matmul=3", "--times", "3"]) == 2
    assert main([*run[:2], "--trips", "matmul=3"]) == 2
    capsys.readouterr()


def test_emission_of_loops_is_that_of_solve(solved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", str(solved / "schedule.json"), "-o", str(tmp_path), "--kit"]) == 0
    for end in (".h", ".c", ".json"):
        name = f"rows_and_tiles{end}"
        assert (tmp_path / name).read_bytes() == (solved / name).read_bytes()
    assert (tmp_path / "rows_and_tiles_kernels.c").is_file()
    capsys.readouterr()


@pytest.mark.slow
def test_loops_run_on_an_emulated_hexagon(solved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        find_emulator(), find_clang()
    except InvalidInputError as error:
        pytest.skip(str(error))
    arguments = ["run", str(solved / "schedule.json"), "--workload", str(solved / "work.yaml")]
    assert main([*arguments, "--target", "hexagon-v73"]) == 0
    assert "an emulated hexagon-v73: the results" in capsys.readouterr().out


def test_flat_tables_take_no_parameters(host_of: Callable[[str], Host]) -> None:
    periodic, tables = looped("stream")
    assert least_laps(make_tables(periodic.written)) == ()
    flat = host_of("gcc")(periodic.written, runs=2)
    assert (flat["code"], flat["faults"]) == ("OK", 0)
    assert len(tables.to_bytes()) < len(make_tables(periodic.written).to_bytes())
