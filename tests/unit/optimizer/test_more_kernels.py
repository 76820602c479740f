"""``matmul_id``, ``matmul_w4a8``, ``attention``: bytes and work by hand, tails, loops of today, plans, iterations."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexloom import Workload, check_schedule, solve
from hexloom.hwmodels import load_hw
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import Attention, MatmulId, MatmulW4A8, MatmulW4A16
from hexloom.optimizer.lower import lower
from hexloom.optimizer.periodic.roll import parts_of_stages, roll

if TYPE_CHECKING:
    from hexloom.optimizer.draft import OpDraft, TaskDraft

V79, V81 = load_hw("hexagon-v79"), load_hw("hexagon-v81")

EXPERTS = {"name": "t", "kernel": "matmul_id", "rows": [40, 64, 7], "k": 64, "n": 96, "n_chunk": 64}
INT8 = {"name": "t", "kernel": "matmul_w4a8", "m": 150, "k": 64, "n": 96, "n_chunk": 64}
ATTENTION = {"name": "t", "kernel": "attention", "queries": 96, "kv": 160, "heads": 4, "kv_heads": 2, "head_dim": 64}
ATTENTION |= {"q_block": 64, "kv_block": 64}


def experts(**changes: Any) -> TaskDraft:
    return MatmulId(**{**EXPERTS, **changes}).expand(V81)


def int8(**changes: Any) -> TaskDraft:
    return MatmulW4A8(**{**INT8, **changes}).expand(V79)


def attention(**changes: Any) -> TaskDraft:
    return Attention(**{**ATTENTION, **changes}).expand(V81)


def moved(draft: TaskDraft) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = defaultdict(int)
    for op in draft.ops:
        for channel, n_bytes in op.modes[0].moves:
            found[op.stage, channel] += int(n_bytes)
    return dict(found)


def work_us(draft: TaskDraft, *stages: str) -> float:
    """Units times microseconds of ``stages`` on HVX or HMX."""
    uses = [use for op in draft.ops if op.stage in stages for use in op.modes[0].uses if use.engine in ("hvx", "hmx")]
    return float(sum(use.us * use.units for use in uses))


def by_name(draft: TaskDraft) -> dict[str, OpDraft]:
    return {op.name: op for op in draft.ops}


def assert_loop_is_an_order(draft: TaskDraft) -> None:
    """All ops once, each after what it waits for."""
    place = {name: at for at, name in enumerate(draft.loop)}
    assert sorted(place) == sorted(op.name for op in draft.ops)
    assert all(place[before] < place[op.name] for op in draft.ops for before in op.after)


def test_every_expert_has_its_rows_and_its_weights() -> None:
    """111 rows of 64 f32; per expert 2 x 3 tiles of 576 B; 111 x 96 f32 results."""
    draft = experts()
    assert moved(draft) == {
        ("activation_load", "ddr"): 111 * 64 * 4,
        ("weights_load", "ddr"): 3 * 6 * 576,
        ("store", "ddr"): 111 * 96 * 4,
        ("store", "l2_write"): 111 * 96 * 4,
    }
    ops = by_name(draft)
    assert [ops[f"weights_load.{c}"].part for c in range(6)] == [
        (0, 0, 4), (4, 0, 2), (6, 0, 4), (10, 0, 2), (12, 0, 4), (16, 0, 2),
    ]  # fmt: skip
    assert [ops[f"store.{c}"].part[:2] for c in range(0, 6, 2)] == [(0, 40), (40, 64), (104, 7)]
    # Rows padded to 32 on the matrix unit: 64, 64 and 32.
    macs = (64 + 64 + 32) * 64 * 96
    assert work_us(draft, "matmul") == pytest.approx(macs * 0.000163042 / 2114)


def test_scattered_rows_have_a_descriptor_each() -> None:
    draft = experts(activation_rows=4)
    loads = [op.modes[0] for op in draft.ops if op.stage == "activation_load"]
    assert sum(mode.descriptors for mode in loads) == 111
    whole = MatmulW4A16(name="t", kernel="matmul_w4a16", m=111, k=64, n=96).expand(V81)
    assert all(op.modes[0].descriptors == 1 for op in whole.ops if op.stage == "activation_load")


def test_todays_experts_push_and_pop() -> None:
    """No vector work between a job and its store, but transfers ahead."""
    draft = experts(rows=[64], n=192, n_chunk=32)
    assert_loop_is_an_order(draft)
    chunks = [name for name in draft.loop if not name.startswith("activation")]
    assert chunks[:2] == ["weights_load.0", "weights_load.1"]
    for c in range(6):
        assert chunks[chunks.index(f"matmul.{c}") + 1] == f"store.{c}"
    assert chunks.index("weights_load.2") < chunks.index("matmul.0")


@pytest.mark.parametrize("overhead_us", [0, 1])
def test_experts_in_a_pipeline_beat_push_and_pop(overhead_us: int) -> None:
    """Push and pop takes the sum of what overlaps otherwise: at least 1.3 times as long here."""
    hw = V81.with_values({"overheads.fork_join": overhead_us, "overheads.hmx_handover_spin": overhead_us})
    task = {**EXPERTS, "rows": [128] * 4, "k": 1024, "n": 1024, "n_chunk": 256}
    result = solve(workload(task), hw, time_limit_s=0.5, seed=1, explained=False)
    assert result.schedule is not None
    existing = result.schedule.baselines["existing"]
    assert existing is not None
    assert existing > Fraction(13, 10) * Fraction(result.schedule.makespan)


def test_int8_work_and_bytes() -> None:
    """150 rows in blocks of 64: weights come three times, 64 x 96 halves of a byte each; rows padded to 64."""
    draft = int8()
    assert moved(draft) == {
        ("activation_load", "ddr"): 150 * 64 * 4,
        ("weights_load", "ddr"): 3 * 64 * 96 // 2,
        ("dequantize", "ddr"): 150 * 96 * 4,
        ("dequantize", "l2_write"): 150 * 96 * 4,
    }
    assert work_us(draft, "matmul") == pytest.approx(3 * 64 * 64 * 96 * 0.000616364 / 2076, rel=0.03)
    assert work_us(draft, "quantize") == pytest.approx(150 * 64 * 4.282 / 2126, rel=0.03)
    assert Counter(
        op.stage for op in draft.ops if not op.stage.startswith(("activation", "quantize"))
    ) == dict.fromkeys(("weights_load", "matmul", "readout", "dequantize"), 6)
    assert draft.one_stage_at_a_time


def test_int8_stage_by_stage_takes_what_was_measured() -> None:
    """156 and 2,229 us on v79, one stage after the other (nntrainer notes); HVX rates are those of the former."""
    for rows, measured in ((64, 156), (1024, 2229)):
        task = {"name": "t", "kernel": "matmul_w4a8", "m": rows, "k": 1024, "n": 2048}
        lowered = lower(workload(task), V79, "fluid")
        assert lowered.problem.tick is not None
        existing = baselines(lowered.problem, lowered.loops, "fluid").existing
        assert existing is not None
        assert float(existing * lowered.problem.tick) == pytest.approx(measured, rel=0.09)


def test_attention_work_and_bytes() -> None:
    """96 queries in blocks of 64 and 32, 160 keys in 64, 64 and 32; every block of every head reads K and V again."""
    draft = attention()
    assert moved(draft) == {
        ("q_load", "ddr"): 4 * 96 * 64 * 4,
        ("kv_load", "ddr"): 2 * 4 * (2 * 160 * 64 * 2),
        ("store", "ddr"): 4 * 96 * 64 * 4,
        ("store", "l2_write"): 4 * 96 * 64 * 4,
    }
    macs = 2 * 4 * 96 * 64 * 160
    assert work_us(draft, "qk", "pv") == pytest.approx(macs * 0.000163042 / 2114)
    assert work_us(draft, "softmax") == pytest.approx(4 * 96 * 160 * 1.44 / 2114)
    assert len({op.tile for op in draft.ops if op.stage == "q_load"}) == 8


def test_todays_attention_pushes_scores_ahead_of_a_softmax() -> None:
    ahead = [n for n in attention().loop if n.startswith(("qk", "softmax", "pv"))]
    assert ahead[:6] == ["qk.0", "qk.1", "softmax.0", "pv.0", "qk.2", "softmax.1"]
    few = [n for n in attention(kv=128).loop if n.startswith(("qk", "softmax", "pv"))]
    assert few[:4] == ["qk.0", "softmax.0", "pv.0", "qk.1"]


def test_heads_share_keys() -> None:
    draft = attention(keys="K", values="V")
    first = {op.name: op.regions[0].offset_bytes for op in draft.ops if op.stage == "kv_load"}
    # Four heads, two of keys: three blocks of keys each, heads 0 and 1 read the same.
    assert [first[f"kv_load.{c}"] for c in range(12)] == [0, 8192, 16384] * 2 + [20480, 28672, 36864] * 2


@pytest.mark.parametrize(
    ("make", "changes", "says"),
    [
        (experts, {"k": 100}, "k = 100 and n = 96 must be multiples of 32"),
        (experts, {"dma_owner": 8}, "dma_owner 8 is not one of its 8 HVX workers"),
        (experts, {"load_parts": 9}, "load_parts 9 is more than the queues of its 8 HVX workers"),
        (int8, {"m_chunk": 32}, "m_chunk = 32 must be a multiple of 64"),
        (int8, {"dma_owner": 6}, "dma_owner 6 and load_parts 1 need more than its 6 HVX workers"),
        (attention, {"kv_block": 80}, "kv_block = 80 must be a multiple of 32"),
        (attention, {"kv_heads": 3}, "heads = 4 must be a multiple of kv_heads = 3"),
        (attention, {"dma_owner": 8}, "dma_owner 8 is not one of its 8 HVX workers"),
    ],
)
def test_what_cannot_be_is_told(make: Any, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        make(**changes)


def workload(task: dict[str, Any]) -> Workload:
    hw = "hexagon-v79" if task["kernel"] == "matmul_w4a8" else "hexagon-v81"
    return Workload.from_data({"name": "w", "hw": hw, "tasks": [task]})


KINDS: dict[str, tuple[dict[str, Any], dict[str, st.SearchStrategy[Any]]]] = {
    "matmul_id": (
        EXPERTS,
        {"rows": st.lists(st.integers(1, 70), min_size=1, max_size=3), "load_parts": st.integers(1, 2)},
    ),
    "matmul_w4a8": (INT8, {"m": st.integers(1, 200), "load_parts": st.integers(1, 2)}),
    "attention": (ATTENTION, {"queries": st.integers(1, 100), "kv": st.integers(1, 200), "depth": st.integers(1, 3)}),
}


@settings(max_examples=4)
@given(st.sampled_from(sorted(KINDS)), st.data())
def test_plans_of_any_shape_break_no_rule(kind: str, data: st.DataObject) -> None:
    task, changes = KINDS[kind]
    task = {
        **task,
        **{key: data.draw(values) for key, values in changes.items()},
        "slices": data.draw(st.booleans()),
        "workers": 2,
    }
    result = solve(workload(task), time_limit_s=0, explained=False)
    assert result.schedule is not None
    assert check_schedule(result.schedule) == []
    draft = lower(workload(task), load_hw(workload(task).hw or ""), "none")
    graph = nx.DiGraph((p.before, p.after) for p in draft.problem.precedences)
    assert nx.is_directed_acyclic_graph(graph)


@pytest.mark.parametrize(
    "task",
    [
        {**EXPERTS, "rows": [64] * 9 + [20]},
        {**INT8, "m": 64 * 9 + 20},
        {**INT8, "m": 64, "n": 64 * 9},
        {**ATTENTION, "queries": 128, "heads": 6},
        {"name": "t", "kernel": "gemv", "k": 64, "n": 32 * 8 * 9, "n_chunk": 32},
        {"name": "t", "kernel": "matmul_w4a16", "m": 64 * 9 + 20, "k": 64, "n": 64, "m_chunk": 64, "n_chunk": 32},
    ],
    ids=lambda task: task["kernel"],
)
def test_they_are_loops(task: dict[str, Any]) -> None:
    """One iteration more is one iteration more of every stage of the body, and nothing else."""
    whole = workload(task)
    hw = load_hw(whole.hw or "")
    spec = whole.tasks[0]
    trips = spec.iterations(hw)
    assert trips is not None
    assert trips >= 9
    few, more = (
        lower(whole.model_copy(update={"tasks": (spec.shortened(hw, n),)}), hw, "none").problem for n in (8, 9)
    )
    rolled = roll(few, parts_of_stages(few, more), {"t": 8}, "none")
    assert len(rolled.once) < len(rolled.loops["t"].ops) + 8
    again = lower(whole.model_copy(update={"tasks": (spec.shortened(hw, trips),)}), hw, "none").problem
    assert len(again.ops) == len(lower(whole, hw, "none").problem.ops)
