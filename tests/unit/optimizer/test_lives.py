"""Buffers that are alive before the first op or after the last: from the workload to the checker."""

from __future__ import annotations

from typing import Any

import pytest
from unit.small import buffer, on, problem, run

from hexloom import solve
from hexloom.formulations.bounds import lower_bounds
from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.problem import Buffer, Problem
from hexloom.hwmodels import load_hw
from hexloom.optimizer.arithmetic import check_arithmetic
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.lower import lower
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait
from hexloom.optimizer.schedule import BoundRow
from hexloom.optimizer.workload import Workload

MACHINE = load_hw("hexagon-v81").with_values({"overheads.op": 0})


def two(resident: Any, deadline: int | None = None) -> Problem:
    """Ops a and b of 3 ticks on engines of their own; x of a and y of b do not fit into the scratchpad together."""
    return problem(
        on("hvx", "a", 3, deadline_ticks=deadline),
        on("hmx", "b", 3),
        buffers=(buffer("x", 6, "a", resident=resident), buffer("y", 6, "b")),
        capacity=10,
    )


def planned(*waits: tuple[str, str], **addresses: int) -> Plan:
    return Plan(
        assignments=(Assignment(op="a", units={"hvx": (0,)}), Assignment(op="b", units={"hmx": (0,)})),
        queues=tuple(
            Queue(engine=engine, unit=0, entries=(QueueEntry(op=op, action="run"),))
            for engine, op in (("hvx", "a"), ("hmx", "b"))
        ),
        waits=tuple(Wait(before=before, after=after) for before, after in waits),
        addresses=addresses,
    )


# --- the order that a life leaves -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resident", "first", "last"), [(False, "a", "b"), ("from_start", "a", "b"), ("to_end", "b", "a")]
)
def test_who_comes_first_follows_from_the_lives(resident: Any, first: str, last: str) -> None:
    result = solve(two(resident), seed=1)
    assert result.schedule is not None
    assert (result.status, result.schedule.makespan) == ("OPTIMAL", 6)
    times = {row.op: row for row in result.schedule.rows}
    if resident:
        assert times[first].observed <= times[last].start
        assert [(w.before, w.after) for w in result.schedule.plan.waits] == [(first, last)]


def test_what_stays_to_the_end_makes_a_deadline_impossible() -> None:
    """Result x of a stays: b must be over before a starts, at tick 3; without it a can be first."""
    assert solve(two(False, deadline=5), seed=1).status == "OPTIMAL"
    assert solve(two("from_start", deadline=5), seed=1).status == "OPTIMAL"
    assert solve(two("to_end", deadline=5), seed=1).status == "INFEASIBLE"


def test_content_from_before_frees_its_bytes_when_it_is_read() -> None:
    """A resident buffer would never leave the 6 bytes of y."""
    assert solve(two("from_start"), seed=1).status == "OPTIMAL"
    assert solve(two(True), seed=1).status == "INFEASIBLE"


def test_a_life_needs_an_op_at_its_edge() -> None:
    with pytest.raises(
        ValueError, match="'x' is resident from_start, but no op uses it: nothing says when its life ends"
    ):
        problem(on("hvx", "a", 1), buffers=(buffer("x", 1, resident="from_start"),), capacity=4)
    with pytest.raises(ValueError, match="when its life begins; name an op, or say resident: true"):
        problem(on("hvx", "a", 1), buffers=(buffer("x", 1, resident="to_end"),), capacity=4)


# --- the checker ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resident", "waits", "kinds"),
    [
        ("from_start", ("a", "b"), []),
        ("from_start", ("b", "a"), ["buffer_unordered"]),
        ("to_end", ("b", "a"), []),
        ("to_end", ("a", "b"), ["buffer_unordered"]),
        (True, ("a", "b"), ["resident_overlap"]),
        (True, ("b", "a"), ["resident_overlap"]),
    ],
)
def test_the_checker_knows_which_end_of_a_life_is_open(resident: Any, waits: tuple[str, str], kinds: list[str]) -> None:
    found = check_plan(two(resident), planned(waits, x=0, y=4))
    assert [violation.kind for violation in found] == kinds
    assert all(violation.parties[:2] == ("x", "y") for violation in found)


def test_the_checker_names_what_is_overwritten() -> None:
    early, late = (
        check_plan(two(resident), planned(waits, x=0, y=4))[0].message
        for resident, waits in (("from_start", ("b", "a")), ("to_end", ("a", "b")))
    )
    assert early == (
        "buffers 'x' [0, 6) and 'y' [4, 10) share 2 B, but 'y' has the earlier users, and 'x' is there from the start"
    )
    assert (
        late == "buffers 'x' [0, 6) and 'y' [4, 10) share 2 B, but 'x' has the earlier users, and 'x' stays to the end"
    )


@pytest.mark.parametrize(("resident", "edge"), [("from_start", "from the start"), ("to_end", "to the end")])
def test_two_that_are_there_at_an_edge_share_nothing(resident: Any, edge: str) -> None:
    p = two(resident)
    p = p.model_copy(update={"buffers": tuple(b.model_copy(update={"resident": resident}) for b in p.buffers)})
    (found,) = check_plan(p, planned(("a", "b"), x=0, y=4))
    assert found.kind == "resident_overlap"
    assert found.message.endswith(f"share 2 B, but both are alive {edge}")


