from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import Explicit
from hexloom.optimizer.kernels.explicit_spec import UserEngine

if TYPE_CHECKING:
    from hexloom.optimizer.draft import ModeDraft, OpDraft, TaskDraft

V81 = load_hw("hexagon-v81")
V79 = load_hw("hexagon-v79")


def task(*ops: dict[str, Any], buffers: tuple[dict[str, Any], ...] = (), **keys: Any) -> TaskDraft:
    spec = Explicit.model_validate({"name": "t", "ops": ops, "buffers": buffers, **keys})
    return spec.expand(V81, {"lut": UserEngine(name="lut", units=2)})


def op(name: str, engine: str | None = "hvx", us: Any = 1, **keys: Any) -> dict[str, Any]:
    given = {} if engine is None else {"engine": engine}
    return {"name": name, **given, **({} if us is None else {"duration_us": us}), **keys}


def loop(index: str, count: int, *ops: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"for": index, "count": count, "ops": ops, **keys}


def by_name(draft: TaskDraft) -> dict[str, OpDraft]:
    return {o.name: o for o in draft.ops}


def mode_of(*ops: dict[str, Any]) -> ModeDraft:
    return task(*ops).ops[-1].modes[0]


# --- loops and names ------------------------------------------------------------------------------------


def test_a_loop_repeats_its_ops_with_the_index_in_their_names() -> None:
    draft = task(op("head"), loop("i", 3, op("a{i}"), op("b{i}", after=["a{i}", "head"])), op("end", after=["b2"]))
    assert [o.name for o in draft.ops] == ["head", "a0", "b0", "a1", "b1", "a2", "b2", "end"]
    assert list(draft.loop) == [o.name for o in draft.ops]
    assert by_name(draft)["b1"].after == ("a1", "head")


def test_tiles_of_nested_loops_count_through() -> None:
    draft = task(loop("g", 2, loop("i", 3, op("mm.{g}.{i}"))))
    assert {o.name: (o.tile, o.stage) for o in draft.ops} == {
        f"mm.{g}.{i}": (3 * g + i, "mm") for g in range(2) for i in range(3)
    }


def test_a_stage_is_the_name_without_indices_unless_given() -> None:
    ops = by_name(task(loop("i", 1, op("{i}"), op("x_{i}"), op("y{i}", stage="why"))))
    assert (ops["0"].stage, ops["x_0"].stage, ops["y0"].stage) == ("{i}", "x", "why")


def test_index_expressions() -> None:
    draft = task(
        loop("i", 4, op("a{i}", after=["a{i-2}"], buffers=["ring{i%2}"]), op("b{i+10}")),
        buffers=({"name": "ring0", "size_bytes": 1}, {"name": "ring1", "size_bytes": 1}),
    )
    ops = by_name(draft)
    assert {name: ops[name].buffers for name in ("a0", "a1", "a2", "a3")} == {
        "a0": ("ring0",),
        "a1": ("ring1",),
        "a2": ("ring0",),
        "a3": ("ring1",),
    }
    assert set(ops) == {"a0", "a1", "a2", "a3", "b10", "b11", "b12", "b13"}
    assert [ops[f"a{i}"].after for i in range(4)] == [(), (), ("a0",), ("a1",)]  # below zero: no such neighbour


def test_a_wildcard_stands_for_all_that_match() -> None:
    draft = task(
        loop("g", 3, op("load.{g}", after=["mm.{g-2}.*"]), loop("i", 2, op("mm.{g}.{i}", after=["load.{g}"]))),
        op("end", after=["mm.*.1"]),
    )
    ops = by_name(draft)
    assert [ops[f"load.{g}"].after for g in range(3)] == [(), (), ("mm.0.0", "mm.0.1")]
    assert ops["end"].after == ("mm.0.1", "mm.1.1", "mm.2.1")


def test_brackets_beside_a_wildcard_are_plain_characters() -> None:
    assert by_name(task(op("x[0]"), op("x0"), op("y", after=["x[0]*"])))["y"].after == ("x[0]",)


# --- buffers --------------------------------------------------------------------------------------------


def test_buffers_take_defaults_from_the_machine() -> None:
    draft = task(
        op("a", buffers=["b", "pinned"]),
        buffers=(
            {"name": "b", "size_bytes": "64KiB"},
            {"name": "pinned", "size_bytes": 1, "align_bytes": 2048, "address": "0x800", "granule_bytes": 32},
            {"name": "home", "size_bytes": 7, "resident": True},
        ),
    )
    b, pinned, home = draft.buffers
    assert (b.size_bytes, b.align_bytes, b.granule_bytes, b.address, b.resident) == (65536, 128, 1, None, False)
    assert (pinned.align_bytes, pinned.address, pinned.granule_bytes) == (2048, 2048, 32)
    assert home.resident


