"""One valid schedule with every feature in it, and for every rule a corruption that breaks this rule alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hexloom.formulations.problem import Buffer, Dma, Engine, Mode, Op, Precedence, Problem, Scratchpad, Use
from hexloom.optimizer.check import Violation, check_plan, check_schedule, check_times
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait
from hexloom.optimizer.schedule import Advice, BoundRow, Gain, OpRow, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable

DMA = Dma(owner_engine="hvx", owner_unit=0, issue_ticks=1, poll_ticks=1)
TRANSFER = Mode(uses=(Use(engine="ddr", ticks=10),), latency_ticks=12, dma=DMA)
BOTH = Use(engine="hvx", ticks=5, units=2)
SECOND = Use(engine="hvx", ticks=4, unit_ids=(1,))

PROBLEM = Problem(
    engines=(
        Engine(name="hmx"),
        Engine(name="hvx", units=2),
        Engine(name="lut", kind="resource"),
        Engine(name="ddr", kind="pipe"),
    ),
    ops=(
        Op(name="load", modes=(TRANSFER,)),
        Op(name="next", modes=(TRANSFER,)),
        Op(name="cook", modes=(Mode(uses=(BOTH, Use(engine="lut", ticks=5)), latency_ticks=5, overhead_ticks=1),)),
        Op(name="heat", modes=(Mode(uses=(SECOND, Use(engine="lut", ticks=4)), latency_ticks=4),)),
        Op(name="mm", modes=(Mode(uses=(Use(engine="hmx", ticks=8),), latency_ticks=10),)),
        Op(name="peek", modes=(Mode(uses=(Use(engine="hmx", ticks=3), Use(engine="lut", ticks=3)), latency_ticks=3),)),
        Op(name="mark", modes=(Mode(latency_ticks=0),), deadline_ticks=40),
    ),
    precedences=(
        Precedence(before="load", after="cook"),
        Precedence(before="cook", after="mm"),
        Precedence(before="next", after="heat"),
        Precedence(before="mm", after="mark"),
    ),
    buffers=(
        Buffer(name="raw", size_bytes=100, granule_bytes=128, align_bytes=128, ops=("load", "cook")),
        Buffer(name="cooked", size_bytes=128, align_bytes=64, ops=("cook", "mm")),
        Buffer(name="late", size_bytes=128, ops=("heat",)),
        Buffer(name="table", size_bytes=64, address=512, resident=True),
        Buffer(name="empty", size_bytes=0, ops=("mm",)),
    ),
    scratchpad=Scratchpad(total_bytes=1024, reserved_bytes=256),
    entry_ticks=2,
)


def queue(engine: str, unit: int, *steps: str) -> Queue:
    """Return a queue from steps such as ``start load``."""
    words = [step.split() for step in steps]
    return Queue.model_validate(
        {"engine": engine, "unit": unit, "entries": [{"action": action, "op": op} for action, op in words]}
    )


PLAN = Plan(
    assignments=(
        Assignment(op="load"),
        Assignment(op="next", units={"ddr": ()}),
        Assignment(op="cook", units={"hvx": (0, 1), "lut": (0,)}),
        Assignment(op="heat", units={"hvx": (1,), "lut": (0,)}),
        Assignment(op="mm", units={"hmx": (0,)}),
        Assignment(op="peek", units={"hmx": (0,), "lut": (0,)}),
        Assignment(op="mark"),
    ),
    queues=(
        queue("hvx", 0, "start load", "start next", "wait load", "run cook", "wait next"),
        queue("hvx", 1, "run cook", "run heat"),
        queue("hmx", 0, "run mm", "run peek"),
    ),
    waits=(
        Wait(before="cook", after="mm"),
        Wait(before="next", after="heat"),
        Wait(before="mm", after="mark"),
        Wait(before="heat", after="peek"),
    ),
    addresses={"raw": 0, "cooked": 128, "late": 0, "table": 512, "empty": 0},
)


def row(op: str, *times: int) -> OpRow:
    names = ("start", "end", "transfer_start", "done", "wait_start", "observed")
    return OpRow.model_validate({"op": op, **dict(zip(names, times, strict=True))})


ROWS = (
    row("load", 2, 3, 3, 15, 4, 16),
    row("next", 3, 4, 13, 25, 22, 26),
    row("cook", 16, 22, 16, 22, 22, 22),
    row("heat", 26, 30, 26, 30, 30, 30),
    row("mm", 22, 30, 22, 32, 32, 32),
    row("peek", 30, 33, 30, 33, 33, 33),
    row("mark", 32, 32, 32, 32, 32, 32),
)

SCHEDULE = Schedule(
    name="tiny",
    tool="test",
    status="FEASIBLE",
    makespan=33,
    lower_bound=30,
    plan_bound=31,
    bounds=(BoundRow(name="critical_path", ticks=30, engine=None, detail=""),),
    baselines={"existing": 50, "serial": 60, "concurrent": None},
    gain=Gain(
        existing=50,
        saved_entries=10,
        overlap_within_tasks=6,
        overlap_between_tasks=4,
        contention_cost=2,
        tail=1,
    ),
    advice=Advice(answer="pipeline", reason=""),
    problem=PROBLEM,
    plan=PLAN,
    rows=ROWS,
)


def kinds(found: list[Violation]) -> set[str]:
    assert all("\n" not in violation.message for violation in found)
    return {violation.kind for violation in found}


def assigned(op: str, **changes: Any) -> Plan:
    """Return the plan with another assignment of ``op``."""
    return PLAN.model_copy(
        update={"assignments": tuple(a.model_copy(update=changes) if a.op == op else a for a in PLAN.assignments)}
    )


def queued(*queues: Queue) -> Plan:
    """Return the plan with ``queues`` in place of those of the same threads, or added."""
    lanes = {(q.engine, q.unit): q for q in (*PLAN.queues, *queues)}
    return PLAN.model_copy(update={"queues": tuple(lanes.values())})


def addressed(**addresses: int) -> Plan:
    return PLAN.model_copy(update={"addresses": {**PLAN.addresses, **addresses}})


def waiting(*waits: tuple[str, str], without: str = "") -> Plan:
    """Return the plan with ``waits`` added and those of op ``without`` dropped."""
    kept = tuple(wait for wait in PLAN.waits if wait.after != without)
    return PLAN.model_copy(update={"waits": kept + tuple(Wait(before=b, after=a) for b, a in waits)})


def timed(*rows: OpRow) -> tuple[OpRow, ...]:
    by_op = {r.op: r for r in (*ROWS, *rows)}
    return tuple(by_op.values())


def with_op(name: str, **changes: Any) -> Problem:
    return PROBLEM.model_copy(
        update={"ops": tuple(op.model_copy(update=changes) if op.name == name else op for op in PROBLEM.ops)}
    )


def test_a_valid_schedule_has_no_violation() -> None:
    assert check_plan(PROBLEM, PLAN) == []
    assert check_times(PROBLEM, PLAN, ROWS) == []
    assert check_schedule(SCHEDULE) == []
    assert check_schedule(Schedule.from_json(SCHEDULE.to_json())) == []


@pytest.mark.parametrize(
    ("kind", "plan"),
    [
        ("op_unassigned", PLAN.model_copy(update={"assignments": PLAN.assignments[:-1]})),
        ("op_assigned_twice", PLAN.model_copy(update={"assignments": (*PLAN.assignments, PLAN.assignments[0])})),
        ("op_unknown", PLAN.model_copy(update={"assignments": (*PLAN.assignments, Assignment(op="ghost"))})),
        ("op_unknown", queued(queue("hmx", 0, "run mm", "run peek", "run ghost"))),
        ("op_unknown", waiting(("ghost", "mark"))),
        ("op_unknown", waiting(("mark", "ghost"))),
        ("mode_unknown", assigned("mm", mode=1)),
        ("mode_unknown", assigned("mm", mode=-1)),
        ("unit_count", assigned("cook", units={"hvx": (0,), "lut": (0,)})),
        ("unit_count", assigned("mm", units={})),
        ("unit_twice", assigned("cook", units={"hvx": (1, 1), "lut": (0,)})),
        ("unit_unknown", assigned("cook", units={"hvx": (0, 2), "lut": (0,)})),
        ("unit_unknown", assigned("mm", units={"hmx": (-1,)})),
        ("unit_fixed", assigned("heat", units={"hvx": (0,), "lut": (0,)})),
        ("unit_on_pipe", assigned("load", units={"ddr": (0,)})),
        ("unit_unasked", assigned("mm", units={"hmx": (0,), "hvx": (0,)})),
        ("unit_unasked", assigned("mark", units={"npu": (0,)})),
        ("queue_unknown", queued(queue("hvx", 2))),
        ("queue_unknown", queued(queue("lut", 0))),
        ("queue_unknown", queued(queue("npu", 0))),
        ("queue_twice", PLAN.model_copy(update={"queues": (*PLAN.queues, queue("hmx", 0))})),
        ("entry_missing", queued(queue("hmx", 0, "run mm"))),
        ("entry_missing", queued(queue("hvx", 1, "run heat"))),
        ("entry_missing", queued(queue("hvx", 0, "start load", "start next", "wait load", "run cook"))),
        ("entry_twice", queued(queue("hmx", 0, "run mm", "run mm", "run peek"))),
        ("entry_misplaced", queued(queue("hmx", 0, "run mm", "run heat", "run peek"))),
        ("entry_misplaced", queued(queue("hmx", 0, "run mm", "run peek", "wait load"))),
        ("entry_misplaced", queued(queue("hmx", 0, "run mm", "start mm", "run peek"))),
        ("entry_misplaced", queued(queue("hmx", 0, "run mm", "run mark", "run peek"))),
        (
            "wait_before_start",
            queued(queue("hvx", 0, "start load", "wait next", "start next", "wait load", "run cook")),
        ),
        ("cycle", waiting(("heat", "cook"))),
        ("cycle", waiting(("mark", "mark"))),
        ("dependency_unordered", waiting(without="mark")),
        ("dependency_unordered", waiting(without="heat")),
        ("resource_unordered", waiting(without="peek")),
        ("buffer_unordered", addressed(late=128)),
        ("buffer_unordered", addressed(late=100)),
        ("buffer_unordered", addressed(cooked=64)),
        ("resident_overlap", addressed(late=500)),
        ("address_missing", PLAN.model_copy(update={"addresses": {k: PLAN.addresses[k] for k in ("raw", "table")}})),
        ("address_unknown", addressed(ghost=0)),
        ("address_alignment", addressed(cooked=132)),
        ("address_range", addressed(late=700)),
        ("address_range", addressed(late=-512)),
        ("address_range", addressed(late=2**70)),
        ("address_pin", addressed(table=576)),
    ],
)
def test_a_broken_plan_is_named(kind: str, plan: Plan) -> None:
    assert kinds(check_plan(PROBLEM, plan)) == {kind}
    assert kind in kinds(check_schedule(SCHEDULE.model_copy(update={"plan": plan})))


def test_a_wait_for_another_transfer_orders_nothing() -> None:
    """Transfers complete in any order: that the second is there says nothing of the first."""
    plan = queued(queue("hvx", 0, "start load", "start next", "wait next", "run cook", "wait load"))
    found = check_plan(PROBLEM, plan)
    assert {(v.kind, v.parties) for v in found} == {
        ("dependency_unordered", ("load", "cook")),
        ("buffer_unordered", ("raw", "late", "load", "heat")),
    }


def test_a_thread_that_is_free_before_the_result_orders_only_the_start() -> None:
    """Thread hmx[0] is done with mm two ticks before its result exists; of peek others see the end."""
    after_mm = PROBLEM.model_copy(update={"precedences": (*PROBLEM.precedences, Precedence(before="mm", after="peek"))})
    (found,) = check_plan(after_mm, PLAN)
    assert (found.kind, found.parties) == ("dependency_unordered", ("mm", "peek"))
    whole = tuple(
        op.model_copy(update={"modes": (Mode(uses=(Use(engine="hmx", ticks=10),), latency_ticks=10),)})
        if op.name == "mm"
        else op
        for op in PROBLEM.ops
    )
    assert check_plan(after_mm.model_copy(update={"ops": whole}), PLAN) == []


def test_a_pipe_is_not_wide_enough() -> None:
    wide = Mode(uses=(Use(engine="ddr", ticks=10, units=2),), latency_ticks=12, dma=DMA)
    assert kinds(check_plan(with_op("load", modes=(wide,)), PLAN)) == {"unit_count"}


def test_a_share_has_an_amount_and_no_units() -> None:
    share = Engine(name="bus", units=5, kind="share")
    bare = Problem(
        engines=(Engine(name="hmx"), share),
        ops=(
            Op(
                name="a",
                modes=tuple(Mode(uses=(Use(engine="bus", ticks=2, units=u),), latency_ticks=2) for u in (5, 6)),
            ),
        ),
    )
    for mode, units, expected in ((0, {}, set()), (1, {}, {"unit_count"}), (0, {"bus": (0,)}, {"unit_on_share"})):
        plan = Plan(assignments=(Assignment(op="a", mode=mode, units=units),), queues=(), waits=(), addresses={})
        assert kinds(check_plan(bare, plan)) - {"share_unordered"} == expected


def test_the_size_of_a_buffer_is_rounded_before_it_is_compared() -> None:
    assert kinds(check_plan(PROBLEM, addressed(late=384))) == set()
    grown = tuple(b.model_copy(update={"granule_bytes": 256}) if b.name == "late" else b for b in PROBLEM.buffers)
    assert kinds(check_plan(PROBLEM.model_copy(update={"buffers": grown}), addressed(late=384))) == {"resident_overlap"}


def test_buffers_of_interleaved_users_are_unordered() -> None:
    """Every pair of users is ordered, but one goes before and one after: neither buffer is finished first."""
    chain = tuple(Op(name=name, modes=(Mode(latency_ticks=1),)) for name in "abc")
    problem = Problem(
        ops=chain,
        precedences=(Precedence(before="a", after="b"), Precedence(before="b", after="c")),
        buffers=(Buffer(name="outer", size_bytes=8, ops=("a", "c")), Buffer(name="inner", size_bytes=8, ops=("b",))),
        scratchpad=Scratchpad(total_bytes=16),
    )
    plan = Plan(
        assignments=tuple(Assignment(op=op.name) for op in chain),
        queues=(),
        waits=(Wait(before="a", after="b"), Wait(before="b", after="c")),
        addresses={"outer": 0, "inner": 8},
    )
    assert check_plan(problem, plan) == []
    found = check_plan(problem, plan.model_copy(update={"addresses": {"outer": 0, "inner": 4}}))
    assert [v.message for v in found] == [
        "buffers 'outer' [0, 8) and 'inner' [4, 12) share 4 B, but 'a' comes before 'b' and 'c' after 'b'"
    ]


def test_a_long_cycle_is_cut_in_the_message() -> None:
    ops = tuple(Op(name=f"o{i}", modes=(Mode(latency_ticks=1),)) for i in range(20))
    plan = Plan(
        assignments=tuple(Assignment(op=op.name) for op in ops),
        queues=(),
        waits=tuple(Wait(before=f"o{i}", after=f"o{(i + 1) % 20}") for i in range(20)),
        addresses={},
    )
    (found,) = check_plan(Problem(ops=ops), plan)
    assert found.kind == "cycle"
    assert len(found.parties) == 20
    assert "more" in found.message
    assert len(found.message) < 400


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("row_cover", ROWS[1:]),
        ("row_cover", (*ROWS, ROWS[0])),
        ("row_cover", (*ROWS, row("ghost", 2, 2, 2, 2, 2, 2))),
        ("duration", timed(row("mm", 22, 31, 22, 32, 32, 32))),
        ("duration", timed(row("mm", 22, 30, 23, 32, 32, 32))),
        ("duration", timed(row("peek", 30, 33, 30, 34, 34, 34))),
        ("duration", timed(row("peek", 30, 33, 30, 33, 34, 33))),
        ("duration", timed(row("peek", 30, 33, 30, 33, 33, 2**70))),
        ("duration", timed(row("load", 2, 3, 2, 14, 4, 16))),
        ("duration", timed(row("load", 2, 2, 3, 15, 4, 16))),
        ("duration", timed(row("next", 3, 4, 13, 25, 22, 25))),
        ("dependency_time", timed(row("mark", 31, 31, 31, 31, 31, 31))),
        # mm one later: it runs into peek on its own thread.
        ("engine_overlap", timed(row("mm", 23, 31, 23, 33, 33, 33), row("mark", 33, 33, 33, 33, 33, 33))),
        # The wait for load holds its owner while that issues next.
        ("engine_overlap", timed(row("load", 2, 3, 3, 15, 3, 16))),
        ("pipe_overload", timed(row("next", 3, 4, 12, 24, 22, 25))),
    ],
)
def test_broken_times_are_named(kind: str, rows: tuple[OpRow, ...]) -> None:
    assert kinds(check_times(PROBLEM, PLAN, rows)) == {kind}
    assert kind in kinds(check_schedule(SCHEDULE.model_copy(update={"rows": rows})))


@pytest.mark.parametrize(
    ("kind", "problem", "plan"),
    [
        ("entry", PROBLEM.model_copy(update={"entry_ticks": 3}), PLAN),
        ("deadline", with_op("mark", deadline_ticks=31), PLAN),
        ("scratchpad_peak", PROBLEM.model_copy(update={"scratchpad": Scratchpad(total_bytes=300)}), PLAN),
        ("buffer_overlap", PROBLEM, addressed(late=128)),
        ("buffer_overlap", PROBLEM, addressed(late=500)),
        ("wait_time", PROBLEM, waiting(("mark", "peek"))),
        ("queue_time", PROBLEM, queued(queue("hmx", 0, "run peek", "run mm"))),
    ],
)
def test_times_break_another_problem_or_plan(kind: str, problem: Problem, plan: Plan) -> None:
    assert kinds(check_times(problem, plan, ROWS)) == {kind}


def test_a_resource_without_a_thread_is_held_from_start_to_the_end_of_its_use() -> None:
    ops = tuple(Op(name=n, modes=(Mode(uses=(Use(engine="lut", ticks=4),), latency_ticks=6),)) for n in "ab")
    problem = Problem(engines=(Engine(name="lut", kind="resource"),), ops=ops)
    plan = Plan(
        assignments=tuple(Assignment(op=n, units={"lut": (0,)}) for n in "ab"),
        queues=(),
        waits=(Wait(before="a", after="b"),),
        addresses={},
    )
    first = row("a", 0, 4, 0, 6, 6, 6)
    assert check_times(problem, plan, (first, row("b", 6, 10, 6, 12, 12, 12))) == []
    assert kinds(check_times(problem, plan, (first, row("b", 4, 8, 4, 10, 10, 10)))) == {"wait_time"}
    found = check_times(problem, plan, (first, row("b", 3, 7, 3, 9, 9, 9)))
    assert kinds(found) == {"wait_time", "engine_overlap"}
    assert "lut[0] is held by run of 'a' [0, 4) and run of 'b' [3, 7): both in [3, 4) ticks" in {
        v.message for v in found
    }


def test_times_of_a_plan_without_modes_are_not_judged() -> None:
    assert kinds(check_times(PROBLEM, assigned("mm", mode=7), ROWS)) == {"mode_unknown"}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("makespan", {"makespan": 34}),
        ("lower_bound", {"lower_bound": 31}),
        ("bounds", {"bounds": (), "lower_bound": 0}),
        ("plan_bound_below_lower_bound", {"plan_bound": 29}),
        ("plan_bound_above_makespan", {"plan_bound": 34}),
        ("status", {"status": "OPTIMAL"}),
        ("status", {"plan_bound": 33}),
        ("status", {"plan_bound": 33, "optimal_in": "event_driven"}),
        ("optimal_in", {"optimal_in": "event_driven"}),
        ("optimal_in", {"status": "OPTIMAL", "plan_bound": 33}),
        ("optimal_in", {"status": "OPTIMAL", "optimal_in": "free_start", "plan_bound": 33}),
        ("baseline_below_makespan", {"baselines": {"existing": 50, "serial": 32}}),
        ("gain_existing", {"baselines": {"existing": 51}}),
        ("gain_existing", {"baselines": {"existing": None}}),
        ("gain_existing", {"baselines": {}}),
        ("gain_missing", {"gain": None, "advice": None}),
        ("advice", {"advice": None}),
        ("advice", {"baselines": {}, "gain": None}),
        ("advice", {"advice": Advice(answer="keep", reason="")}),
    ],
)
def test_broken_numbers_are_named(kind: str, changes: dict[str, Any]) -> None:
    found = kinds(check_schedule(SCHEDULE.model_copy(update=changes)))
    # The gain is counted from the makespan.
    assert found - ({"gain_sum"} if kind == "makespan" else set()) == {kind}


def test_a_gain_that_does_not_add_up_is_named() -> None:
    assert SCHEDULE.gain is not None
    gain = SCHEDULE.gain.model_copy(update={"tail": 2})
    (found,) = check_schedule(SCHEDULE.model_copy(update={"gain": gain}))
    assert found.kind == "gain_sum"
    assert found.message == "the parts of the gain add up to 16, but existing - makespan is 17 ticks"


def test_a_bound_above_the_makespan_is_named() -> None:
    bounds = (BoundRow(name="critical_path", ticks=35, engine=None, detail=""),)
    changes = {"bounds": bounds, "lower_bound": 35, "plan_bound": 35}
    found = kinds(check_schedule(SCHEDULE.model_copy(update=changes)))
    assert found == {"bound", "lower_bound_above_makespan", "plan_bound_above_makespan"}


def test_times_that_keep_every_rule_but_are_not_simulated_are_named() -> None:
    late = timed(row("mark", 33, 33, 33, 33, 33, 33))
    found = check_schedule(SCHEDULE.model_copy(update={"rows": late}))
    assert kinds(found) == {"simulation"}
    assert found[0].message == "op 'mark' has start 33 in the file, but 32 ticks in a simulation"


def test_assignments_out_of_order_cannot_be_simulated() -> None:
    plan = PLAN.model_copy(update={"assignments": PLAN.assignments[::-1]})
    assert check_plan(PROBLEM, plan) == []
    assert kinds(check_schedule(SCHEDULE.model_copy(update={"plan": plan}))) == {"simulation"}


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: check_times(PROBLEM, addressed(late=200), ROWS),
            "buffers 'cooked' [128, 256) and 'late' [200, 328) share 56 B while both are alive in [26, 30) ticks",
        ),
        (
            lambda: check_plan(PROBLEM, addressed(late=200)),
            "buffers 'cooked' [128, 256) and 'late' [200, 328) share 56 B, but nothing orders their users "
            "'mm' and 'heat'",
        ),
        (
            lambda: check_plan(PROBLEM, addressed(cooked=64)),
            "buffers 'raw' [0, 128) and 'cooked' [64, 192) share 64 B, but op 'cook' uses both",
        ),
        (
            lambda: check_times(PROBLEM, PLAN, timed(row("next", 3, 4, 12, 24, 22, 25))),
            "pipe 'ddr' has 1 units, but 'load' and 'next' hold 2 at tick 12",
        ),
        (
            lambda: check_plan(PROBLEM, waiting(("heat", "cook"))),
            "the plan never ends, because each of these comes before the next: ",
        ),
        (
            lambda: check_plan(PROBLEM, queued(queue("hmx", 0, "run mm", "run heat", "run peek"))),
            "queue hmx[0] has run 'heat', which belongs run in hvx[1]",
        ),
        (
            lambda: check_plan(PROBLEM, waiting(without="peek")),
            "ops 'heat' and 'peek' both hold lut[0], but nothing in the plan orders them",
        ),
    ],
)
def test_a_message_has_both_parties_and_the_numbers(check: Callable[[], list[Violation]], message: str) -> None:
    assert any(violation.message.startswith(message) for violation in check())


def test_a_queue_entry_is_shown_as_it_is_written() -> None:
    assert queue("hmx", 0, "run mm").entries == (QueueEntry(op="mm", action="run"),)
