"""Any number of iterations of every task, by the same tables: executed by threads, computed, and refused beyond."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from compile.conftest import ROOT
from looped import LOOPS, looped, random_loops, random_workload, source_of, workload_of
from runtime.hosts import compile_c

from hexloom.emit import records
from hexloom.emit.chosen import iterations_made, laps_for_trips, least_laps, parameters_for
from hexloom.emit.job import trips_of
from hexloom.emit.records import NONE
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.hosts import Host

    from hexloom.emit.rows import Tables

DELAYS = {"runs": 2, "delay_us": 40, "transfer_us": 60, "timeout_ms": 60_000}


def tried(tables: Tables, seed: int) -> list[dict[str, int]]:
    """Return iterations of all tasks: one of each, few, less than two laps, and some that fill no lap."""
    written = {tables.groups[g]: n for g, n in iterations_made(tables, least_laps(tables)).items()}
    few = {name: 2 + (seed + k) % 3 for k, name in enumerate(written)}
    odd = {name: n + 7 + 4 * k + seed % 5 for k, (name, n) in enumerate(written.items())}
    return [dict.fromkeys(written, 1), few, {name: n - 1 for name, n in written.items()}, odd]


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_any_number_of_iterations_runs(name: str, host_of: Callable[[str], Host]) -> None:
    periodic, tables = looped(name)
    source = source_of(workload_of(name))
    assert {tables.groups[p.where] for p in tables.parameters if p.kind == records.TRIPS} == set(LOOPS[name])
    for seed, trips in enumerate(tried(tables, 0)[:: 1 if name == "two" else 3]):
        said = host_of("gcc").run_trips(periodic, tables, source, trips, seed=seed, stay=seed % 2, **DELAYS)
        assert (said["code"], said["faults"], said["executed"]) == ("OK", 0, 2), trips


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gcc", "tsan", "asan"])
def test_any_number_of_iterations_of_random_loops_runs(how: str, host_of: Callable[[str], Host]) -> None:
    ran = 0
    for seed in range(300, 303):
        made = random_loops(seed)
        if made is None or not any(p.kind == records.TRIPS for p in made[1].parameters):
            continue
        for trips in tried(made[1], seed):
            said = host_of(how).run_trips(*made, source_of(random_workload(seed)), trips, seed=seed, **DELAYS)
            assert (said["code"], said["faults"]) == ("OK", 0), (seed, trips)
            ran += 1
    assert ran > 4


def test_laps_make_at_least_what_is_asked_for_and_c_finds_the_same(
    host_of: Callable[[str], Host], tmp_path: Path
) -> None:
    program = tmp_path / "fit"
    compile_c("gcc", ROOT / "tests" / "runtime" / "fit.c", *host_of("gcc").objects, "-o", program)
    two = looped("two")[1]
    first, *rest = (k for k, p in enumerate(two.parameters) if p.kind == records.TRIPS)
    fixed = replace(  # of the first group no iteration can be left out
        two,
        parameters=tuple(p for k, p in enumerate(two.parameters) if k != first),
        tasks=tuple(
            replace(t, flags=t.flags & ~records.TASK_REPEATED) if t.group == two.parameters[first].where else t
            for t in two.tasks
        ),
    )
    fixed = replace(fixed, header=replace(fixed.header, parameter_count=len(fixed.parameters))).sealed()
    assert laps_for_trips(fixed, {two.groups[two.parameters[rest[0]].where]: 1}) != least_laps(two)
    for name, tables in [*((name, looped(name)[1]) for name in LOOPS), ("two", fixed)]:
        periodic = looped(name)[0]
        (tmp_path / "it.bin").write_bytes(tables.to_bytes())
        usual = {tables.groups[p.where]: p.usual for p in tables.parameters if p.kind == records.TRIPS}
        for factor in (0, 1, 7, 49, 100, 1234, 99_999):
            trips = {name: count * factor // 100 for name, count in usual.items()}
            laps = laps_for_trips(tables, trips)
            made = {tables.groups[g]: n for g, n in iterations_made(tables, laps).items()}
            assert all(made[name] >= n for name, n in trips.items())
            assert tables is fixed or made == trips_of(periodic, tables, laps)
            ran = subprocess.run(
                [program, tmp_path / "it.bin", *(str(trips.get(group, NONE)) for group in tables.groups)],
                capture_output=True,
                text=True,
            )
            assert ran.stdout.split() == ["OK", *map(str, parameters_for(tables, laps, trips))]
        least = dict.fromkeys(usual, 1)
        assert tables is fixed or laps_for_trips(tables, least) == least_laps(tables)


def test_more_iterations_than_laps_make_have_the_status_of_a_parameter(host_of: Callable[[str], Host]) -> None:
    _, tables = looped("stream")
    laps, trips = tables.parameters
    made = iterations_made(tables, (laps.least,))[0]
    blob = tables.to_bytes()
    for value in (made, 0, NONE):
        assert host_of("gcc").run(blob, parameters=f"{laps.least},{value}")["code"] == "OK"
    for value, nearest in ((made + 1, made), (trips.most + 1, trips.most)):
        said = host_of("gcc").run(blob, parameters=f"{laps.least},{value}")
        expected = ("BAD_PARAMETER", value, nearest, 0)
        assert (said["code"], said["seen"], said["expected"], said["executed"]) == expected
    with pytest.raises(InvalidInputError, match="so many laps make"):
        parameters_for(tables, (laps.least,), {"t": made + 1})
    for wrong, what in (({"t": trips.most + 1}, "is proven for 0 to"), ({"x": 3}, "take those of 't'")):
        with pytest.raises(InvalidInputError, match=what):
            laps_for_trips(tables, wrong)
