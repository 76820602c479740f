"""What is run: points to calibrate with, seeded workloads, and plans for each: ours, and two that people would run."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from session import MATRIX, VECTOR, Job

from hexloom import Workload, solve
from hexloom.formulations.decision import Decision
from hexloom.optimizer.lower import lower
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import op_rows
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom import Machine, Schedule

SOLO_US, SOLO_MOST_US = (100, 330, 1000), 2000
RATIOS = (0.1, 0.2, 1.8, 1.9)
"""The second op is so many times as long as the first: Tacker's load ratios."""

TESTED = (0.5, 0.8, 1.25)
"""Ratios that no factor is fitted to: contended pairs to test the model with."""

PAIR_US = 1500
CHUNK_US = 250.0


class Units:
    """How many units of work of a class take so many microseconds, by a first look."""

    def __init__(self, unit_us: dict[str, float]) -> None:
        self.unit_us = unit_us

    def of(self, name: str, us: float) -> int:
        """Return the nearest whole number, at least 1."""
        return max(1, round(us / self.unit_us[name]))


def op(name: str, op_class: str, work: int, after: Sequence[str] = ()) -> dict[str, Any]:
    """Return an op of the workload; its engine is that of its class."""
    engine = "hmx" if op_class in MATRIX else "hvx"
    return {"name": name, "engine": engine, "class": op_class, "work": work, "after": list(after)}


def workload(name: str, tasks: dict[str, list[dict[str, Any]]]) -> Workload:
    """Return a workload of tasks with these ops."""
    rows = [{"name": task, "ops": ops} for task, ops in tasks.items()]
    return Workload.from_data({"schema": "hexloom.workload/1", "name": name, "tick_us": "1/100", "tasks": rows})


def work_of(tasks: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[str, int]]:
    """Return class and work of each op of a workload's problem."""
    many = len(tasks) > 1
    return {
        (f"{task}/{op['name']}" if many else op["name"]): (op["class"], op["work"])
        for task, ops in tasks.items()
        for op in ops
    }


# --- points


def first_look() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return a job per class of a few ops of a known number of units."""
    return {f"look {c}": {"t": [op(f"{c}{k}", c, 16) for k in range(4)]} for c in (*MATRIX, *VECTOR)}


def solo_points(units: Units) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return for each class and size a few ops one after the other, alone on the machine.

    Of one op alone the beginning of an execution, when nothing is in the caches, would count as a part of every op.
    """
    return {
        f"solo {c} {us}": {
            "t": [op(f"alone{k}", c, units.of(c, us)) for k in range(max(1, min(4, SOLO_MOST_US // us)))]
        }
        for c in (*MATRIX, *VECTOR)
        for us in SOLO_US
    }


def pair_points(units: Units, ratios: Sequence[float], what: str) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return for each pair of a matrix and a vector class, and each ratio, both started together.

    The matrix work is one op; the vector work is cut into ops of about a quarter of a millisecond where it is longer.
    """
    found = {}
    for a in MATRIX:
        for b in VECTOR:
            for ratio in ratios:
                long = PAIR_US if ratio <= 1 else PAIR_US / ratio
                tasks = {
                    "a": [op("x", a, units.of(a, long))],
                    "b": [op("y", b, units.of(b, long * ratio))],
                }
                found[f"{what} {a} {b} {ratio:g}"] = tasks
    return found


def seeded(seed: int, units: Units) -> dict[str, list[dict[str, Any]]]:
    """Return the tasks of workload ``seed``: loops of load, product and vector work, and vector work alone.

    They take 2 to 5 ms: on a shared host few longer executions are left alone, and those that are stand for its
    quietest moments, which calibration points, being shorter, do not.
    """
    source = random.Random(seed)
    tasks: dict[str, list[dict[str, Any]]] = {}
    loops = source.choice((1, 1, 2))
    for k in range(loops):
        tiles = source.randint(3, 5 if loops == 1 else 3)
        product, after = source.choice(MATRIX), source.choice(("add", "norm"))
        load_us, mm_us, out_us = source.uniform(100, 250), source.uniform(200, 500), source.uniform(100, 250)
        loads = [op(f"load{i}", "copy", units.of("copy", load_us)) for i in range(tiles)]
        ops = [loads[0]]
        for i in range(tiles):
            ops += [loads[i + 1]] if i + 1 < tiles else []
            ops.append(op(f"mm{i}", product, units.of(product, mm_us), [f"load{i}"]))
            ops.append(op(f"out{i}", after, units.of(after, out_us), [f"mm{i}"]))
        tasks[f"product{k}"] = ops
    name = source.choice(("add", "norm"))
    us = source.uniform(150, 400)
    tasks["rows"] = [op(f"row{i}", name, units.of(name, us)) for i in range(source.randint(3, 7))]
    return tasks


# --- plans


def our_plan(work: Workload, machine: Machine, seconds: float, seed: int) -> Schedule:
    """Return the schedule that the solver finds."""
    found = solve(work, machine, time_limit_s=seconds, seed=seed, explained=False).schedule
    assert found is not None
    return found


def plan_in_order(work: Workload, machine: Machine, like: Schedule, barriers: str) -> Schedule:
    """Return ``like`` in the order of the file, with barriers after each ``op``, each ``task``, or ``none``."""
    problem = lower(work, machine, like.contention).problem
    n = len(problem.ops)
    guards: list[tuple[int, int]] = []
    if barriers == "op":
        guards = list(pairwise(range(n)))
    elif barriers == "task":
        tasks = list(dict.fromkeys(of.task for of in problem.ops))
        members = {task: [i for i, of in enumerate(problem.ops) if of.task == task] for task in tasks}
        for before, after in pairwise(tasks):
            guards += [(a, b) for a in members[before] for b in members[after]]
    units = tuple(tuple((0,) for _ in of.modes[0].uses) for of in problem.ops)
    plan = make_plan(problem, Decision((0,) * n, units, tuple(range(n)), (), tuple(guards)))
    timeline = simulate(problem, plan, like.contention)
    return like.model_copy(
        update={"problem": problem, "plan": plan, "makespan": timeline.makespan, "rows": op_rows(problem, timeline)}
    )


def point_job(name: str, tasks: dict[str, list[dict[str, Any]]], machine: Machine, like: Schedule) -> Job:
    """Return the job of a point: ops in the order of the file, each as soon as it can."""
    work = workload("point", tasks)
    return Job(name, work, plan_in_order(work, machine, like, "none"), work_of(tasks))


def with_classes(machine: Machine, unit_us: dict[str, float]) -> Machine:
    """Return the machine with a first guess of all classes, and of what they leave each other."""
    guess = {"confidence": "guess", "source": "a first look at this host"}
    data = machine.model_dump(mode="json", by_alias=True)
    data["classes"] = {}
    for name, us in unit_us.items():
        data["classes"][f"{name}.fixed"] = {"value": 0, "unit": "us", "clock": "ns", **guess}
        data["classes"][f"{name}.per_unit"] = {"value": round(us * 1000, 3), "unit": "ns/unit", "clock": "ns", **guess}
    pairs = [(a, b) for m in MATRIX for v in VECTOR for a, b in ((m, v), (v, m))]
    data["interference"] = {f"{a} beside {b}": {"value": 0.9, "unit": "ratio", **guess} for a, b in pairs}
    return type(machine).model_validate(data)


def first_plan(machine: Machine) -> Schedule:
    """Return a schedule of one op, from which others take what a schedule has beside its plan."""
    return our_plan(workload("first", {"t": [op("x", MATRIX[0], 1)]}), machine, 0.05, 0)