@pytest.mark.parametrize("key", ["align_bytes", "granule_bytes"])
def test_buffers_are_aligned_and_rounded_to_a_byte_or_more(key: str) -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        task(op("a"), buffers=({"name": "b", "size_bytes": 1, key: 0},))


def test_scratch_is_a_buffer_of_the_op_alone() -> None:
    draft = task(loop("i", 2, op("a{i}", scratch_bytes="1KiB")))
    assert {b.name: b.size_bytes for b in draft.buffers} == {"a0.scratch": 1024, "a1.scratch": 1024}
    assert by_name(draft)["a1"].buffers == ("a1.scratch",)


def test_a_buffer_of_a_loop_may_be_declared_again_with_the_same_size_only() -> None:
    ring = loop("i", 4, op("a{i}", buffers=["r{i%2}"]), buffers=[{"name": "r{i%2}", "size_bytes": 8}])
    assert [b.name for b in task(ring).buffers] == ["r0", "r1"]
    with pytest.raises(InvalidInputError, match="'r0' is declared twice with other sizes"):
        task(ring, buffers=({"name": "r0", "size_bytes": 9},))


# --- costs ----------------------------------------------------------------------------------------------


def test_a_given_duration_is_exact_and_all_takes_every_unit() -> None:
    mode = mode_of(op("a", us="39.5625", units="all", latency_us=50))
    assert (mode.uses[0].us, mode.uses[0].units, mode.latency_us, mode.given) == (Fraction(633, 16), 8, 50, True)
    assert mode_of(op("a")).latency_us == 1


def test_overheads_belong_to_hand_overs_and_joins() -> None:
    high = V81.with_values({"overheads.fork_join": "high", "overheads.hmx_handover_spin": "high"})
    spec = Explicit.model_validate(
        {"name": "t", "ops": [op("one"), op("all", units="all"), op("mm", "hmx"), op("mark", "hmx", 0)]}
    )
    found = {o.name: o.modes[0].overhead_us for o in spec.expand(high).ops}
    assert found == {"one": 0, "all": Fraction(5, 2), "mm": Fraction(5, 2), "mark": 0}


def test_macs_cost_what_the_matrix_unit_needs() -> None:
    """768 x 2048 x 352 is the published job of 42.7 us."""
    mode = mode_of(op("mm", "hmx", None, macs=768 * 2048 * 352))
    assert float(mode.latency_us) == pytest.approx(42.7, rel=0.001)
    assert not mode.given


def test_one_op_may_be_a_whole_large_matmul() -> None:
    assert mode_of(op("mm", "hmx", None, macs=742 * 2048 * 6144)).latency_us > 0


def test_bytes_cost_what_the_queue_needs() -> None:
    mode = mode_of(op("load", "dma", None, transfer_bytes=704 * 576, rows=704, owner=2))
    assert {use.engine: float(use.us) for use in mode.uses} == {
        "dma": pytest.approx(704 * 576 / 57_500),
        "dma_queue2": pytest.approx(704 * (576 / 55_600 + 0.008)),
    }
    assert mode.owner == ("hvx", 2)
    write = mode_of(op("store", "dma", None, transfer_bytes=45_800, direction="write"))
    assert write.uses[0].us == 1
    # Rows that do not divide are as long as the longest.
    assert (
        mode_of(op("load", "dma", None, transfer_bytes=10, rows=3)).uses
        == mode_of(op("load", "dma", None, transfer_bytes=12, rows=3)).uses
    )


def test_a_transfer_of_given_duration_holds_its_queue_and_the_pipe() -> None:
    mode = mode_of(op("load", "dma", 9, owner=1, latency_us=12))
    assert [(use.engine, use.us) for use in mode.uses] == [("dma", 9), ("dma_queue1", 9)]
    assert (mode.latency_us, mode.owner, mode.given) == (12, ("hvx", 1), True)


def test_also_and_alternatives() -> None:
    first, second = (
        task(op("a", us=4, also={"lut": 2}, alternatives=[{"engine": "lut", "duration_us": 9, "units": "all"}]))
        .ops[0]
        .modes
    )
    assert [(use.engine, use.us, use.units) for use in first.uses] == [("hvx", 4, 1), ("lut", 4, 2)]
    assert [(use.engine, use.us, use.units) for use in second.uses] == [("lut", 9, 2)]
    assert (second.latency_us, second.name, second.given) == (9, "alternative0", True)


def test_an_op_without_engine_is_a_delay_or_a_mark() -> None:
    assert (mode_of(op("pause", None, 3)).uses, mode_of(op("pause", None, 3)).latency_us) == ((), 3)
    assert mode_of(op("mark", None, None)).latency_us == 0


