from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from unit.small import buffer, held, move, on, problem, run

from hexloom.formulations.decision import Decision
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.planner import address_orders, make_plan

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.plan import Plan


def decide(p: Problem, actions: str, offsets: tuple[int, ...] = (), guards: str = "", **units: Any) -> Decision:
    """Return a decision; ``actions`` such as ``load cook ~load``; ``units`` by op, else unit 0 of everything."""
    index = p.op_index
    chosen = []
    for op in p.ops:
        pipes = op.modes[0].dma is not None
        chosen.append(tuple(() if pipes else tuple(units.get(op.name, (0,))) for _ in op.modes[0].uses))
    pairs = [g.split(">") for g in guards.split()]
    return Decision(
        modes=(0,) * len(p.ops),
        units=tuple(chosen),
        actions=tuple(~index[a[1:]] if a[0] == "~" else index[a] for a in actions.split()),
        offsets=offsets,
        guards=tuple((index[a], index[b]) for a, b in pairs),
    )


def waits(found: Plan) -> set[str]:
    assert len({(w.before, w.after) for w in found.waits}) == len(found.waits)
    return {f"{w.before}>{w.after}" for w in found.waits}


def queues(found: Plan) -> dict[str, str]:
    short = {"run": "", "start": "+", "wait": "~"}
    return {f"{q.engine}{q.unit}": " ".join(short[e.action] + e.op for e in q.entries) for q in found.queues}


def test_what_a_queue_orders_needs_no_wait() -> None:
    p = problem(on("hvx", "a", 1), on("hvx", "b", 1), after="a>b")
    found = make_plan(p, decide(p, "a b"))
    assert waits(found) == set()
    assert queues(found) == {"hvx0": "a b"}
    assert waits(make_plan(p, decide(p, "a b", b=(1,)))) == {"a>b"}


def test_what_follows_from_other_waits_is_left_out() -> None:
    p = problem(on("hvx", "a", 1), on("hmx", "b", 1), on("hvx", "c", 1), after="a>b b>c a>c")
    assert waits(make_plan(p, decide(p, "a b c", c=(1,)))) == {"a>b", "b>c"}


def test_of_two_waits_for_one_queue_the_later_is_enough() -> None:
    p = problem(on("hvx", "a", 1), on("hvx", "b", 1), on("hmx", "c", 1), after="a>c b>c")
    assert waits(make_plan(p, decide(p, "a b c"))) == {"b>c"}
    assert waits(make_plan(p, decide(p, "a b c", b=(1,)))) == {"a>c", "b>c"}


def test_a_thread_that_is_free_early_orders_only_the_start() -> None:
    p = problem(run("a", held("hvx", 2), latency=5), on("hvx", "b", 1), after="a>b")
    assert waits(make_plan(p, decide(p, "a b"))) == {"a>b"}


def test_an_owner_that_looked_needs_no_wait_another_thread_does() -> None:
    p = problem(move("load", 3), on("hvx", "cook", 1), after="load>cook")
    found = make_plan(p, decide(p, "load ~load cook"))
    assert queues(found) == {"hvx0": "+load ~load cook"}
    assert waits(found) == set()
    assert waits(make_plan(p, decide(p, "load ~load cook", cook=(1,)))) == {"load>cook"}


def test_transfers_of_one_owner_are_not_ordered_by_their_issue() -> None:
    """Both are seen before c starts on the same thread; on another thread each needs a wait, unless seen in turn."""
    p = problem(move("a", 3), move("b", 3), on("hmx", "c", 1), after="a>c b>c")
    assert waits(make_plan(p, decide(p, "a b ~a ~b c"))) == {"b>c"}
    q = problem(move("a", 3), move("b", 3, owner=1), on("hmx", "c", 1), after="a>c b>c")
    assert waits(make_plan(q, decide(q, "a b ~a ~b c"))) == {"a>c", "b>c"}


def test_users_of_a_resource_follow_each_other() -> None:
    p = problem(
        run("a", held("hvx", 2), held("lut", 2)),
        run("b", held("hvx", 2), held("lut", 2)),
        run("c", held("hmx", 2), held("lut", 2)),
    )
    found = make_plan(p, decide(p, "a b c"))
    assert queues(found) == {"hvx0": "a b", "hmx0": "c"}
    assert waits(found) == {"b>c"}


