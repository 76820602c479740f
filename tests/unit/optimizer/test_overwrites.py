"""An output that may take the address of an input: where it is allowed, what it gains, and who refuses its misuse."""

from __future__ import annotations

from typing import Any

import pytest
from unit.emit import examples
from unit.small import buffer, move, on, problem

from hexloom import solve
from hexloom.emit import records
from hexloom.emit.lanes import View
from hexloom.emit.tables import make_tables
from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.model import FlatSolution
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Problem, Scratchpad, Use
from hexloom.hwmodels import load_hw
from hexloom.optimizer.check import check_plan, check_schedule
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.lower import lower
from hexloom.optimizer.plan import Wait
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.workload import Workload

MACHINE = load_hw("hexagon-v81").with_values({"overheads.op": 0})


def chain(*readers: str, capacity: int = 6, after: str = "", **keys: Any) -> Problem:
    """Op a writes x (6 B), b reads it and writes y (4 B), c reads y; ``readers`` read x too."""
    return problem(
        on("hvx", "a", 2),
        on("hmx", "b", 3),
        on("hvx", "c", 2),
        *(on("lut", name, 4) for name in readers),
        after=f"a>b b>c {after}",
        buffers=(buffer("x", 6, "a", "b", *readers), buffer("y", 4, "b", "c", **{"overwrites": "x", **keys})),
        capacity=capacity,
    )


# --- what it gains --------------------------------------------------------------------------------------


def test_it_fits_where_both_would_not() -> None:
    result = solve(chain(), seed=1)
    assert result.schedule is not None
    assert (result.status, result.schedule.makespan) == ("OPTIMAL", 7)
    assert result.schedule.plan.addresses == {"x": 0, "y": 0}
    assert check_schedule(result.schedule) == []
    assert solve(chain(overwrites=None), seed=1).status == "INFEASIBLE"


def test_the_order_after_other_readers_is_paid_only_where_bytes_are_short() -> None:
    """r reads x for 4 ticks from 2 on: with 10 B y lies beside x and b need not wait for it."""
    roomy = solve(chain("r", capacity=10, after="a>r"), seed=1).schedule
    tight = solve(chain("r", capacity=9, after="a>r"), seed=1).schedule
    assert roomy is not None
    assert tight is not None
    assert (roomy.makespan, tight.makespan) == (7, 2 + 4 + 3 + 2)
    assert Wait(before="r", after="b") in tight.plan.waits
    assert Wait(before="r", after="b") not in roomy.plan.waits


@pytest.mark.parametrize("capacity", [2, 3])
def test_who_reads_at_the_same_instant_reads_first(capacity: int) -> None:
    """b and r take no time and start when a ends: in this solution y lies on x, so b comes after r."""
    both = problem(
        on("hvx", "a", 1),
        on("hvx", "b", 0),
        on("hvx", "r", 0),
        after="a>b a>r",
        buffers=(buffer("x", 2, "a", "b", "r"), buffer("y", 1, "b", overwrites="x")),
        capacity=capacity,
    )
    times = (0, 1, 1)
    solution = FlatSolution(
        start=times, moved=times, known=(1, 1, 1), mode=(0, 0, 0), units={}, offsets={0: 0, 1: 0}, makespan=1
    )
    decision = decision_of(both, solution)
    assert decision is not None
    assert check_plan(both, make_plan(both, decision)) == []
    assert decision.actions == (0, 2, 1)


@pytest.mark.slow
def test_only_the_same_address_counts() -> None:
    """y at a multiple of 4 cannot lie where x is pinned."""
    pinned = chain(capacity=8, align_bytes=4)
    x = pinned.buffers[0].model_copy(update={"address": 2})
    p = pinned.changed(buffers=(x, pinned.buffers[1]))
    assert solve(p, seed=1).status == "INFEASIBLE"


# --- the checker ----------------------------------------------------------------------------------------


def test_a_reader_that_comes_too_late_is_named() -> None:
    p = chain("r", capacity=9, after="a>r")
    result = solve(p, seed=1)
    assert result.schedule is not None
    plan = result.schedule.plan
    waits = tuple(Wait(before="a", after="b") if w.before == "r" else w for w in plan.waits)
    (found,) = check_plan(p, plan.model_copy(update={"waits": waits}))
    assert (found.kind, found.parties) == ("buffer_unordered", ("x", "y", "r", "b"))
    assert found.message == (
        "buffers 'x' [0, 6) and 'y' [0, 4) share 4 B, but 'b' overwrites 'x' without waiting for 'r', which uses it"
    )


