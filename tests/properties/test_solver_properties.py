"""Properties of bounds, list scheduling, local search, planner and simulator on random small problems."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from oracle import OracleLimit, Witness, optimum
from plan_rules import chosen_modes, faults, order_graph, shared_bytes
from strategies import held_through, problems

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.gates import Gates
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.local_search import Found, Limit, LocalSearch
from hexloom.formulations.problem import Buffer, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.formulations.rings import kinds_of, ring_sizes
from hexloom.formulations.urgency import turn_orders
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import Timeline, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn

    from hexloom.formulations.decision import Decision
    from hexloom.optimizer.plan import Plan

SEARCH_SECONDS = 0.02
"""Counted work of a local search: 300 ops dispatched, 50 decisions of six ops."""


def best(problem: Problem) -> Witness | None:
    """Ask the oracle; drop the example where it gives up."""
    try:
        return optimum(problem)
    except OracleLimit:
        event("oracle gave up")
        assume(False)
        raise


def searched(problem: Problem, seed: int = 0) -> Found:
    """Arithmetic first, then the search."""
    if first_shortfall(problem) is not None:
        return Found(None, 0, proven_infeasible=True)
    limit = Limit(SEARCH_SECONDS, deterministic=True)
    return LocalSearch(problem, lower_bounds(problem), evaluate, limit, seed).run()


@st.composite
def policies(draw: DrawFn, problem: Problem) -> Policy:
    """Random priorities and modes, and guards along one hidden order that respects the precedences."""
    n = len(problem.ops)
    priority = tuple(float(draw(st.integers(0, 9))) for _ in range(n))
    modes = tuple(draw(st.integers(0, len(op.modes) - 1)) for op in problem.ops)
    guards: tuple[tuple[int, int], ...] = ()
    if n > 1:
        places = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
        order = problem.topological_order
        guards = tuple((order[a], order[b]) for a, b in draw(st.lists(places, max_size=2, unique=True)))
    turns = draw(st.sampled_from(((), (), *turn_orders(problem))))
    rings: tuple[tuple[int, ...], ...] = ()
    if turns and draw(st.booleans()):
        kinds = kinds_of(problem, turns)
        sizes = [ring_sizes(problem, kinds, turns, k) for k in range(len(turns))]
        rings = tuple(draw(st.sampled_from(of)) for of in sizes) if all(sizes) else ()
    return Policy(
        priority,
        modes,
        guards,
        careful=draw(st.booleans()),
        depth=draw(st.sampled_from((None, None, 1, 2))),
        turns=turns,
        foresight=draw(st.booleans()),
        rings=rings,
        reserve=draw(st.booleans()),
    )


@st.composite
def decided(draw: DrawFn, **kwargs: Any) -> tuple[Problem, Decision]:
    """A problem and a decision of the list scheduler for it."""
    problem = draw(problems(**kwargs) | held_through() if not kwargs else problems(**kwargs))
    assume(first_shortfall(problem) is None)
    decision = list_schedule(problem, draw(policies(problem)))
    assume(decision is not None)
    assert decision is not None
    return problem, decision


# List scheduling, planner, simulator


@given(decided())
def test_every_list_schedule_runs_and_breaks_no_rule(case: tuple[Problem, Decision]) -> None:
    problem, decision = case
    plan = make_plan(problem, decision)
    timeline = simulate(problem, plan)
    assert faults(problem, plan, timeline.times) == []


@given(st.data(), problems(max_ops=10))
def test_whoever_is_not_asked_would_have_been_refused(data: st.DataObject, problem: Problem) -> None:
    policy = data.draw(policies(problem))
    decision = list_schedule(problem, policy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gates, "shut", lambda *_: False)
        assert list_schedule(problem, policy) == decision


@given(decided())
def test_guards_are_kept(case: tuple[Problem, Decision]) -> None:
    problem, decision = case
    times = simulate(problem, make_plan(problem, decision)).times
    for before, after in decision.guards:
        assert times[problem.ops[before].name].observed <= times[problem.ops[after].name].start


@given(decided())
def test_the_makespan_is_the_last_end_and_no_less_than_the_optimum(case: tuple[Problem, Decision]) -> None:
    problem, decision = case
    timeline = simulate(problem, make_plan(problem, decision))
    assert timeline.makespan == max(max(row.end, row.observed) for row in timeline.times.values())
    found = best(problem)
    assert found is not None
    assert found.ticks <= timeline.makespan


@given(decided())
def test_waits_are_all_that_is_needed_and_no_more(case: tuple[Problem, Decision]) -> None:
    problem, decision = case
    plan = make_plan(problem, decision)
    graph = order_graph(problem, plan)
    assert nx.is_directed_acyclic_graph(graph)
    required = set(_required(problem, plan, decision, graph))
    lost = {pair for pair in required if not nx.has_path(graph, ("known", pair[0]), ("start", pair[1]))}
    assert not lost
    for wait in plan.waits:
        graph.remove_edge(("known", wait.before), ("start", wait.after))
        assert not all(nx.has_path(graph, ("known", a), ("start", b)) for a, b in required), f"{wait} is not needed"
        graph.add_edge(("known", wait.before), ("start", wait.after))


def _required(problem: Problem, plan: Plan, decision: Decision, graph: nx.DiGraph) -> Iterator[tuple[str, str]]:
    """All pairs (a, b) such that b may start only when the end of a is known."""
    for edge in problem.precedences:
        yield edge.before, edge.after
    for before, after in (*decision.guards, *decision.flows):
        yield problem.ops[before].name, problem.ops[after].name
    started = {problem.ops[action].name: k for k, action in enumerate(decision.actions) if action >= 0}
    counted = {e.name for e in problem.engines if e.kind == "resource"}
    users: dict[tuple[str, int], list[str]] = {}
    for assignment in plan.assignments:
        for engine, ids in assignment.units.items():
            for unit in ids if engine in counted else ():
                users.setdefault((engine, unit), []).append(assignment.op)
    for names in users.values():
        yield from pairwise(sorted(names, key=lambda name: started[name]))
    for pair in shared_bytes(problem, plan):
        first, second = sorted(pair, key=lambda buffer: min(started[name] for name in buffer.ops))
        for a in first.ops:
            yield from ((a, b) for b in second.ops if a != b)


@given(st.data(), decided(pipes=False))
def test_a_longer_op_never_ends_a_plan_without_pipes_earlier(
    data: st.DataObject, case: tuple[Problem, Decision]
) -> None:
    problem, decision = case
    plan = make_plan(problem, decision)
    shorter = simulate(problem, plan)
    index = data.draw(st.integers(0, len(problem.ops) - 1))
    longer = simulate(_lengthened(problem, decision, index, data.draw(st.integers(1, 3))), plan)
    assert longer.makespan >= shorter.makespan
    for name, row in shorter.times.items():
        assert longer.times[name].start >= row.start
        assert longer.times[name].observed >= row.observed


def _lengthened(problem: Problem, decision: Decision, index: int, more: int) -> Problem:
    op = problem.ops[index]
    modes = list(op.modes)
    mode: Mode = modes[decision.modes[index]]
    uses = tuple(use.model_copy(update={"ticks": use.ticks + more if use.ticks else 0}) for use in mode.uses)
    changed: dict[str, Any] = {"uses": uses, "latency_ticks": mode.latency_ticks + more}
    if mode.dma is not None:
        changed["dma"] = mode.dma.model_copy(update={"poll_ticks": mode.dma.poll_ticks + more})
    modes[decision.modes[index]] = mode.model_copy(update=changed)
    ops = list(problem.ops)
    ops[index] = op.model_copy(update={"modes": tuple(modes)})
    return problem.model_copy(update={"ops": tuple(ops)})


@given(decided())
def test_queues_hold_what_was_assigned(case: tuple[Problem, Decision]) -> None:
    problem, decision = case
    plan = make_plan(problem, decision)
    modes = chosen_modes(problem, plan)
    assert {name: modes[name] for name in modes} == {
        op.name: op.modes[m] for op, m in zip(problem.ops, decision.modes, strict=True)
    }
    entries = [(e.op, e.action) for queue in plan.queues for e in queue.entries]
    for name, mode in modes.items():
        if mode.dma is not None:
            assert sorted(action for op, action in entries if op == name) == ["start", "wait"]


# Bounds and search against the oracle


@given(problems() | held_through())
def test_every_bound_is_below_the_optimum(problem: Problem) -> None:
    found = best(problem)
    assume(found is not None)
    assert found is not None
    for bound in lower_bounds(problem).found:
        assert bound.ticks <= found.ticks, bound


@given(problems())
def test_heads_and_tails_are_below_those_of_a_best_plan(problem: Problem) -> None:
    found = best(problem)
    assume(found is not None)
    assert found is not None
    ht = lower_bounds(problem).heads_tails
    started = {a: t for a, t in zip(found.actions, found.times, strict=True) if a >= 0}
    for i in range(len(problem.ops)):
        assert ht.head[i] <= started[i]
        assert started[i] + ht.duration[i] + ht.tail[i] <= found.ticks


@given(problems())
def test_local_search_lies_between_the_optimum_and_nothing(problem: Problem) -> None:
    found = best(problem)
    result = searched(problem)
    if found is None:
        assert result.decision is None
        return
    assert not result.proven_infeasible
    assume(result.decision is not None)
    assert result.decision is not None
    assert result.ticks >= found.ticks
    timeline: Timeline = simulate(problem, make_plan(problem, result.decision))
    assert timeline.makespan == result.ticks
    event("optimal" if result.ticks == found.ticks else "not optimal")


@given(problems())
def test_local_search_finds_a_decision_whenever_there_is_one(problem: Problem) -> None:
    found = best(problem)
    result = searched(problem)
    assert (result.decision is None) == (found is None)


@given(problems())
def test_what_arithmetic_refuses_has_no_plan(problem: Problem) -> None:
    if first_shortfall(problem, lower_bounds(problem).heads_tails) is not None:
        assert best(problem) is None


@given(problems(), st.integers(0, 3))
def test_one_seed_gives_one_decision(problem: Problem, seed: int) -> None:
    assert searched(problem, seed) == searched(problem, seed)


@given(st.data(), problems(max_ops=5))
def test_more_room_never_hurts(data: st.DataObject, problem: Problem) -> None:
    """More units of an engine with threads or without, and more bytes; more pipe units may hurt (Graham)."""
    found = best(problem)
    counted = [k for k, engine in enumerate(problem.engines) if engine.kind != "pipe"]
    k = data.draw(st.sampled_from([*counted, None]))
    if k is None:
        pad = problem.scratchpad
        more = pad.model_copy(update={"total_bytes": pad.total_bytes + data.draw(st.integers(1, 4))})
        richer = problem.model_copy(update={"scratchpad": more})
    else:
        engines = list(problem.engines)
        engines[k] = engines[k].model_copy(update={"units": engines[k].units + 1})
        richer = problem.model_copy(update={"engines": tuple(engines)})
    better = best(richer)
    if found is not None:
        assert better is not None
        assert better.ticks <= found.ticks


# Small problems that random search found hard


def op(name: str, ticks: int = 1) -> Op:
    return Op(name=name, modes=(Mode(uses=(Use(engine="w", ticks=ticks),), latency_ticks=ticks),))


def problem(room: int, ops: tuple[Op, ...], buffers: tuple[Buffer, ...], edges: tuple[str, ...] = ()) -> Problem:
    return Problem(
        engines=(Engine(name="w"),),
        ops=ops,
        precedences=tuple(Precedence(before=edge[0], after=edge[1]) for edge in edges),
        buffers=buffers,
        scratchpad=Scratchpad(total_bytes=room),
    )


CORNERS = {
    "a resident leaves the aligned address to another": problem(
        4,
        (op("x"),),
        (Buffer(name="r", size_bytes=2, resident=True), Buffer(name="b", size_bytes=2, ops=("x",), align_bytes=4)),
    ),
    "of equal buffers the aligned one is placed first": problem(
        4,
        (op("x"),),
        (Buffer(name="a", size_bytes=2, ops=("x",)), Buffer(name="b", size_bytes=2, ops=("x",), align_bytes=4)),
    ),
    "the large buffer goes before the pin comes": problem(
        6,
        (op("y", 3), op("x"), op("z")),
        (Buffer(name="big", size_bytes=5, ops=("x",)), Buffer(name="pin", size_bytes=1, ops=("y", "z"), address=2)),
        ("xz", "yz"),
    ),
    "a pin of no bytes touches nothing": problem(
        5,
        (op("x"), op("y")),
        (Buffer(name="all", size_bytes=5, ops=("x", "y")), Buffer(name="none", size_bytes=0, ops=("x",), address=2)),
    ),
    "what nobody uses must fit too": problem(4, (op("x"),), (Buffer(name="b", size_bytes=5),)),
}


@pytest.mark.parametrize("name", CORNERS)
def test_a_corner_is_solved_or_refused(name: str) -> None:
    corner = CORNERS[name]
    found = optimum(corner)
    result = searched(corner)
    assert (result.decision is None) == (found is None)
    if result.decision is not None:
        assert found is not None
        plan = make_plan(corner, result.decision)
        timeline = simulate(corner, plan)
        assert faults(corner, plan, timeline.times) == []
        assert timeline.makespan == result.ticks == found.ticks
