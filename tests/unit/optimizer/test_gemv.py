from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from hexloom import Workload, check_schedule, solve
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import Gemv

if TYPE_CHECKING:
    from hexloom.optimizer.draft import OpDraft, TaskDraft

V81 = load_hw("hexagon-v81")


def gemv(**changes: Any) -> TaskDraft:
    return Gemv(**{"name": "t", "kernel": "gemv", "k": 256, "n": 1024, "n_chunk": 64, **changes}).expand(V81)


def by_name(draft: TaskDraft) -> dict[str, OpDraft]:
    return {op.name: op for op in draft.ops}


def test_every_weight_moves_once() -> None:
    """256 x 1,024 q4_0: 8 x 32 tiles of 576 B; the vector 1 KiB; the result 4 KiB."""
    draft = gemv()
    moved = Counter[str]()
    for op in draft.ops:
        for channel, n_bytes in op.modes[0].moves:
            moved[f"{op.stage} {channel}"] += int(n_bytes)
    assert moved == {
        "x_load ddr": 1024,
        "weights_load ddr": 8 * 32 * 576,
        "dot ddr": 4096,
        "dot l2_write": 4096,
    }
    dots = sum(float(op.modes[0].latency_us) for op in draft.ops if op.stage == "dot")
    # 0.038 cycles a weight; and of each f32 result 0.2744 cycles, which is longer than 4 B at 45.8 GB/s.
    assert dots == pytest.approx((0.038 * 256 * 1024 + 0.2744 * 1024) / 2114)


def test_columns_that_do_not_divide() -> None:
    """9 tiles of columns for 8 workers: one gets two, in a transfer each of 32 columns."""
    draft = gemv(n=288, n_chunk=32)
    counts = Counter(op.name.split(".")[1] for op in draft.ops if op.stage == "dot")
    assert sorted(counts.values()) == [1] * 7 + [2]
    # a last transfer that is narrower
    widths = [op.modes[0].moves[0][1] for op in gemv(n=96, n_chunk=64, workers=1).ops if op.stage == "weights_load"]
    assert widths == [2 * 8 * 576, 8 * 576]
    assert len({op.name.split(".")[1] for op in gemv(n=64).ops if op.stage == "dot"}) == 2  # no worker without work


def test_a_ring_per_worker_and_its_queue() -> None:
    draft = gemv(workers=2, depth=3)
    ops = by_name(draft)
    assert ops["weights_load.1.3"].after == ("dot.1.0",)
    assert ops["weights_load.1.3"].buffers == ("raw.1.0",)
    assert ops["weights_load.1.3"].modes[0].owner == ("hvx", 1)
    assert ops["dot.1.3"].after == ("weights_load.1.3", "x_convert", "dot.1.2")
    sizes = {buffer.name: buffer.size_bytes for buffer in draft.buffers}
    assert sizes["raw.0.0"] == 2 * 8 * 640
    assert len(draft.loop) == len(set(draft.loop)) == len(draft.ops)
    assert draft.loop[:8] == ("x_load", *(f"weights_load.{w}.{j}" for w in range(2) for j in range(3)), "x_convert")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"k": 100}, "k = 100 must be a multiple of 32"),
        ({"n": 100}, "n = 100 must be a multiple of 32"),
        ({"n_chunk": 48}, "n_chunk = 48 must be a multiple of 32"),
        ({"workers": 9}, "workers = 9, but hexagon-v81 has 8 HVX contexts; use at most 8"),
    ],
)
def test_shapes_that_are_none(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        gemv(**changes)


def test_a_plan_of_it_is_checked() -> None:
    task = {"name": "g", "kernel": "gemv", "k": 256, "n": 1024, "n_chunk": 64}
    result = solve(Workload.from_data({"name": "w", "hw": "hexagon-v81", "tasks": [task]}), seed=1, time_limit_s=0.5)
    assert result.schedule is not None
    assert check_schedule(result.schedule) == []
