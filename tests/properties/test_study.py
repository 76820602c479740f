"""Properties of studies: parts add up, groups keep to what they are, on random small problems."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from strategies import with_channels

from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.evaluate import is_valid
from hexloom.optimizer.lower import loops_of
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.sharing import acting_rule
from hexloom.optimizer.simulate import simulate
from hexloom.optimizer.solve import solve
from hexloom.optimizer.study.concurrent import concurrent
from hexloom.optimizer.study.groups import study_of
from hexloom.optimizer.study.scaled import with_jitter
from hexloom.optimizer.study.steps import steps_of, with_barriers

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.solve import Result

RULES = st.sampled_from(("fluid", "none", "rigid"))


def planned(problem: Problem, rule: str) -> Result:
    result = solve(problem, time_limit_s=0, seed=1, contention=rule, explained=False)
    assume(result.schedule is not None)
    return result


@settings(max_examples=15)
@given(with_channels(max_ops=5), RULES)
def test_the_five_parts_add_up_for_every_group(problem: Problem, rule: str) -> None:
    result = planned(problem, rule)
    found = study_of(result, "any")
    existing = found.makespan("existing")
    for group in found.groups[2:]:
        if group.gain is None:
            assert existing is None or group.makespan is None
            continue
        assert group.makespan is not None and existing is not None
        assert group.gain.total == existing - group.makespan
    assert result.schedule is not None
    plan = found.makespan("plan")
    assert plan == result.schedule.us(result.schedule.makespan)
    assert found.lower_bound <= plan


@settings(max_examples=15)
@given(with_channels(max_ops=5), RULES)
def test_barriers_leave_a_valid_plan_that_overlaps_no_two_steps(problem: Problem, rule: str) -> None:
    result = planned(problem, rule)
    assert result.schedule is not None and result.decision is not None
    under = result.schedule.problem.under(result.schedule.contention)
    apart = with_barriers(under, result.decision)
    assert is_valid(under, apart)
    acting = acting_rule(under, result.schedule.contention)
    plan = make_plan(under, apart)
    assert not check_plan(under, plan)
    times = simulate(under, plan, acting).times
    steps = steps_of(under, result.decision)
    assert sorted(i for step in steps for i in step) == list(range(len(under.ops)))
    last = Fraction(0)
    for step in steps:
        names = [under.ops[i].name for i in step]
        assert all(times[name].start >= last for name in names)
        last = max(Fraction(times[name].observed) for name in names)


@settings(max_examples=15)
@given(with_channels(max_ops=5), RULES)
def test_one_task_beside_nobody_takes_what_its_loop_takes(problem: Problem, rule: str) -> None:
    """Queues of its own and engines first come, first served change nothing where nobody else comes."""
    alone = problem.changed(ops=tuple(op.model_copy(update={"task": "a"}) for op in problem.ops))
    under = alone.under("none" if rule == "rigid" else rule)  # type: ignore[arg-type]
    acting = acting_rule(under, "none" if rule == "rigid" else rule)  # type: ignore[arg-type]
    assume(all(under.fitting_modes))
    loops = loops_of(under)
    side = concurrent(under, loops, acting)
    if side.timeline is None:
        event(side.why.split(" ", 1)[0])
        return
    if not any(b.occupied_bytes for b in under.buffers):
        assert side.timeline.makespan == baselines(under, loops, acting, serial=False).existing


@settings(max_examples=15)
@given(with_channels(max_ops=5), st.integers(0, 9))
def test_jitter_keeps_ops_and_moves_their_work_within_its_part(problem: Problem, tenths: int) -> None:
    part = Fraction(tenths, 10)
    moved = with_jitter(problem, part, seed=3)
    assert [op.name for op in moved.ops] == [op.name for op in problem.ops]
    scale = (problem.tick or 1) / (moved.tick or 1)
    for old, new in zip(problem.ops, moved.ops, strict=True):
        for a, b in zip(old.modes, new.modes, strict=True):
            exact = a.latency_ticks * scale
            assert exact * (1 - part) <= b.latency_ticks <= exact * (1 + part) + 1
            assert a.overhead_ticks * scale == b.overhead_ticks
    assert with_jitter(problem, part, seed=3) == moved
