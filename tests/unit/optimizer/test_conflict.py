from __future__ import annotations

import json

import jsonschema
import pytest
from unit.small import buffer, held, move, on, problem, run

from hexloom import Problem, Workload, load_hw, solve
from hexloom.formulations.problem import Channel, Engine, Interference, Pull
from hexloom.optimizer.conflict import Conflict, smallest_conflict
from hexloom.optimizer.decide import Answer, Decider
from hexloom.optimizer.groups import FREE, Group, groups_of, in_words, keeping
from hexloom.optimizer.infeasibility import Infeasibility
from hexloom.optimizer.kernel_levers import changes_of
from hexloom.optimizer.schemas import schema_texts
from hexloom.optimizer.splits import cut


def why(of: Problem, **keys: object) -> Infeasibility:
    result = solve(of, seed=1, **keys)  # type: ignore[arg-type]
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None
    return result.infeasibility


def members(found: Infeasibility) -> set[tuple[str, ...]]:
    return {(member.kind, *member.names) for member in found.conflict}


def rush() -> Problem:
    """Two ops on one engine that cannot both be in time; a third that has nothing to do with it."""
    return problem(
        on("hmx", "a", 3, deadline_ticks=3), on("hmx", "b", 2, deadline_ticks=4), on("hvx", "c", 2), after="c>b"
    )


def test_two_deadlines_and_their_engine() -> None:
    found = why(rush())
    assert members(found) == {("engine", "hmx"), ("deadline", "a"), ("deadline", "b")}
    assert found.minimal and found.conflict_proven
    assert found.message.startswith("engine 'hmx' cannot end before 5 ticks what deadlines want of it by 4 ticks")
    assert [m.text for m in found.conflict][:2] == ["the 1 unit of engine 'hmx'", "the deadline of op 'a' at 3 ticks"]
    levers = {lever.text: lever for lever in found.levers}
    later = levers["the deadline of op 'b' later by 1 ticks (at 5 ticks)"]
    assert (later.outcome, later.makespan, later.least) == ("feasible", 5, True)
    assert (later.have, later.need, later.unit) == (4, 5, "ticks")
    assert levers["1 more of engine 'hmx'"].makespan == 4
    assert (found.resource, found.short) == ("hmx", 1)


def pins() -> Problem:
    """Bytes fit in this order, the two pins do not: only a search proves that."""
    return problem(
        *(on("hvx", n, 1) for n in "abc"),
        after="a>b b>c",
        buffers=(buffer("x", 4, "a", "c", address=0), buffer("y", 4, "b", address=0)),
        capacity=8,
    )


def test_a_pin_in_the_way_of_a_pin() -> None:
    found = why(pins())
    assert {("pin", "x"), ("pin", "y"), ("buffer", "x"), ("buffer", "y")} < members(found)
    assert ("scratchpad",) not in members(found)
    assert (
        "these exclude each other: the order 'a' -> 'b'; the order 'b' -> 'c'; the 4 B of buffer 'x'" in found.message
    )
    assert {lever.text for lever in found.levers} == {
        "move the pin of buffer 'x' (to 4, for example)",
        "move the pin of buffer 'y' (to 4, for example)",
    }
    assert [(holder.buffer, holder.address) for holder in found.holders] == [("x", 0), ("y", 0)]


def test_a_gang_wider_than_its_engine() -> None:
    found = why(problem(run("wide", held("hvx", 4, 3)), on("hmx", "other", 1)))
    assert members(found) == {("engine", "hvx"), ("gang", "wide")}
    levers = {lever.text: lever.makespan for lever in found.levers}
    assert levers == {"split op 'wide' into parts of at most 2 units": 8, "1 more of engine 'hvx'": 4}


def test_an_order_in_which_nothing_fits() -> None:
    of = problem(
        *(on("hvx", n, 1) for n in ("a0", "b0", "a1")),
        after="a0>b0 b0>a1",
        buffers=(buffer("x", 8, "a0", "a1"), buffer("y", 8, "b0")),
        capacity=12,
    )
    found = why(of)
    assert members(found) == {
        ("scratchpad",),
        ("buffer", "x"),
        ("buffer", "y"),
        ("precedence", "a0", "b0"),
        ("precedence", "b0", "a1"),
    }
    more = next(lever for lever in found.levers if lever.resource == "scratchpad")
    assert (more.need, more.have, more.least, more.makespan) == (16, 12, True, 3)


