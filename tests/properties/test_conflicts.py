"""The smallest conflict of random problems without a schedule, against the oracle of events."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from oracle import OracleLimit, optimum
from strategies import problems

from hexloom import solve
from hexloom.optimizer.groups import Group, groups_of, keeping

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.infeasibility import Infeasibility

LIMIT_S = 10.0
"""An explanation takes no longer, whatever the problem."""


@st.composite
def hard_problems(draw: DrawFn) -> Problem:
    """Small problems, half of them with deadlines so early that some must be missed."""
    problem = draw(problems(max_ops=4, max_buffers=3))
    if not draw(st.booleans()):
        return problem
    ops = []
    for op in problem.ops:
        least = problem.entry_ticks + min(mode.duration_ticks for mode in op.modes)
        late = draw(st.sampled_from((None, 0, 1, 2, 4)))
        ops.append(op.model_copy(update={"deadline_ticks": None if late is None else least + late}))
    return problem.model_copy(update={"ops": tuple(ops)})


def feasible(problem: Problem) -> bool:
    """Ask the oracle; drop the example where it gives up."""
    try:
        return optimum(problem, 4_000) is not None
    except OracleLimit:
        event("oracle gave up")
        assume(False)
        raise


def members_of(why: Infeasibility) -> list[Group]:
    return [Group(member.kind, member.names) for member in why.conflict]  # type: ignore[arg-type]


def check_conflict(problem: Problem, picked: set[int]) -> None:
    started = time.monotonic()
    result = solve(problem, time_limit_s=10, contention="none", enough_gap=Fraction(1))
    assert time.monotonic() - started < LIMIT_S
    assume(result.status == "INFEASIBLE")
    why = result.infeasibility
    assert why is not None
    members = members_of(why)
    event(f"{len(members)} members, deadlines: {any(m.kind == 'deadline' for m in members)}")
    if not why.conflict_proven:
        event("the set alone was not decided")
    assert not feasible(problem)
    assert not feasible(keeping(problem, members))
    for dropped, member in zip(members, why.conflict, strict=True):
        if member.without == "feasible":
            assert feasible(keeping(problem, [m for m in members if m != dropped])), dropped
        else:
            event("a member was not decided")
    assert why.minimal == all(member.without == "feasible" for member in why.conflict)
    if why.minimal:
        fewer = [member for k, member in enumerate(members) if k in picked][: len(members) - 1]
        assert feasible(keeping(problem, fewer))
    for lever in why.levers:
        if lever.outcome == "feasible" and lever.resource == "scratchpad":
            assert lever.need is not None and lever.have is not None
            pad = problem.scratchpad.model_copy(update={"total_bytes": lever.need + problem.scratchpad.reserved_bytes})
            assert feasible(problem.model_copy(update={"scratchpad": pad}))
            if lever.least and lever.need - 1 > lever.have:
                pad = pad.model_copy(update={"total_bytes": pad.total_bytes - 1})
                assert not feasible(problem.model_copy(update={"scratchpad": pad}))


@settings(max_examples=15)
@given(hard_problems(), st.sets(st.integers(0, 7)))
def test_a_conflict_is_one_and_has_no_part_that_is(problem: Problem, picked: set[int]) -> None:
    check_conflict(problem, picked)


@pytest.mark.slow
@settings(max_examples=1_000)
@given(hard_problems(), st.sets(st.integers(0, 7)))
def test_a_thousand_conflicts(problem: Problem, picked: set[int]) -> None:
    check_conflict(problem, picked)


@settings(max_examples=25)
@given(hard_problems())
def test_all_groups_are_the_problem_and_none_is_no_constraint(problem: Problem) -> None:
    groups = groups_of(problem)
    assert feasible(keeping(problem, groups)) == feasible(problem)
    assert feasible(keeping(problem, ()))
