from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import networkx as nx
import pytest

from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import Add, Copy, RmsNorm, Softmax, SwiGlu

if TYPE_CHECKING:
    from hexloom.optimizer.draft import OpDraft, TaskDraft

V81 = load_hw("hexagon-v81")


def norm(**changes: Any) -> TaskDraft:
    return RmsNorm(**{"name": "t", "kernel": "rmsnorm", "rows": 64, "cols": 2048, **changes}).expand(V81)


def copy(**changes: Any) -> TaskDraft:
    return Copy(**{"name": "t", "kernel": "copy", "rows": 64, "cols": 2048, **changes}).expand(V81)


def by_name(draft: TaskDraft) -> dict[str, OpDraft]:
    return {op.name: op for op in draft.ops}


def graph_of(draft: TaskDraft) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for op in draft.ops:
        graph.add_node(op.name)
        graph.add_edges_from((before, op.name) for before in op.after)
    return graph


def test_costs_of_one_row() -> None:
    """One row of 2,048 f32 is 8 KiB: 8192 / 55.6 GB/s + 8 ns on the queue; 0.51 cycles an element at 2,114 MHz."""
    ops = by_name(norm())
    load = {use.engine: float(use.us) for use in ops["load.0"].modes[0].uses}
    assert load["dma_queue0"] == pytest.approx(8192 / 55_600 + 0.008)
    assert load["dma"] == pytest.approx(8192 / 57_500)
    store = {use.engine: float(use.us) for use in ops["store.0"].modes[0].uses}
    assert store["dma"] == pytest.approx(8192 / 45_800)
    assert float(ops["store.0"].modes[0].latency_us) == pytest.approx(8192 / 45_800)
    assert float(ops["compute.0"].modes[0].latency_us) == pytest.approx(0.51 * 2048 / 2114)
    assert ops["compute.0"].modes[0].uses[0].unit_ids == (0,)


def test_only_the_norm_has_weights() -> None:
    assert Counter(op.stage for op in norm().ops) == {"gamma_load": 8, "load": 64, "compute": 64, "store": 64}
    assert Counter(op.stage for op in copy().ops) == {"load": 64, "compute": 64, "store": 64}
    assert "gamma_load.3" in by_name(norm())["compute.3"].after
    assert "gamma.3" in by_name(norm())["compute.3"].buffers
    assert all("gamma" not in b.name for b in copy().buffers)


@pytest.mark.parametrize("workers", range(1, 9))
@pytest.mark.parametrize("kernel", [norm, copy])
def test_every_worker_has_its_own_blocks(workers: int, kernel: Any) -> None:
    draft = kernel(rows=50, rows_per_block=3, workers=workers)
    blocks = -(-50 // 3)
    computes = [op for op in draft.ops if op.stage == "compute"]
    assert len(computes) == blocks
    for b, op in enumerate(computes):
        worker = b % workers
        assert op.modes[0].uses[0].unit_ids == (worker,)
        assert op.tile == b // workers
        for stage in ("load", "store"):
            assert by_name(draft)[f"{stage}.{b}"].modes[0].owner == ("hvx", worker)
    assert sorted(draft.loop) == sorted(op.name for op in draft.ops)


def test_the_last_block_has_the_rows_that_remain() -> None:
    ops = by_name(norm(rows=50, rows_per_block=3))
    assert ops["compute.16"].modes[0].latency_us * 3 == ops["compute.0"].modes[0].latency_us * 2
    total = sum(op.modes[0].latency_us for op in ops.values() if op.stage == "compute")
    assert total == 25 * ops["compute.16"].modes[0].latency_us


def test_fewer_rows_than_workers() -> None:
    draft = norm(rows=3)
    assert Counter(op.stage for op in draft.ops) == {"gamma_load": 3, "load": 3, "compute": 3, "store": 3}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_slot_is_reused_when_its_users_are_done(depth: int, workers: int) -> None:
    draft = norm(rows=24, workers=workers, depth=depth)
    graph = graph_of(draft)
    slots = {b.name for b in draft.buffers if not b.name.startswith("gamma")}
    assert slots == {f"{side}.{w}.{s}" for side in ("in", "out") for w in range(workers) for s in range(depth)}
    for slot in slots:
        users = [op for op in draft.ops if slot in op.buffers]
        turns = sorted({op.tile for op in users})
        for old, new in itertools.pairwise(turns):
            assert new == old + depth
            firsts = [op.name for op in users if op.tile == new]
            for op in users:
                if op.tile == old:
                    assert all(op.name in nx.ancestors(graph, later) for later in firsts)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_loop_of_today_loads_ahead_by_its_depth(depth: int) -> None:
    loop = list(copy(rows=5, workers=1, depth=depth).loop)
    position = {name: k for k, name in enumerate(loop)}
    for block in range(5):
        assert position[f"load.{block}"] < position[f"compute.{block}"] < position[f"store.{block}"]
        if block + depth < 5:
            assert position[f"store.{block}"] < position[f"load.{block + depth}"]
            assert position[f"load.{block + depth}"] == position[f"store.{block}"] + 1
    assert loop[:depth] == [f"load.{b}" for b in range(depth)]


def test_direct_takes_the_slowest_of_its_paths() -> None:
    """In 16 blocks of all workers. Norm: 64 x 2048 f32 read through L2 at 32 GB/s is slowest; bytes: 64 x 8 KiB."""
    draft = norm(mode="direct")
    assert len(draft.ops) == 16
    assert {op.modes[0].uses[0].unit_ids for op in draft.ops} == {tuple(range(8))}
    assert float(sum(op.modes[0].latency_us for op in draft.ops)) == pytest.approx(64 * 8192 / 32_000)
    # One byte an element: 128 KiB read in 4.1 us, 131,072 x 0.51 cycles / 8 contexts in 3.95 us; on 4 contexts 7.9 us.
    slow = norm(mode="direct", element_bytes=1, workers=4)
    assert float(sum(op.modes[0].latency_us for op in slow.ops)) == pytest.approx(64 * 2048 * 0.51 / 4 / 2114)
    assert draft.buffers == ()


@pytest.mark.parametrize(("rows", "step", "blocks"), [(1024, None, 16), (1000, None, 16), (10, 3, 4), (3, None, 3)])
def test_a_given_duration_is_split_exactly(rows: int, step: int | None, blocks: int) -> None:
    draft = norm(mode="direct", rows=rows, rows_per_block=step, duration_us="172.3")
    assert len(draft.ops) == blocks
    assert sum(op.modes[0].latency_us for op in draft.ops) == Fraction("172.3")
    assert all(op.modes[0].latency_us == op.modes[0].uses[0].us for op in draft.ops)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"duration_us": 5}, "duration_us belongs to mode 'direct'"),
        ({"workers": 9}, "workers = 9, but hexagon-v81 has 8 HVX contexts"),
        ({"workers": 9, "mode": "direct"}, "workers = 9, but hexagon-v81 has 8 HVX contexts"),
        ({"rows": 1_000_000}, "above 100,000 ops"),
    ],
)
def test_an_error_is_one_line_that_names_the_task(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError) as raised:
        norm(**changes)
    assert says in str(raised.value)
    assert str(raised.value).startswith("task 't'")
    assert "\n" not in str(raised.value)


