from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from unit.small import held, on, problem, run

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import Shortfall, first_shortfall

if TYPE_CHECKING:
    from hexloom.formulations.problem import Problem


def found(of: Problem) -> Shortfall | None:
    return first_shortfall(of, lower_bounds(of).heads_tails)


def test_an_engine_with_more_work_than_time() -> None:
    """Three ops of 4 ticks on one engine after a head of 2, all due at 13: they end at 14."""
    ops = [on("lut", "load", 2), *(on("hmx", n, 4, deadline_ticks=13) for n in "abc")]
    short = found(problem(*ops, after="load>a load>b load>c"))
    assert short is not None
    assert (short.kind, short.resource, short.need, short.have, short.unit) == ("overload", "hmx", 14, 13, "ticks")
    ops[1:] = [on("hmx", n, 4, deadline_ticks=14) for n in "abc"]
    assert found(problem(*ops, after="load>a load>b load>c")) is None


@pytest.mark.parametrize(("due", "short"), [(7, True), (8, False)])
def test_a_deadline_holds_for_what_comes_before(due: int, short: bool) -> None:
    """Two contexts, three ops of 3 ticks: 5 ticks of work before an op of 3 that is due."""
    ops = [*(on("hvx", n, 3) for n in "abc"), on("hmx", "last", 3, deadline_ticks=due)]
    assert (found(problem(*ops, after="a>last b>last c>last")) is not None) == short


def test_work_that_is_due_later_does_not_count() -> None:
    ops = [on("hmx", "a", 4, deadline_ticks=4), on("hmx", "b", 4, deadline_ticks=8), on("hmx", "c", 40)]
    assert found(problem(*ops)) is None


def test_units_share_the_work() -> None:
    def ops(due: int) -> Problem:
        return problem(*(run(n, held("hvx", 3, 1), deadline_ticks=due) for n in "abcd"))

    assert found(ops(6)) is None
    short = found(ops(5))
    assert short is not None and (short.need, short.have) == (6, 5)