def test_deadline_and_today() -> None:
    draft = task(op("a", deadline_us=7), today="one_stage_at_a_time")
    assert draft.ops[0].deadline_us == 7
    assert draft.one_stage_at_a_time


# --- errors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "says"),
    [
        ([op("a", "npu")], "there is no engine 'npu'; known: hvx, hmx, lut, dma"),
        ([op("a", also={"npu": 1})], "there is no engine 'npu'"),
        ([op("a", alternatives=[{"engine": "npu", "duration_us": 1}])], "there is no engine 'npu'"),
        ([op("a", after=["ghost"])], "there is no op 'ghost' to run after"),
        ([op("a", after=["g*"])], "there is no op 'g*' to run after"),
        ([loop("i", 2, op("a{i}", after=["a{i+1}"]))], "there is no op 'a2' to run after"),
        ([op("a", buffers=["ghost"])], "there is no buffer 'ghost'"),
        ([op("a{j}")], "'a{j}' uses index 'j', but no loop around it has that name"),
        ([loop("i", 2, loop("i", 2, op("a{i}")))], "loop index 'i' is used in a loop around it"),
        ([loop("i", 2, op("a{i-1}"))], "the index in the name of op 'a{i-1}' falls below zero"),
        ([loop("i", 2, op("a{i%0}"))], "'a{i%0}' divides by zero"),
        ([op("a", us=None)], "give its duration_us"),
        ([op("a", us=None, macs=5)], "'macs' is for engine 'hmx', this op runs on 'hvx'; drop it"),
        ([op("a", "hmx", 1, macs=5)], "'macs' and 'duration_us' both say how long it takes; drop one"),
        ([op("a", "dma", 1, transfer_bytes=5)], "'transfer_bytes' and 'duration_us' both say how long"),
        ([op("a", transfer_bytes=5)], "'transfer_bytes' is for engine 'dma', this op runs on 'hvx'"),
        ([op("a", "hmx", owner=1)], "'owner' is for engine 'dma', this op runs on 'hmx'"),
        ([op("a", None, rows=2)], "'rows' is for engine 'dma', this op has no engine"),
        ([op("a", direction="write")], "'direction' is for engine 'dma'"),
        ([op("a", "dma", units=4)], "'units' is 4, but it takes its turn in one queue; drop it"),
        ([op("a", None, units="all")], "'units' is 'all', but an op without an engine holds none"),
        ([op("a", "dma", None, transfer_bytes=0)], "transfer_bytes is 0; write 1 or more, or leave the op out"),
        ([op("a", "dma", None)], "give its transfer_bytes or duration_us"),
        ([op("a", "dma", 1, owner=8)], "owner 8 is not one of the 8 HVX workers of hexagon-v81"),
        ([op("a", "dma", None, transfer_bytes=8, owner=8)], "owner 8 is not one of the 8"),
        ([op("a", "dma", 1, also={"hmx": 1})], "a transfer holds its queue and the DMA pipe, nothing in 'also'"),
        ([op("a", also={"dma": 1})], "'dma' can be neither an alternative nor in 'also'"),
        ([op("a", alternatives=[{"engine": "dma", "duration_us": 1}])], "'dma' can be neither an alternative"),
        ([op("a", also={"hvx": 1})], "engine 'hvx' is in 'also' too"),
        ([op("a", None, 1, also={"hvx": 1})], "'also' needs an engine beside it"),
        ([op("a", us=5, latency_us=3)], "latency_us 3 is below its duration of 5 us"),
        ([op("a", "dma", 5, latency_us=3)], "latency_us 3 is below its duration of 5 us"),
        (
            [op("a", alternatives=[{"engine": "hmx", "duration_us": 5, "latency_us": 3}])],
            "latency_us 3 is below its duration of 5 us",
        ),
        ([loop("i", 1_000_000_000, op("a{i}"))], "above 100,000 ops"),
    ],
)
def test_an_error_is_one_line_that_names_the_task(ops: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        task(*ops)
    assert says in str(raised.value)
    assert str(raised.value).startswith("task 't'")
    assert "\n" not in str(raised.value)


def test_a_buffer_name_below_zero_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"the name of buffer 'b\{i-1\}' falls below zero"):
        task(loop("i", 1, op("a"), buffers=[{"name": "b{i-1}", "size_bytes": 1}]))


def test_owners_are_those_of_the_machine() -> None:
    spec = Explicit.model_validate({"name": "t", "ops": [op("a", "dma", 1, owner=7)]})
    assert spec.expand(V81).ops[0].modes[0].owner == ("hvx", 7)
    with pytest.raises(InvalidInputError, match="owner 7 is not one of the 6 HVX workers of hexagon-v79"):
        spec.expand(V79)
