"""Cases about order: slots, queues, gangs, and the waits between them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import (
    problem_file,
    refusal_of,
    run_cli,
    schedule_of,
)
from cases.neutral import to_problem

from hexloom import solve
from hexloom.emit.c_tables import side_car
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait
from hexloom.optimizer.simulate import simulate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runtime.hosts import Host

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared


def test_ord_01_one_slot_or_two(case: Case) -> None:
    data = case("ORD-01")
    assert schedule_of(data["one_D_slot"]).makespan == 44
    assert schedule_of(data["two_D_slots"]).makespan == 36


def test_ord_01_bad_table_is_refused(case: Case) -> None:
    """The table knows only the waits of two slots; with one slot the checker names the pair that breaks."""
    data = case("ORD-01")
    problem = to_problem(data["one_D_slot"])
    orders = {"hmx": data["bad_table"]["hmx_order"], "hvx": ["SM0", "SM1", "SM2", "SM3"]}
    plan = Plan(
        assignments=tuple(Assignment(op=op, units={engine: (0,)}) for engine, ops in orders.items() for op in ops),
        queues=tuple(
            Queue(engine=engine, unit=0, entries=tuple(QueueEntry(op=op, action="run") for op in ops))
            for engine, ops in orders.items()
        ),
        waits=tuple(Wait(before=e.before, after=e.after) for e in to_problem(data["two_D_slots"]).precedences),
        addresses={},
    )
    violations = check_plan(problem, plan)
    assert ("O0", "SM1") in [v.parties for v in violations]
    told = next(v.message for v in violations if v.parties == ("O0", "SM1"))
    assert "'O0'" in told and "'SM1'" in told
    two = to_problem(data["two_D_slots"])
    ordered = sorted(plan.assignments, key=lambda a: two.op_index[a.op])
    times = simulate(two, plan.model_copy(update={"assignments": tuple(ordered)}), "none").times
    assert [(times[name].start, times[name].observed) for name in ("SM1", "O0")] == [(10, 16), (14, 18)]
    assert all(times[name].start == at for name, at in data["bad_table"]["starts"].items())


def test_ord_04_wait_before_reuse_not_before_start(case: Case) -> None:
    data = case("ORD-04")
    reuse = schedule_of(data["reuse"])
    assert (reuse.status, reuse.makespan, reuse.lower_bound, reuse.bounds[0].engine) == ("OPTIMAL", 30, 30, "hvx")
    strict = schedule_of(data["strict"])
    assert (strict.status, strict.makespan) == ("OPTIMAL", 48)


@pytest.mark.parametrize("tiles", range(1, 9))
def test_ord_04_for_any_number_of_tiles(case: Case, tiles: int) -> None:
    """The loop of the report at other lengths: load 4, compute 6, store 2; buffers of two tiles."""
    assert len(case("ORD-04")["reuse"]["tasks"]) == 12
    tasks = []
    for k in range(tiles):
        old = k - 2
        tasks += [
            {"id": f"L{k}", "eng": "dma", "dur": 4, "after": [f"C{old}"] if old >= 0 else []},
            {"id": f"C{k}", "eng": "hvx", "dur": 6, "after": [f"L{k}", *([f"S{old}"] if old >= 0 else [])]},
            {"id": f"S{k}", "eng": "dma", "dur": 2, "after": [f"C{k}"]},
        ]
    machine = {"dma": 1, "hvx": 1}
    if tiles == 4:
        assert tasks == case("ORD-04")["reuse"]["tasks"]
    schedule = schedule_of({"machine": machine, "tasks": tasks})
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", 4 + 6 * tiles + 2)


@pytest.mark.parametrize(("depth", "makespan", "reverse"), [(1, 24, 3), (2, 20, 2)])
def test_ord_06_a_fifo_waits_once_per_slot(case: Case, depth: int, makespan: int, reverse: int) -> None:
    schedule = schedule_of(case("ORD-06")[f"depth{depth}"])
    assert (schedule.status, schedule.makespan) == ("OPTIMAL", makespan)
    waits = [(w.before, w.after) for w in schedule.plan.waits if w.before.startswith("V") and w.after.startswith("P")]
    assert waits == [(f"V{i - depth}", f"P{i}") for i in range(depth, 4)]
    assert len(waits) == reverse


def test_ord_12_a_gang_wider_than_the_machine(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = case("ORD-12")
    refused = refusal_of(data)
    assert (refused.op, refused.resource, refused.need, refused.have) == ("bar", "hvx", 8, 6)
    assert "'bar' needs 8 units of hvx at once, the machine has 6" in refused.message
    assert run_cli(capsys, "solve", problem_file(tmp_path, data))[0] == 1
    six = schedule_of(data, tasks=data["tasks"][:6])
    assert six.makespan == 10
    assert [row.start for row in six.rows] == [0]
    assert six.plan.assignments[0].units == {"hvx": (0, 1, 2, 3, 4, 5)}
    assert [[entry.op for entry in queue.entries] for queue in six.plan.queues] == [["bar"]] * 6
    alone = [{key: value for key, value in task.items() if key != "gang"} for task in data["tasks"]]
    assert schedule_of(data, tasks=alone, machine={"hvx": 4}).makespan == 20


def with_times(problem: Problem, chance: random.Random) -> Problem:
    """Return ``problem`` with other durations."""
    ops = []
    for op in problem.ops:
        ticks = chance.randint(1, 100)
        (mode,) = op.modes
        uses = tuple(use.model_copy(update={"ticks": ticks}) for use in mode.uses)
        mode = mode.model_copy(update={"uses": uses, "latency_ticks": ticks})
        ops.append(op.model_copy(update={"modes": (mode,)}))
    return problem.changed(ops=tuple(ops))


def test_ord_13_only_waits_that_nothing_implies(case: Case) -> None:
    schedule = schedule_of(case("ORD-13"))
    assert [(w.before, w.after) for w in schedule.plan.waits] == [("A", "B"), ("B", "C")]
    chance = random.Random(13)
    for _ in range(1000):
        problem = with_times(schedule.problem, chance)
        times = simulate(problem, schedule.plan, "none").times
        for edge in problem.precedences:
            assert times[edge.before].observed <= times[edge.after].start


def test_ord_13_an_engine_in_order_needs_no_waits(case: Case) -> None:
    data = case("ORD-13")
    tasks = [{**task, "eng": "hvx"} for task in data["tasks"]]
    assert schedule_of(data, tasks=tasks).plan.waits == ()


def test_ord_16_a_wait_for_what_never_comes_ends(case: Case, host_of: Callable[[str], Host]) -> None:
    """The queue of the case waits for L0, which somebody outside of the tables would complete, and nobody does.

    The program ends only when all threads are joined; the sanitizer would name one that is not.
    """
    data = case("ORD-16")
    (waiting,) = data["table"]["hvx"]
    (missing,) = waiting["waits"]
    outside = Mode(uses=(Use(engine="outside", ticks=1),), latency_ticks=2)
    problem = Problem(
        engines=(Engine(name="hvx"), Engine(name="outside")),
        ops=(
            Op(name=missing, modes=(outside,)),
            Op(name=waiting["task"], modes=(Mode(uses=(Use(engine="hvx", ticks=1),), latency_ticks=1),)),
        ),
        precedences=(Precedence(before=missing, after=waiting["task"]),),
    )
    schedule = solve(problem, time_limit_s=1, seed=0).schedule
    assert schedule is not None
    names = json.loads(side_car(schedule, "it"))
    tasks = [task["op"] for task in names["tasks"]]
    for how in ("gcc", "tsan"):
        said = host_of(how)(schedule, silent=tasks.index(missing), timeout_ms=data["timeout_us"] // 1000)
        assert (said["code"], tasks[said["task"]]) == ("TIMEOUT", waiting["task"])
        assert [tasks[t] for t in names["events"][said["event"]]["producers"]] == [missing]
        assert (said["seen"], said["expected"]) == (0, 1)
        assert (said["stuck"], said["undrained"]) == (0, 0)
        assert 0.1e9 <= said["elapsed_ns"] <= 0.5e9
