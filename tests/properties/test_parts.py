"""Ranges whose parts end one by one: all ways agree, and the checker sees what takes a part too soon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agreement import compare
from hypothesis import assume, event, given
from hypothesis import strategies as st
from plan_rules import faults, plan_faults
from strategies import draining

from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.serial_order import serial_order
from hexloom.optimizer.check import check_plan, check_times
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import op_rows
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.plan import Plan


@given(draining())
def test_all_ways_agree(problem: Problem) -> None:
    for way in compare(problem):
        event(way)


def planned(problem: Problem, data: DataObject) -> Plan:
    """Return the plan of a list schedule."""
    n = len(problem.ops)
    assume(first_shortfall(problem) is None)
    policy = Policy(
        tuple(float(data.draw(st.integers(0, 9))) for _ in range(n)), (0,) * n, careful=data.draw(st.booleans())
    )
    decision = list_schedule(problem, policy)
    assume(decision is not None)
    assert decision is not None
    return make_plan(problem, decision)


@given(draining(), st.data())
def test_list_schedules_use_what_has_drained(problem: Problem, data: DataObject) -> None:
    plan = planned(problem, data)
    times = simulate(problem, plan).times
    assert faults(problem, plan, times) == []
    assert check_plan(problem, plan) == []
    at = plan.addresses
    early = {
        b.part_of
        for b in problem.buffers
        for other in problem.buffers
        if b.part_of is not None and other.part_of != b.part_of and other.pool == b.pool and b.ops and other.ops
        if at[b.name] < at[other.name] + other.occupied_bytes and at[other.name] < at[b.name] + b.occupied_bytes
        for rest in problem.buffers
        if rest.part_of == b.part_of and rest.ops
        if min(times[op].start for op in other.ops) < max(times[op].observed for op in rest.ops)
        and max(times[op].observed for op in other.ops) > min(times[op].start for op in rest.ops)
    }
    event(f"{len(early)} ranges used again while they live")


@given(draining(), st.data())
def test_a_corrupted_plan_is_found_by_checker_and_oracle_alike(problem: Problem, data: DataObject) -> None:
    """Another address, a wait less, or readers that stay longer: both say no, or both say yes."""
    plan = planned(problem, data)
    what = data.draw(st.sampled_from(("address", "wait", "readers")))
    if what == "address":
        name = data.draw(st.sampled_from(sorted(plan.addresses)))
        plan = plan.model_copy(update={"addresses": {**plan.addresses, name: data.draw(st.integers(0, 8))}})
    elif what == "wait":
        assume(plan.waits)
        k = data.draw(st.integers(0, len(plan.waits) - 1))
        plan = plan.model_copy(update={"waits": (*plan.waits[:k], *plan.waits[k + 1 :])})
    else:
        users: dict[str | None, set[str]] = {}
        for b in problem.buffers:
            users.setdefault(b.part_of, set()).update(b.ops)
        problem = problem.changed(
            buffers=tuple(
                b if b.part_of is None else b.model_copy(update={"ops": tuple(sorted(users[b.part_of]))})
                for b in problem.buffers
            )
        )
    wrong = plan_faults(problem, plan)
    found = check_plan(problem, plan)
    event(f"{what}: {'refused' if wrong else 'accepted'}")
    assert bool(found) == bool(wrong), (found, wrong)
    if not wrong:
        timeline = simulate(problem, plan)
        assert check_times(problem, plan, op_rows(problem, timeline)) == []


@given(draining())
def test_a_problem_that_fits_has_a_serial_order(problem: Problem) -> None:
    """The proof that nothing fits counts the bytes of each part for as long as it lives."""
    if first_shortfall(problem) is None and serial_order(problem) is None:
        assert "none fits" in compare(problem)
