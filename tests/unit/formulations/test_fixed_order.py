"""Slack, tight relations and useless guards of a decision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from strategies import problems
from unit.small import ENGINES, buffer, held, move, on, problem, run

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.decision import Decision
from hexloom.formulations.events.search import SearchLimits, search_events
from hexloom.formulations.fixed_order import Tight, criticality, drop_useless_guards
from hexloom.formulations.problem import Engine
from hexloom.optimizer.evaluate import evaluate

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def decided(of: Problem, *actions: int, **keys: tuple) -> Decision:
    """Return a decision in the first modes, on unit 0."""
    n = len(of.ops)
    units = tuple(() if op.modes[0].dma else ((0,),) for op in of.ops)
    return Decision((0,) * n, keys.pop("units", units), actions, keys.pop("offsets", ()), keys.pop("guards", ()))


def test_slack_and_what_holds() -> None:
    of = problem(on("hmx", "a", 2), on("hmx", "b", 3), on("hvx", "c", 1), on("hvx", "d", 1), after="a>c b>d")
    decision = decided(of, 0, 2, 1, 3)
    found = criticality(of, decision, evaluate(of, decision))
    assert found.slack == (0, 0, 2, 0)
    assert found.tight == (Tight("unit", 0, 1), Tight("dependency", 0, 2), Tight("dependency", 1, 3))


def test_addresses_guards_and_pipes_hold() -> None:
    of = problem(
        on("hvx", "a", 2),
        on("hmx", "b", 2),
        move("s", 3),
        move("t", 3),
        buffers=(buffer("x", 1, "a"), buffer("y", 1, "b")),
        capacity=1,
    )
    decision = decided(of, 0, 1, 2, 3, ~2, ~3, offsets=(0, 0), guards=((1, 2),))
    found = criticality(of, decision, evaluate(of, decision))
    assert {(t.kind, t.before, t.op) for t in found.tight} >= {("address", 0, 1), ("guard", 1, 2), ("pipe", 2, 3)}
    assert found.slack == (0, 0, 0, 3)


def test_a_share_is_handed_on_when_an_end_is_known() -> None:
    of = problem(
        run("a", held("hmx", 2), held("bus", 2, 3), latency=3),
        run("b", held("hvx", 2), held("bus", 2, 3)),
        engines=(*ENGINES, Engine(name="bus", units=5, kind="share")),
    )
    decision = replace(decided(of, 0, 1, units=(((0,), ()), ((0,), ()))), flows=((0, 1),))
    found = criticality(of, decision, evaluate(of, decision))
    assert found.tight == (Tight("share", 0, 1),)
    kept, simulated = drop_useless_guards(of, replace(decision, guards=((0, 1),)), evaluate)
    assert (kept.guards, kept.flows, simulated.makespan) == ((), ((0, 1),), 5)


def test_a_deadline_takes_slack_away() -> None:
    of = problem(on("hmx", "a", 2), on("hvx", "b", 1, deadline_ticks=2))
    decision = decided(of, 0, 1)
    assert criticality(of, decision, evaluate(of, decision)).slack == (0, 1)


def test_only_guards_that_pay_stay() -> None:
    of = problem(
        on("hmx", "k", 1), move("need", 2, owner=1), move("long", 9, owner=0), on("hmx", "z", 9), after="k>need need>z"
    )
    decision = decided(of, 0, 1, 2, ~1, 3, ~2, guards=((0, 2), (0, 3)))
    kept, simulated = drop_useless_guards(of, decision, evaluate)
    assert kept.guards == ((0, 2),)
    assert simulated.makespan == 12
    bare, _ = drop_useless_guards(of, decided(of, 0, 1, 2, ~1, 3, ~2), evaluate)
    assert bare.guards == ()


@settings(max_examples=60)
@given(problems())
def test_the_times_of_fixed_orders_are_those_of_the_simulator(of: Problem) -> None:
    bounds = lower_bounds(of)
    best = search_events(of, bounds.heads_tails, evaluate, None, bounds.best.ticks, SearchLimits(3_000)).best
    if best is None:
        return
    found = criticality(of, *best)
    assert min(found.slack) >= 0
    if best[1].makespan > of.entry_ticks:
        last = [i for i, end in enumerate(best[1].ended) if end == best[1].makespan]
        assert any(found.slack[i] == 0 for i in range(len(of.ops)))
        assert last
