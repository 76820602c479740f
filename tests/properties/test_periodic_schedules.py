"""Loops of many iterations: what is left out takes what the repeats say, and what is written down breaks no rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hexloom import load_hw
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.lower import lower
from hexloom.optimizer.periodic.check import check_periodic_schedule
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.periodic.solve import begun, reduced_of, schedule_of
from hexloom.optimizer.periodic.trial import Source, run
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.formulations.problem import Rule

ENGINES = ("hmx", "hvx", "dma", "own")


@st.composite
def loop_tasks(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw a chain of stages, some of which wait for an earlier iteration, some with a buffer between them."""
    stages = draw(st.integers(1, 4))
    ops: list[dict[str, Any]] = []
    buffers = []
    for s in range(stages):
        engine = draw(st.sampled_from(ENGINES))
        op: dict[str, Any] = {"name": f"s{s}_{{i}}", "stage": f"s{s}", "engine": engine}
        op["duration_us"] = draw(st.integers(1, 9))
        if engine == "hvx":
            op["units"] = draw(st.sampled_from([1, 2, "all"]))
        if engine != "dma" and draw(st.booleans()):
            op["channels"] = {"ddr": f"{draw(st.integers(5, 45))}GB/s"}
        after = [f"s{s - 1}_{{i}}"] if s else []
        if draw(st.booleans()):
            after.append(f"s{draw(st.integers(s, stages - 1))}_{{i-{draw(st.integers(1, 3))}}}")
        op["after"] = after
        op["buffers"] = []
        ops.append(op)
    for s in range(stages - 1):
        if draw(st.booleans()):
            buffers.append({"name": f"b{s}_{{i}}", "size_bytes": draw(st.integers(1, 4)) * 2**19})
            ops[s]["buffers"].append(f"b{s}_{{i}}")
            ops[s + 1]["buffers"].append(f"b{s}_{{i}}")
    loop = {"for": "i", "count": draw(st.integers(20, 60)), "ops": ops, "buffers": buffers}
    once = [{"name": "before", "engine": "hvx", "duration_us": draw(st.integers(1, 9))}] if draw(st.booleans()) else []
    if once:
        ops[0]["after"] = [*ops[0]["after"], "before"]
    return {"name": name, "ops": [*once, loop]}


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw one or two loops on one machine."""
    tasks = [draw(loop_tasks(name)) for name in ("a", "b")[: draw(st.integers(1, 2))]]
    data = {
        "schema": "hexloom.workload/1",
        "name": "loops",
        "hw": "hexagon-v79",
        "engines": [{"name": "own", "units": 2, "kind": "resource"}],
        "tasks": tasks,
    }
    return Workload.from_data(data, "drawn")


def holds(workload: Workload, rule: Rule) -> None:
    """All iterations, one by one, take what the periodic schedule says; so do today's loops."""
    source = Source(workload, load_hw("hexagon-v79"), rule, FEW)
    try:
        reduced = reduced_of(source, 0.3, seed=1)
    except NotALoopError:
        assume(False)
        return
    schedule = schedule_of(source, reduced, seed=1)
    assert check_periodic_schedule(schedule) == []
    later = [
        replace(phase, later_parts=moved.later_parts)
        for phase, moved in zip(reduced.phases, reduced.ran.phases, strict=True)
    ]
    full = run(source.small(source.trips), later, moved=True)
    assert full is not None
    assert full.timeline.makespan == schedule.makespan
    assert schedule.lower_bound <= schedule.makespan
    whole = lower(source.cut(source.trips), source.machine, rule)
    again = baselines(whole.problem.under(rule), whole.loops, full.small.rule)
    assert schedule.baselines["serial"] == again.serial
    assert schedule.baselines["existing"] in (None, again.existing)


def is_no_longer_than_today(workload: Workload, rule: Rule) -> None:
    """A plan of loops takes no longer than what people run."""
    try:
        _, schedule = begun(Source(workload, load_hw("hexagon-v79"), rule, FEW), 0.3, seed=1)
    except NotALoopError:
        assume(False)
        return
    existing = schedule.baselines["existing"]
    assert existing is None or schedule.makespan <= existing
    assert check_periodic_schedule(schedule) == []


RULES = st.sampled_from(["none", "fluid", "rigid"])


@settings(max_examples=4)
@given(workloads(), RULES)
def test_what_is_left_out_takes_what_the_repeats_say(workload: Workload, rule: Rule) -> None:
    holds(workload, rule)


@pytest.mark.slow
@settings(max_examples=8)
@given(workloads(), RULES)
def test_what_is_left_out_takes_what_the_repeats_say_often(workload: Workload, rule: Rule) -> None:
    holds(workload, rule)


@settings(max_examples=2)
@given(workloads(), RULES)
def test_a_plan_of_loops_is_no_longer_than_todays(workload: Workload, rule: Rule) -> None:
    is_no_longer_than_today(workload, rule)


@pytest.mark.slow
@settings(max_examples=20)
@given(workloads(), RULES)
def test_a_plan_of_loops_is_no_longer_than_todays_often(workload: Workload, rule: Rule) -> None:
    is_no_longer_than_today(workload, rule)