def test_where_ops_slow_each_other_a_deadline_is_in_conflict_all_the_same() -> None:
    channel = Channel(name="ddr", capacity=10)
    ops = [
        op.model_copy(
            update={"modes": tuple(m.model_copy(update={"pulls": (Pull(channel="ddr", rate=4),)}) for m in op.modes)}
        )
        for op in rush().ops
    ]
    found = why(problem(*ops, channels=(channel,)), contention="fluid", time_limit_s=1)
    assert members(found) == {("engine", "hmx"), ("deadline", "a"), ("deadline", "b")}


def test_what_is_dropped_is_gone() -> None:
    of = problem(
        move("load", 4, deadline_ticks=9, issue=1),
        run("wide", held("hvx", 4, 2)),
        after="load>wide",
        buffers=(buffer("x", 8, "load", address=8),),
        capacity=8,
        entry_ticks=2,
        interference=(Interference(victim="v", cause="c", factor="1/2"),),
    )
    groups = set(groups_of(of, "fluid"))
    assert {group.kind for group in groups} == {
        "deadline",
        "pin",
        "buffer",
        "scratchpad",
        "precedence",
        "engine",
        "gang",
        "entry",
        "interference",
    }
    assert all(in_words(of, group) for group in groups)
    bare = keeping(of, [Group("deadline", ("load",))])
    assert [op.name for op in bare.ops] == ["load"]
    assert (bare.entry_ticks, bare.buffers, bare.precedences, bare.interference) == (0, (), (), ())
    assert bare.engines == (Engine(name=FREE),)
    assert bare.ops[0].modes[0].uses == ()
    pinned = keeping(of, [Group("buffer", ("x",)), Group("pin", ("x",))])
    assert pinned.scratchpad.available_bytes >= 16
    narrow = keeping(of, groups - {Group("gang", ("wide",)), Group("precedence", ("load", "wide"))})
    assert [op.name for op in narrow.ops] == ["load"]
    late = of.model_copy(update={"ops": (of.ops[0], of.ops[1].model_copy(update={"deadline_ticks": 9}))})
    narrow = keeping(late, set(groups_of(late)) - {Group("gang", ("wide",))})
    assert [use.units for use in narrow.ops[1].modes[0].uses] == [1]


class Silent(Decider):
    """Decides nothing."""

    def decide(self, *_: object) -> Answer:
        return Answer("open")


class Stubborn(Decider):
    """Says that nothing has a schedule."""

    def decide(self, *_: object) -> Answer:
        return Answer("infeasible")


def test_every_member_may_turn_out_to_be_none() -> None:
    assert smallest_conflict(rush(), "none", groups_of(rush()), Stubborn(), 1.0).members == ()


def test_what_is_not_decided_says_so() -> None:
    of = pins()
    found = smallest_conflict(of, "none", groups_of(of), Silent(), 1.0)
    assert [group for group, _ in found.members] == list(groups_of(of))
    assert {verdict for _, verdict in found.members} == {"open"}
    assert found.proven, "the whole is known to be in conflict"
    assert not found.minimal
    assert not Conflict((), False).proven


def test_pieces_follow_piece_by_piece() -> None:
    of = problem(
        on("lut", "load", 5),
        on("hmx", "work", 9),
        on("hvx", "end", 1),
        after="load>work work>end",
        buffers=(buffer("x", 10, "load", "work"), buffer("y", 2, "work", "end")),
        capacity=6,
    )
    made = cut(of, ["x"], 3)
    assert [op.name for op in made.ops] == [*(f"load#{k}" for k in range(3)), *(f"work#{k}" for k in range(3)), "end"]
    assert [op.modes[0].latency_ticks for op in made.ops] == [2, 2, 2, 3, 3, 3, 1]
    edges = {(e.before, e.after) for e in made.precedences}
    assert edges == {*((f"load#{k}", f"work#{k}") for k in range(3)), *((f"work#{k}", "end") for k in range(3))}
    assert [(b.name, b.size_bytes) for b in made.buffers] == [("x#0", 4), ("x#1", 4), ("x#2", 4), ("y", 2)]
    assert made.buffers[3].ops == ("work#0", "work#1", "work#2", "end")


