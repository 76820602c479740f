"""The published numbers that the model must meet, and those it must predict; the rows say what they are from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "published.py"


@pytest.fixture(scope="module")
def published() -> Any:
    spec = importlib.util.spec_from_file_location("published", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["published"] = module
    spec.loader.exec_module(module)
    return module


def test_four_producers_are_predicted_from_one(published: Any) -> None:
    """Stage cycles are published, what is left of one producer's wall time is the only number fitted to a wall."""
    rows = published.producer_rows()
    assert [row.name for row in rows if row.used_to_fit] == ["pure HMX, 1 producers"]
    assert len(rows) == 5
    for row in rows:
        assert abs(row.error) <= (0.001 if row.used_to_fit else 0.10), row


def test_more_producers_than_hvx_units_are_refused(published: Any) -> None:
    """Measured: a quarter slower with six than with four."""
    with pytest.raises(ValidationError, match=r"unit_ids \(4,\) of 'hvx', which has 4"):
        published.producers(published.ROUTES[0], 6)
    # The matrix unit is no reason to have more: HVX is what binds.
    problem = published.producers(published.ROUTES[0], 4)
    work = {
        name: sum(u.ticks for op in problem.ops for u in op.modes[0].uses if u.engine == name)
        for name in ("hvx", "hmx")
    }
    assert work["hvx"] / 4 > work["hmx"]


def test_whether_to_fuse_is_predicted(published: Any) -> None:
    """Five factors from five pairs on one device; ten other pairs, half of them on another device."""
    rows = published.fusion_rows()
    predicted = [row for row in rows if not row.used_to_fit]
    assert len(published.factors()) == len(rows) - len(predicted) == 5
    assert len(predicted) == 10
    for row in rows:
        assert row.fuse == row.fuse_published, row
    # Where the classes are what binds the kernels, times are predicted too.
    hashes = [row for row in predicted if "V100" in row.name and any(n in row.name for n in ("sia", "sha256"))]
    assert len(hashes) == 4
    assert all(abs(row.error) < 0.01 for row in hashes)


def test_kernels_alone(published: Any) -> None:
    """A matrix-vector product is bound by the bytes of its weights; none of its times was used to fit."""
    rows = published.kernel_rows()
    assert [row.used_to_fit for row in rows] == [False, False, True]
    assert all(abs(row.error) < 0.08 for row in rows)


def test_stages_of_devices_are_within_their_tolerance(published: Any) -> None:
    """10 % or the stated spread, and a median of at most 10 % over what no number was fitted to."""
    rows = [*published.kernel_rows(), *published.stage_rows(), *published.producer_rows()]
    found = published.judged(rows)
    assert found["outside"] == []
    assert found["predicted"] == 17 and found["used_to_fit"] == 18
    assert found["median_error"] <= 0.06
    assert found["holds"]
    # A row that is far off is told, and so is a median that is too high.
    far = published.Row("far", "s", 130.0, 100.0, "us", 0.2, False)
    assert published.judged([*rows, far])["outside"] == ["far"]
    wide = published.Row("wide", "s", 150.0, 100.0, "us", 0.6, False)
    assert published.judged([wide])["outside"] == [] and not published.judged([wide])["holds"]


def test_a_row_is_predicted_at_its_own_clock(published: Any) -> None:
    """Cycles of the core do not depend on the clock of the row, times do, and rows of a transfer stay nanoseconds."""
    task = {"kernel": "matmul_w4a16", "m": 35, "k": 2048, "n": 2048}
    slow, fast = (published.alone_us("hexagon-v79", mhz, **task) for mhz in (1800, 2126))
    assert slow > fast
    assert slow / fast < 2126 / 1800, "what is bound by DMA does not slow down with the core"
    dequantize = next(s for s in published.COVERED if s.name == "W-DEQUANT of thread 0")
    assert dequantize.value() == pytest.approx(240_333.6, rel=1e-3)
