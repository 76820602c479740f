"""The table of tuned parameters: it compiles everywhere, and finds for each call the row that was tuned for it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from compile.conftest import DEVICE, HOST

from hexloom.emit.parameters import HEADER, parameters_header
from hexloom.optimizer.tune.parameters import Parameters
from hexloom.optimizer.tune.report import Counts, RangeRow, Tuned, TuneRow

if TYPE_CHECKING:
    from pathlib import Path

ASKS = """
#include "hexloom_parameters.h"
static uint32_t chunk(uint32_t m, uint32_t k, uint32_t vtcm)
{
  const hexloom_parameters_t *row = hexloom_find_parameters(79u, 6u, HEXLOOM_WEIGHT_Q8_0, m, k, 4096u, vtcm);
  return row == NULL ? 0u : row->m_chunk;
}
int main(void)
{
  int wrong = 0;
  wrong += chunk(1u, 256u, 8388608u) != 32u;
  wrong += chunk(32u, 256u, 8388608u) != 32u;
  wrong += chunk(33u, 256u, 8388608u) != 96u;
  wrong += chunk(96u, 256u, 8388608u) != 96u;
  wrong += chunk(97u, 256u, 8388608u) != 0u;
  wrong += chunk(96u, 512u, 8388608u) != 0u;
  wrong += chunk(96u, 256u, 1024u) != 0u;
  return wrong;
}
"""


def report(m: int, m_chunk: int) -> Tuned:
    chosen = Parameters(m_chunk=m_chunk, n_chunk=64, threads=6)
    return Tuned(
        kernel="matmul_w4a16",
        m=m,
        k=256,
        n=4096,
        weight_type="q8_0",
        machine='a "machine" */',
        arch=79,
        vtcm_bytes=8 << 20,
        contention="fluid",
        overhead_us=1.0,
        existing_us=None,
        existing_parameters=None,
        makespan_us=9.0,
        lower_bound_us=8.0,
        gap=1 / 9,
        range_us=(9.0, 9.0),
        bound_by="hmx",
        parameters=chosen,
        loop_us=10.0,
        loop_parameters=chosen,
        rows=(TuneRow(lever="all", parameters=chosen, makespan_us=9.0),),
        range=(RangeRow(overhead_us=1.0, existing_us=None, makespan_us=9.0),),
        counts=Counts(too_large=0, too_small=0, alike=0, choices=1, excluded=0, solved=1, open=0, simulated=1),
    )


@pytest.mark.parametrize("compiler", HOST)
def test_it_compiles_here_and_finds_the_row(compiler: str, tmp_path: Path) -> None:
    (tmp_path / HEADER).write_text(parameters_header([report(96, 96), report(32, 32)]))
    (tmp_path / "asks.c").write_text(ASKS)
    HOST[compiler](tmp_path / "asks.c", "-o", tmp_path / "asks")
    assert subprocess.run([tmp_path / "asks"]).returncode == 0


@pytest.mark.parametrize("compiler", DEVICE)
def test_it_compiles_for_the_device(compiler: str, tmp_path: Path) -> None:
    (tmp_path / HEADER).write_text(parameters_header([report(96, 96)]))
    (tmp_path / "asks.c").write_text(ASKS)
    DEVICE[compiler]("-c", tmp_path / "asks.c", "-o", tmp_path / "asks.o")


def test_a_table_of_nothing_compiles_too(tmp_path: Path) -> None:
    """No chunk of today's loop fits: the caller is told to ask its own solver."""
    (tmp_path / HEADER).write_text(parameters_header([report(96, 96).model_copy(update={"loop_parameters": None})]))
    (tmp_path / "asks.c").write_text(ASKS)
    HOST["gcc-c99"](tmp_path / "asks.c", "-o", tmp_path / "asks")
    assert subprocess.run([tmp_path / "asks"]).returncode == 4
