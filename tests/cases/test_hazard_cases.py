"""Cases about regions: in-place reuse, and DMA past the cache after a cached write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cases.answers import memory_is_sound, rows

from hexloom import Workload, load_hw, solve
from hexloom.optimizer.check import check_schedule

if TYPE_CHECKING:
    from collections.abc import Callable

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