TWO = {"swiglu": SwiGlu, "add": Add}


@pytest.mark.parametrize("kernel", TWO)
def test_a_kernel_of_two_inputs_loads_both_before_it_computes(kernel: str) -> None:
    spec = {"name": "t", "kernel": kernel, "rows": 40, "cols": 512, "input": "a", "second": "b", "output": "c"}
    draft = TWO[kernel](**spec).expand(V81)
    ops = by_name(draft)
    assert Counter(op.stage for op in draft.ops) == {"load": 80, "compute": 40, "store": 40}
    assert set(ops["compute.9"].after) == {"load.9", "load2.9"}
    assert ops["compute.9"].buffers == ("in.1.1", "in2.1.1", "out.1.1")
    # Two buffers per edge: the third turn of a worker waits for its first.
    assert ops["load2.17"].after == ("compute.1",)
    assert [ops[name].regions[0].tensor for name in ("load.3", "load2.3", "store.3")] == ["a", "b", "c"]
    assert sorted(draft.loop) == sorted(ops)
    assert nx.is_directed_acyclic_graph(graph_of(draft))
    loop = [name for name in draft.loop if name.split(".")[0] != "store"]
    assert loop[:6] == ["load.0", "load2.0", "load.8", "load2.8", "compute.0", "load.16"]


def test_two_inputs_read_through_l2_are_twice_the_bytes() -> None:
    spec = {"name": "t", "kernel": "add", "rows": 64, "cols": 2048, "mode": "direct"}
    (op, *_) = Add(**spec).expand(V81).ops
    n_bytes = 4 * 2048 * 4
    assert dict(op.modes[0].moves) == {"ddr": 3 * n_bytes, "l2_read": 2 * n_bytes, "l2_write": n_bytes}
    assert float(op.modes[0].latency_us) == pytest.approx(2 * n_bytes / 32_000)  # through L2 at 32 GB/s


def test_published_times_of_row_kernels() -> None:
    """SwiGLU of 64 x 1792 takes 56.6 us on one thread; softmax 0.24 cycles an element on all six contexts of v79."""
    v79 = load_hw("hexagon-v79")
    ops = SwiGlu(name="t", kernel="swiglu", rows=64, cols=1792, workers=1).expand(v79).ops
    assert float(sum(op.modes[0].latency_us for op in ops if op.stage == "compute")) == pytest.approx(56.6, rel=0.001)
    ops = Softmax(name="t", kernel="softmax", rows=6, cols=1000).expand(v79).ops
    longest = max(op.modes[0].latency_us for op in ops if op.stage == "compute")
    assert float(longest) * 2126 / 6000 == pytest.approx(0.24)


def test_a_block_has_no_more_rows_than_there_are() -> None:
    sizes = {
        b.name: b.size_bytes
        for b in Softmax(name="t", kernel="softmax", rows=6, cols=64, rows_per_block=99).expand(V81).buffers
    }
    assert sizes["in.0.0"] == 6 * 64 * 4
