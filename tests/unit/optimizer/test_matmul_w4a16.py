"""The matmul kernel against ggml-hexagon's own chunk choices, and its stage times against the published profile."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from hexloom.hwmodels import load_hw
from hexloom.optimizer.baselines import baselines
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import MatmulW4A16
from hexloom.optimizer.kernels.ggml_layout import ggml_chunks, vtcm_bytes
from hexloom.optimizer.lower import lower
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.optimizer.draft import OpDraft, TaskDraft

MIB = 1 << 20
V81 = load_hw("hexagon-v81")

# ggml-org/ggml d99724f2, htp/matmul-ops.h compiled on a host: type, m, k, n, MiB, m_chunk, n_chunk, bytes.
GOLDEN = [
    ("q4_0", 742, 2048, 6144, 8, 768, 352, 8_013_824),
    ("q4_0", 742, 2048, 6144, 4, 416, 192, 4_089_856),
    ("q4_0", 1024, 1024, 1024, 8, 1024, 640, 8_161_280),
    ("q4_0", 512, 4096, 4096, 8, 512, 160, 7_964_672),
    ("q4_0", 128, 4096, 4096, 8, 128, 320, 8_095_744),
    ("q8_0", 512, 4096, 4096, 8, 288, 224, 8_353_792),
    ("q4_0", 512, 4096, 11008, 8, 512, 160, 7_964_672),
    ("q4_0", 512, 11008, 4096, 8, 192, 64, 7_976_960),
    ("f16", 1024, 1024, 1024, 8, 1024, 480, 7_997_440),
    ("q4_0", 35, 2048, 8192, 8, 64, 736, 8_366_080),
]


def task(**changes: Any) -> TaskDraft:
    keys = {"name": "mm", "kernel": "matmul_w4a16", "m": 742, "k": 2048, "n": 6144, **changes}
    return MatmulW4A16(**keys).expand(V81)


def by_name(draft: TaskDraft) -> dict[str, OpDraft]:
    return {op.name: op for op in draft.ops}


def graph_of(draft: TaskDraft) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for op in draft.ops:
        graph.add_node(op.name)
        graph.add_edges_from((before, op.name) for before in op.after)
    return graph


@pytest.mark.parametrize("threads", [6, 8])
@pytest.mark.parametrize(("kind", "m", "k", "n", "mib", "m_chunk", "n_chunk", "size_bytes"), GOLDEN)
def test_chunks_and_bytes_are_those_of_ggml(
    kind: Any, m: int, k: int, n: int, mib: int, m_chunk: int, n_chunk: int, size_bytes: int, threads: int
) -> None:
    assert ggml_chunks(m, k, n, kind, mib * MIB, threads) == (m_chunk, n_chunk)
    assert vtcm_bytes(m_chunk, n_chunk, k, kind, threads) == size_bytes


def test_no_chunk_fits_when_one_tile_does_not() -> None:
    smallest = vtcm_bytes(32, 32, 4096, "q4_0", 8)
    assert ggml_chunks(32, 4096, 32, "q4_0", smallest + 256) == (32, 32)
    assert ggml_chunks(32, 4096, 32, "q4_0", smallest - 1) is None


def test_the_chunk_is_chosen_when_none_is_given() -> None:
    assert task() == task(m_chunk=768, n_chunk=352)
    assert task(n_chunk=320) == task(m_chunk=768, n_chunk=320)


def test_stage_times_of_the_published_matmul() -> None:
    ops = by_name(task())
    (transfer, *others) = ops["weights_load.0"].modes
    queue = {use.engine: use.us for use in transfer.uses}
    assert transfer.owner == ("hvx", 0)
    assert [mode.owner for mode in others] == [("hvx", w) for w in range(1, 8)]
    # 11 x 64 tiles of 576 B: 704 rows, each with its fixed cost on the queue.
    assert float(queue["dma_queue0"]) == pytest.approx(704 * (576 / 55_600 + 0.008))
    assert float(queue["dma_queue0"]) == pytest.approx(12.9, rel=0.02)
    assert float(queue["dma"]) == pytest.approx(704 * 576 / 57_500)
    assert transfer.latency_us == queue["dma_queue0"]
    for name, us in (("dequantize.0", 6.5), ("matmul.0", 42.7), ("store.0", 22.8)):
        assert float(ops[name].modes[0].latency_us) == pytest.approx(us, rel=0.005), name
    # The last chunk has 160 columns.
    assert float(ops["matmul.17"].modes[0].latency_us) == pytest.approx(42.7 * 160 / 352, rel=0.005)
    assert float(ops["store.17"].modes[0].latency_us) == pytest.approx(742 * 160 * 4 / 45_800)
    assert ops["dequantize.17"].modes[0].latency_us * 352 == ops["dequantize.0"].modes[0].latency_us * 160


def test_the_published_matmul_has_18_chunks_and_all_its_activations() -> None:
    draft = task()
    count = Counter(op.stage for op in draft.ops)
    assert (count["weights_load"], count["dequantize"], count["matmul"], count["store"]) == (18, 18, 18, 18)
    pipe = sum(use.us for op in draft.ops if op.stage == "activation_load" for use in op.modes[0].uses[:1])
    assert float(pipe) * 57_500 == pytest.approx(742 * 2048 * 4)  # 6.08 MB
    assert count["activation_load"] == count["activation_convert"] == -(-742 // 8)
    assert sorted(draft.loop) == sorted(op.name for op in draft.ops)
    sizes = {b.name: b.size_bytes for b in draft.buffers}
    assert sizes["activation_f16"] == 768 * 2048 * 2
    assert sizes["raw.0"] == sizes["raw.1"] == 704 * 640
    assert sizes["weights_f16.1"] == 2048 * 352 * 2
    assert sizes["output_f16.1"] == 768 * 352 * 2


def test_dependencies_of_one_chunk() -> None:
    ops = by_name(task())
    assert ops["weights_load.0"].after == ops["weights_load.1"].after == ()
    assert ops["weights_load.5"].after == ("dequantize.3",)
    assert set(ops["dequantize.5"].after) == {"weights_load.5", "matmul.3"}
    assert set(ops["matmul.5"].after) == {"dequantize.5", "activation_ready.0", "store.3"}
    assert ops["store.5"].after == ("matmul.5",)
    assert set(ops["matmul.5"].buffers) == {"weights_f16.1", "activation_f16", "scales", "output_f16.1"}
    converts = {name for name, op in ops.items() if op.stage == "activation_convert"}
    assert set(ops["activation_ready.0"].after) == converts


def test_depth_one_serialises_the_stages() -> None:
    draft = task(depth={"raw": 1, "weights": 1, "output": 1})
    ops = by_name(draft)
    assert ops["weights_load.5"].after == ("dequantize.4",)
    assert "matmul.4" in ops["dequantize.5"].after
    assert "store.4" in ops["matmul.5"].after
    assert {b.name for b in draft.buffers if "." in b.name and "activation" not in b.name} == {
        "raw.0",
        "weights_f16.0",
        "output_f16.0",
    }


@pytest.mark.parametrize("depth", [{}, {"weights": 1}, {"weights": 3, "output": 3}])
def test_every_block_of_rows_waits_until_the_activations_before_are_used(depth: dict[str, int]) -> None:
    """q8_0 512 x 4096 x 4096 has two blocks in 8 MiB; the converted activations have one buffer."""
    draft = task(m=512, k=4096, n=4096, weight_type="q8_0", depth=depth)
    count = Counter(op.stage for op in draft.ops)
    assert count["matmul"] == 2 * 19
    assert count["activation_ready"] == 2
    graph = graph_of(draft)
    assert nx.is_directed_acyclic_graph(graph)
    second = [name for name in graph if name.startswith("activation_convert.1.")]
    assert len(second) == -(-224 // 8)
    jobs = {f"matmul.{c}" for c in range(19)}
    for convert in second:
        assert jobs <= nx.ancestors(graph, convert), convert
    # Staging rows are reused too: no load of the second block before the first is converted.
    firsts = {name for name in graph if name.startswith("activation_convert.0.")}
    for name in graph:
        if name.startswith("activation_load.1."):
            assert firsts <= nx.ancestors(graph, name)


def test_slots_are_never_overwritten_while_they_are_read() -> None:
    """For each slot of a ring: all that used it ends before the next stage that fills it begins."""
    draft = task(m=96, k=64, n=512, m_chunk=32, n_chunk=64, depth={"raw": 3, "weights": 2, "output": 1})
    graph = graph_of(draft)
    fills = {"raw": "weights_load", "weights_f16": "dequantize", "output_f16": "matmul"}
    for buffer in draft.buffers:
        stage = fills.get(buffer.name.split(".")[0])
        if stage is None:
            continue
        users = [op for op in draft.ops if buffer.name in op.buffers]
        generations = sorted({op.tile for op in users})
        for old, new in itertools.pairwise(generations):
            filler = next(op for op in users if op.tile == new and op.stage == stage)
            for op in users:
                if op.tile == old:
                    assert op.name in nx.ancestors(graph, filler.name), (buffer.name, old, new)


def test_a_fixed_owner_leaves_one_mode() -> None:
    (only,) = by_name(task(dma_owner=3, fixed_owner=True))["weights_load.0"].modes
    assert only.owner == ("hvx", 3)


def test_fewer_workers_take_longer() -> None:
    ops, half = by_name(task()), by_name(task(workers=4))
    assert half["dequantize.0"].modes[0].latency_us == 2 * ops["dequantize.0"].modes[0].latency_us
    assert half["dequantize.0"].modes[0].uses[0].unit_ids == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"k": 2050}, "k = 2050 and n = 6144 must be multiples of 32"),
        ({"n": 33}, "must be multiples of 32"),
        ({"m_chunk": 33}, "m_chunk = 33"),
        ({"n_chunk": 40}, "n_chunk = 40"),
        ({"dma_owner": 8}, "dma_owner 8 is not one of its 8 HVX workers"),
        ({"dma_owner": 2, "workers": 2}, "dma_owner 2 is not one of its 2 HVX workers"),
        ({"workers": 9}, "workers = 9, but hexagon-v81 has 8 HVX contexts"),
        ({"m": 1_000_000}, "above 100,000 ops"),
    ],
)
def test_an_error_is_one_line_that_names_the_task(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        task(**changes)
    assert says in str(raised.value)
    assert str(raised.value).startswith("task 'mm'")
    assert "\n" not in str(raised.value)


def test_a_load_in_parts_comes_over_as_many_queues() -> None:
    whole, parts = by_name(task(fixed_owner=True)), by_name(task(load_parts=3, dma_owner=6))
    names = [f"weights_load.4.{p}" for p in range(3)]
    assert [parts[name].modes[0].owner for name in names] == [("hvx", 6), ("hvx", 7), ("hvx", 0)]
    assert all(len(parts[name].modes) == 1 for name in names)
    assert set(names) <= set(parts["dequantize.4"].after)
    assert {parts[name].buffers for name in names} == {("raw.0",)}

    def pipe_us(ops: dict[str, OpDraft], name: str) -> Fraction:
        return next(use.us for use in ops[name].modes[0].uses if use.engine == "dma")

    assert sum(pipe_us(parts, name) for name in names) == pipe_us(whole, "weights_load.4")
    with pytest.raises(InvalidInputError, match="load_parts 9 is more than the queues of its 8 HVX workers"):
        task(load_parts=9)


def test_slices_are_as_much_work_as_the_gang_and_nobody_meets() -> None:
    gang, sliced = by_name(task()), by_name(task(slices=True))
    for stage in ("dequantize", "store"):
        mine = [op for name, op in sliced.items() if name.startswith(f"{stage}.0.")]
        assert [op.modes[0].uses[0].unit_ids for op in mine] == [(w,) for w in range(8)]
        assert not any(op.modes[0].overhead_us for op in mine)
        whole = gang[f"{stage}.0"].modes[0].latency_us
        assert max(op.modes[0].latency_us for op in mine) == pytest.approx(float(whole), rel=0.02)
        assert min(op.modes[0].latency_us for op in mine) <= whole or stage == "store"
    assert {f"dequantize.0.{w}" for w in range(8)} < set(sliced["matmul.0"].after)
    moved = [dict(op.modes[0].moves)["ddr"] for name, op in sliced.items() if name.startswith("store.0.")]
    assert sum(moved) == 742 * 352 * 4


def test_rows_of_slices_are_apart_in_ddr() -> None:
    ops = by_name(task(slices=True, output="c"))
    regions = [ops[f"store.1.{w}"].regions[0] for w in range(8)]
    assert [r.rows for r in regions] == [93] * 6 + [92] * 2
    assert [r.offset_bytes for r in regions] == [(93 * w - max(0, w - 6)) * 6144 * 4 + 352 * 4 for w in range(8)]


def test_the_golden_shape_of_three_blocks_fits_as_it_does_today() -> None:
    """512 x 11008 x 4096: fewer rows at a time arrive in the bytes that the work areas use later."""
    work = Workload.model_validate(
        {
            "schema": "hexloom.workload/1",
            "name": "w",
            "tasks": [{"name": "m", "kernel": "matmul_w4a16", "m": 512, "k": 11008, "n": 4096}],
        }
    )
    lowered = lower(work, V81)
    assert lowered.problem.tick is not None
    assert {op.stage: op.tile for op in lowered.problem.ops}["activation_ready"] == 2
    existing = baselines(lowered.problem, lowered.loops, serial=False).existing
    assert existing is not None
    assert 2_700 < existing * lowered.problem.tick < 3_300  # weights three times on one queue: 2,729 us or more


@pytest.mark.parametrize("edge", ["raw", "weights", "output"])
def test_the_loop_of_today_runs_with_one_buffer_of_an_edge(edge: str) -> None:
    work = {"name": "m", "kernel": "matmul_w4a16", "m": 64, "k": 64, "n": 256, "n_chunk": 32, "depth": {edge: 1}}
    lowered = lower(Workload.model_validate({"schema": "hexloom.workload/1", "name": "w", "tasks": [work]}), V81)
    one = baselines(lowered.problem, lowered.loops, serial=False).existing
    work["depth"] = {}
    lowered = lower(Workload.model_validate({"schema": "hexloom.workload/1", "name": "w", "tasks": [work]}), V81)
    two = baselines(lowered.problem, lowered.loops, serial=False).existing
    assert one is not None
    assert two is not None
    assert one >= two * 0.999  # fixed orders are not monotone: a buffer less may end a little earlier


def test_no_chunk_and_no_step_has_more_rows_than_there_are() -> None:
    sizes = {b.name: b.size_bytes for b in task(m=70, n=64, m_chunk=6400, activation_rows=100_000).buffers}
    assert sizes["activation_f16"] == 96 * 2048 * 2
    assert sizes["activation_f32.0.0"] == 96 * 2048 * 4
