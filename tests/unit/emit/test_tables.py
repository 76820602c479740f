from __future__ import annotations

import itertools
import random
import re
import sys
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import networkx as nx
import pytest
from unit.emit import examples
from unit.emit.randoms import random_schedule
from unit.emit.runs import execute

from hexloom.emit import records
from hexloom.emit.files import shared_text
from hexloom.emit.orders import Orders
from hexloom.emit.rows import Task
from hexloom.emit.tables import make_tables, schedule_hash, target_arch
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.errors import InvalidInputError, PlanError

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables
    from hexloom.optimizer.schedule import Schedule

ALL_RECORDS = [value for value in vars(records).values() if isinstance(value, records.Record)]


# --- layout -----------------------------------------------------------------------------------------------


def test_the_shipped_header_checks_every_size_and_offset() -> None:
    text = shared_text("hexloom_layout.h")
    checks = dict(re.findall(r"HEXLOOM_STATIC_CHECK\((\w+), (?:sizeof|offsetof)\(.*?\) == (\d+)u\);", text))
    expected = {}
    for record in ALL_RECORDS:
        offset = 0
        expected[f"{record.name}_size"] = str(record.size_bytes)
        for name, bits, count in record.fields:
            assert offset % (bits // 8) == 0, (record.name, name)
            expected[f"{record.name}_{name}"] = str(offset)
            offset += bits // 8 * count
        assert offset == record.size_bytes
    assert checks == expected


def test_the_shipped_header_declares_the_fields_in_their_order_and_width() -> None:
    text = shared_text("hexloom_tables.h")
    for record in ALL_RECORDS:
        body = re.search(rf"typedef struct hexloom_{record.name} {{(.*?)}}", text, re.DOTALL)
        assert body is not None
        found = re.findall(r"^\s+uint(\d+)_t (\w+)(?:\[(\d+)\])?;", body[1], re.MULTILINE)
        assert [(name, int(bits), int(count or 1)) for bits, name, count in found] == list(record.fields)


def test_constants_are_the_same_in_python_and_c() -> None:
    defined = dict(re.findall(r"#define HEXLOOM_(\w+) \((\w+?)u\)", shared_text("hexloom_tables.h")))
    assert defined
    for name in defined.keys() - {"DDR_MAPPED"}:
        assert int(defined[name], 0) == getattr(records, name), name


def test_a_record_that_does_not_fit_says_so() -> None:
    task = Task(*[0] * 14)
    assert len(records.TASK.pack(task)) == 64
    with pytest.raises(InvalidInputError, match=r"task\.tile in 32 bits; -1 does not fit"):
        records.TASK.pack(replace(task, tile=-1))
    with pytest.raises(InvalidInputError, match=r"task\.mode in 16 bits; 65536 does not fit"):
        records.TASK.initialiser(replace(task, mode=65536))


def test_the_checksum_covers_every_byte(small: Schedule) -> None:
    tables = make_tables(small)
    blank = replace(tables, header=replace(tables.header, crc32=0)).to_bytes()
    assert tables.header.crc32 == zlib.crc32(blank) == tables.checksum()
    assert len(blank) == records.HEADER.size_bytes + sum(
        record.size_bytes * len(rows) for _, record, rows in tables.parts
    )


def test_the_hash_begins_like_the_digest_of_plan_and_problem(small: Schedule) -> None:
    one = make_tables(small).header.schedule_hash
    slower = small.model_copy(update={"plan": small.plan.model_copy(update={"addresses": {}})})
    assert schedule_hash(small) == one != schedule_hash(slower)


@pytest.mark.parametrize(
    ("machine", "arch"),
    [("hexagon-v79", 79), ("v81", 81), (None, 0), ("my-board", 0), ("h100", 0), ("rev79", 0), ("hexagon-v79-oc", 0)],
)
def test_the_target_is_read_from_the_name_of_the_machine(machine: str | None, arch: int) -> None:
    assert target_arch(machine) == arch


# --- contents ---------------------------------------------------------------------------------------------


def of(ops: list[Op], edges: list[tuple[str, str]] = [], engines: tuple[Engine, ...] = ()) -> Schedule:  # noqa: B006
    engines = engines or (Engine(name="hmx"), Engine(name="hvx", units=2))
    return examples.schedule_of(
        Problem(engines=engines, ops=tuple(ops), precedences=tuple(Precedence(before=a, after=b) for a, b in edges))
    )


def work(name: str, engine: str = "hvx", ticks: int = 5, ids: tuple[int, ...] = (0,), late: int = 0) -> Op:
    use = Use(engine=engine, ticks=ticks, units=len(ids), unit_ids=ids)
    return Op(name=name, modes=(Mode(uses=(use,), latency_ticks=ticks + late),))


def awaited(tables: Tables, task: int) -> list[tuple[int, int]]:
    (found,) = {
        waits
        for entry, waits in zip(tables.entries, tables.waits, strict=True)
        if entry.task == task and entry.action in (records.RUN, records.START)
    }
    return [(w.event, w.threshold) for w in found]


def test_the_follower_of_a_gang_waits_for_every_slice() -> None:
    tables = make_tables(of([work("gang", ids=(0, 1)), work("next", "hmx")], [("gang", "next")]))
    assert [task.slice_count for task in tables.tasks] == [2, 1]
    assert awaited(tables, 1) == [(tables.tasks[0].trigger_event, 2)]
    runs = [(e.task, e.slice) for e in tables.entries]
    assert sorted(runs) == [(0, 0), (0, 1), (1, 0)]


def test_a_slice_that_ends_first_does_not_let_the_next_op_of_its_queue_read_the_others() -> None:
    schedule = of([work("gang", ids=(0, 1)), work("next")], [("gang", "next")])
    assert schedule.plan.waits == ()  # in the plan the queue alone orders them
    assert awaited(make_tables(schedule), 1) == [(0, 2)]


def test_gangs_that_need_nothing_of_each_other_do_not_wait() -> None:
    assert make_tables(of([work("one", ids=(0, 1)), work("two", ids=(0, 1))])).events == ()


def test_the_queue_orders_what_it_can() -> None:
    tables = make_tables(of([work("one"), work("two")], [("one", "two")]))
    assert (set(tables.waits), tables.events) == ({()}, ())
    assert {task.trigger_event for task in tables.tasks} == {records.NONE}


def test_producers_that_are_awaited_together_share_an_event() -> None:
    ops = [work("a", ids=(0,)), work("b", ids=(1,)), work("c", "hmx")]
    tables = make_tables(of(ops, [("a", "c"), ("b", "c")]))
    assert [(e.triggers, e.waiters) for e in tables.events] == [(2, 1)]
    assert awaited(tables, 2) == [(0, 2)]


def test_markers_are_folded_away() -> None:
    mark = Op(name="mark", modes=(Mode(latency_ticks=0),))
    tables = make_tables(of([work("a"), mark, work("b", "hmx")], [("a", "mark"), ("mark", "b")]))
    assert (len(tables.tasks), tables.markers) == (2, (1,))
    assert [task.op for task in tables.tasks] == [0, 2]
    assert awaited(tables, 1) == [(0, 1)]


def test_a_result_that_comes_late_is_awaited_even_in_its_own_queue() -> None:
    tables = make_tables(of([work("issue", late=7), work("next")], [("issue", "next")]))
    assert [task.flags for task in tables.tasks] == [records.TASK_ASYNC, 0]
    assert awaited(tables, 1) == [(0, 1)]


def test_work_without_a_thread_gets_a_queue_of_its_own() -> None:
    engines = (Engine(name="hvx"), Engine(name="unit", kind="resource"))
    ops = [work("a", "unit"), work("b", "unit"), work("c"), Op(name="d", modes=(Mode(latency_ticks=9),))]
    tables = make_tables(of(ops, [("a", "c"), ("d", "c")], engines))
    assert sorted(q.kind for q in tables.queues) == [records.HVX, records.DETACHED, records.DETACHED]
    assert sorted(q.entry_count for q in tables.queues) == [1, 1, 2]
    assert awaited(tables, 2) == [(0, 2)]
    assert tables.tasks[2].kind == records.HVX
    assert tables.tasks[3].kind == records.OTHER


def test_kinds_operands_and_map(small: Schedule) -> None:
    tables = make_tables(small)
    ops = small.problem.ops
    for task in tables.tasks:
        op = ops[task.op]
        dma = op.modes[0].dma is not None
        assert task.kind == (records.DMA if dma else records.HMX if op.stage == "matmul" else records.HVX)
        assert tables.stages[task.stage] == (op.task, op.stage)
        assert (tables.groups[task.group], task.tile) == (op.task, op.tile)
        used = tables.operands[task.first_operand : task.first_operand + task.operand_count]
        names = {small.problem.buffers[operand.buffer].name for operand in used}
        assert names == {b.name for b in small.problem.buffers if op.name in b.ops}
        assert all(operand.offset == tables.buffers[operand.buffer].offset for operand in used)
    assert tables.header.vtcm_bytes == max(b.offset + b.bytes for b in tables.buffers)
    assert [b.flags for b in tables.buffers][-1] == 0
    acts = next(k for k, b in enumerate(small.problem.buffers) if b.name == "gemm.x")
    assert tables.buffers[acts].flags == records.BUFFER_RESIDENT


def test_a_plan_that_does_not_order_a_dependency_is_refused() -> None:
    backwards = of([work("a"), work("b", "hmx")], [("b", "a")])
    forwards = of([work("a"), work("b", "hmx")], [("a", "b")]).problem
    with pytest.raises(PlanError, match="'b' must follow 'a'"):
        make_tables(backwards.model_copy(update={"problem": forwards}))


# --- safety -----------------------------------------------------------------------------------------------


def needs(schedule: Schedule) -> list[tuple[str, str]]:
    """Pairs of ops that any run must keep in order, through markers too."""
    graph: nx.DiGraph[str] = nx.DiGraph([(e.before, e.after) for e in schedule.problem.precedences])
    return [(a, b) for a in graph for b in nx.descendants(graph, a)]


def wrongs(schedule: Schedule, tables: Tables, seed: int) -> list[str]:
    """Execute the tables once; tell what went wrong."""
    run = execute(tables, random.Random(seed))
    names = [schedule.problem.ops[task.op].name for task in tables.tasks]
    begun = {names[task]: time for task, time in run.begun.items()}
    over = {names[task]: time for task, time in run.over.items()}
    found = [f"{name} never ends" for name in names if name not in over]
    if found:
        return found
    found += [f"{b} before {a}" for a, b in needs(schedule) if a in over and b in over and begun[b] < over[a]]
    lives = []
    for buffer in schedule.problem.buffers:
        users = [op for op in buffer.ops if op in over]
        low = schedule.plan.addresses[buffer.name]
        if users and buffer.occupied_bytes and buffer.resident is not True:
            born = -1 if buffer.resident == "from_start" else min(begun[op] for op in users)
            died = sys.maxsize if buffer.resident == "to_end" else max(over[op] for op in users)
            lives.append((buffer.name, low, low + buffer.occupied_bytes, born, died, buffer.pool))
    for (a, *x), (b, *y) in itertools.combinations(lives, 2):
        if x[4] == y[4] and x[0] < y[1] and y[0] < x[1] and x[2] < y[3] and y[2] < x[3]:
            found.append(f"{a} over {b}")
    resources = {e.name for e in schedule.problem.engines if e.kind == "resource"}
    held = [
        (engine, unit, begun[a.op], over[a.op], a.op)
        for a in schedule.plan.assignments
        for engine, ids in a.units.items()
        if engine in resources and a.op in over
        for unit in ids
    ]
    for one, other in itertools.combinations(held, 2):
        if one[:2] == other[:2] and one[2] < other[3] and other[2] < one[3]:
            found.append(f"{one[4]} beside {other[4]} on {one[:2]}")
    return found


@pytest.mark.parametrize("seed", range(120))
def test_no_durations_break_a_random_schedule(seed: int) -> None:
    schedule = random_schedule(seed)
    assert check_schedule(schedule) == []
    tables = make_tables(schedule)
    assert [wrong for k in range(12) for wrong in wrongs(schedule, tables, k)] == []


@pytest.mark.parametrize("seed", range(60))
def test_no_durations_break_a_schedule_with_ranges_in_parts(seed: int) -> None:
    schedule = random_schedule(seed, parts=True)
    assert check_schedule(schedule) == []
    tables = make_tables(schedule)
    assert [wrong for k in range(12) for wrong in wrongs(schedule, tables, k)] == []


def test_no_durations_break_the_example(small: Schedule) -> None:
    tables = make_tables(small)
    assert [wrong for k in range(30) for wrong in wrongs(small, tables, k)] == []


def test_the_executor_sees_what_missing_waits_do(small: Schedule) -> None:
    tables = make_tables(small)
    bare = replace(tables, tasks=tuple(replace(task, wait_event=records.NONE) for task in tables.tasks))
    found = " ".join(wrong for k in range(5) for wrong in wrongs(small, bare, k))
    assert "before" in found and "over" in found
    more = (replace(task, wait_threshold=task.wait_threshold + 1) for task in tables.tasks)
    endless = replace(tables, tasks=tuple(more))
    assert any("never ends" in wrong for wrong in wrongs(small, endless, 0))


def order_graph(orders: Orders, waits: list[tuple[int, int]]) -> nx.DiGraph[tuple[str, int, int]]:
    """Nodes: an entry begins, or is over, by op and lane."""
    graph: nx.DiGraph[tuple[str, int, int]] = nx.DiGraph()
    for q, lane in enumerate(orders.lanes):
        for step in lane.steps:
            graph.add_edge(("begins", step.op, q), ("over", step.op, q))
        for one, other in itertools.pairwise(lane.steps):
            left = "begins" if one.action == "start" or orders.late[one.op] else "over"
            graph.add_edge((left, one.op, q), ("over" if other.action == "wait" else "begins", other.op, q))
    at = {i: [q for q, lane in enumerate(orders.lanes) if any(s.op == i for s in lane.steps)] for i, _ in orders.turns}
    for a, b in waits:
        graph.add_edges_from((("over", a, p), ("begins", b, q)) for p in at[a] for q in at[b])
    return graph


@pytest.mark.parametrize("seed", range(40))
def test_every_wait_is_needed(seed: int) -> None:
    orders = Orders(random_schedule(seed))
    waits = [(a, b) for b, befores in enumerate(orders.waits) for a in befores]
    assert nx.is_directed_acyclic_graph(order_graph(orders, waits))
    for a, b in waits:
        graph = order_graph(orders, [w for w in waits if w != (a, b)])
        ends = [node for node in graph if node[:2] == ("over", a)]
        begins = [node for node in graph if node[:2] == ("begins", b)]
        assert not all(nx.has_path(graph, x, y) for x in ends for y in begins), (a, b)
