from __future__ import annotations

from fractions import Fraction

import pytest
from unit.small import buffer, on, problem

from hexloom.formulations.decision import Decision
from hexloom.formulations.problem import Channel, Engine, Mode, Op, Problem, Pull, Use
from hexloom.optimizer.attribution import advise, attribute, busy_spans, last_work
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.lower import TaskLoop
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.schedule import Gain
from hexloom.optimizer.simulate import simulate


def gain(
    existing: int = 1000, entries: int = 0, within: int = 0, between: int = 0, cost: int | Fraction = 0, tail: int = 0
) -> Gain:
    return Gain(
        existing=existing,
        saved_entries=entries,
        overlap_within_tasks=within,
        overlap_between_tasks=between,
        contention_cost=cost,
        tail=tail,
    )


def test_five_parts_by_hand() -> None:
    """Task t: a on hvx 4, then b on hmx 6; task u: c on hvx 5; entry 3 each.

    Today 3 + 10 and 3 + 5. The plan: a 3-7, b 7-13, c 7-12 in one entry of 3, so 13. hmx is busy to the end, hvx to 12.
    """
    p = problem(
        on("hvx", "a", 4, task="t"),
        on("hmx", "b", 6, task="t"),
        on("hvx", "c", 5, task="u"),
        after="a>b",
        entry_ticks=3,
    )
    found = baselines(p, (TaskLoop("t", ("a", "b"), False, 3), TaskLoop("u", ("c",), False, 3)))
    decision = Decision((0, 0, 0), (((0,),), ((0,),), ((0,),)), (0, 1, 2), ())
    timeline = simulate(p, make_plan(p, decision))
    assert timeline.makespan == 13
    on_hmx = attribute(p, decision, timeline, found, "hmx")
    assert on_hmx == gain(existing=21, entries=3, within=0, between=5, tail=0)
    on_hvx = attribute(p, decision, timeline, found, "hvx")
    assert on_hvx == gain(existing=21, entries=3, within=0, between=6, tail=1)
    assert on_hmx.total == on_hvx.total == 21 - 13
    assert attribute(p, decision, timeline, found, None) == on_hmx


def test_overlap_within_a_task_is_what_its_own_part_of_the_plan_gains() -> None:
    """One stage at a time takes 2 x 10; pipelined 4 + 4 + 6 + 2 of waiting is 16."""
    p = problem(
        on("hvx", "a0", 4, task="t", tile=0, stage="a"),
        on("hmx", "b0", 6, task="t", tile=0, stage="b"),
        on("hvx", "a1", 4, task="t", tile=1, stage="a"),
        on("hmx", "b1", 6, task="t", tile=1, stage="b"),
        after="a0>b0 a1>b1",
    )
    found = baselines(p, (TaskLoop("t", ("a0", "b0", "a1", "b1"), True, 0),))
    decision = Decision((0,) * 4, (((0,),),) * 4, (0, 1, 2, 3), ())
    timeline = simulate(p, make_plan(p, decision))
    assert timeline.makespan == 16
    assert attribute(p, decision, timeline, found, "hmx") == gain(existing=20, within=4)


def contended(*tasks: str) -> Problem:
    """Ops a, b, c on engines of their own, each 10 long at 3 of a channel of 4."""
    channels = (Channel(name="bus", capacity=4),)
    ops = tuple(
        Op(
            name=name,
            task=task,
            modes=(Mode(uses=(Use(engine=name, ticks=10),), latency_ticks=10, pulls=(Pull(channel="bus", rate=3),)),),
        )
        for name, task in zip("abc", tasks, strict=False)
    )
    return Problem(engines=tuple(Engine(name=op.name) for op in ops), channels=channels, ops=ops)


