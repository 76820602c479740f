"""Fewer iterations are the same problem without the later ones: what run-time trips of tables rest on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from looped import HW, LOOPS, op, random_workload, source_of, workload_of

from hexloom.emit.trips import tasks_to_cut
from hexloom.optimizer.periodic.check import labels_of
from hexloom.optimizer.periodic.check_bounds import ONCE
from hexloom.optimizer.periodic.roll import parts_of_stages
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.periodic.check import Label

MANY, MORE = 6, 7
KERNELS: list[dict[str, Any]] = [
    {"kernel": "matmul_w4a16", "weight_type": "q4_0", "m": 32, "k": 64, "n": 1280, "m_chunk": 32, "n_chunk": 32},
    {"kernel": "matmul_w4a16", "weight_type": "q4_0", "m": 1280, "k": 64, "n": 64, "m_chunk": 32, "n_chunk": 32},
    {"kernel": "rmsnorm", "rows": 320, "cols": 64, "mode": "direct", "rows_per_block": 8},
    {"kernel": "softmax", "rows": 324, "cols": 64},
    {"kernel": "gemv", "k": 64, "n": 1920, "n_chunk": 32},
    {"kernel": "matmul_id", "k": 64, "n": 64, "rows": [32] * 40},
]


def small(workload: Workload, counts: dict[str, int]) -> tuple[Problem, list[Label]]:
    """Return the problem of so many iterations, and the labels of its ops."""
    source = source_of(workload)
    few, more = (source.problem(dict.fromkeys(source.trips, n)) for n in (MANY, MORE))
    problem = source.problem(counts)
    labels = labels_of(problem, parts_of_stages(few, more))
    return problem, [labels[o.name] for o in problem.ops]


def said(problem: Problem, labels: list[Label], counts: dict[str, int]) -> tuple[set[Any], list[Any]]:
    """Return orders and buffers, by labels of the ops in so many iterations; ops of no task are left alone."""
    kept = [label[3] == ONCE or label[3] < counts[label[0]] for label in labels]
    edges = {(labels[p], labels[i]) for i in range(len(labels)) for p in problem.predecessors[i] if kept[i] and kept[p]}
    users = ({labels[i] for i in map(problem.op_index.__getitem__, b.ops) if kept[i]} for b in problem.buffers)
    return edges, sorted(sorted(u) for u in users if u)


def is_said_of_fewer(workload: Workload) -> bool:
    """Compare problems with those of fewer iterations; False if no task can be cut."""
    trips = source_of(workload).trips
    problem, labels = small(workload, dict.fromkeys(trips, MANY))
    if tasks_to_cut(problem, labels) != set(trips):
        return False
    for fewer in (1, 3, 5):
        counts = {task: max(1, fewer - k) for k, task in enumerate(trips)}
        assert said(*small(workload, counts), counts) == said(problem, labels, counts), fewer
    return True


def work(*tasks: dict[str, Any]) -> Workload:
    return Workload.from_data({"schema": "hexloom.workload/1", "name": "w", "hw": HW, "tasks": list(tasks)}, "w")


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"{kernel['kernel']}-{kernel.get('n', 0)}")
def test_fewer_iterations_of_kernels_ask_for_what_they_do_among_many(kernel: dict[str, Any]) -> None:
    assert is_said_of_fewer(work({"name": "t", **kernel}))


def test_where_the_last_iteration_lacks_ops_the_others_can_still_be_left_out() -> None:
    workload = work({"name": "t", "kernel": "softmax", "rows": 320, "cols": 64})
    assert tasks_to_cut(*small(workload, {"t": MANY})) == {"t"}


def test_fewer_iterations_of_loops_ask_for_what_they_do_among_many() -> None:
    assert is_said_of_fewer(workload_of("two"))


@pytest.mark.slow
def test_fewer_iterations_of_random_loops_ask_for_what_they_do_among_many() -> None:
    assert all(is_said_of_fewer(workload_of(name)) for name in LOOPS)
    assert sum(is_said_of_fewer(random_workload(seed)) for seed in range(12)) > 6


def test_what_is_special_about_the_last_iteration_is_seen() -> None:
    ops = [op("s", "hmx", 2, ["s_{i-1}"], [])]
    loop = {"for": "i", "count": MANY, "ops": ops}
    after = {"name": "end", "stage": "end", "engine": "hvx", "duration_us": 1}
    ends = {
        "last": [f"s_{MANY - 1}"],
        "all": [f"s_{i}" for i in range(MANY)],
        "first": ["s_0"],
    }
    for name, wanted in ends.items():
        problem = source_of(work({"name": "t", "ops": [loop]})).problem({"t": MANY})
        whole = work({"name": "t", "ops": [loop, {**after, "after": wanted}]})
        labels = [("t", "s", 0, i) for i in range(MANY)] + [("t", "end", 0, ONCE)]
        problem = source_of(whole).problem({"t": MANY})
        assert [o.stage for o in problem.ops] == [label[1] for label in labels]
        assert tasks_to_cut(problem, labels) == ({"t"} if name == "all" else set())
