"""Hints and extraction: an incumbent solves the model, a solution becomes a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from unit.formulations.flat_models import accepts, best_of, flat_model
from unit.small import ENGINES, buffer, held, move, on, problem, run

from hexloom.formulations.flat.extract import decision_of
from hexloom.formulations.flat.verify import broken_rule
from hexloom.formulations.greedy import ANY, Policy, list_schedule
from hexloom.formulations.problem import Dma, Engine, Mode, Op
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.evaluate import evaluate
from hexloom.optimizer.planner import make_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Problem


def everything() -> Problem:
    """Transfers, modes, fixed units, latency, overhead, shares, pins, residents: each variable of the model occurs."""
    dma = Dma(owner_engine="hvx", owner_unit=1, issue_ticks=1)
    shared = Mode(uses=(held("ddr", 2), held("bus", 2, 3)), latency_ticks=2, dma=dma)
    return problem(
        Op(name="s", modes=(shared,)),
        run("t", held("hmx", 1), held("bus", 1, 3)),
        move("d", 3, issue=1, poll=1),
        run("a", held("hvx", 2), overhead=1),
        run("b", held("hvx", 2, ids=(0,)), latency=4),
        on("hmx", "c", 3),
        on("lut", "e", 2),
        after="d>a a>c b>e",
        buffers=(
            buffer("x", 4, "d", "a", align_bytes=2),
            buffer("y", 4, "a", "c"),
            buffer("pin", 2, "b", address=4),
            buffer("home", 2, resident=True),
        ),
        capacity=12,
        engines=(*ENGINES, Engine(name="bus", units=5, kind="share")),
    )


@pytest.mark.parametrize("addresses", [False, True])
@pytest.mark.parametrize(
    "p",
    [
        # Seen in random tests: a mark at the very start of a transfer, or beside what is resident; two of its buffers.
        problem(
            move("t", 1),
            run("mark"),
            *(on("hmx", f"x{k}", 1) for k in range(3)),
            buffers=(buffer("a", 1, "t"), buffer("b", 1, "mark")),
            capacity=8,
        ),
        problem(
            run("mark"), on("hmx", "x", 1), buffers=(buffer("a", 1, resident=True), buffer("b", 1, "mark")), capacity=8
        ),
        problem(run("mark"), buffers=(buffer("a", 1, "mark"), buffer("b", 1, "mark")), capacity=8),
        # At the one instant where both marks fit, the second must go first: it frees the bytes of the first.
        problem(
            on("hmx", "x", 1),
            on("hmx", "y", 1),
            run("needs"),
            run("frees"),
            buffers=(buffer("a", 5, "x", "frees"), buffer("b", 4, "needs")),
            capacity=8,
        ),
    ],
)
def test_a_buffer_of_no_time_still_has_its_own_bytes(p: Problem, addresses: bool) -> None:
    _, solution = best_of(flat_model(p, addresses=addresses))
    assert solution is not None
    decision = decision_of(p, solution)
    assert decision is not None
    assert check_plan(p, make_plan(p, decision)) == []


@pytest.mark.parametrize("addresses", [False, True])
def test_the_incumbent_solves_the_model_as_it_stands(addresses: bool) -> None:
    p = everything()
    decision = list_schedule(p, Policy((0.0,) * 7, (ANY,) * 7))
    assert decision is not None
    assert accepts(p, decision, evaluate(p, decision), addresses=addresses)


@pytest.mark.parametrize("addresses", [False, True])
def test_a_solution_keeps_all_rules_and_becomes_a_plan(addresses: bool) -> None:
    p = everything()
    status, solution = best_of(flat_model(p, addresses=addresses))
    assert status == "OPTIMAL" and solution is not None
    assert broken_rule(p, solution) is None
    decision = decision_of(p, solution)
    assert decision is not None
    assert evaluate(p, decision).makespan <= solution.makespan


def test_lives_that_cannot_be_packed_are_no_decision() -> None:
    p = problem(
        on("hvx", "a", 3),
        on("hmx", "b", 3),
        buffers=(buffer("pin", 4, "a", address=4), buffer("x", 6, "b")),
        capacity=12,
    )
    _, solution = best_of(flat_model(p))
    assert solution is not None and solution.makespan == 3
    assert decision_of(p, solution) is None


def test_of_one_instant_what_takes_no_time_is_first() -> None:
    p = problem(run("mark"), on("hmx", "a", 2), move("d", 2, pipes={}), after="mark>a mark>d")
    _, solution = best_of(flat_model(p))
    assert solution is not None
    decision = decision_of(p, solution)
    assert decision is not None
    assert decision.actions.index(0) < decision.actions.index(1)
    assert decision.actions.index(2) < decision.actions.index(~2)
    assert evaluate(p, decision).makespan == 2


BREAKS: list[tuple[str, Callable[[FlatSolution], FlatSolution]]] = [
    ("does not give every op", lambda s: replace(s, start=s.start[1:])),
    ("has no mode 7", lambda s: replace(s, mode=(7, *s.mode[1:]))),
    ("does not take its duration", lambda s: replace(s, known=(s.start[0], *s.known[1:]))),
    ("before the entry", lambda s: _shifted(s, -1)),
    ("after the makespan", lambda s: replace(s, makespan=1)),
    ("is known", lambda s: _moved(s, 3, 0)),
    ("may not lie at 1", lambda s: replace(s, offsets={**(s.offsets or {}), 0: 1})),
    ("may not lie at 11", lambda s: replace(s, offsets={**(s.offsets or {}), 1: 11})),
    ("may not lie at 0", lambda s: replace(s, offsets={**(s.offsets or {}), 2: 0})),
    ("has no address", lambda s: replace(s, offsets={})),
    ("share bytes", lambda s: replace(s, offsets={**(s.offsets or {}), 0: 0, 3: 0})),
]


def _shifted(s: FlatSolution, by: int) -> FlatSolution:
    return replace(
        s,
        start=tuple(t + by for t in s.start),
        moved=tuple(t + by for t in s.moved),
        known=tuple(t + by for t in s.known),
    )


def _moved(s: FlatSolution, op: int, to: int) -> FlatSolution:
    by = to - s.start[op]
    at = [list(column) for column in (s.start, s.moved, s.known)]
    for column in at:
        column[op] += by
    return replace(s, start=tuple(at[0]), moved=tuple(at[1]), known=tuple(at[2]))


@pytest.mark.parametrize(("says", "change"), BREAKS)
def test_a_broken_solution_is_told(says: str, change: Callable[[FlatSolution], FlatSolution]) -> None:
    p = everything()
    _, solution = best_of(flat_model(p, addresses=True))
    assert solution is not None
    assert says in (broken_rule(p, change(solution)) or "")


def test_engines_given_twice_are_told() -> None:
    p = problem(on("hmx", "a", 2), on("hmx", "b", 2), run("c", held("hvx", 2, ids=(0,))), move("d", 2, pipes={}))
    _, solution = best_of(flat_model(p))
    assert solution is not None
    assert "'hmx' gives more than its 1 units" in (broken_rule(p, _moved(solution, 0, solution.start[1])) or "")
    both = _moved(_moved(solution, 3, 0), 2, 1)
    assert "hvx[0] does two things at once" in (broken_rule(p, both) or "")
    bytes_too = p.model_copy(update={"buffers": (buffer("x", 3, "a", "b"),)})
    assert "more than 0 B are alive" in (broken_rule(bytes_too, solution) or "")
