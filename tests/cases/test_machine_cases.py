"""Cases that need a machine: in-place reuse, DMA past the cache after a cached write, rings and descriptors of DMA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import memory_is_sound, rows

from hexloom import Result, Workload, load_hw, solve
from hexloom.emit import records
from hexloom.emit.tables import make_tables
from hexloom.optimizer.check import check_plan, check_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.plan import Queue
    from hexloom.optimizer.schedule import Schedule

    Case = Callable[[str], Any]

pytestmark = pytest.mark.shared
BARE = load_hw("hexagon-v81").with_values({"overheads.op": 0})


def workload_of(data: Any, path: str | None = None) -> Workload:
    """Return the workload of a case; ``path`` is that of its DMA."""

    def regions(names: list[str], eng: str) -> list[dict[str, Any]]:
        given = {"path": path} if path and eng == "dma" else {}
        return [{"tensor": name, "bytes": 4096, **given} for name in names]

    ops = [
        {
            "name": task["id"],
            "engine": task["eng"],
            "duration_us": task["dur"],
            "after": task.get("after", []),
            "buffers": task.get("bufs", []),
            "in_place": [task["inplace"]] if "inplace" in task else [],
            "reads": regions(task.get("ddr_reads", []), task["eng"]),
            "writes": regions(task.get("ddr_writes", []), task["eng"]),
        }
        for task in data["tasks"]
    ]
    buffers = [{"name": b["id"], "size_bytes": b["bytes"]} for b in data.get("bufs", [])]
    return Workload.from_data({"name": "case", "tasks": [{"name": "case", "ops": ops, "buffers": buffers}]})


def ord_03(data: Any) -> Schedule:
    machine = BARE.with_values({"engines.hvx_contexts": 1, "vtcm.total_bytes": data["machine"]["vtcm"]})
    schedule = solve(workload_of(data), machine, time_limit_s=1).schedule
    assert schedule is not None
    memory_is_sound(schedule)
    return schedule


def test_ord_03_in_place_after_every_other_reader(case: Case) -> None:
    separate, in_place = (ord_03(case("ORD-03")[variant]) for variant in ("separate", "inplace"))
    assert (separate.status, separate.us(separate.makespan)) == ("OPTIMAL", 40)
    assert (in_place.status, in_place.us(in_place.makespan)) == ("OPTIMAL", 50)
    assert rows(in_place)["B"].start >= rows(in_place)["C"].observed


def test_ord_03_a_table_that_overlaps_them_is_refused(case: Case) -> None:
    """The plan without C -> B, and a problem that forgot the edge: the accesses alone show it."""
    schedule = ord_03(case("ORD-03")["inplace"])
    plan = schedule.plan.model_copy(
        update={"waits": tuple(w for w in schedule.plan.waits if (w.before, w.after) != ("C", "B"))}
    )
    kept = tuple(e for e in schedule.problem.precedences if (e.before, e.after) != ("C", "B"))
    forgot = schedule.problem.model_copy(update={"precedences": kept})
    bad = schedule.model_copy(update={"plan": plan, "problem": forgot})
    found = {v.kind: v for v in check_schedule(bad)}
    assert set(found["hazard_unordered"].parties) == {"B", "C"}


def test_ord_15_past_the_cache_or_through_it(case: Case) -> None:
    data = case("ORD-15")
    assert data["machine"]["dma_bypass"] is True
    machine = BARE.with_values({"overheads.cache_range": data["flush_cost"]})
    past = solve(workload_of(data), machine, time_limit_s=1)
    assert (past.status, past.makespan_us) == ("OPTIMAL", 12)
    assert past.schedule is not None
    assert [row.op for row in sorted(past.schedule.rows, key=lambda row: row.start)] == ["v", "v.clean", "d"]
    through = solve(workload_of(data, "cached"), machine, time_limit_s=1)
    assert (through.status, through.makespan_us) == ("OPTIMAL", 10)


def entries_of(schedule: Schedule) -> list[list[tuple[str, int]]]:
    """Return (op, action) of every entry of the emitted queues."""
    tables = make_tables(schedule)
    names = [schedule.problem.ops[task.op].name for task in tables.tasks]
    return [
        [(names[e.task], e.action) for e in tables.entries[q.first_entry : q.first_entry + q.entry_count]]
        for q in tables.queues
    ]


def test_ord_09_the_emitted_table_never_overfills_the_ring(case: Case) -> None:
    """A ring of 4 entries takes 3: the fourth and the fifth push come after a wait each."""
    data = case("ORD-09")
    depth = data["machine"]["dma_ring"]
    machine = BARE.with_values({"engines.hvx_contexts": 1, "dma.ring_depth": depth})
    schedule = solve(workload_of(data), machine, time_limit_s=1).schedule
    assert schedule is not None and schedule.status == "OPTIMAL"
    most, waits, before = 0, 0, []
    for queue in entries_of(schedule):
        now = 0
        for _, action in queue:
            if action == records.START:
                before.append(waits)
            now += {records.START: 1, records.WAIT: -1}.get(action, 0)
            waits += action == records.WAIT
            most = max(most, now)
    assert most == depth - 1
    assert (before[3] >= 1, before[4] >= 2, len(before)) == (True, True, 5)

    def pushes_first(queue: Queue) -> Queue:
        order = {"start": 0, "wait": 1, "run": 2}
        return queue.model_copy(update={"entries": tuple(sorted(queue.entries, key=lambda e: order[e.action]))})

    queues = tuple(pushes_first(queue) for queue in schedule.plan.queues)
    bad = schedule.plan.model_copy(update={"queues": queues})
    (found,) = check_plan(schedule.problem, bad)
    assert found.kind == "cycle"
    assert "dma_queue0 holds 3" in found.message


@pytest.mark.parametrize(("stride", "descriptors"), [(None, 32), (65_535, 1)])
def test_ord_10_a_descriptor_per_row_and_one_wait(case: Case, stride: int | None, descriptors: int) -> None:
    """Fields of 16 bits: rows further apart than they can say take a descriptor each, the task one wait for all."""
    data = case("ORD-10")
    schedule = descriptor_rows(data, data["tasks"][0]["rows"], stride).schedule
    assert schedule is not None and schedule.status == "OPTIMAL"
    (act,) = (op for op in schedule.problem.ops if op.name == "act")
    assert [mode.dma.descriptors for mode in act.modes if mode.dma is not None] == [descriptors]
    actions = [action for queue in entries_of(schedule) for _, action in queue]
    assert sorted(actions) == [records.START, records.WAIT]
    tables = make_tables(schedule)
    (operand,) = tables.operands
    assert (operand.offset, operand.buffer) == (schedule.plan.addresses["a"], 0)


def test_ord_10_more_rows_than_the_ring_has_entries(case: Case) -> None:
    result = descriptor_rows(case("ORD-10"), 300, None)
    assert result.status == "INFEASIBLE" and result.infeasibility is not None
    assert (result.infeasibility.need, result.infeasibility.have) == (300, 255)


def descriptor_rows(data: Any, rows: int, stride: int | None) -> Result:
    """Solve the transfer of the case with as many rows, on a machine whose descriptors have fields as small."""
    (task,) = data["tasks"]
    machine = load_hw("hexagon-v73")
    assert 2**machine.dma.row_field_bits.whole - 1 == data["machine"]["dma_field_max"]
    assert machine.dma.ring_depth.whole == data["machine"]["dma_ring"]
    op = {
        "name": task["id"],
        "engine": task["eng"],
        "transfer_bytes": rows * task["width"],
        "rows": rows,
        "stride_bytes": stride or task["src_stride"],
        "buffers": task["bufs"],
    }
    (buffer,) = data["bufs"]
    buffers = [{"name": buffer["id"], "size_bytes": rows * task["width"]}]
    work = Workload.from_data({"name": "case", "tasks": [{"name": "case", "ops": [op], "buffers": buffers}]})
    return solve(work, machine, time_limit_s=1)
