"""Buffers that free their bytes as they drain: what that gains, who refuses its misuse, how it is written and told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.emit import examples
from unit.small import buffer, on, problem

from hexloom import solve
from hexloom.emit import records
from hexloom.emit.c_tables import CTables
from hexloom.emit.lanes import View
from hexloom.emit.tables import make_tables
from hexloom.formulations.packing.fixed_times import pack
from hexloom.formulations.problem import Buffer, Pool, Problem, Scratchpad
from hexloom.hwmodels import load_hw
from hexloom.optimizer.check import check_plan, check_schedule
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.groups import Group, groups_of, keeping
from hexloom.optimizer.lower import lower
from hexloom.optimizer.plan import Wait
from hexloom.optimizer.splits import cut
from hexloom.optimizer.workload import Workload

MACHINE = load_hw("hexagon-v81").with_values({"overheads.op": 0})


def raw(drains: bool = True, **keys: Any) -> tuple[Buffer, ...]:
    """4 B that fill writes and r0 and r1 read in turn; with ``drains`` r1 does not need the lower two."""
    low = ("fill", "r0") if drains else ("fill", "r0", "r1")
    head = buffer("raw[0:2]", 2, *low, part_of="raw", **keys)
    keys = {name: value for name, value in keys.items() if name not in ("address", "align_bytes")}
    return head, buffer("raw[2:4]", 2, "fill", "r0", "r1", part_of="raw", **keys)


def steps(*buffers: Buffer, capacity: int = 6, life: Any = False, **keys: Any) -> Problem:
    """What r0 and r1 make of it (2 B each) is multiplied by m0 and m1."""
    return problem(
        on("hvx", "fill", 2),
        on("hvx", "r0", 3),
        on("hvx", "r1", 3),
        on("hmx", "m0", 4),
        on("hmx", "m1", 4),
        after="fill>r0 r0>r1 r0>m0 r1>m1",
        buffers=(*buffers, buffer("y0", 2, "r0", "m0", resident=life), buffer("y1", 2, "r1", "m1", resident=life)),
        capacity=capacity,
        **keys,
    )


# --- what it gains --------------------------------------------------------------------------------------


def test_what_has_drained_is_used_while_the_rest_is_read() -> None:
    """All but m0 and m1 come one after the other: fill to 2, r0 to 5, r1 to 8, m1 from 9, when m0 is over.

    Without parts y1 finds no room before m0 is over at 9, and m1 ends at 16.
    """
    result, whole = solve(steps(*raw()), seed=1), solve(steps(*raw(drains=False)), seed=1)
    assert result.schedule is not None
    assert whole.schedule is not None
    assert (result.status, result.schedule.makespan) == ("OPTIMAL", 13)
    assert (whole.status, whole.schedule.makespan) == ("OPTIMAL", 16)
    assert check_schedule(result.schedule) == []
    at = result.schedule.plan.addresses
    assert at["raw[2:4]"] == at["raw[0:2]"] + 2
    assert at["y1"] == at["raw[0:2]"]


def test_it_fits_where_the_whole_would_not() -> None:
    """Both results stay: they lie where the raw bytes were, in part while these are still read."""
    result = solve(steps(*raw(), life="to_end"), seed=1)
    assert result.schedule is not None
    assert (result.status, result.schedule.makespan) == ("OPTIMAL", 13)
    assert solve(steps(*raw(drains=False), life="to_end"), seed=1).status == "INFEASIBLE"


@pytest.mark.parametrize("capacity", [6, 7, 12])
@pytest.mark.parametrize("pin", [None, 0, 2])
def test_pins_pools_and_lives_go_with_parts(pin: int | None, capacity: int) -> None:
    for resident in (False, "from_start"):
        p = steps(*raw(address=pin, resident=resident), capacity=capacity)
        schedule = solve(p, seed=1).schedule
        assert schedule is not None
        assert schedule.makespan == 13
        assert pin in (None, schedule.plan.addresses["raw[0:2]"])
        pooled = tuple(b.model_copy(update={"pool": "near"}) for b in p.buffers)
        moved = p.changed(buffers=pooled, pools=(Pool(name="near", total_bytes=capacity),))
        assert solve(moved, seed=1).schedule is not None


@pytest.mark.slow
def test_a_range_lies_in_one_piece_though_its_parts_would_fit_into_gaps() -> None:
    walls = [buffer(f"wall{at}", 1, address=at, resident=True) for at in (2, 5)]
    assert solve(steps(*raw(), *walls, capacity=8), seed=1).status == "INFEASIBLE"
    apart = tuple(b.model_copy(update={"part_of": None}) for b in raw())
    assert solve(steps(*apart, *walls, capacity=8), seed=1).status == "OPTIMAL"


def test_parts_may_interlock() -> None:
    """Each range has a part below and a part above one of the other: no order of whole ranges finds it."""
    rows = [("a0", 1, 0, 4), ("a1", 3, 0, 2), ("b0", 3, 2, 4), ("b1", 1, 0, 4)]
    buffers = tuple(buffer(name, size, "fill", part_of=name[0]) for name, size, _, _ in rows)
    p = problem(on("hvx", "fill", 1), buffers=buffers, capacity=5)
    assert pack(p, [(born, died) for _, _, born, died in rows]) == (0, 1, 1, 4)


# --- the checker ----------------------------------------------------------------------------------------


def test_who_still_reads_a_part_is_named() -> None:
    p = steps(*raw())
    schedule = solve(p, seed=1).schedule
    assert schedule is not None
    plan = schedule.plan
    at = plan.addresses["raw[0:2]"]
    assert check_plan(p, plan) == []
    moved = plan.model_copy(update={"addresses": {**plan.addresses, "y1": at + 1}})
    (found,) = check_plan(p, moved)
    assert (found.kind, found.parties) == ("buffer_unordered", ("raw[2:4]", "y1", "r1", "r1"))
    low, high = (at + 2, at + 4), (at + 1, at + 3)
    assert found.message == (
        f"buffers 'raw[2:4]' [{low[0]}, {low[1]}) and 'y1' [{high[0]}, {high[1]}) share 1 B, but op 'r1' uses both"
    )


def test_a_wait_that_is_missing_is_named() -> None:
    """late needs 2 B while r1 runs, and nothing but these bytes orders it behind r0."""
    p = problem(
        on("hvx", "fill", 2),
        on("hvx", "r0", 3),
        on("hvx", "r1", 3),
        on("hmx", "late", 4),
        after="fill>r0 r0>r1",
        buffers=(*raw(), buffer("y", 2, "late", resident="to_end")),
        capacity=4,
    )
    schedule = solve(p, seed=1).schedule
    assert schedule is not None
    assert schedule.makespan == 9
    plan = schedule.plan
    assert Wait(before="r0", after="late") in plan.waits
    short = plan.model_copy(update={"waits": tuple(w for w in plan.waits if w.after != "late")})
    (found,) = check_plan(p, short)
    assert (found.kind, found.parties[:2]) == ("buffer_unordered", ("raw[0:2]", "y"))
    assert "nothing orders their users 'fill' and 'late'" in found.message


def test_parts_that_do_not_lie_behind_each_other_are_refused() -> None:
    p = steps(*raw(), capacity=12)
    schedule = solve(p, seed=1).schedule
    assert schedule is not None
    addresses = {"raw[0:2]": 0, "raw[2:4]": 10, "y0": 4, "y1": 6}
    (found,) = check_plan(p, schedule.plan.model_copy(update={"addresses": addresses}))
    assert (found.kind, found.parties) == ("address_part", ("raw[0:2]", "raw[2:4]"))
    assert found.message == (
        "buffer 'raw[2:4]' [10, 12) does not begin where the part of 'raw' before it ends, 'raw[0:2]' [0, 2)"
    )


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"address": 2}, r"buffer 'raw\[2:4\]' is pinned at 2, but lies where the part of 'raw' before it ends"),
        ({"align_bytes": 2}, r"buffer 'raw\[2:4\]' is aligned to 2 B, but lies .* say it of 'raw\[0:2\]'"),
        ({"resident": "from_start"}, "the parts of 'raw' are resident in different ways"),
        ({"pool": "near"}, "the parts of 'raw' lie in different pools"),
        ({"name": "raw"}, "buffer 'raw' is called like a range in parts; rename one"),
        ({"overwrites": "y0", "ops": ("r1",)}, "overwrites 'y0', but one of them is part of a range"),
    ],
)
def test_parts_have_no_will_of_their_own(changes: dict[str, Any], words: str) -> None:
    head, part = raw()
    with pytest.raises(ValueError, match=words):
        steps(head, part.model_copy(update=changes), pools=(Pool(name="near", total_bytes=8),))


def test_somebody_uses_a_part() -> None:
    with pytest.raises(ValueError, match="no op uses any part of 'z'; drop it"):
        steps(buffer("z0", 1, part_of="z"))


# --- changed problems -----------------------------------------------------------------------------------


def test_a_part_nobody_uses_any_more_keeps_its_place() -> None:
    p = steps(*raw(resident="from_start"))
    part = p.restricted(frozenset(["r1", "m1"]))
    assert [(b.name, b.ops, b.resident) for b in part.buffers if b.part_of] == [
        ("raw[0:2]", (), False),
        ("raw[2:4]", ("r1",), "from_start"),
    ]
    schedule = solve(part, seed=1).schedule
    assert schedule is not None
    at = schedule.plan.addresses
    assert at["raw[2:4]"] == at["raw[0:2]"] + 2
    assert check_schedule(schedule) == []
    assert not any(b.part_of for b in p.restricted(frozenset(["m1"])).buffers)


def test_a_range_is_one_group_and_is_cut_as_one() -> None:
    p = steps(*raw(address=0))
    groups = groups_of(p)
    assert Group("buffer", ("raw",)) in groups
    assert not any(g.kind == "buffer" and g.names[0].startswith("raw[") for g in groups)
    assert not any(b.part_of for b in keeping(p, [g for g in groups if g != Group("buffer", ("raw",))]).buffers)
    pieces = cut(p, ["raw[0:2]"], 2).buffers
    assert [(b.name, b.part_of) for b in pieces if b.part_of] == [
        ("raw[0:2]#0", "raw#0"),
        ("raw[0:2]#1", "raw#1"),
        ("raw[2:4]#0", "raw#0"),
        ("raw[2:4]#1", "raw#1"),
    ]


def test_what_does_not_fit_is_told_by_the_name_of_the_range() -> None:
    found = solve(steps(*raw(), capacity=5), seed=1).infeasibility
    assert found is not None
    assert found.kind == "bytes"
    assert [(h.buffer, h.size_bytes) for h in found.holders] == [("raw", 4), ("y0", 2)]
    assert ("buffer", ("raw",)) in [(m.kind, m.names) for m in found.conflict]
    assert found.minimal
    (resized,) = (lever for lever in found.levers if "largest 'raw' that fits" in lever.text)
    assert resized.outcome == "feasible"
    alone = solve(
        problem(on("hvx", "a", 1), on("hvx", "b", 1), buffers=parts_apart(), capacity=5), seed=1
    ).infeasibility
    assert alone is not None
    assert alone.message.startswith("buffer 'z' needs 6 B of scratchpad at once, 5 B are available: short 1 B")


def test_a_pin_holds_all_parts_of_a_range() -> None:
    """The upper part lies at 4 because the lower one is pinned at 2: 3 B find no room below or above."""
    other = buffer("y", 3, "r0")
    tight = problem(on("hvx", "fill", 1), on("hvx", "r0", 1), on("hvx", "r1", 1), buffers=(*raw(address=2), other))
    found = solve(tight.changed(scratchpad=Scratchpad(total_bytes=8)), seed=1).infeasibility
    assert found is not None
    assert found.message.startswith(
        "op 'r0': no room for buffer 'y' in one piece beside the pinned raw[0:2]@2+2, raw[2:4]@4+2: wanted 3 B, "
        "largest gap 2 B, short 1 B"
    )
    assert found.minimal
    assert [(m.kind, m.names) for m in found.conflict if m.kind in ("pin", "buffer")] == [
        ("buffer", ("raw",)),
        ("buffer", ("y",)),
        ("pin", ("raw[0:2]",)),
    ]


def parts_apart() -> tuple[Buffer, ...]:
    return buffer("z0", 3, "a", part_of="z"), buffer("z1", 3, "b", part_of="z")


# --- the workload and what is emitted -------------------------------------------------------------------


def work(size: str = "4MiB", frees: str = "1MiB", life: Any = False, **keys: Any) -> Workload:
    """A load of ``size``, and four steps that free a part of it each, in a loop."""
    step = {
        "name": "step{i}",
        "engine": "hvx",
        "duration_us": 5,
        "after": ["fill", "step{i-1}"],
        "buffers": ["raw", "out{i}"],
        "frees": {"raw": frees},
        **keys,
    }
    fill = {"name": "fill", "engine": "hmx", "duration_us": 10, "buffers": ["raw"]}
    rest = {"name": "rest", "engine": "hmx", "duration_us": 1, "after": ["step*"], "buffers": ["out0", "out3"]}
    out = {"name": "out{i}", "size_bytes": "1MiB"}
    loop = {"for": "i", "count": 4, "buffers": [out], "ops": [step]}
    held = {"name": "raw", "size_bytes": size, "resident": life}
    return Workload.from_data({"name": "w", "tasks": [{"name": "t", "ops": [fill, loop, rest], "buffers": [held]}]})


def test_ops_in_a_loop_free_the_low_end_in_their_turn() -> None:
    parts = [b for b in lower(work(), MACHINE).problem.buffers if b.part_of]
    assert [b.name for b in parts] == [f"raw[{k << 20}:{k + 1 << 20}]" for k in range(4)]
    assert [b.ops for b in parts] == [("fill", *(f"step{i}" for i in range(k + 1))) for k in range(4)]
    assert {(b.part_of, b.size_bytes) for b in parts} == {("raw", 1 << 20)}
    assert [b.align_bytes for b in parts] == [MACHINE.vtcm.align_bytes.whole, 1, 1, 1]


def test_what_nobody_frees_is_held_to_the_end() -> None:
    parts = [b for b in lower(work(size="5MiB", frees="100KiB"), MACHINE).problem.buffers if b.part_of]
    assert [b.size_bytes for b in parts] == [100 << 10] * 4 + [(5 << 20) - (400 << 10)]
    assert parts[3].ops == parts[4].ops == ("fill", "step0", "step1", "step2", "step3")


def test_only_whole_granules_are_freed() -> None:
    data = work(size="4MiB", frees="600KiB").model_dump(mode="json", by_alias=True)
    data["tasks"][0]["buffers"][0]["granule_bytes"] = "1MiB"
    parts = [b for b in lower(Workload.from_data(data), MACHINE).problem.buffers if b.part_of]
    assert [(b.name, b.ops) for b in parts] == [
        ("raw[0:1048576]", ("fill", "step0", "step1")),
        ("raw[1048576:2097152]", ("fill", "step0", "step1", "step2", "step3")),
        ("raw[2097152:4194304]", ("fill", "step0", "step1", "step2", "step3")),
    ]


def test_a_workload_without_it_says_nothing_of_it() -> None:
    plain = work(frees="1MiB").model_dump(mode="json", by_alias=True)
    del plain["tasks"][0]["ops"][1]["ops"][0]["frees"]
    workload = Workload.from_data(plain)
    assert "frees" not in workload.to_json()
    assert "part_of" not in lower(workload, MACHINE).problem.model_dump_json()
    lowered = lower(work(), MACHINE).problem
    assert Problem.model_validate_json(lowered.model_dump_json(by_alias=True)) == lowered


def test_less_scratchpad_is_enough() -> None:
    """Results take the place of what they come from: 1 MiB beside the 4 MiB of raw bytes is enough for all of them."""
    small = MACHINE.with_values({"vtcm.total_bytes": 5 << 20, "vtcm.reserved_bytes": 0})
    result = solve(work(), hw=small, seed=1)
    assert result.makespan_us == 10 + 4 * 5 + 1
    plain = work().model_dump(mode="json", by_alias=True)
    del plain["tasks"][0]["ops"][1]["ops"][0]["frees"]
    assert solve(Workload.from_data(plain), hw=small, seed=1).status == "INFEASIBLE"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"frees": "1536KiB"},
            "task 't', op 'step2' frees 1572864 B of 'raw': with what the 2 ops before it free 4718592 B, but the "
            "buffer has 4194304; free less",
        ),
        ({"life": "to_end"}, "frees bytes of 'raw', which is resident to the end; drop one of the two"),
        ({"life": True}, "frees bytes of 'raw', which is resident to the end; drop one of the two"),
        ({"may_overwrite": {"out{i}": "raw"}}, "frees bytes of 'raw', which is in 'may_overwrite' too; drop one"),
        ({"buffers": ["out{i}"]}, "op 'step0': 'raw' is in 'frees', but not one of its buffers; name it in both"),
        ({"frees": "0"}, "frees"),
        ({"frees": "a lot"}, "frees"),
    ],
)
def test_what_cannot_be_freed_is_refused_in_a_line(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        lower(work(**keys), MACHINE)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_kernels_are_given_the_whole_range() -> None:
    schedule = examples.draining()
    assert check_schedule(schedule) == []
    assert max(level for _, level in View(schedule).live_bytes()) <= 5 << 10
    assert len([life for life in View(schedule).lives() if life.death == schedule.makespan]) < 4
    tables = make_tables(schedule)
    kinds = [b.flags for b in tables.buffers]
    assert kinds == [records.BUFFER_IN_PARTS, *[records.BUFFER_PART] * 3, 0, 0, 0, 0]
    assert (tables.buffers[0].bytes, tables.buffers[0].offset) == (3072, schedule.plan.addresses["raw[0]"])
    told = json.loads(CTables(schedule, "it").side_car())["buffers"]
    assert [(b["name"], b.get("part_of")) for b in told[:2]] == [("raw", None), ("raw[0]", "raw")]
    operands = [[o.buffer for o in tables.operands[t.first_operand :][: t.operand_count]] for t in tables.tasks]
    assert operands[0] == [0, 1, 2, 3]
    assert operands[3] == [0, 6, 7, 3]


def test_a_buffer_is_freed_in_few_steps() -> None:
    data = work().model_dump(mode="json", by_alias=True)
    data["tasks"][0]["ops"][1]["count"] = 65
    data["tasks"][0]["ops"][1]["ops"][0]["frees"] = {"raw": 128}
    with pytest.raises(InvalidInputError, match="frees bytes of 'raw', as do 64 others; free them in at most 64 steps"):
        lower(Workload.model_validate(data), MACHINE)
