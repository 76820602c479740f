"""Ops that exclude each other: who does, the bound that follows, and that no optimum is cut off."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.formulations.flat_models import flat_model

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.configuration.sequences import sequence_bound
from hexloom.formulations.exclusive import MOST_OPS, exclusive_sets, longest_sets
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use
from hexloom.optimizer.certificate import check_certificate

if TYPE_CHECKING:
    from hexloom.formulations.exclusive import Exclusive

Task = tuple[int, int, int]
"""Ticks, and amounts of the shares a and b."""


def project(tasks: list[Task], edges: tuple[tuple[int, int], ...] = (), have: int = 6) -> Problem:
    """Return tasks that hold amounts of two shares."""
    engines = tuple(Engine(name=name, units=have, kind="share") for name in "ab")
    ops = []
    for i, (ticks, *amounts) in enumerate(tasks):
        uses = tuple(Use(engine=n, ticks=ticks, units=u) for n, u in zip("ab", amounts, strict=True) if u)
        ops.append(Op(name=f"t{i}", modes=(Mode(uses=uses, latency_ticks=ticks),)))
    precedences = tuple(Precedence(before=f"t{a}", after=f"t{b}") for a, b in edges)
    return Problem(engines=engines, ops=tuple(ops), precedences=precedences)


def pairs(sets: list[Exclusive]) -> set[tuple[int, int]]:
    return {pair for one in sets for pair in combinations(one.ops, 2)}


def test_who_needs_more_than_there_is_excludes_whoever_of_several_engines_it_is() -> None:
    p = project([(2, 4, 0), (3, 3, 4), (4, 0, 3), (5, 1, 1)], ((0, 2),))
    (one,) = exclusive_sets(p)
    assert (one.ops, one.ticks) == ((0, 1, 2), (2, 3, 4)), "a: 4 + 3, b: 4 + 3, and in order"


def test_what_a_single_unit_says_already_is_not_said_again() -> None:
    assert exclusive_sets(project([(2, 1, 0)] * 4, have=1)) == []
    assert [one.ops for one in longest_sets(project([(2, 1, 0)] * 4, have=1))] == [(0, 1, 2, 3)]


def test_of_many_ops_no_sets_are_looked_for() -> None:
    p = project([(1, 4, 0)] * (MOST_OPS + 1))
    assert (exclusive_sets(p), longest_sets(p)) == ([], [])


def test_a_thread_that_is_released_early_excludes_only_until_then() -> None:
    """Of 3 workers two are held for 2 of 5 ticks by each: the next may begin after these."""
    mode = Mode(uses=(Use(engine="w", ticks=2, units=2),), latency_ticks=5)
    ops = tuple(Op(name=f"t{i}", modes=(mode,)) for i in range(3))
    p = Problem(engines=(Engine(name="w", units=3),), ops=ops)
    (one,) = exclusive_sets(p)
    assert one.ticks == (2, 2, 2)
    bound = sequence_bound(p, lower_bounds(p).heads_tails)
    assert bound is not None and bound[0].ticks == 9, "2 + 2, then the last of 5"


tasks = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=5)


@given(tasks, st.sets(st.sampled_from(list(combinations(range(5), 2))), max_size=3))
def test_the_bound_is_below_the_optimum_and_the_checker_believes_it(
    rows: list[Task], edges: set[tuple[int, int]]
) -> None:
    inside = tuple(edge for edge in sorted(edges) if edge[1] < len(rows))
    p = project(rows, inside)
    best = shortest(rows, inside)
    found = sequence_bound(p, lower_bounds(p).heads_tails)
    assert found is not None
    bound, certificate = found
    assert bound.ticks == certificate.ticks <= best
    assert check_certificate(p, certificate) == []
    flat = FlatModel(p, lower_bounds(p).heads_tails, replace(flat_model(p).options, exclusive=True))
    assert flat.solve(lambda _: None) == ("OPTIMAL", best)


def shortest(rows: list[Task], edges: tuple[tuple[int, int], ...], have: int = 6) -> int:
    """Try every order: each op as early as all before it in the order leave it room. One of them is best."""
    best = sum(ticks for ticks, *_ in rows)
    for order in permutations(range(len(rows))):
        if any(order.index(a) > order.index(b) for a, b in edges):
            continue
        start: dict[int, int] = {}
        for i in order:
            at = max((start[a] + rows[a][0] for a, b in edges if b == i), default=0)
            while any(
                sum(rows[j][k] for j in start if start[j] <= t < start[j] + rows[j][0]) + rows[i][k] > have
                for t in range(at, at + rows[i][0])
                for k in (1, 2)
            ):
                at += 1
            start[i] = at
        best = min(best, max(at + rows[i][0] for i, at in start.items()))
    return best


@pytest.mark.parametrize("price", ["2", "3/2"])
def test_the_checker_does_not_believe_prices_that_are_too_high(price: str) -> None:
    p = project([(2, 4, 0), (3, 4, 0), (4, 4, 0)])
    found = sequence_bound(p, lower_bounds(p).heads_tails)
    assert found is not None and found[0].ticks == 9
    certificate = found[1]
    more = [one.model_copy(update={"prices": ((price,),)}) for one in certificate.classes[:1]]
    false = certificate.model_copy(update={"classes": (*more, *certificate.classes[1:]), "bound": "10"})
    assert check_certificate(p, false) != []