# --- bounds and arithmetic ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resident", "least", "best"), [(False, 2 + 3 + 3, 9), ("from_start", 5 + 3, 9), ("to_end", 3 + 7, 10)]
)
def test_a_bound_counts_the_time_before_and_after(resident: Any, least: int, best: int) -> None:
    """i (2), a (3) and o (4) in a row, x for a: it lives 3, or 2 + 3, or 3 + 4; y (3) lives before or after it."""
    p = problem(
        run("i", latency=2),
        on("hvx", "a", 3),
        run("o", latency=4),
        on("hmx", "b", 3),
        after="i>a a>o",
        buffers=(buffer("x", 6, "a", resident=resident), buffer("y", 6, "b")),
        capacity=10,
    )
    rows = lower_bounds(p).found
    (turns,) = (b for b in rows if b.name == "turns")
    assert turns.ticks == least
    claimed = [BoundRow(name=b.name, ticks=int(b.ticks), engine=b.engine, detail=b.detail) for b in rows]
    assert check_arithmetic(p, claimed) == []
    more = [row.model_copy(update={"ticks": row.ticks + 1}) for row in claimed if row.name == "turns"]
    assert check_arithmetic(p, more) != []
    result = solve(p, seed=1)
    assert result.schedule is not None
    assert (result.status, result.schedule.makespan) == ("OPTIMAL", best)


def test_arithmetic_names_what_is_alive_at_an_edge() -> None:
    both = (buffer("x", 6, "a", resident="from_start"), buffer("y", 6, "b", resident="from_start"))
    p = problem(on("hvx", "a", 3), on("hmx", "b", 3), buffers=both, capacity=10)
    result = solve(p, seed=1)
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None
    assert "what is alive from the start needs 12 B of scratchpad at once, 10 B are available" in (
        result.infeasibility.message
    )


def test_arithmetic_knows_who_must_be_there() -> None:
    """c reads x after a has run: x is there while a runs, though a does not use it."""
    buffers: tuple[Buffer, ...] = (buffer("x", 6, "c", resident="from_start"), buffer("y", 6, "a"))
    p = problem(on("hvx", "a", 3), on("hmx", "c", 3), after="a>c", buffers=buffers, capacity=10)
    found = first_shortfall(p)
    assert found is not None
    assert (found.kind, found.op, found.need, found.have) == ("bytes", "a", 12, 10)
    last = first_shortfall(p.changed(buffers=(buffer("x", 6, "a", resident="to_end"), buffer("y", 6, "c"))))
    assert last is not None
    assert (last.op, last.need) == ("c", 12)


# --- the workload ---------------------------------------------------------------------------------------


def work(*reserved: dict[str, Any], **keys: Any) -> Workload:
    ops = [{"name": name, "engine": "hvx", "duration_us": 3, "buffers": [f"{name}.x"]} for name in "ab"]
    buffers = [{"name": "a.x", "size_bytes": "4MiB", **keys}, {"name": "b.x", "size_bytes": "4MiB"}]
    return Workload.from_data(
        {"name": "w", "tasks": [{"name": "t", "ops": ops, "buffers": buffers}], "reserved": list(reserved)}
    )


@pytest.mark.parametrize("resident", [True, False, "from_start", "to_end"])
def test_a_file_says_how_long_a_buffer_lives(resident: Any) -> None:
    lowered = lower(work(resident=resident), MACHINE).problem
    assert [b.resident for b in lowered.buffers] == [resident, False]
    assert Problem.model_validate_json(lowered.model_dump_json(by_alias=True)) == lowered


def test_capacity_that_changes_is_a_buffer_of_somebody_else() -> None:
    given = (
        {"bytes": "1MiB", "until": "a"},
        {"bytes": "2MiB", "from": "b", "address": 0},
        {"bytes": 7, "from": "a", "until": "b"},
    )
    buffers = lower(work(*given), MACHINE).problem.buffers[2:]
    assert [(b.name, b.size_bytes, b.ops, b.address, b.resident) for b in buffers] == [
        ("reserved.0", 1 << 20, ("a",), None, "from_start"),
        ("reserved.1", 2 << 20, ("b",), 0, "to_end"),
        ("reserved.2", 7, ("a", "b"), None, False),
    ]


def test_memory_that_is_given_back_is_used_from_then_on() -> None:
    """1 MiB of 8 is held until a ends: the buffers of 4 MiB fit together only after that, so b is no sooner than 3."""
    free, held = (solve(work(*given), hw=MACHINE, seed=1) for given in ((), ({"bytes": "1MiB", "until": "a"},)))
    assert (free.makespan_us, held.makespan_us) == (3, 6)
    assert held.schedule is not None
    times = {row.op: row for row in held.schedule.rows}
    assert times["b"].start >= times["a"].observed


@pytest.mark.parametrize(
    ("reserved", "says"),
    [
        ({"bytes": 1}, "say 'until' or 'from' which op it is held; what is held throughout is a resident buffer"),
        ({"bytes": 0, "until": "a"}, "greater than or equal to 1"),
        ({"bytes": 5, "until": "aa"}, "reserved 5 B: there is no op 'aa'"),
        ({"bytes": "16MiB", "until": "a", "to": "b"}, "to"),
    ],
)
def test_what_is_reserved_wrongly_is_refused(reserved: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        lower(work(reserved), MACHINE)


def test_the_digest_of_a_file_without_reserved_bytes_is_what_it_was() -> None:
    assert "reserved" not in work().to_json()
    held = work({"bytes": "1MiB", "until": "a"})
    assert Workload.from_json(held.to_json()) == held
