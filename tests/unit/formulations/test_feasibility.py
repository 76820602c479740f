from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from shared_strategies import SHARING_RULES, sharing_problems
from unit.shared_channels import pulling, sharing
from unit.small import held, on, problem, run

from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import Shortfall, first_shortfall
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from random import Random

    from hexloom.formulations.problem import Problem, Rule


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


def two_pulling(due: int) -> Problem:
    """Ops of 40 and 70 ticks that each ask for 75 of 100: 82.5 ticks of the channel."""
    ops = (pulling("a", 40, ddr=75), pulling("b", 70, ddr=75))
    return sharing(*(op.model_copy(update={"deadline_ticks": due}) for op in ops))


@pytest.mark.parametrize("rule", ["fluid", "proportional", "priority"])
def test_a_channel_with_more_bytes_than_time(rule: Rule) -> None:
    late, kept = two_pulling(82), two_pulling(83)
    short = first_shortfall(late, lower_bounds(late, rule).heads_tails, rule)
    assert short is not None
    assert (short.kind, short.resource, short.need, short.have) == ("overload", "ddr", 83, 82)
    assert first_shortfall(kept, lower_bounds(kept, rule).heads_tails, rule) is None
    assert first_shortfall(late, lower_bounds(late).heads_tails) is None  # without the channel both are in time


def test_a_deadline_beyond_all_numbers_is_none() -> None:
    assert found(problem(on("hmx", "a", 4, deadline_ticks=10**30), on("hmx", "b", 4, deadline_ticks=8))) is None


@given(sharing_problems(max_ops=5), SHARING_RULES, st.randoms(use_true_random=False))
def test_what_some_plan_keeps_is_not_excluded(of: Problem, rule: Rule, random: Random) -> None:
    """Deadlines that a plan meets, of some of its ops."""
    decision = list_schedule(of, Policy(tuple(random.random() for _ in of.ops), tuple(0 for _ in of.ops)))
    assume(decision is not None)
    assert decision is not None
    times = simulate(of, make_plan(of, decision), rule).times
    due = {op.name: ceil(times[op.name].observed) for op in of.ops if random.random() < 0.7}
    ops = tuple(op.model_copy(update={"deadline_ticks": due.get(op.name)}) for op in of.ops)
    dated = of.restricted(frozenset(of.op_index)).model_copy(update={"ops": ops, "entry_ticks": of.entry_ticks})
    assert first_shortfall(dated, lower_bounds(dated, rule).heads_tails, rule) is None