@pytest.mark.parametrize(
    ("tasks", "parts"),
    [
        ("t", gain(existing=10)),
        ("tt", gain(existing=15)),  # both of its ops work beside each other today as well: 2 x 30 of 4
        ("tu", gain(existing=20, between=10, cost=5)),  # 10 + 10 today; together 10 if the bus were free, and 15
        # t alone takes 10, u 15; all together take 10 if the bus were free, and 22.5.
        ("tuu", gain(existing=10 + 15, between=15, cost=Fraction(25, 2))),
    ],
)
def test_one_task_gains_and_loses_nothing_between_tasks(tasks: str, parts: Gain) -> None:
    p = contended(*tasks)
    loops = tuple(
        TaskLoop(task, tuple(o.name for o in p.ops if o.task == task), False, 0) for task in dict.fromkeys(tasks)
    )
    n = len(p.ops)
    decision = Decision((0,) * n, (((0,),),) * n, tuple(range(n)), ())
    timeline = simulate(p, make_plan(p, decision), "fluid")
    found = attribute(p, decision, timeline, baselines(p, loops, "fluid"), "bus", "fluid")
    assert found == parts
    assert found.total == parts.existing - timeline.makespan


def test_one_task_has_no_tail_between_tasks() -> None:
    """b ends 6 after the last work of a's engine: that is how the task itself runs."""
    p = problem(on("hvx", "a", 4, task="t"), on("hmx", "b", 6, task="t"), after="a>b")
    decision = Decision((0, 0), (((0,),), ((0,),)), (0, 1), ())
    found = baselines(p, (TaskLoop("t", ("a", "b"), False, 0),))
    assert attribute(p, decision, simulate(p, make_plan(p, decision)), found, "hvx") == gain(existing=10)


def test_no_existing_time_no_gain() -> None:
    p = problem(
        on("hvx", "a", 1),
        on("hvx", "b", 1),
        on("hvx", "c", 1),
        buffers=(buffer("x", 8, "a", "c"), buffer("y", 8, "b")),
        capacity=8,
    )
    found = baselines(p, (TaskLoop("", ("a", "b", "c"), False, 0),))
    decision = Decision((0,) * 3, (((0,),),) * 3, (0, 2, 1), (0, 0))
    timeline = simulate(p, make_plan(p, decision))
    assert attribute(p, decision, timeline, found, None) is None


def test_spans_hold_overheads() -> None:
    p = problem(on("hmx", "a", 4, overhead=2), on("hmx", "b", 1), on("hvx", "c", 9))
    decision = Decision((0,) * 3, (((0,),),) * 3, (0, 1, 2), ())
    timeline = simulate(p, make_plan(p, decision))
    assert busy_spans(p, decision, timeline, "hmx") == [(0, 6, 1), (6, 7, 1)]
    assert last_work(p, decision, timeline, "hmx") == 7
    assert last_work(p, decision, timeline, "lut") == last_work(p, decision, timeline, None) == 9


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (gain(), "keep"),
        (gain(within=5), "keep"),  # 0.5 % is noise
        (gain(within=6), "pipeline"),
        (gain(between=49), "pipeline"),
        (gain(between=50), "co_schedule"),
        (gain(between=60, tail=11), "pipeline"),
        (gain(between=60, cost=11), "pipeline"),
        (gain(between=60, tail=10), "co_schedule"),
        (gain(between=60, within=-80), "keep"),
        (gain(existing=0), "keep"),
    ],
)
def test_answers(found: Gain, answer: str) -> None:
    assert found.answer == answer


def test_advice_says_why() -> None:
    assert advise(gain(between=150, cost=30, tail=20), 900, "hmx is the bottleneck").reason == (
        "running the tasks together saves 10.0% of the existing time; hmx is the bottleneck"
    )
    net = advise(gain(within=159, between=150, cost=140, tail=10), 841, "hmx is the bottleneck").reason
    assert "gains 15.9%, running them together only 0.0%" in net
    said = advise(gain(within=200, between=10), 790, "gather is the bottleneck")
    assert said.answer == "pipeline"
    assert "gains 20.0%, running them together only 1.0%; gather is" in said.reason
    assert "saves 0.3% of the existing time" in advise(gain(within=3), 997, "hvx is the bottleneck").reason
    assert said.flips is None  # nobody asked yet
