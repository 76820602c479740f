"""Regions of ops: what is refused, ordered or noted, and the maintenance of the cache between two paths."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from hexloom import InvalidInputError, Workload, load_hw, solve
from hexloom.formulations.pieces import Cut, cut_op
from hexloom.formulations.problem import Problem, Region
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.hazards import find_hazards, resolve
from hexloom.optimizer.lower import lower
from hexloom.optimizer.overlaps import touches_of

V81 = load_hw("hexagon-v81")
BARE = V81.with_values({"overheads.op": 0, "overheads.cache_range": 2})

Data = dict[str, Any]


def op(name: str, engine: str = "hvx", **keys: Any) -> Data:
    return {"name": name, "engine": engine, "duration_us": 5, **keys}


def at(tensor: str, offset: int = 0, size: int = 4096, **keys: Any) -> Data:
    return {"tensor": tensor, "offset": offset, "bytes": size, **keys}


def work(*ops: Data, **keys: Any) -> Workload:
    """Return one task of ``ops``; ``tasks`` and other keys of the workload replace what is here."""
    return Workload.from_data({"name": "w", "tasks": [{"name": "t", "ops": list(ops)}], **keys})


def edges(workload: Workload) -> set[tuple[str, str]]:
    return {(e.before, e.after) for e in lower(workload, BARE).problem.precedences}


def refusal(workload: Workload) -> str:
    with pytest.raises(InvalidInputError) as raised:
        lower(workload, BARE)
    assert "\n" not in str(raised.value)
    return str(raised.value)


# --- kinds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [("writes", "reads", "RAW"), ("reads", "writes", "WAR"), ("writes", "writes", "WAW"), ("reads", "reads", None)],
)
def test_each_kind_is_refused_by_default(first: str, second: str, kind: str | None) -> None:
    ops = op("a", **{first: [at("x", 0, 4096)]}), op("b", **{second: [at("x", 4000, 200)]})
    if kind is None:
        assert edges(work(*ops)) == set()
        return
    said = refusal(work(*ops))
    assert said.startswith(f"nothing orders {kind} on 'x' [4000, 4096): 'a' {first} it, 'b' {second} it; write `after`")
    assert "set `hazards: order`" in said
    assert edges(work(*ops, hazards="order")) == {("a", "b")}
    lowered = lower(work(*ops, hazards="report"), BARE)
    assert lowered.problem.precedences == ()
    assert lowered.notes == (f"hazards: nothing orders {kind} on 'x' [4000, 4096): 'a' {first} it, 'b' {second} it",)


def test_bytes_side_by_side_and_other_tensors_are_no_hazard() -> None:
    ops = op("a", writes=[at("x", 0, 100)]), op("b", writes=[at("x", 100, 28)]), op("c", writes=[at("y", 0, 100)])
    assert edges(work(*ops)) == set()


def test_columns_between_columns_are_no_hazard() -> None:
    left = at("x", 0, 64, rows=100, stride=128)
    right = at("x", 64, 64, rows=100, stride=128)
    assert edges(work(op("a", writes=[left]), op("b", writes=[right]))) == set()
    said = refusal(work(op("a", writes=[left]), op("b", writes=[at("x", 63, 64, rows=100, stride=128)])))
    assert "WAW on 'x' [63, 12736)" in said


def test_what_the_file_orders_either_way_is_no_hazard() -> None:
    assert edges(work(op("a", writes=[at("x")]), op("b", after=["a"]), op("c", after=["b"], reads=[at("x")]))) == {
        ("a", "b"),
        ("b", "c"),
    }
    assert edges(work(op("a", writes=[at("x")], after=["b"]), op("b", reads=[at("x")]))) == {("b", "a")}


def test_tasks_are_not_independent_because_they_are_tasks() -> None:
    norm = {"kernel": "rmsnorm", "rows": 64, "cols": 256, "rows_per_block": 16}
    tasks = [{"name": "one", **norm, "output": "h"}, {"name": "two", **norm, "input": "h"}]
    said = refusal(work(tasks=tasks))
    assert "RAW on 'h' [0, 16384): 'one/store.0' writes it, 'two/load.0' reads it (3 more such pairs)" in said
    found = edges(work(tasks=tasks, hazards="order"))
    assert {(a, b) for a, b in found if a[:3] != b[:3]} == {(f"one/store.{k}", f"two/load.{k}") for k in range(4)}
    others = [tasks[0], {**tasks[1], "input": "other"}]
    assert not {(a, b) for a, b in edges(work(tasks=others)) if a[:3] != b[:3]}


def test_copies_of_a_task_write_the_same_tensor() -> None:
    task = {"name": "t", "copies": 2, "ops": [op("a", writes=[at("x")])]}
    assert "'t.0/a' writes it, 't.1/a' writes it" in refusal(work(tasks=[task]))


# --- order ----------------------------------------------------------------------------------------------


def test_edges_that_follow_from_others_are_left_out() -> None:
    ops = [op(f"w{k}", writes=[at("x")]) for k in range(5)]
    assert edges(work(*ops, hazards="order")) == {(f"w{k}", f"w{k + 1}") for k in range(4)}


def test_a_cycle_is_named() -> None:
    ops = op("a", writes=[at("x")], after=["d"]), op("b", reads=[at("x")]), op("c", writes=[at("y")], after=["b"])
    said = refusal(work(*ops, op("d", reads=[at("y")]), hazards="order"))
    assert "in the order of the file they close a cycle: a -> b -> c -> d -> a" in said
    assert "RAW on 'x' [0, 4096): 'a' writes it, 'b' reads it" in said


def test_many_are_told_in_short() -> None:
    ops = [op(f"w{k}", writes=[at("x")]) for k in range(5)]
    (note,) = lower(work(*ops, hazards="report"), BARE).notes
    assert note.endswith("; and 7 more")
    assert note.count("WAW") == 3


# --- caches ---------------------------------------------------------------------------------------------


def upkeep(workload: Workload) -> dict[str, set[str]]:
    """Return the ops that wait for each maintenance op, by its name."""
    problem = lower(workload, BARE).problem
    stages = {o.name: o.stage for o in problem.ops}
    found: dict[str, set[str]] = {name: set() for name, s in stages.items() if s in ("clean_range", "invalidate")}
    for edge in problem.precedences:
        if edge.before in found:
            found[edge.before].add(edge.after)
    return found


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("hvx", "writes"), ("dma", "reads"), "a.clean"),
        (("hvx", "writes"), ("dma", "writes"), "a.clean"),
        (("dma", "writes"), ("hvx", "reads"), "a.invalidate"),
        (("dma", "writes"), ("hvx", "writes"), "a.invalidate"),
        (("dma", "reads"), ("hvx", "writes"), None),
        (("hvx", "reads"), ("dma", "writes"), None),
        (("hvx", "writes"), ("hvx", "reads"), None),
        (("dma", "writes"), ("dma", "reads"), None),
    ],
)
def test_maintenance_comes_between_two_paths(
    first: tuple[str, str], second: tuple[str, str], expected: str | None
) -> None:
    a = op("a", first[0], **{first[1]: [at("x")]})
    b = op("b", second[0], after=["a"], **{second[1]: [at("x")]})
    assert upkeep(work(a, b)) == ({} if expected is None else {expected: {"b"}})
    result = solve(work(a, b), BARE, time_limit_s=1)
    assert result.makespan_us == (10 if expected is None else 12)


def test_two_writers_of_one_line_are_a_hazard_without_a_common_byte() -> None:
    ops = op("a", writes=[at("x", 0, 64)]), op("b", "dma", writes=[at("x", 64, 64)])
    said = refusal(work(*ops))
    assert "false sharing on a cache line of 'x' at byte 64: 'a' writes it, 'b' writes it past the cache" in said
    assert upkeep(work(*ops, hazards="order")) == {"a.clean": {"b"}}
    apart = op("b", "dma", writes=[at("x", 128, 64)])
    assert edges(work(ops[0], apart)) == set()
    assert edges(work(ops[0], op("b", "dma", reads=[at("x", 64, 64)]))) == set()
    assert edges(work(ops[0], op("b", writes=[at("x", 64, 64)]))) == set()


def test_one_maintenance_op_per_writer_serves_all_that_follow() -> None:
    load = op("load", "dma", writes=[at("x")])
    readers = [op(f"r{k}", after=["load"], reads=[at("x", 1024 * k, 1024)]) for k in range(3)]
    workload = work(load, *readers)
    assert upkeep(workload) == {"load.invalidate": {"r0", "r1", "r2"}}
    assert lower(workload, BARE).notes == (
        "cache maintenance between DMA and accesses through the cache: 1 invalidate, 2 us each",
    )


def test_a_path_can_be_given() -> None:
    cached = [at("x", path="cached")]
    assert upkeep(work(op("a", writes=[at("x")]), op("b", "dma", after=["a"], reads=cached))) == {}
    assert upkeep(work(op("a", writes=[at("x", path="bypass")]), op("b", after=["a"], reads=[at("x")]))) == {
        "a.invalidate": {"b"}
    }


def test_where_no_cost_is_known_maintenance_takes_the_least_that_a_thread_runs() -> None:
    workload = work(op("a", writes=[at("x")]), op("b", "dma", after=["a"], reads=[at("x")]))
    result = solve(workload, BARE.with_values({"overheads.cache_range": 0}), time_limit_s=1)
    assert result.makespan_us == Fraction("10.001")


def test_loops_of_today_hold_the_maintenance() -> None:
    tasks = [
        {"name": "mm", "kernel": "matmul_w4a16", "m": 64, "k": 64, "n": 64, "n_chunk": 32, "output": "y"},
        {"name": "norm", "kernel": "rmsnorm", "rows": 64, "cols": 64, "rows_per_block": 16, "input": "y"},
    ]
    lowered = lower(work(tasks=tasks, hazards="order"), BARE)
    names = [name for loop in lowered.loops for name in loop.loop]
    assert sorted(names) == sorted(o.name for o in lowered.problem.ops)
    assert names.index("mm/store.1.clean") == names.index("mm/store.1") + 1
    result = solve(work(tasks=tasks, hazards="order"), BARE, time_limit_s=0.5)
    assert result.schedule is not None
    assert result.schedule.baselines["existing"] is not None
    assert [note.partition(":")[0] for note in result.notes[:2]] == [
        "hazards",
        "cache maintenance between DMA and accesses through the cache",
    ]


# --- what cannot be right ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ({"rows": 2}, "rows need a stride"),
        ({"stride": 8192}, "one row has no stride"),
        ({"rows": 2, "stride": 100}, "rows must not overlap"),
        ({"step": {"i": 1}}, "names index 'i', but no loop around it has that name"),
        ({"offset": 2**53}, "outside of [0, 9007199254740991)"),
    ],
)
def test_a_region_that_cannot_be(region: Data, said: str) -> None:
    assert said in refusal(work(op("a", reads=[{"tensor": "x", "bytes": 4096, **region}])))


def test_tensors_beyond_all_numbers() -> None:
    region = Region(tensor="x", kind="write", offset_bytes=2**53 - 2, row_bytes=1)
    many = [(k, region.model_copy(update={"tensor": str(k)})) for k in range(600)]
    with pytest.raises(InvalidInputError, match="the tensors together have"):
        touches_of(many)


def test_a_step_moves_the_region_with_the_loop() -> None:
    body = [
        op("w{i}", writes=[at("x{i%2}", 100, 50, step={"i": 50})]),
        op("r{i}", after=["w{i}"], reads=[at("x{i%2}", 100, 50, step={"i": 50})]),
    ]
    lowered = lower(work({"for": "i", "count": 4, "ops": body}), BARE)
    assert [(r.tensor, r.offset_bytes) for a in lowered.problem.accesses for r in a.regions][::2] == [
        ("x0", 100),
        ("x1", 150),
        ("x0", 200),
        ("x1", 250),
    ]


# --- in place -------------------------------------------------------------------------------------------


def in_place(*ops: Data) -> Workload:
    buffers = [{"name": "X", "size_bytes": 65536}]
    return work(tasks=[{"name": "t", "ops": list(ops), "buffers": buffers}])


def test_who_overwrites_a_buffer_waits_for_its_other_readers() -> None:
    a, b = op("a", buffers=["X"]), op("b", after=["a"], buffers=["X"], in_place=["X"])
    c, d = op("c", after=["a"], buffers=["X"]), op("d", after=["b"], buffers=["X"])
    assert edges(in_place(a, b, c, d)) == {("a", "b"), ("a", "c"), ("c", "b"), ("b", "d")}


def test_of_two_that_overwrite_the_later_waits() -> None:
    ops = [op(f"k{k}", buffers=["X"], in_place=["X"]) for k in range(3)]
    assert edges(in_place(*ops)) == {("k0", "k1"), ("k0", "k2"), ("k1", "k2")}


def test_only_its_own_buffers_can_be_overwritten() -> None:
    assert "'X' is in 'in_place', but not one of its buffers" in refusal(in_place(op("a", in_place=["X"])))


# --- the checker ----------------------------------------------------------------------------------------


def kinds(workload: Workload, *drop: tuple[str, str], accesses_of: Workload | None = None) -> list[str]:
    """Solve without the precedences ``drop`` and check against the accesses, of another workload where given."""
    problem = lower(workload, BARE).problem
    kept = tuple(e for e in problem.precedences if (e.before, e.after) not in drop)
    bare = problem.model_copy(update={"precedences": kept, "accesses": ()})
    schedule = solve(type(problem).model_validate(bare.model_dump(by_alias=True)), time_limit_s=0.5).schedule
    assert schedule is not None
    source = problem if accesses_of is None else lower(accesses_of, BARE).problem
    asked = schedule.problem.model_copy(update={"accesses": source.accesses, "hazards": source.hazards})
    return [v.kind for v in check_schedule(schedule.model_copy(update={"problem": asked}))]


def test_the_checker_wants_hazards_ordered() -> None:
    pair = work(op("a", writes=[at("x")]), op("b", engine="hmx", after=["a"], reads=[at("x")]))
    assert kinds(pair) == []
    assert kinds(pair, ("a", "b")) == ["hazard_unordered"]


def test_the_checker_wants_maintenance_between() -> None:
    pair = work(op("a", writes=[at("x")]), op("b", "dma", after=["a"], reads=[at("x")]))
    assert kinds(pair) == []
    assert "maintenance_missing" in kinds(pair, ("a.clean", "b"))
    assert "maintenance_missing" in kinds(pair, ("a", "a.clean"))


def test_the_checker_does_not_take_maintenance_of_other_bytes() -> None:
    pair = work(op("a", writes=[at("x")]), op("b", "dma", after=["a"], reads=[at("x")]))
    other = work(op("a", writes=[at("x", 0, 4095)]), op("b", "dma", after=["a"], reads=[at("x")]))
    assert kinds(pair, accesses_of=other) == []
    problem = lower(pair, BARE).problem
    short = problem.accesses[1].regions[0].model_copy(update={"row_bytes": 3968})
    accesses = (problem.accesses[0], problem.accesses[1].model_copy(update={"regions": (short,)}), problem.accesses[2])
    schedule = solve(pair, BARE, time_limit_s=0.5).schedule
    assert schedule is not None
    wrong = schedule.model_copy(update={"problem": problem.model_copy(update={"accesses": accesses})})
    (violation,) = check_schedule(wrong)
    assert violation.kind == "maintenance_missing"
    assert violation.message == (
        "op 'a' writes 'x' [0, 4096) through the cache and op 'b' reads there past it, but no clean of these lines is "
        "certain to come between them"
    )


def test_what_is_only_noted_is_not_asked() -> None:
    pair = work(op("a", writes=[at("x")]), op("b", "dma", reads=[at("x")]), hazards="report")
    assert kinds(pair) == []
    chained = work(op("a", writes=[at("x")]), op("b", "dma", after=["a"], reads=[at("x")]), hazards="report")
    assert kinds(chained) == []
    assert "maintenance_missing" in kinds(chained, ("a.clean", "b"))
    assert kinds(chained, ("a.clean", "b"), ("a", "b")) == []


def test_a_problem_that_leaves_its_accesses_unordered_is_bad_input() -> None:
    problem = lower(work(op("a", writes=[at("x")]), op("b", "dma", after=["a"], reads=[at("x")])), BARE).problem
    assert solve(problem, time_limit_s=0.5).status == "OPTIMAL"

    def without(*drop: tuple[str, str]) -> Problem:
        kept = tuple(e for e in problem.precedences if (e.before, e.after) not in drop)
        return Problem.model_validate(problem.model_copy(update={"precedences": kept}).model_dump(by_alias=True))

    assert solve(without(("a", "b")), time_limit_s=0.5).status == "OPTIMAL"
    with pytest.raises(InvalidInputError, match="no clean of these lines is certain to come between them; add prec"):
        solve(without(("a.clean", "b")))
    with pytest.raises(InvalidInputError, match="ops 'a' and 'b' share byte 0 of 'x', but nothing orders them; add"):
        solve(without(("a.clean", "b"), ("a", "b")))


def test_an_op_that_is_cut_is_still_one_access() -> None:
    load = op("load", "dma", writes=[at("x")], pieces=4)
    problem = lower(work(load, op("b", after=["load"], reads=[at("x")])), BARE).problem
    cut = cut_op(problem, Cut(problem.op_index["load"], 2))
    assert cut.accesses[0].ops == ("load+1", "load+2")
    result = solve(cut, time_limit_s=0.5)
    assert result.schedule is not None
    assert check_schedule(result.schedule) == []


def test_resolve_leaves_a_cycle_of_the_user_to_the_problem() -> None:
    one = (Region(tensor="x", kind="write", row_bytes=1),)
    assert resolve(["a", "b"], [[1], [0]], [one, one], "refuse").edges == ()
    with pytest.raises(InvalidInputError, match="the dependencies form a cycle: "):
        lower(work(op("a", writes=[at("x")], after=["b"]), op("b", writes=[at("x")], after=["a"])), BARE)


def test_an_op_is_no_hazard_to_itself() -> None:
    both = (Region(tensor="x", kind="read", row_bytes=9), Region(tensor="x", kind="write", row_bytes=9))
    assert find_hazards([both]) == []
    assert edges(work(op("a", reads=[at("x")], writes=[at("x")]))) == set()