def test_a_guard_is_a_wait() -> None:
    p = problem(on("hvx", "a", 1), on("hmx", "b", 1))
    assert waits(make_plan(p, decide(p, "a b"))) == set()
    assert waits(make_plan(p, decide(p, "a b", guards="a>b"))) == {"a>b"}


def test_units_and_addresses_are_handed_on() -> None:
    p = problem(run("g", held("hvx", 1, 2)), buffers=(buffer("x", 4, "g"),), capacity=8)
    found = make_plan(p, decide(p, "g", (4,), g=(0, 1)))
    assert found.addresses == {"x": 4}
    assert found.assignments[0].units["hvx"] == (0, 1)
    assert queues(found)["hvx1"] == "g"


# --- addresses ------------------------------------------------------------------------------------------


def three(*spans: tuple[int, int]) -> tuple[Problem, Decision]:
    """Return ops a, b, c on threads of their own, one after the other, each with a buffer [start, end)."""
    names = "abc"
    p = problem(
        on("hvx", "a", 1),
        on("hvx", "b", 1),
        on("hmx", "c", 1),
        buffers=tuple(buffer(f"x{n}", end - start, n) for n, (start, end) in zip(names, spans, strict=True)),
        capacity=100,
    )
    return p, decide(p, "a b c", tuple(s for s, _ in spans), b=(1,))


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        (((0, 8), (8, 16), (16, 24)), set()),
        (((0, 8), (0, 8), (16, 24)), {"a>b"}),
        (((0, 8), (0, 8), (0, 8)), {"a>b", "b>c"}),  # a>c follows
        (((0, 8), (0, 4), (4, 8)), {"a>b", "a>c"}),  # the rest of a's bytes is still a's
        (((0, 8), (2, 4), (0, 8)), {"a>b", "b>c"}),
        (((0, 4), (4, 8), (2, 6)), {"a>c", "b>c"}),
        (((0, 8), (0, 0), (0, 8)), {"a>c"}),  # an empty buffer takes nothing
    ],
)
def test_buffers_that_share_addresses_follow_each_other(spans: tuple[tuple[int, int], ...], expected: set[str]) -> None:
    p, decision = three(*spans)
    assert waits(make_plan(p, decision)) == expected


def test_the_size_is_rounded_to_the_granule_before_it_is_compared() -> None:
    p = problem(
        on("hvx", "a", 1),
        on("hmx", "b", 1),
        buffers=(buffer("x", 5, "a", granule_bytes=8), buffer("y", 4, "b")),
        capacity=16,
    )
    assert waits(make_plan(p, decide(p, "a b", (0, 6)))) == {"a>b"}
    assert waits(make_plan(p, decide(p, "a b", (0, 8)))) == set()


def test_last_users_hand_over_to_first_users() -> None:
    """x is used by a then b, y by c then d: only b > c is asked for."""
    p = problem(
        on("hvx", "a", 1),
        on("hvx", "b", 1),
        on("hmx", "c", 1),
        on("hmx", "d", 1),
        after="a>b c>d",
        buffers=(buffer("x", 8, "a", "b"), buffer("y", 8, "c", "d")),
        capacity=8,
    )
    decision = decide(p, "a b c d", (0, 0))
    assert address_orders(p, decision) == [(1, 2)]
    assert waits(make_plan(p, decision)) == {"b>c"}


def test_resident_buffers_hand_over_to_nobody() -> None:
    p = problem(
        on("hvx", "a", 1),
        on("hmx", "b", 1),
        buffers=(buffer("home", 8, "a", resident=True), buffer("y", 8, "b")),
        capacity=16,
    )
    assert address_orders(p, decide(p, "a b", (0, 8))) == []


def test_a_transfer_hands_its_buffer_over_when_it_is_seen() -> None:
    p = problem(
        move("load", 3),
        on("hmx", "b", 1),
        buffers=(buffer("x", 8, "load"), buffer("y", 8, "b")),
        capacity=8,
    )
    assert waits(make_plan(p, decide(p, "load ~load b", (0, 0)))) == {"load>b"}
    with pytest.raises(PlanError, match="b must follow load, but is decided to come first"):
        make_plan(p, decide(p, "load b ~load", (0, 0)))


@pytest.mark.parametrize("guards", ["", "b>a"])
def test_an_order_against_a_dependency_is_refused(guards: str) -> None:
    p = problem(on("hvx", "a", 1), on("hmx", "b", 1), after="" if guards else "b>a")
    with pytest.raises(PlanError, match="a must follow b, but is decided to come first"):
        make_plan(p, decide(p, "a b", guards=guards))
