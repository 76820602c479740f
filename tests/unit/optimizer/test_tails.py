"""Which kernels may have a shorter last iteration, and what is shorter then, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from looped import HW, source_of

from hexloom.hwmodels import load_hw
from hexloom.optimizer.kernels.matmul_w4a16 import MatmulW4A16
from hexloom.optimizer.kernels.rows import RmsNorm
from hexloom.optimizer.periodic.tails import tails_of
from hexloom.optimizer.workload import Workload

MATMUL = {"kernel": "matmul_w4a16", "weight_type": "q4_0", "k": 64, "m_chunk": 32, "n_chunk": 128}
NAMED = {"input": "x", "output": "y"}
DIRECT = {"kernel": "rmsnorm", "cols": 64, "mode": "direct", "rows_per_block": 8}


def tails(**task: Any) -> list[tuple[Any, ...]]:
    data = {"schema": "hexloom.workload/1", "name": "w", "hw": HW, "tasks": [{"name": "t", **task}]}
    found = tails_of(source_of(Workload.from_data(data, "w")))
    return [
        (t.counts, t.least, t.most, t.step, [(s.stage, s.part, s.region, s.field) for s in t.shrinks]) for t in found
    ]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        # A chunk of 128 columns may be one tile of 32; what is stored of each row are so many columns.
        ({**MATMUL, **NAMED, "m": 32, "n": 1280}, [("columns", 32, 128, 32, [("store", 0, 0, "row_bytes")])]),
        # Blocks of rows: what is stored is one piece.
        ({**MATMUL, "output": "y", "m": 640, "n": 64}, [("rows", 1, 32, 1, [("store", 0, 0, "row_bytes")])]),
        ({**DIRECT, "rows": 320}, [("rows", 1, 8, 1, [])]),
        (
            {**DIRECT, **NAMED, "rows": 320},
            [("rows", 1, 8, 1, [("compute", 0, 0, "row_bytes"), ("compute", 0, 1, "row_bytes")])],
        ),
        ({**DIRECT, "rows": 323}, []),  # the last block is shorter already
        ({**MATMUL, "m": 32, "n": 1248}, []),
        ({"kernel": "gemv", "k": 64, "n": 1920, "n_chunk": 32}, []),
    ],
    ids=["columns", "rows", "rows alone", "direct", "short", "short columns", "gemv"],
)
def test_what_is_shorter_in_the_last_iteration(task: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    assert tails(**task) == expected


def test_a_task_is_given_its_last_tile() -> None:
    machine = load_hw(HW)
    norm = RmsNorm.model_validate({**DIRECT, "name": "t", "rows": 323})
    assert norm.last_tile(machine)[1:] == (3, 8, 1)
    assert norm.with_last_tile(machine, 5).rows == 325
    product = MatmulW4A16.model_validate({**MATMUL, "name": "t", "m": 32, "n": 1248})
    assert product.last_tile(machine) == ("columns", 96, 128, 32)
    assert product.with_last_tile(machine, 32).n == 1184
    assert product.with_last_tile(machine, 32).iterations(machine) == product.iterations(machine)