def test_without_leave_or_beside_the_address_it_is_refused() -> None:
    p = chain(capacity=9)
    result = solve(chain(), seed=1)
    assert result.schedule is not None
    plan = result.schedule.plan
    assert check_plan(p, plan) == []
    assert [v.kind for v in check_plan(chain(capacity=9, overwrites=None), plan)] == ["buffer_unordered"]
    shifted = plan.model_copy(update={"addresses": {"x": 0, "y": 2}})
    assert [v.kind for v in check_plan(p, shifted)] == ["buffer_unordered"]


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"overwrites": "q"}, "'y' overwrites 'q', which is no other buffer"),
        ({"overwrites": "y"}, "'y' overwrites 'y', which is no other buffer"),
        ({"granule_bytes": 8}, "takes 8 B of its 6; make it smaller"),
        ({"resident": True}, "alive together at the start or at the end"),
    ],
)
def test_what_cannot_be_overwritten_is_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        chain(**keys)


def test_one_op_must_use_both() -> None:
    x, y = buffer("x", 4, "a"), buffer("y", 4, "b", overwrites="x")
    with pytest.raises(ValueError, match="but 0 ops use both"):
        problem(on("hvx", "a", 2), on("hmx", "b", 3), buffers=(x, y), capacity=8)


# --- the workload and what is emitted -------------------------------------------------------------------


def work(**keys: Any) -> Workload:
    ops: list[dict[str, Any]] = [
        {"name": "a", "engine": "hvx", "duration_us": 2, "buffers": ["x"]},
        {"name": "b", "engine": "hmx", "duration_us": 3, "after": ["a"], "buffers": ["x", "y"], **keys},
    ]
    buffers = [{"name": name, "size_bytes": "5MiB"} for name in "xy"]
    return Workload.from_data({"name": "w", "tasks": [{"name": "t", "ops": ops, "buffers": buffers}]})


def test_an_op_says_what_it_may_overwrite() -> None:
    lowered = lower(work(may_overwrite={"y": "x"}), MACHINE).problem
    assert [b.overwrites for b in lowered.buffers] == [None, "x"]
    assert Problem.model_validate_json(lowered.model_dump_json(by_alias=True)) == lowered
    assert "overwrites" not in lower(work(), MACHINE).problem.model_dump_json()
    assert "may_overwrite" not in work().to_json()
    assert solve(work(), hw=MACHINE, seed=1).status == "INFEASIBLE"
    assert solve(work(may_overwrite={"y": "x"}), hw=MACHINE, seed=1).makespan_us == 5


def test_only_its_own_buffers_may_be_overwritten() -> None:
    with pytest.raises(InvalidInputError, match="'z' is in 'may_overwrite', but not one of its buffers"):
        lower(work(may_overwrite={"y": "z"}), MACHINE)


def test_tables_and_the_map_count_shared_bytes_once() -> None:
    schedule = examples.in_place()
    assert check_schedule(schedule) == []
    assert max(level for _, level in View(schedule).live_bytes()) == 2048
    flags = [b.flags for b in make_tables(schedule).buffers]
    assert flags == [0, records.BUFFER_OVERWRITES, records.BUFFER_OVERWRITES]


def test_todays_loop_overwrites_where_nothing_else_fits() -> None:
    result = solve(work(may_overwrite={"y": "x"}), hw=MACHINE, seed=1)
    assert result.schedule is not None
    assert result.schedule.baselines["existing"] == result.schedule.makespan


def test_nobody_uses_what_an_op_under_way_is_about_to_overwrite() -> None:
    """``late`` needs the output alone, and is ready while the transfer that puts it over its input still reads that."""
    p = problem(
        on("hvx", "first", 1),
        move("turn", 5),
        on("hvx", "late", 1),
        buffers=(buffer("old", 4, "first", "turn"), buffer("new", 1, "turn", "late", overwrites="old")),
        capacity=4,
    )
    decision = list_schedule(p, Policy((2.0, 1.0, 0.0), (0, 0, 0)))
    assert decision is not None
    assert check_plan(p, make_plan(p, decision)) == []


def test_one_op_puts_nothing_over_what_it_puts_over_something_else() -> None:
    buffers = (
        buffer("x", 1, "a", overwrites="y"),
        buffer("y", 1, "a", overwrites="z"),
        buffer("z", 1, "a"),
    )
    with pytest.raises(ValueError, match="buffer 'x' overwrites 'y', which the same op writes over another; drop one"):
        problem(on("hvx", "a", 1), buffers=buffers, capacity=4)


def test_an_op_that_is_split_overwrites_nothing() -> None:
    """Two parts of it would each use both: the lever is solved all the same."""
    dma = Dma(owner_engine="w", owner_unit=0, descriptors=2)
    mode = Mode(uses=(Use(engine="queue", ticks=1),), latency_ticks=1, dma=dma)
    split = Problem(
        engines=(Engine(name="w"), Engine(name="queue", kind="pipe", depth=1)),
        ops=(Op(name="o", modes=(mode,)),),
        buffers=(
            Buffer(name="b0", size_bytes=0, ops=("o",), overwrites="b1"),
            Buffer(name="b1", size_bytes=0, ops=("o",)),
        ),
        scratchpad=Scratchpad(total_bytes=8),
    )
    result = solve(split, seed=0, time_limit_s=0.2, contention="none")
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None
