from __future__ import annotations

import io
import json
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jsonschema
from rich.console import Console
from unit.small import buffer, on, problem

from hexloom import Problem, WhatIf, Workload, load_hw, solve, what_if
from hexloom.emit.what_if_table import what_if_table
from hexloom.optimizer import what_if as module
from hexloom.optimizer.evaluate import is_valid
from hexloom.optimizer.schemas import schema_texts
from hexloom.optimizer.solve import Result

if TYPE_CHECKING:
    import pytest

    from hexloom.optimizer.what_if import WhatIfRow


def rows(found: WhatIf, field: str) -> list[WhatIfRow]:
    return [row for row in found.rows if row.field == field]


def tiles(capacity: int) -> Problem:
    """Two tiles of 6 B, each loaded for 10 and worked on for 10 ticks."""
    ops = [on("lut", "L0", 10), on("hmx", "C0", 10), on("lut", "L1", 10), on("hmx", "C1", 10)]
    buffers = (buffer("b0", 6, "L0", "C0"), buffer("b1", 6, "L1", "C1"))
    return problem(*ops, after="L0>C0 L1>C1", buffers=buffers, capacity=capacity)


def test_more_scratchpad_buys_the_overlap() -> None:
    found = what_if(tiles(8), time_limit_s=0.5, seed=1, fields=("scratchpad",))
    assert [(row.value, row.status, row.makespan) for row in found.rows] == [
        (4, "INFEASIBLE", None),
        (6, "OPTIMAL", 40),
        (8, "OPTIMAL", 40),
        (12, "OPTIMAL", 30),
        (16, "OPTIMAL", 30),
    ]
    assert [row.current for row in found.rows] == [False, False, True, False, False]
    assert (found.rows[2].bottleneck, found.rows[3].bottleneck) == ("scratchpad", "hmx")
    assert all(row.gap == 0 for row in found.rows[1:])


def test_a_point_is_what_solving_it_gives() -> None:
    of = problem(on("hvx", "a", 7), on("hvx", "b", 5), on("hvx", "c", 4), on("hmx", "d", 3), after="a>d")
    found = what_if(of, time_limit_s=0.5, seed=1, fields=("hvx",))
    assert [row.value for row in found.rows] == [1, 2, 3, 4]
    for row in found.rows:
        engines = tuple(e.model_copy(update={"units": row.value}) if e.name == "hvx" else e for e in of.engines)
        again = solve(Problem(engines=engines, ops=of.ops, precedences=of.precedences), time_limit_s=0.5, seed=1)
        assert (row.makespan, row.lower_bound) == (again.makespan_us, again.lower_bound_us)


WORK = {
    "name": "w",
    "hw": "hexagon-v79",
    "tasks": [
        {"name": "norm", "kernel": "rmsnorm", "rows": 4, "cols": 2048},
    ],
}


def test_values_are_physical_and_more_is_never_worse() -> None:
    found = what_if(Workload.from_data(WORK), time_limit_s=0, seed=1, fields=("vtcm", "hvx", "ddr"))
    assert found.machine == "hexagon-v79"
    assert {(row.field, row.unit) for row in found.rows} == {("vtcm", "KiB"), ("hvx", "contexts"), ("ddr", "GB/s")}
    machine = load_hw("hexagon-v79")
    current = {row.field: row.value for row in found.rows if row.current}
    assert current == {
        "vtcm": machine.vtcm.total_bytes.whole // 1024,
        "hvx": machine.hvx_contexts,
        "ddr": machine.ddr.total_gb_s.exact,
    }
    for field in current:
        of = rows(found, field)
        assert [row.value for row in of] == sorted(row.value for row in of)
        for less, more in pairwise(of):
            assert less.makespan is not None and more.makespan is not None
            assert more.makespan <= less.makespan
            assert more.lower_bound is not None and more.lower_bound <= more.makespan


def test_the_better_plan_for_less_is_carried_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is worse with three contexts than with two."""

    def unlucky(work: Any, *args: Any, **keys: Any) -> Result:
        hvx = next(e for e in work.engines if e.name == "hvx")
        if hvx.units == 3:
            return Result("LIMIT", None, None, 0.0)
        return solve(work, *args, **keys)

    monkeypatch.setattr(module, "solve", unlucky)
    of = problem(on("hvx", "a", 7), on("hvx", "b", 5), on("hvx", "c", 4))
    found = what_if(of, time_limit_s=0.2, seed=1, fields=("hvx",))
    assert [(row.value, row.makespan, row.carried) for row in found.rows] == [
        (1, 16, False),
        (2, 9, False),
        (3, 9, True),
        (4, 7, False),
    ]
    out = io.StringIO()
    Console(file=out, width=200, color_system=None).print(what_if_table(found))
    assert "9 ticks*" in out.getvalue() and "* the plan for less" in out.getvalue()


def test_stages_and_slack() -> None:
    of = problem(
        on("hmx", "A", 9, stage="A"), on("hvx", "D", 7, stage="D"), on("hmx", "C", 4, stage="C"), after="A>C D>C"
    )
    found = what_if(of, time_limit_s=0.2, seed=1, fields=("stages",))
    assert {row.field: (row.value, row.makespan) for row in found.rows} == {
        "time of A": (0.5, 11),
        "time of D": (0.5, 13),
        "time of C": (0.5, 11),
    }
    assert {s.op: s.slack for s in found.slack} == {"A": 0, "D": 2, "C": 0}


def test_a_start_is_used_only_where_it_is_valid() -> None:
    first = solve(tiles(12), seed=1)
    assert first.decision is not None
    assert is_valid(tiles(12), first.decision)
    assert not is_valid(tiles(8), first.decision)
    assert not is_valid(problem(on("hvx", "a", 1)), first.decision)
    again = solve(tiles(12), time_limit_s=0, start=first.decision)
    assert again.makespan_us == Fraction(30)
    assert solve(tiles(8), time_limit_s=0.5, seed=1, start=first.decision).makespan_us == 40


def test_the_file_is_what_its_schema_says() -> None:
    found = what_if(tiles(8), time_limit_s=0.2, seed=1)
    assert WhatIf.from_json(found.to_json()) == found

    jsonschema.validate(json.loads(found.to_json()), json.loads(schema_texts()["what_if.schema.json"]))
