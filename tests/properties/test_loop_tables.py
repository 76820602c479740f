"""Tables with loops: written out they are the plan, no timing breaks them, and without any one wait some does."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from explorer import Explorer
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import LOOPS, as_written, looped, random_loops, shown
from runtime.tampered import waits_of, without_wait
from unit.emit.randoms import random_schedule

from hexloom.emit import records
from hexloom.emit.c_tables import CTables
from hexloom.emit.chosen import check_laps, iterations_made, least_laps, usual_laps
from hexloom.emit.job import plain_tables
from hexloom.emit.looped import _Build, make_looped_tables
from hexloom.emit.orders import Orders
from hexloom.emit.read import plan_of, read_tables
from hexloom.emit.tables import ACTIONS
from hexloom.emit.written_out import written_out
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.schedule import Schedule

MOST_STATES = 20_000


def is_the_plan(schedule: Schedule, tables: Tables) -> None:
    """The tables have the queues, the waits slice by slice, and the addresses of a flat schedule."""
    orders, problem = Orders(schedule), schedule.problem
    waits = orders.slice_waits()
    queues = [tables.entries[q.first_entry : q.first_entry + q.entry_count] for q in tables.queues]
    queues = [tuple(e for e in entries if e.action != records.AFTER) for entries in queues]
    assert [[(tables.tasks[e.task].op, e.action, e.slice) for e in entries] for entries in queues] == [
        [(step.op, ACTIONS[step.action], step.slice) for step in lane.steps] for lane in orders.lanes
    ]
    assert sorted(task.op for task in tables.tasks) == sorted(set(range(len(problem.ops))) - set(orders.markers))
    # Who triggers an event for the n-th time, in the order of its queue: what a threshold stands for.
    order: dict[int, list[tuple[int, int]]] = {}
    for entry in (entry for entries in queues for entry in entries):
        task = tables.tasks[entry.task]
        if entry.action != records.START and task.trigger_event != records.NONE:
            event = task.trigger_event + entry.slice * (task.flags & records.TASK_APART > 0)
            order.setdefault(event, []).append((task.op, entry.slice))
    told: list[set[tuple[int, int]]] = [set() for _ in tables.tasks]
    for entry, awaited in zip(tables.entries, tables.waits, strict=True):
        for wait in awaited if entry.action in (records.RUN, records.START) else ():
            whole, mine = wait.threshold == len(order[wait.event]), waits[tables.tasks[entry.task].op]
            told[entry.task] |= set(mine) & set(order[wait.event]) if whole else {order[wait.event][wait.threshold - 1]}
    for t, task in enumerate(tables.tasks):
        assert told[t] == set(waits[task.op])
        for operand in tables.operands[task.first_operand : task.first_operand + task.operand_count]:
            name = tables.buffer_names[operand.buffer]
            assert operand.offset == schedule.plan.addresses[name]


def are_their_plans(periodic: PeriodicSchedule, tables: Tables) -> None:
    """The same tables are what is written down, and with a period more what the checker has seen of that."""
    for laps, schedule in shown(periodic, tables):
        is_the_plan(schedule, plain_tables(periodic, tables, laps, schedule.problem))


@pytest.mark.parametrize("name", LOOPS)
def test_written_out_they_are_the_plan(name: str) -> None:
    periodic, tables = looped(name)
    are_their_plans(periodic, tables)
    assert len(shown(periodic, tables)) == 1 + len(tables.loops)
    assert all(p.least < p.usual <= p.most for p in tables.parameters)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 18), marks=pytest.mark.slow)], ids=["few", "many"])
def test_random_loops_are_their_plans_and_come_back_as_they_were(seeds: range) -> None:
    made = [found for seed in seeds if (found := random_loops(seed)) is not None]
    assert len(made) >= 0.6 * len(seeds)
    for periodic, tables in made:
        are_their_plans(periodic, tables)
        is_read_as_its_plan(periodic, tables)


def without_order(plan: Plan) -> object:
    """Return what a plan says, whatever the order of engines in it."""
    units = [(a.op, a.mode, dict(a.units)) for a in plan.assignments]
    return units, plan.queues, plan.waits, dict(plan.addresses)


def test_trip_counts_that_fill_no_whole_laps_leave_the_last_iterations_out() -> None:
    """What lies behind a loop may come round more seldom than the loop does: here every 7 laps."""
    periodic, tables = looped("two")
    with mock.patch.object(_Build, "_laps_apart", return_value=7):
        odd = make_looped_tables(periodic)
    assert odd.tasks == tables.tasks and odd.entries == tables.entries
    for k, (lap, usual) in enumerate(zip(usual_laps(odd), usual_laps(tables), strict=True)):
        p = odd.parameters[k]
        assert p.step % 7 == 0 and (lap - p.least) % p.step == 0 <= lap - usual < p.step
    asked = {odd.groups[p.where]: p.usual for p in odd.parameters if p.kind == records.TRIPS}
    made = {odd.groups[g]: n for g, n in iterations_made(odd, usual_laps(odd)).items()}
    assert asked == periodic.trips and all(made[task] >= n for task, n in asked.items()) and made != asked


@pytest.mark.parametrize("seed", [4, 16, 25], ids=["order of waits", "same interval", "draining"])
def test_loops_that_have_had_no_tables_are_their_plans(seed: int) -> None:
    """Waits are the same in any order; the tail of a task may have the interval of both: its windows are not theirs.

    And the last transfers of a loop may be awaited in another order than those of laps.
    """
    made = random_loops(seed)
    assert made is not None
    are_their_plans(*made)


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.booleans())
def test_flat_tables_come_back_as_they_were_and_as_the_plan(seed: int, parts: bool) -> None:
    schedule = random_schedule(seed, 20, parts=parts)
    emitted = CTables(schedule, "it")
    side_car = emitted.side_car()
    tables = read_tables(emitted.tables.to_bytes(), side_car)
    assert tables == emitted.tables
    assert without_order(plan_of(tables, schedule.problem, side_car)) == without_order(schedule.plan)


def is_read_as_its_plan(periodic: PeriodicSchedule, tables: Tables) -> None:
    """The tables come back as they were, and as the plan that is written down."""
    side_car = CTables(periodic, "it").side_car()
    read = read_tables(tables.to_bytes(), side_car)
    assert read == tables
    plan = plan_of(as_written(periodic, read), periodic.written.problem, side_car)
    assert without_order(plan) == without_order(periodic.written.plan)


@pytest.mark.parametrize("name", LOOPS)
def test_looped_tables_come_back_as_the_plan(name: str) -> None:
    is_read_as_its_plan(*looped(name))


def test_a_side_car_of_another_plan_is_refused() -> None:
    periodic, tables = looped("stream")
    plain, problem = as_written(periodic, tables), periodic.written.problem
    side_car = json.loads(CTables(periodic, "it").side_car())
    other = {**side_car, "plan": {**side_car["plan"], "marker_modes": {"nobody": 0}}}
    for wrong in ({**side_car, "plan": None}, other):
        with pytest.raises(InvalidInputError, match="another plan"):
            plan_of(plain, problem, json.dumps(wrong))
    two = (replace(plain.operands[0], offset=plain.operands[0].offset + 128), *plain.operands[1:])
    with pytest.raises(InvalidInputError, match="has two places"):
        plan_of(replace(plain, operands=two), problem, json.dumps(side_car))


def test_what_is_read_is_whole_and_of_this_abi() -> None:
    periodic, tables = looped("stream")
    side_car, data = CTables(periodic, "it").side_car(), tables.to_bytes()
    other = json.dumps({**json.loads(side_car), "crc32": "00000000"})
    old = bytearray(data)
    old[4:8] = bytes((0, 0, 1, 0))
    damaged = bytearray(data)
    damaged[-3] ^= 4
    for wrong, car, what in (
        (data[:100], side_car, "shorter than their header"),
        (data[:-4], side_car, "cut off"),
        (data + b"\0", side_car, "behind their last record"),
        (b"ELF." + data[4:], side_car, "not tables of hexloom"),
        (bytes(old), side_car, "ABI 0, this hexloom reads 1"),
        (bytes(damaged), side_car, "damaged"),
        (data, other, "the side-car is that of"),
    ):
        with pytest.raises(InvalidInputError, match=what):
            read_tables(wrong, car)


@pytest.mark.parametrize(
    "name", ["sliced", *(pytest.param(name, marks=pytest.mark.slow) for name in ("stream", "two"))]
)
def test_no_timing_breaks_loops_and_no_wait_of_them_is_redundant(name: str) -> None:
    _, tables = looped(name)
    assert breaks_without_any_wait(*looped(name)) == len(waits_of(tables)) > 0


def breaks_without_any_wait(periodic: PeriodicSchedule, tables: Tables) -> int | None:
    """Explore all interleavings, with all waits and without each of them; how many there are, None: too many states."""
    found = Explorer(periodic.written, as_written(periodic, tables), MOST_STATES).explore()
    assert found.problems == []
    if not found.complete:
        return None
    for k in range(len(waits_of(tables))):
        fewer = as_written(periodic, without_wait(tables, k))
        without = Explorer(periodic.written, fewer, MOST_STATES).explore(until_first=True)
        assert without.problems != [], k
    return len(waits_of(tables))


def test_the_size_does_not_depend_on_the_trip_count() -> None:
    periodic, tables = looped("stream")
    sizes = []
    (stretch,) = periodic.stretches
    for left in (6 * 10**2, 6 * 10**5, 6 * 10**8):
        trips = stretch.runs - stretch.left_out + left
        longer = stretch.model_copy(update={"runs": trips, "left_out": left, "count": {"t": trips}})
        sized = make_looped_tables(periodic.model_copy(update={"trips": {"t": trips}, "stretches": (longer,)}))
        sizes.append(len(sized.to_bytes()))
        assert usual_laps(sized)[0] == least_laps(tables)[0] + left
        assert sized.tasks == tables.tasks
    assert len(set(sizes)) == 1


def test_laps_outside_of_what_is_proven_are_refused() -> None:
    _, tables = looped("two")
    (first, second, *_), least = tables.parameters, least_laps(tables)
    check_laps(tables, least)
    check_laps(tables, (first.most, second.most))
    for laps in ((least[0] - 1, least[1]), (first.most + 1, least[1]), (least[0] + 1, least[1]), least[:1]):
        with pytest.raises(InvalidInputError, match="laps"):
            check_laps(tables, laps)


def test_counters_never_come_near_half_their_range() -> None:
    """2^31 triggers cannot be told from none: the most laps stay below, for every event and every iteration."""
    for name in LOOPS:
        _, tables = looped(name)
        groups = len(tables.groups)
        for k, loop in enumerate(tables.loops):
            most = tables.parameters[loop.parameter].most
            events = tables.events[loop.first_event : loop.first_event + loop.event_count]
            assert all(event.triggers + most < 2**31 for event in events)
            iterations = [advance.iterations for advance in tables.advances[k * groups : (k + 1) * groups]]
            assert max(iterations) * most < 2**32


def test_laps_written_out_follow_each_other() -> None:
    _, tables = looped("stream")
    (loop,) = tables.loops
    for laps in (least_laps(tables)[0], least_laps(tables)[0] + 6):
        out = written_out(tables, (laps,))
        assert len(out.tasks) == len(tables.tasks) + (laps - 1) * loop.task_count
        again = replace(out, header=replace(out.header, crc32=0, header_crc32=0)).sealed()
        assert again == out
        for stage in range(len(tables.stages)):
            iterations = [task.iteration for task in out.tasks if task.stage == stage]
            assert all(b == a + 1 for a, b in pairwise(iterations))