WIDE = {
    "name": "mm",
    "kernel": "matmul_w4a16",
    "m": 32,
    "k": 1024,
    "n": 4096,
    "m_chunk": 32,
    "n_chunk": 4096,
    "activation_rows": 32,
}


def test_kernels_say_what_helps_and_what_it_costs() -> None:
    result = solve(Workload.from_data({"name": "w", "hw": "hexagon-v79", "tasks": [WIDE]}), time_limit_s=6)
    found = result.infeasibility
    assert found is not None and found.time_unit == "us"
    levers = {lever.text.partition(",")[0].partition(":")[2].strip(): lever for lever in found.levers}
    smaller = levers["n_chunk 4096 to 2048"]
    assert smaller.outcome == "feasible" and smaller.makespan is not None and smaller.cost is not None
    assert smaller.saved_bytes is not None and smaller.saved_bytes > 2**20
    assert any(text.startswith("split k by 2") for text in levers)


def test_changes_get_larger_until_they_fit() -> None:
    task = {"name": "n", "kernel": "rmsnorm", "rows": 8, "cols": 64, "rows_per_block": 8, "depth": 3}
    workload = Workload.from_data({"name": "w", "tasks": [task, {**task, "name": "other"}]})
    steps = [[text for text, _ in change.steps] for change in changes_of(workload, load_hw("hexagon-v79"), {"n"})]
    assert steps == [
        ["task 'n': depth 3 to 1"],
        ["task 'n': rows_per_block 8 to 4", "task 'n': rows_per_block 8 to 2", "task 'n': rows_per_block 8 to 1"],
        ["task 'n': workers 6 to 3", "task 'n': workers 6 to 2", "task 'n': workers 6 to 1"],
    ]


def test_a_matmul_of_which_no_chunk_fits_is_an_answer() -> None:
    task = {"name": "mm", "kernel": "matmul_w4a16", "m": 32, "k": 1 << 17, "n": 64}
    result = solve(Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": [task]}), time_limit_s=1)
    assert result.status == "INFEASIBLE"
    assert result.infeasibility is not None and result.infeasibility.kind == "bytes"


@pytest.mark.parametrize("explained", [True, False])
def test_the_file_is_what_its_schema_says(explained: bool) -> None:
    found = why(rush(), explained=explained)
    assert Infeasibility.from_json(found.to_json()) == found
    jsonschema.validate(json.loads(found.to_json()), json.loads(schema_texts()["infeasibility.schema.json"]))
    assert bool(found.conflict) == explained


def test_what_cannot_run_alone_is_in_every_conflict_about_it() -> None:
    """Nobody else is to blame: not the entry, not another op's deadline, not another engine."""
    ops = [
        {"name": "a", "engine": "hmx", "duration_us": 10},
        {"name": "b", "engine": "hvx", "duration_us": 10, "units": 9},
        {"name": "c", "engine": "hmx", "duration_us": 10, "deadline_us": 30},
    ]
    found = solve(Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": [{"name": "t", "ops": ops}]}), seed=1)
    assert found.infeasibility is not None
    assert {(m.kind, *m.names) for m in found.infeasibility.conflict} == {("engine", "hvx"), ("gang", "b")}


def test_what_ops_touch_does_not_stand_in_the_way_of_an_answer() -> None:
    touching = {"name": "a", "engine": "hvx", "duration_us": 5, "buffers": ["x"]}
    task = {
        "name": "t",
        "ops": [{**touching, "writes": [{"tensor": "T", "bytes": 64}]}],
        "buffers": [{"name": "x", "size_bytes": "9MiB"}],
    }
    found = solve(Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": [task]}), seed=1)
    assert found.infeasibility is not None and found.infeasibility.short == 1048576


def test_a_buffer_that_is_made_smaller_is_no_longer_overwritten() -> None:
    """The lever takes the largest buffer down to 3 B; what overwrites it takes 4."""
    p = problem(
        on("hmx", "x", 2),
        buffers=(buffer("old", 5, "x"), buffer("beside", 3, "x"), buffer("new", 4, "x", overwrites="old")),
        capacity=6,
    )
    assert any("the largest 'old' that fits is 3 B" in lever.text for lever in why(p).levers)
