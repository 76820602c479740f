"""Small periodic schedules for tests of tables with loops, made once each."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

from hexloom.emit.chosen import least_laps
from hexloom.emit.job import plain_tables
from hexloom.emit.looped import make_looped_tables
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic import reduced as few_runs
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.periodic.solve import reduced_of, schedule_of
from hexloom.optimizer.periodic.trial import Source
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.schedule import Schedule

HW = "hexagon-v79"


def op(name: str, engine: str, us: int, after: list[str], buffers: list[str], **more: Any) -> dict[str, Any]:
    """Return an op of a loop over i."""
    return {"name": f"{name}_{{i}}", "stage": name, "engine": engine, "duration_us": us, "after": after} | {
        "buffers": buffers,
        **more,
    }


STREAM: list[dict[str, Any]] = [
    op("load", "dma", 3, ["work_{i-2}"], ["a_{i}"]),
    op("work", "hmx", 5, ["load_{i}"], ["a_{i}", "b_{i}"]),
    op("store", "dma", 2, ["work_{i}"], ["b_{i}"]),
]
SLICED: list[dict[str, Any]] = [
    op("expand", "hvx", 3, ["multiply_{i-2}"], ["a_{i}"], units=2),
    op("multiply", "hmx", 4, ["expand_{i}"], ["a_{i}"]),
]
LOOPS: dict[str, dict[str, tuple[list[dict[str, Any]], int, int]]] = {
    "stream": {"t": (STREAM, 4096, 400)},
    "sliced": {"t": (SLICED, 4096, 400)},
    "two": {"x": (STREAM, 2048, 40), "y": (SLICED, 4096, 90)},
}


def workload_of(name: str) -> Workload:
    """Return the workload of one of the ``LOOPS``: tasks whose buffers have so many bytes, so often."""
    tasks = []
    for task, (ops, size, count) in LOOPS[name].items():
        used = sorted({b for o in ops for b in o["buffers"]})
        buffers = [{"name": b, "size_bytes": size} for b in used]
        tasks.append({"name": task, "ops": [{"for": "i", "count": count, "ops": ops, "buffers": buffers}]})
    return Workload.from_data({"schema": "hexloom.workload/1", "name": name, "hw": HW, "tasks": tasks}, name)


def source_of(workload: Workload) -> Source:
    """Return what makes the problems of a workload with any number of iterations."""
    return Source(workload, load_hw(HW), "none", FEW)


def periodic_of(workload: Workload, seconds: float = 0.2) -> PeriodicSchedule:
    """Return a periodic schedule of a workload; raises NotALoopError where there is none."""
    source = source_of(workload)
    return schedule_of(source, reduced_of(source, seconds, seed=1), seed=1)


@cache
def looped(name: str) -> tuple[PeriodicSchedule, Tables]:
    """Return one of the ``LOOPS`` as a schedule, and its tables."""
    periodic = periodic_of(workload_of(name))
    return periodic, make_looped_tables(periodic)


def as_written(periodic: PeriodicSchedule, tables: Tables) -> Tables:
    """Return the tables with as many laps as the schedule has written down, in terms of its ops and buffers."""
    return plain_tables(periodic, tables, least_laps(tables), periodic.written.problem)


def shown(periodic: PeriodicSchedule, tables: Tables) -> list[tuple[tuple[int, ...], Schedule]]:
    """Return the laps that are written down with their schedule, and those of each schedule with a period more."""
    least = least_laps(tables)
    found = [(least, periodic.written)]
    k = 0
    for stretch, grown in zip(periodic.stretches, periodic.grown, strict=True):
        if grown is None:
            continue
        g, group = next((g, group) for g, group in enumerate(tables.groups) if stretch.advance.get(group))
        more = stretch.advance[group] // tables.advances[k * len(tables.groups) + g].iterations
        laps = tuple(count + more * (n == k) for n, count in enumerate(least))
        if more % tables.parameters[k].step == 0:
            found.append((laps, grown))
        k += 1
    return found


def random_loops(
    seed: int, most_tasks: int = 2, runs: int = few_runs.FIRST_RUNS
) -> tuple[PeriodicSchedule, Tables] | None:
    """Return a random periodic schedule and its tables; None where its tasks are no loops of such tables.

    At first ``runs`` of every body are looked at: fewer make plans that are small enough to be explored.
    """
    with mock.patch.multiple(few_runs, FIRST_RUNS=runs, FEWEST_RUNS=min(runs, few_runs.FEWEST_RUNS)):
        try:
            periodic = periodic_of(random_workload(seed, most_tasks), 0.05)
            return periodic, make_looped_tables(periodic)
        except (NotALoopError, InvalidInputError):
            return None


def random_workload(seed: int, most_tasks: int = 2) -> Workload:
    """Return one or two random loops of up to three stages."""
    rng = random.Random(seed)
    tasks = []
    for name in ("a", "b")[: rng.randint(1, most_tasks)]:
        stages = rng.randint(1, 3)
        ops: list[dict[str, Any]] = []
        for s in range(stages):
            after = [f"s{s - 1}_{{i}}"] if s else []
            if rng.random() < 0.5:
                after.append(f"s{rng.randint(s, stages - 1)}_{{i-{rng.randint(1, 3)}}}")
            engine = rng.choice(("hmx", "hvx", "hvx", "dma", "own"))
            more = {"units": rng.choice((1, 2))} if engine == "hvx" else {}
            ops.append(op(f"s{s}", engine, rng.randint(1, 6), after, [], **more))
        buffers = []
        for s in range(stages - 1):
            if rng.random() < 0.7:
                buffers.append({"name": f"b{s}_{{i}}", "size_bytes": rng.randint(1, 3) * 2048})
                ops[s]["buffers"].append(f"b{s}_{{i}}")
                ops[s + 1]["buffers"].append(f"b{s}_{{i}}")
        tasks.append(
            {"name": name, "ops": [{"for": "i", "count": rng.randint(60, 200), "ops": ops, "buffers": buffers}]}
        )
    engines = [{"name": "own", "units": 2, "kind": "resource"}]
    data = {"schema": "hexloom.workload/1", "name": f"loops{seed}", "hw": HW, "engines": engines, "tasks": tasks}
    return Workload.from_data(data, "drawn")
