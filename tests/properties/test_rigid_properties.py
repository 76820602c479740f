"""Rigid channels on random small problems: all ways of solving agree, and no timing of a plan breaks a capacity."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from agreement import compare
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from plan_rules import plan_faults, share_faults
from strategies import with_channels

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.feasibility import channel_shortfall, first_shortfall
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.optimizer.baselines import back_to_back, baselines
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.lower import TaskLoop
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.restrict import restrict
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from hexloom.formulations.decision import Decision
    from hexloom.formulations.problem import Mode, Problem

MANY = int(os.environ.get("HEXLOOM_AGREEMENT", "100"))
"""Problems of the long comparison; 2,000 take four minutes on a core of their own."""

LENGTHS = (0, 1, 4)
"""Ticks tried for every op where all timings are tried."""


@given(with_channels())
def test_all_ways_agree(problem: Problem) -> None:
    for said in compare(problem):
        event(said)


@pytest.mark.slow
def test_all_ways_agree_on_many() -> None:
    said: Counter[str] = Counter()

    @settings(max_examples=MANY, derandomize=False)
    @given(with_channels(max_buffers=5))
    def run(problem: Problem) -> None:
        said.update(["problems", *compare(problem)])

    run()
    print(dict(sorted(said.items())))
    assert said["problems"] >= MANY


@st.composite
def planned(draw: DrawFn, max_ops: int = 6) -> tuple[Problem, Problem, Decision]:
    """A problem with channels, its view, and a decision of the list scheduler or of the search over events."""
    problem = draw(with_channels(max_ops=max_ops))
    view = problem.under("rigid")
    assume(view.shares)
    bounds = lower_bounds(view)
    assume(first_shortfall(view, bounds.heads_tails) is None)
    if draw(st.booleans()):
        n = len(view.ops)
        priority = tuple(float(draw(st.integers(0, 9))) for _ in range(n))
        modes = tuple(draw(st.integers(0, len(op.modes) - 1)) for op in view.ops)
        decision = list_schedule(view, Policy(priority, modes))
    else:
        found = search_events(view, bounds.heads_tails, evaluate, None, bounds.best.ticks, SearchLimits(2_000))
        decision = None if found.best is None else found.best[0]
    assume(decision is not None)
    assert decision is not None
    return problem, view, decision


def _retimed(problem: Problem, modes: tuple[int, ...], lengths: tuple[int, ...], around: int) -> Problem:
    """Return the problem in which the chosen mode of op i takes ``lengths[i]``, and overheads take ``around``."""
    ops = []
    for op, m, ticks in zip(problem.ops, modes, lengths, strict=True):
        changed = list(op.modes)
        changed[m] = _with_length(op.modes[m], ticks, around)
        ops.append(op.model_copy(update={"modes": tuple(changed)}))
    return problem.changed(ops=tuple(ops))


def _with_length(mode: Mode, ticks: int, around: int) -> Mode:
    """Threads that are held to the result stay so: a plan may rely on it."""
    uses = tuple(
        use.model_copy(update={"ticks": ticks if use.ticks == mode.latency_ticks else min(use.ticks, ticks)})
        for use in mode.uses
    )
    dma = mode.dma
    if dma is not None:
        dma = dma.model_copy(update={"issue_ticks": around, "poll_ticks": around})
    overhead = around if dma is None else 0
    return mode.model_copy(update={"uses": uses, "latency_ticks": ticks, "overhead_ticks": overhead, "dma": dma})


@given(planned(max_ops=4))
def test_no_timing_of_a_small_plan_breaks_a_capacity(case: tuple[Problem, Problem, Decision]) -> None:
    problem, view, decision = case
    plan = make_plan(view, decision)
    for lengths in product(LENGTHS, repeat=len(problem.ops)):
        for around in (0, 1):
            times = simulate(_retimed(problem, decision.modes, lengths, around), plan).times
            assert share_faults(problem, plan, times, rigid=True) == []


@given(st.data(), planned())
def test_no_drawn_timing_of_a_plan_breaks_a_capacity(
    data: st.DataObject, case: tuple[Problem, Problem, Decision]
) -> None:
    problem, view, decision = case
    plan = make_plan(view, decision)
    n = len(problem.ops)
    for _ in range(20):
        lengths = tuple(data.draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)))
        times = simulate(_retimed(problem, decision.modes, lengths, data.draw(st.integers(0, 2))), plan).times
        assert share_faults(problem, plan, times, rigid=True) == []


@pytest.mark.slow
@given(st.data(), planned())
def test_a_plan_without_a_flow_is_refused_exactly_if_it_needs_it(
    data: st.DataObject, case: tuple[Problem, Problem, Decision]
) -> None:
    problem, view, decision = case
    assume(decision.flows)
    lost = data.draw(st.sampled_from(decision.flows))
    kept = data.draw(st.sampled_from(((), tuple(flow for flow in decision.flows if flow != lost))))
    plan = make_plan(view, replace(decision, flows=kept))
    expected = plan_faults(problem, plan, rigid=True)
    event("breaks a capacity" if expected else "ordered anyway")
    assert bool(check_plan(view, plan)) == bool(expected), expected


@given(st.data(), planned())
def test_some_ops_of_a_plan_alone_keep_the_capacity(
    data: st.DataObject, case: tuple[Problem, Problem, Decision]
) -> None:
    _, view, decision = case
    names = [op.name for op in view.ops]
    keep = frozenset(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
    part, partial = restrict(view, decision, keep, "part")
    assert [v for v in check_plan(part, make_plan(part, partial)) if v.kind == "share_unordered"] == []


@given(with_channels())
def test_today_s_loops_keep_the_capacity(problem: Problem) -> None:
    view = problem.under("rigid")
    assume(first_shortfall(view) is None)
    order = [view.ops[i].name for i in view.topological_order]
    half = len(order) // 2
    loops = tuple(
        TaskLoop(f"t{k}", tuple(names), False, 0) for k, names in enumerate((order[:half], order[half:])) if names
    )
    decision = back_to_back(view, baselines(view, loops))
    assume(decision is not None)
    assert decision is not None
    plan = make_plan(view, decision)
    assert [v for v in check_plan(view, plan) if v.kind == "share_unordered"] == []


@given(with_channels())
def test_a_demand_that_no_mode_can_meet_is_found_on_both_sides(problem: Problem) -> None:
    over = channel_shortfall(problem)
    found = first_shortfall(problem.under("rigid"))
    if over is not None:
        assert found is not None
        assert (found.kind, found.op) == ("units", over.op)
        assert found.resource.startswith(over.resource)
