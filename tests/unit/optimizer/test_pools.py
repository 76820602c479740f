"""Several pools of memory: from the workload to the checker, the tables and the picture."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from unit.small import buffer, on, problem

from hexloom import Workload, pack, solve
from hexloom.emit.gantt import gantt_svg
from hexloom.emit.records import POOL, VTCM
from hexloom.emit.tables import make_tables
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.greedy import list_schedule
from hexloom.formulations.milp import accepts
from hexloom.formulations.packing.allocator import Allocator
from hexloom.formulations.policy import Policy
from hexloom.formulations.problem import Pool, Problem
from hexloom.formulations.scratch_state import SHORT, TAKEN, PooledState, ScratchState
from hexloom.formulations.serial_order import serial_order
from hexloom.hwmodels import load_hw
from hexloom.optimizer.arithmetic import check_arithmetic
from hexloom.optimizer.check import check_plan, check_schedule
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.groups import Group, groups_of, in_words, keeping
from hexloom.optimizer.lower import lower
from hexloom.optimizer.schedule import BoundRow, Schedule

if TYPE_CHECKING:
    from hexloom.optimizer.plan import Plan

MACHINE = load_hw("hexagon-v81").with_values({"overheads.op": 0})


def two(*pools: str | None, room: int = 10, **keys: Any) -> Problem:
    """Ops a and b of 3 ticks on engines of their own, with 6 B each of the scratchpad (10 B) or of pool l1."""
    return problem(
        on("hvx", "a", 3),
        on("hmx", "b", 3),
        buffers=tuple(buffer(n, 6, op, pool=pool) for n, op, pool in zip("xy", "ab", pools, strict=True)),
        capacity=10,
        pools=(Pool(name="l1", total_bytes=room + 2, reserved_bytes=2),),
        **keys,
    )


def solved(p: Problem) -> Schedule:
    result = solve(p, seed=1)
    assert result.schedule is not None
    assert check_schedule(result.schedule) == []
    return result.schedule


# --- the schedule -----------------------------------------------------------------------------------------


def test_every_pool_has_addresses_of_its_own() -> None:
    schedule = solved(two(None, "l1"))
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 3)
    assert schedule.plan.addresses == {"x": 0, "y": 0}
    assert schedule.plan.waits == ()


def test_in_one_pool_they_take_turns() -> None:
    schedule = solved(two("l1", "l1"))
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 6)
    assert len(schedule.plan.waits) == 1
    assert solved(two("l1", "l1", room=12)).makespan == 3


def test_a_list_schedule_takes_the_bytes_of_all_pools_or_of_none() -> None:
    """Op b wants 6 B of the scratchpad and 6 of l1, which a has: it must not hold the first while it waits."""
    p = problem(
        on("hvx", "a", 3),
        on("hmx", "b", 3),
        on("hmx", "c", 2),
        buffers=(
            buffer("x", 6, "a", pool="l1"),
            buffer("y", 6, "b"),
            buffer("z", 6, "b", pool="l1"),
            buffer("w", 6, "c"),
        ),
        capacity=10,
        pools=(Pool(name="l1", total_bytes=10),),
    )
    states = [ScratchState(view, Allocator(view)) for _, view in p.per_pool]
    together = PooledState(p, states)
    assert [together.take(op, hungry=False) for op in (0, 1, 2)] == [TAKEN, SHORT, TAKEN]
    assert [state.allocator.offsets for state in states if state.allocator] == [{0: 0, 1: 0}, {0: 0}]
    together.finish(0)
    together.finish(2)
    assert together.take(1, hungry=False) == TAKEN
    together.finish(1)
    assert together.lifetimes() == [(0, 3), (4, 6), (4, 6), (1, 4)]
    assert list_schedule(p, Policy((3.0, 2.0, 1.0), (0, 0, 0))) is not None
    assert solved(p).makespan == 6


def test_an_order_that_fits_counts_every_pool() -> None:
    """Chains p, q hold 6 B of l1 from their first op to their second: never both, though the scratchpad has room."""
    ops = [on("hvx", n, 1) for n in ("p0", "q0", "p1", "q1")]
    buffers = (buffer("p", 6, "p0", "p1", pool="l1"), buffer("q", 6, "q0", "q1", pool="l1"))
    pools = (Pool(name="l1", total_bytes=10),)
    p = problem(*ops, after="p0>p1 q0>q1", buffers=buffers, capacity=99, pools=pools)
    assert serial_order(p) == (0, 2, 1, 3)
    crossed = problem(*ops, after="p0>q1 q0>p1", buffers=buffers, capacity=99, pools=pools)
    assert serial_order(crossed) is None
    assert solve(crossed, seed=1).status == "INFEASIBLE"


# --- the checker ------------------------------------------------------------------------------------------


def moved(schedule: Schedule, **addresses: int) -> Plan:
    return schedule.plan.model_copy(update={"addresses": {**schedule.plan.addresses, **addresses}})


def test_the_checker_names_the_pool_that_a_buffer_leaves() -> None:
    p = two(None, "l1", room=7)
    (found,) = check_plan(p, moved(solved(p), y=2))
    assert (found.kind, found.parties) == ("address_range", ("y",))
    assert found.message == "buffer 'y' [2, 8) is not inside [0, 7) B of pool 'l1'"
    assert check_plan(p, moved(solved(p), x=4, y=1)) == []


def test_the_checker_finds_two_in_the_same_bytes_of_a_pool() -> None:
    roomy = two("l1", "l1", room=12)
    (found,) = check_plan(roomy, moved(solved(roomy), x=0, y=5))
    assert (found.kind, found.parties) == ("buffer_unordered", ("x", "y", "a", "b"))
    apart = two("l1", None)
    assert check_plan(apart, moved(solved(apart), x=0, y=4)) == []


def test_the_checker_counts_the_bytes_of_each_pool() -> None:
    schedule = solved(two("l1", "l1", room=12))
    tight = schedule.model_copy(update={"problem": two("l1", "l1", room=11)})
    texts = [violation.message for violation in check_schedule(tight)]
    assert "2 buffers hold 12 B in pool 'l1' at tick 0, 1 B above the 11 B available" in texts


# --- arithmetic -------------------------------------------------------------------------------------------


def test_bounds_hold_for_each_pool_and_name_it() -> None:
    p = two("l1", "l1")
    found = {b.name: b for b in lower_bounds(p).found}
    assert (found["turns"].ticks, found["scratchpad"].ticks) == (6, 4)  # 3 + 3 ticks; 36 B ticks over 10 B
    assert "10 B of pool 'l1'" in found["turns"].detail
    assert found["scratchpad"].detail.startswith("pool 'l1' of 10 B")
    rows = [BoundRow(name=b.name, ticks=int(b.ticks), engine=b.engine, detail=b.detail) for b in found.values()]
    assert check_arithmetic(p, rows) == []
    assert (
        len(check_arithmetic(p, [r.model_copy(update={"ticks": r.ticks + 1}) for r in rows if r.name == "turns"])) == 1
    )
    assert "turns" not in {b.name for b in lower_bounds(two("l1", None)).found}


def test_what_cannot_fit_names_the_pool() -> None:
    result = solve(two(None, "l1", room=5), seed=1)
    assert result.infeasibility is not None
    assert result.infeasibility.message.startswith(
        "op 'b' needs 6 B of pool 'l1' at once, 5 B are available: short 1 B; it holds y 6 B"
    )
    assert result.infeasibility.resource == "pool 'l1'"
    found = first_shortfall(two("l1", None, room=5))
    assert found is not None
    assert (found.op, found.resource, found.need, found.have) == ("a", "pool 'l1'", 6, 5)


def test_a_pool_is_a_group_of_constraints() -> None:
    p = two("l1", "l1")
    group = Group("pool", ("l1",))
    groups = groups_of(p)
    assert group in groups
    assert Group("scratchpad") not in groups
    assert in_words(p, group) == "the 10 B of pool 'l1'"
    assert keeping(p, groups).pools == p.pools
    assert solved(keeping(p, [g for g in groups if g != group])).makespan == 3


def test_the_conflict_names_the_pool() -> None:
    """Both must end by tick 5, which takes 12 B of l1 at once."""
    p = two("l1", "l1")
    ops = tuple(op.model_copy(update={"deadline_ticks": 5}) for op in p.ops)
    late = Problem(engines=p.engines, ops=ops, buffers=p.buffers, scratchpad=p.scratchpad, pools=p.pools)
    result = solve(late, seed=1)
    assert result.infeasibility is not None
    assert "the 10 B of pool 'l1'" in [member.text for member in result.infeasibility.conflict]
    lever = next(lever for lever in result.infeasibility.levers if lever.resource == "pool 'l1'")
    assert (lever.outcome, lever.makespan, lever.need, lever.have) == ("feasible", 3, 14, 10)
    assert lever.text == "pool 'l1' for all its buffers side by side (14 B available)"


def test_the_milp_says_why_it_does_not_answer() -> None:
    assert accepts(two("l1", None)) == "its buffers lie in several pools"


def test_addresses_alone_are_asked_for_one_place_at_a_time() -> None:
    with pytest.raises(
        InvalidInputError, match="buffer 'y' lies in pool 'l1'; pack the buffers of one place at a time"
    ):
        pack([buffer("x", 1), buffer("y", 1, pool="l1")], [(0, 1)] * 2)


# --- data -------------------------------------------------------------------------------------------------


def test_a_buffer_names_a_pool_that_exists() -> None:
    with pytest.raises(ValueError, match="buffer 'x': there is no pool 'l2'"):
        problem(on("hvx", "a", 1), buffers=(buffer("x", 1, "a", pool="l2"),), capacity=4)
    with pytest.raises(ValueError, match="two pools are named 'l1'"):
        problem(on("hvx", "a", 1), pools=(Pool(name="l1"),) * 2)


def test_files_without_pools_stay_what_they_were() -> None:
    plain = problem(on("hvx", "a", 1), buffers=(buffer("x", 1, "a"),), capacity=4)
    data = json.loads(plain.model_dump_json(by_alias=True))
    assert "pools" not in data
    assert "pool" not in data["buffers"][0]
    pooled = two("l1", None)
    assert Problem.model_validate_json(pooled.model_dump_json(by_alias=True)) == pooled


def workload(**changes: Any) -> Workload:
    data: dict[str, Any] = {
        "name": "w",
        "pools": [{"name": "l1", "size_bytes": "1KiB", "reserved_bytes": 24}],
        "tasks": [
            {
                "name": "t",
                "buffers": [{"name": "x", "size_bytes": 600, "pool": "l1"}, {"name": "y", "size_bytes": 100}],
                "ops": [{"name": "a", "engine": "hvx", "duration_us": 3, "buffers": ["x", "y"]}],
            }
        ],
    }
    return Workload.model_validate({**data, **changes})


def test_a_workload_has_pools() -> None:
    p = lower(workload(), MACHINE).problem
    assert p.pools == (Pool(name="l1", total_bytes=1024, reserved_bytes=24),)
    x, y = p.buffers
    assert (x.pool, x.align_bytes, y.pool, y.align_bytes) == ("l1", 1, None, MACHINE.vtcm.align_bytes.whole)
    held = workload(reserved=[{"bytes": 500, "until": "a", "pool": "l1"}])
    result = solve(held, hw=MACHINE, seed=1)
    assert result.infeasibility is not None
    assert "op 'a' needs 1,100 B" in result.infeasibility.message
    assert "of pool 'l1' at once" in result.infeasibility.message


def test_a_workload_names_pools_that_it_has() -> None:
    with pytest.raises(InvalidInputError, match="buffer 'x': there is no pool 'l1'; known: none"):
        lower(workload(pools=[]), MACHINE)
    with pytest.raises(InvalidInputError, match=r"there is no pool 'l1' \(did you mean 'l11'\?\); known: l11"):
        lower(workload(pools=[{"name": "l11", "size_bytes": 1024}]), MACHINE)
    with pytest.raises(ValueError, match="reserved_bytes 2000 is above its size_bytes 1024"):
        workload(pools=[{"name": "l1", "size_bytes": 1024, "reserved_bytes": 2000}])


def test_tables_have_a_binding_per_pool() -> None:
    tables = make_tables(solved(two("l1", None)))
    assert [(b.space, b.bytes) for b in tables.bindings] == [(VTCM, 6), (POOL, 6)]
    assert [b.binding for b in tables.buffers] == [1, 0]
    assert [(o.binding, o.space) for o in tables.operands] == [(1, POOL), (0, VTCM)]


def test_the_picture_has_a_panel_per_pool() -> None:
    text = gantt_svg(solved(two("l1", None)))
    assert "Scratchpad (VTCM): addresses over time" in text
    assert "Pool l1: addresses over time" in text


def test_what_others_hold_of_memory_for_dma_only_is_touched_by_nobody() -> None:
    """1 MiB until an op on hvx ends: the transfer of 1 MiB into the other half need not wait, one of more must."""
    for size, makespan in (("1MiB", 5), ("1025KiB", 8)):
        work = Workload.from_data(
            {
                "name": "far",
                "pools": [{"name": "far", "size_bytes": "2MiB", "dma_only": True}],
                "reserved": [{"bytes": "1MiB", "until": "use", "pool": "far"}],
                "tasks": [
                    {
                        "name": "t",
                        "buffers": [{"name": "kv", "size_bytes": size, "pool": "far"}],
                        "ops": [
                            {"name": "use", "engine": "hvx", "duration_us": 5},
                            {"name": "save", "engine": "dma", "duration_us": 3, "buffers": ["kv"]},
                        ],
                    }
                ],
            }
        )
        result = solve(work, MACHINE, seed=1)
        assert result.schedule is not None and check_schedule(result.schedule) == []
        assert result.makespan_us == makespan
