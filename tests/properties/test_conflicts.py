"""The smallest conflict of random problems without a schedule, against the oracle of events."""

from __future__ import annotations

import os
import time
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from oracle import OracleLimit, optimum
from strategies import problems

from hexloom import solve
from hexloom.formulations.problem import Scratchpad
from hexloom.optimizer.conflict import smallest_conflict
from hexloom.optimizer.decide import Decider
from hexloom.optimizer.groups import Group, groups_of, keeping

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from hexloom.formulations.problem import Problem

CONFLICTS = int(os.environ.get("HEXLOOM_CONFLICTS", "100"))
"""Problems of the slow test."""

LIMIT_S = 10.0
"""An explanation takes no longer, whatever the problem."""


@st.composite
def hard_problems(draw: DrawFn) -> Problem:
    """Small problems, half of them with deadlines so early that some must be missed, the others short of bytes."""
    problem = draw(problems(max_ops=4, max_buffers=3))
    if not draw(st.booleans()):
        room = Scratchpad(total_bytes=draw(st.integers(0, 6)))
        return problem.model_copy(update={"scratchpad": room})
    ops = []
    for op in problem.ops:
        least = problem.entry_ticks + min(mode.duration_ticks for mode in op.modes)
        late = draw(st.sampled_from((None, 0, 0, 1, 2)))
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


def check_members(problem: Problem, members: list[Group], needed: list[bool], picked: set[int]) -> None:
    """The members exclude each other; without any that is said to be needed, and in any part, they do not."""
    event(f"{len(members)} members, deadlines: {any(m.kind == 'deadline' for m in members)}")
    assert not feasible(keeping(problem, members))
    for dropped, was_needed in zip(members, needed, strict=True):
        if was_needed:
            assert feasible(keeping(problem, [m for m in members if m != dropped])), dropped
        else:
            event("a member was not decided")
    if all(needed):
        fewer = [member for k, member in enumerate(members) if k in picked][: len(members) - 1]
        assert feasible(keeping(problem, fewer))


@settings(max_examples=8)
@given(hard_problems(), st.sets(st.integers(0, 7)))
def test_an_explanation_holds(problem: Problem, picked: set[int]) -> None:
    started = time.monotonic()
    result = solve(problem, time_limit_s=10, contention="none", enough_gap=Fraction(1))
    assume(result.status == "INFEASIBLE")
    assert time.monotonic() - started < LIMIT_S
    why = result.infeasibility
    assert why is not None
    assert not feasible(problem)
    members = [Group(member.kind, member.names) for member in why.conflict]  # type: ignore[arg-type]
    check_members(problem, members, [member.without == "feasible" for member in why.conflict], picked)
    assert why.minimal == (why.conflict_proven and all(member.without == "feasible" for member in why.conflict))
    for lever in why.levers:
        if lever.outcome == "feasible" and lever.resource == "scratchpad":
            assert lever.need is not None and lever.have is not None
            assert feasible(with_bytes(problem, lever.need))
            assert not lever.least or lever.need - 1 == lever.have or not feasible(with_bytes(problem, lever.need - 1))


def with_bytes(problem: Problem, available: int) -> Problem:
    return problem.model_copy(update={"scratchpad": Scratchpad(total_bytes=available)})


@pytest.mark.slow
def test_many_conflicts() -> None:
    """Random problems of which the oracle says that nothing fits; a thousand take about three minutes."""
    with Decider() as decider:

        @settings(max_examples=CONFLICTS)
        @given(hard_problems(), st.sets(st.integers(0, 7)))
        def check(problem: Problem, picked: set[int]) -> None:
            assume(not feasible(problem))
            found = smallest_conflict(problem, "none", groups_of(problem), decider, 4.0)
            members = [group for group, _ in found.members]
            check_members(problem, members, [verdict == "feasible" for _, verdict in found.members], picked)

        check()


@settings(max_examples=12)
@given(hard_problems())
def test_all_groups_are_the_problem_and_none_is_no_constraint(problem: Problem) -> None:
    groups = groups_of(problem)
    assert feasible(keeping(problem, groups)) == feasible(problem)
    assert feasible(keeping(problem, ()))
