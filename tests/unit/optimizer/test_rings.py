"""Rings and FIFOs: places for what is issued and not yet observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.small import ENGINES, move, plan, problem

from hexloom import solve
from hexloom.formulations.problem import Engine, Problem
from hexloom.hwmodels import load_hw
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import Explicit
from hexloom.optimizer.lower import lower
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule

RING = tuple(Engine(name="ddr", kind="pipe", depth=2) if e.name == "ddr" else e for e in ENGINES)


def three_loads(depth: int | None = 2) -> Problem:
    engines = tuple(Engine(name="ddr", kind="pipe", depth=depth) if e.name == "ddr" else e for e in ENGINES)
    return problem(*(move(name, 4) for name in "abc"), engines=engines)


def outstanding(schedule: Schedule) -> int:
    """Return the most transfers that any thread has issued and not yet observed."""
    most = 0
    for queue in schedule.plan.queues:
        now = 0
        for entry in queue.entries:
            now += {"start": 1, "wait": -1}.get(entry.action, 0)
            most = max(most, now)
    return most


def test_a_ring_holds_no_more_than_its_places() -> None:
    deep, shallow = (solve(three_loads(depth)).schedule for depth in (3, 1))
    assert deep is not None and shallow is not None
    assert deep.problem.engines[-1].depth == 3
    assert outstanding(shallow) == 1
    assert shallow.makespan >= deep.makespan == 12


def test_who_pushes_into_a_full_ring_never_comes_to_take_off_the_oldest() -> None:
    p = three_loads()
    full = plan(p, hvx0="start a, start b, start c, wait a, wait b, wait c")
    [fault] = check_plan(p, full)
    assert fault.kind == "cycle"
    assert "observed 'a' -> start 'c' (ddr holds 2) -> observed 'a' (queue hvx[0])" in fault.message
    good = plan(p, hvx0="start a, start b, wait a, start c, wait b, wait c")
    assert check_plan(p, good) == []


def test_transfers_of_two_threads_must_be_ordered_before_the_ring_is_full() -> None:
    p = problem(move("a", 4), move("b", 4, owner=1), move("c", 4, owner=1), engines=RING)
    [fault] = check_plan(p, plan(p, hvx0="start a, wait a", hvx1="start b, start c, wait b, wait c"))
    assert fault.kind == "share_unordered" and "'ddr ring', which has 2" in fault.message


def test_only_a_pipe_has_a_depth() -> None:
    with pytest.raises(ValueError, match=r"'hvx' is a worker, and only a pipe has a depth"):
        Engine(name="hvx", depth=2)


def workload(*ops: dict[str, Any], hw: str = "hexagon-v81", **keys: Any) -> Workload:
    task = {"name": "t", "ops": list(ops)}
    return Workload.model_validate({"schema": "hexloom.workload/1", "name": "w", "hw": hw, "tasks": [task], **keys})


def push(name: str, owner: int = 0) -> dict[str, Any]:
    return {"name": name, "engine": "matrix", "owner": owner, "duration_us": 10}


FIFO = {"name": "matrix", "kind": "fifo", "depth": 2, "push_us": 1, "pop_us": 2}


def test_a_fifo_is_a_pipe_with_a_depth_whose_jobs_are_pushed_and_taken_off() -> None:
    p = lower(workload(*(push(name) for name in "abc"), engines=[FIFO]), load_hw("hexagon-v81")).problem
    assert p.engines[-1] == Engine(name="matrix", kind="pipe", depth=2)
    dma = p.ops[0].modes[0].dma
    assert dma is not None and p.tick is not None
    assert (dma.owner_engine, dma.issue_ticks * p.tick, dma.poll_ticks * p.tick) == ("hvx", 1, 2)
    result = solve(p)
    assert result.schedule is not None and result.status == "OPTIMAL"
    assert outstanding(result.schedule) == 2


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ({"depth": None}, "engine 'matrix' is a fifo: say its depth"),
        ({"kind": "worker"}, "depth, push_us and pop_us are for kind 'fifo', not 'worker'"),
        ({"name": "dma_queue3"}, "engine 'dma_queue3' is the machine's"),
    ],
)
def test_what_is_wrong_with_a_fifo_is_told(engine: dict[str, Any], says: str) -> None:
    with pytest.raises((ValueError, InvalidInputError), match=says):
        lower(workload(push("a"), engines=[{**FIFO, **engine}]), load_hw("hexagon-v81"))


def test_rows_whose_stride_does_not_fit_take_a_descriptor_each() -> None:
    """v73: 16 bits of stride; v81: 24 bits."""
    op = {"name": "a", "engine": "dma", "transfer_bytes": 4096, "rows": 4, "stride_bytes": 70_000}
    spec = Explicit.model_validate({"name": "t", "ops": [op]})
    old, new = (spec.expand(load_hw(hw)).ops[0].modes[0] for hw in ("hexagon-v73", "hexagon-v81"))
    assert (old.descriptors, new.descriptors) == (4, 1)
    assert old.issue_us == 4 * load_hw("hexagon-v73").overheads.dma_issue.exact
    long = Explicit.model_validate({"name": "t", "ops": [{"name": "a", "engine": "dma", "transfer_bytes": 2**24}]})
    assert long.expand(load_hw("hexagon-v81")).ops[0].modes[0].descriptors == 2
    with pytest.raises(InvalidInputError, match="stride_bytes 1000 is less than its rows of 1024 B"):
        Explicit.model_validate({"name": "t", "ops": [{**op, "stride_bytes": 1000}]}).expand(load_hw("hexagon-v81"))


def test_the_ring_of_a_queue_counts_where_it_can_be_full() -> None:
    """v73's ring has 256 entries, one of which stays free, and a transfer of 200 rows takes 200 there."""
    machine = load_hw("hexagon-v73")
    ops = [
        {"name": f"a{k}", "engine": "dma", "transfer_bytes": 204_800, "rows": 200, "stride_bytes": 70_000}
        for k in range(2)
    ]
    p = lower(workload(*ops, hw="hexagon-v73"), machine).problem
    assert [e.depth for e in p.engines if e.name == "dma_queue0"] == [255]
    result = solve(p)
    assert result.schedule is not None and outstanding(result.schedule) == 1
    one = lower(workload(ops[0], hw="hexagon-v73"), machine).problem
    assert [e.depth for e in one.engines if e.name == "dma_queue0"] == [None]


def test_a_transfer_with_more_descriptors_than_the_ring_has_places_is_refused_with_the_reason() -> None:
    op = {"name": "a", "engine": "dma", "transfer_bytes": 1024 * 300, "rows": 300, "stride_bytes": 70_000}
    result = solve(workload(op, hw="hexagon-v73"))
    assert result.status == "INFEASIBLE" and result.infeasibility is not None
    assert "300" in str(result.infeasibility) and "255" in str(result.infeasibility)


def test_an_engine_called_like_a_ring_is_not_taken_for_it() -> None:
    engines = (*RING, Engine(name="ddr ring", kind="resource"))
    with pytest.raises(ValueError, match="'ddr ring' is called like the places of 'ddr'; rename it"):
        problem(move("a", 4), engines=engines)
