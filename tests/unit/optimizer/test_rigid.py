"""Rule ``rigid`` from end to end on problems worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hexloom import Workload, solve
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.problem import Channel, Dma, Engine, Mode, Op, Precedence, Problem, Pull, Use
from hexloom.optimizer.check import check_plan, check_schedule
from hexloom.optimizer.infeasibility import shortfall_message

if TYPE_CHECKING:
    from hexloom.optimizer.infeasibility import Infeasibility
    from hexloom.optimizer.schedule import Schedule

CAPACITY = 10**12
"""As many units as a share may have: nothing may look at them one by one."""


def op(name: str, engine: str, ticks: int, rate: int = 0, **keys: object) -> Op:
    mode = Mode.model_validate(
        {
            "uses": (Use(engine=engine, ticks=ticks),),
            "latency_ticks": ticks,
            "pulls": (Pull(channel="bus", rate=rate),),
            **keys,
        }
    )
    return Op(name=name, modes=(mode,))


def of(*ops: Op, after: str = "", capacity: int = 100, engines: str = "e1 e2 e3") -> Problem:
    edges = [edge.split(">") for edge in after.split()]
    return Problem(
        engines=tuple(Engine(name=name) for name in engines.split()),
        channels=(Channel(name="bus", capacity=capacity),),
        ops=ops,
        precedences=tuple(Precedence(before=a, after=b) for a, b in edges),
    )


def solved(problem: Problem, rule: str = "rigid") -> Schedule:
    result = solve(problem, contention=rule, seed=0, time_limit_s=2)
    assert result.schedule is not None
    assert check_schedule(result.schedule) == []
    assert result.schedule.contention == rule
    return result.schedule


LATE = of(op("W", "e1", 3), op("P", "e1", 4, 60), op("Q", "e2", 4, 60), after="W>P")
"""Q [0, 4), P [4, 8); but e1 is free at 3, and nothing but the channel keeps P from starting then."""


def test_two_that_want_sixty_of_a_hundred_take_turns() -> None:
    """Without the channel 3 + 4. With it Q first, and P right after it."""
    assert solved(LATE, "none").makespan == 7
    schedule = solved(LATE)
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 8)
    assert [(w.before, w.after) for w in schedule.plan.waits] == [("Q", "P")]


def test_a_plan_without_the_flow_is_refused() -> None:
    schedule = solved(LATE)
    bare = schedule.plan.model_copy(update={"waits": ()})
    found = check_plan(LATE.with_rigid_channels(), bare)
    assert [(v.kind, set(v.parties)) for v in found] == [("share_unordered", {"P", "Q"})]
    assert found[0].message == (
        "ops 'P' and 'Q' demand 120 of 'bus', which has 100, but nothing in the plan orders them"
    )
    kinds = {v.kind for v in check_schedule(schedule.model_copy(update={"plan": bare}))}
    assert kinds == {"share_unordered", "simulation"}


def test_times_in_which_too_much_is_demanded_are_refused() -> None:
    schedule = solved(LATE)
    early = schedule.model_copy(update={"rows": solved(LATE, "none").rows})
    messages = [v.message for v in check_schedule(early) if v.kind == "share_overload"]
    assert messages == ["ops 'P' and 'Q' demand 120 of 'bus', which has 100, at tick 3"]


def test_three_of_forty_are_one_too_many() -> None:
    problem = of(*(op(name, f"e{k}", 5, 40) for k, name in enumerate("abc", 1)))
    schedule = solved(problem)
    assert schedule.makespan == 10
    assert len(schedule.plan.waits) == 1
    found = check_plan(problem.with_rigid_channels(), schedule.plan.model_copy(update={"waits": ()}))
    assert [v.kind for v in found] == ["share_unordered"]
    assert set(found[0].parties) == {"a", "b", "c"}


def test_the_channel_is_named_as_the_bottleneck() -> None:
    """Four ops of 5 ticks that want half each, on engines of their own: 4 x 5 x 50 / 100."""
    problem = of(*(op(name, f"e{k}", 5, 50) for k, name in enumerate("abcd", 1)), engines="e1 e2 e3 e4")
    result = solve(problem, contention="rigid", seed=0)
    assert (result.status, result.makespan_us, result.bottleneck) == ("OPTIMAL", 10, "bus")
    assert result.bounds["channel_bytes"] == 10


def test_overhead_holds_the_channel_too() -> None:
    problem = of(op("a", "e1", 3, 60, overhead_ticks=2), op("b", "e2", 3, 60))
    assert solved(problem).makespan == 8


def test_a_transfer_holds_the_channel_from_issue_until_its_owner_has_seen_the_end() -> None:
    """Issue 1, move 4, poll 1; another op wants the rest and one more: 6 + 3."""
    dma = Dma(owner_engine="e1", owner_unit=0, issue_ticks=1, poll_ticks=1)
    move = Mode(latency_ticks=4, dma=dma, pulls=(Pull(channel="bus", rate=60),))
    assert solved(of(Op(name="t", modes=(move,)), op("x", "e2", 3, 41))).makespan == 9
    assert solved(of(Op(name="t", modes=(move,)), op("x", "e2", 3, 40))).makespan == 6


def test_shares_of_any_size_cost_no_more() -> None:
    ops = [op(name, f"e{k}", 5, rate) for k, (name, rate) in enumerate(zip("abc", (1, CAPACITY, 2), strict=True), 1)]
    assert solved(of(*ops, capacity=CAPACITY)).makespan == 10


def test_a_mode_that_wants_more_than_there_is_is_not_chosen() -> None:
    greedy = Mode(
        name="fast", uses=(Use(engine="e1", ticks=1),), latency_ticks=1, pulls=(Pull(channel="bus", rate=101),)
    )
    frugal = Mode(name="slow", uses=(Use(engine="e1", ticks=4),), latency_ticks=4, pulls=(Pull(channel="bus", rate=9),))
    problem = of(Op(name="a", modes=(greedy, frugal)))
    assert solved(problem, "none").makespan == 1
    assert solved(problem).makespan == 4


def test_an_op_that_wants_more_in_all_its_modes_is_named() -> None:
    result = solve(of(op("a", "e1", 3, 20), op("z", "e2", 3, 130)), contention="rigid")
    assert (result.status, result.schedule) == ("INFEASIBLE", None)
    assert result.infeasibility is not None
    assert result.infeasibility.message == (
        "op 'z' demands 130 of channel 'bus', whose capacity is 100; "
        "use contention fluid, or give it a mode with a lower demand"
    )
    assert result.infeasibility.short == 30


def workload(*ops: dict[str, object]) -> Workload:
    data = {"name": "w", "hw": "hexagon-v81", "channels": [{"name": "gather", "rate_gb_s": 12}]}
    return Workload.from_data({**data, "tasks": [{"name": "t", "ops": list(ops)}]})


def refusal(*ops: dict[str, object]) -> Infeasibility:
    found = solve(workload(*ops), contention="rigid", seed=1, time_limit_s=2).infeasibility
    assert found is not None
    return found


def test_a_channel_is_told_in_its_own_unit() -> None:
    one = {"name": "a", "engine": "hvx", "duration_us": 40, "channels": {"gather": "90GB/s"}}
    found = refusal(one)
    assert found.message.startswith("op 'a' demands 90000 MB/s of channel 'gather', whose capacity is 12000 MB/s; ")
    assert [member.text for member in found.conflict] == ["the 12000 MB/s of channel 'gather'"]


def test_deadlines_that_a_channel_cannot_keep() -> None:
    ops = [
        {"name": e, "engine": e, "duration_us": 40, "deadline_us": 60, "channels": {"gather": "9GB/s"}}
        for e in ("hvx", "hmx")
    ]
    found = refusal(*ops)
    assert found.message.startswith("channel 'gather' cannot end before 64.44 us what deadlines want of it by 60 us")
    assert found.conflict[0].text == "the 12000 MB/s of channel 'gather'"


def test_a_mode_is_too_wide_and_the_other_wants_too_much() -> None:
    """Both in numbers that a reader knows: the share itself counts in parts of what the demands have in common."""
    view = of(op("a", "e1", 3, 150), op("b", "e2", 3, 50)).under("rigid")
    assert view.shares == {"bus": 2}
    found = first_shortfall(view)
    assert found is not None
    assert shortfall_message(view, found) == "op 'a' needs 150 of channel 'bus' at once, which has 100"


def test_one_mode_wants_too_much_and_the_other_too_many_units() -> None:
    greedy = Mode(uses=(Use(engine="e1", ticks=1),), latency_ticks=1, pulls=(Pull(channel="bus", rate=110),))
    wide = Mode(uses=(Use(engine="e1", ticks=1, units=2),), latency_ticks=1)
    result = solve(of(Op(name="a", modes=(greedy, wide))), contention="rigid")
    assert result.infeasibility is not None
    assert result.infeasibility.message.startswith("op 'a' needs 2 units of e1 at once, the machine has 1")


def test_without_the_rule_nobody_notices_the_channel() -> None:
    problem = of(op("a", "e1", 3, 60), op("b", "e2", 3, 130))
    schedule = solved(problem, "none")
    assert (schedule.makespan, schedule.plan.waits) == (3, ())


@pytest.mark.parametrize("rule", ["none", "rigid"])
def test_a_problem_without_channels_is_the_same_under_both(rule: str) -> None:
    problem = Problem(engines=(Engine(name="e1"),), ops=(Op(name="a", modes=(Mode(latency_ticks=2),)),))
    assert solved(problem, rule).makespan == 2


def test_today_s_loop_waits_for_its_transfers_when_the_channel_is_full() -> None:
    """Three transfers of 60, each awaited before the next is issued: 3 x 4 and 1. All at once they take 4 and 1."""
    dma = Dma(owner_engine="e1", owner_unit=0)
    moves = [
        Op(name=f"t{k}", modes=(Mode(latency_ticks=4, dma=dma, pulls=(Pull(channel="bus", rate=60),)),))
        for k in range(3)
    ]
    problem = of(*moves, op("x", "e2", 1), after="t0>x t1>x t2>x")
    assert solved(problem, "none").baselines["existing"] == 5
    assert solved(problem).baselines["existing"] == 13
