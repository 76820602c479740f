"""Loops of HatScheT beside the repository: their intervals as others found them, proven."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from hexloom.formulations.periodic.modulo import modulo_schedule
from hexloom.optimizer.check_periodic import check_modulo

pytestmark = pytest.mark.shared
READER = Path(__file__).resolve().parents[2] / "benchmarks" / "hatschet.py"


@pytest.fixture(scope="module")
def reader() -> Any:
    spec = importlib.util.spec_from_file_location("hatschet", READER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "ops", "ii"),
    [
        # As a plain CP-SAT model, asked interval by interval, found them; the last by hand: one cycle takes 2 ticks.
        ("origami_fir_SHI_RM1", 29, 13),
        ("origami_fir_SAM_RM1", 121, 59),
        pytest.param("origami_mat_inv_RM1", 266, 177, marks=pytest.mark.slow),
        ("MachSuite_viterbi_graph1_RM", 44, 2),
    ],
)
def test_the_interval_is_the_published_one(shared_instances: Path, reader: Any, name: str, ops: int, ii: int) -> None:
    loop = reader.read_loop(shared_instances / "modulo" / f"{name}.xml")
    assert len(loop.ops) == ops
    result = modulo_schedule(loop, 10.0, shortest=False)
    assert (result.status, result.ii_ticks) == ("OPTIMAL", ii)
    assert result.schedule is not None
    assert check_modulo(loop, result.schedule) == []
