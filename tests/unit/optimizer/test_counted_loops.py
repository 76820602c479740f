"""The search over tile counters of the benchmark is exact: known answers, and the plain search over events."""

from __future__ import annotations

import importlib
import random
import shutil
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from oracle import optimum

from hexloom import load_hw
from hexloom.optimizer.lower import lower
from hexloom.optimizer.workload import Workload

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc compiles the search")


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        counters = importlib.import_module("counters")
    finally:
        sys.path.remove(str(BENCHMARKS))
    program = counters.build(tmp_path_factory.mktemp("counters"))
    return lambda work, below, states=200_000: counters.counted(program, work, Fraction(below), states)


def loops(*tasks: tuple[int, list[tuple[Any, ...]]]) -> Workload:
    """Return loops of so many iterations; a stage is engine, time, whether on all threads, and MiB to the next one."""
    made = []
    for t, (count, stages) in enumerate(tasks):
        ops: list[dict[str, Any]] = []
        buffers = []
        for s, (engine, ticks, wide, _) in enumerate(stages):
            op = {"name": f"s{s}_{{i}}", "stage": f"s{s}", "engine": engine, "duration_us": ticks, "buffers": []}
            ops.append(op | {"after": [f"s{s - 1}_{{i}}"] if s else []} | ({"units": "all"} if wide else {}))
        for s, stage in enumerate(stages[:-1]):
            if stage[3]:
                buffers.append({"name": f"b{s}_{{i}}", "size_bytes": stage[3] * 2**20})
                ops[s]["buffers"].append(f"b{s}_{{i}}")
                ops[s + 1]["buffers"].append(f"b{s}_{{i}}")
        made.append({"name": "ab"[t], "ops": [{"for": "i", "count": count, "ops": ops, "buffers": buffers}]})
    data = {"schema": "hexloom.workload/1", "name": "counted", "hw": "hexagon-v79", "tasks": made}
    return Workload.from_data(data, "test")


def test_small_ops_go_together_as_often_as_bytes_allow(search: Any) -> None:
    """Four tiles hold two MiB each of eight: 12 tiles are three times 11 us of small ops, and 12 x 9 us."""
    found = search(loops((12, [("hvx", 11, False, 2), ("hvx", 9, True, 0)])), 400)
    assert (found.bound, found.exact) == (3 * 11 + 12 * 9, True)


def test_too_many_states_leave_a_bound(search: Any) -> None:
    work = loops((24, [("hvx", 7, False, 0), ("hmx", 3, False, 0)]), (24, [("hvx", 5, False, 0), ("hmx", 4, False, 0)]))
    found = search(work, 400)
    assert not found.exact
    assert found.bound <= 24 * 7 + 7


def test_prices_know_what_can_run_together_without_any_state(search: Any) -> None:
    """Four of the small ops go together at most, for their bytes, and none beside an op on all threads."""
    found = search(loops((12, [("hvx", 11, False, 2), ("hvx", 9, True, 0)])), 400, 1)
    assert (found.bound, found.exact) == (12 * 11 // 4 + 12 * 9, False)


def test_more_states_prove_larger_limits(search: Any) -> None:
    """Of 13 small ops one is left over after three times four: no price says so, but few states do."""
    work = loops((13, [("hvx", 11, False, 2), ("hvx", 9, True, 0), ("hmx", 10, False, 0)]))
    best = search(work, 400)
    bounds = [search(work, 400, states).bound for states in (1, 100, 1000)]
    assert best.exact
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] <= best.bound


@pytest.mark.parametrize("seed", [1, 2, 4, 5, 6, 7])
def test_no_plan_is_below_and_the_best_is_met(search: Any, seed: int) -> None:
    """Seeds that the plain search sees through in no time."""
    rng = random.Random(seed)
    tasks = []
    for _ in range(rng.randint(1, 2)):
        stages = [
            (rng.choice(["hmx", "hvx", "hvx"]), rng.randint(1, 4), rng.random() < 0.5, rng.choice([0, 2, 4]))
            for _ in range(2)
        ]
        tasks.append((rng.randint(2, 3) if not tasks else 1, [(e, d, e == "hvx" and w, b) for e, d, w, b in stages]))
    work = loops(*tasks)
    problem = lower(work, load_hw("hexagon-v79"), "none").problem
    best = optimum(problem)
    assert best is not None
    assert problem.tick is not None
    found = search(work, 200)
    assert (found.bound, found.exact) == (best.ticks * problem.tick, True)
