"""The layout and the chunks of ggml-hexagon are those of its own code, where ``HEXLOOM_GGML`` names its tree."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hexloom.emit.host import find_compiler
from hexloom.optimizer.kernels.ggml_layout import TILE_BYTES, TODAY, Depth, fitting_chunks, ggml_chunks, vtcm_bytes

TREE = os.environ.get("HEXLOOM_GGML")
TYPES = {"f16": 1, "q4_0": 2, "q8_0": 8}
"""Numbers that ggml gives them (htp/htp-ops.h)."""
SHAPES = 1000
ONE = Depth(raw=1, weights=1, output=1)

PROGRAM = r"""
#define __fp16 _Float16
#include <stdbool.h>
#include <stdio.h>
#include "matmul-ops.h"
int main(void) {
  unsigned type, tile, m, k, n, threads, vtcm, pipelined;
  while (scanf("%u %u %u %u %u %u %u %u", &type, &tile, &m, &k, &n, &threads, &vtcm, &pipelined) == 8) {
    size_t rows = 0, columns = 0, bytes = 0;
    int converting = 0;
    bool found = htp_mm_hmx_solve_2d_params((int)type, k, 0, n, (m + 31) / 32 * 32, m, (int)threads, pipelined != 0,
                                            false, tile, vtcm, &rows, &columns, &converting, &bytes);
    printf("%d %zu %zu %d %zu\n", found, rows, columns, converting, bytes);
  }
  return 0;
}
"""


@pytest.mark.skipif(TREE is None, reason="HEXLOOM_GGML names no tree of ggml")
def test_chunks_and_bytes_are_those_of_the_code_of_ggml(tmp_path: Path) -> None:
    assert TREE is not None
    (tmp_path / "solve.c").write_text(PROGRAM, encoding="ascii")
    places = [f"-I{Path(TREE) / part}" for part in ("src/ggml-hexagon/htp", "include", "src")]
    program = str(tmp_path / "solve")
    subprocess.run([find_compiler(), "-std=gnu11", *places, str(tmp_path / "solve.c"), "-o", program], check=True)
    source = random.Random(1)
    shapes: list[tuple[Any, ...]] = [
        (
            source.choice(list(TYPES)),
            source.choice([33, 64, 742, source.randint(1, 4096)]),
            32 * source.randint(1, 300),
            32 * source.randint(1, 400),
            source.randint(1, 8),
            source.choice([2, 4, 8]) << 20,
        )
        for _ in range(SHAPES)
    ]
    lines = [
        f"{TYPES[kind]} {TILE_BYTES[kind][1]} {m} {k} {n} {threads} {vtcm} {int(m > 32)}\n"
        for kind, m, k, n, threads, vtcm in shapes
    ]
    answer = subprocess.run([program], input="".join(lines), capture_output=True, text=True, check=True).stdout
    gave_up = 0
    for (kind, m, k, n, threads, vtcm), line in zip(shapes, answer.splitlines(), strict=True):
        found, rows, columns, converting, used = map(int, line.split())
        depth = TODAY if m > 32 else ONE
        ours = ggml_chunks(m, k, n, kind, vtcm, threads, depth)
        assert ours == ((rows, columns) if found else None), (kind, m, k, n, threads, vtcm)
        if found:
            assert vtcm_bytes(rows, columns, k, kind, converting, depth) == used
            assert fitting_chunks(m, k, n, kind, vtcm, threads, depth) == ours
        else:
            gave_up += 1
    assert 0 < gave_up < SHAPES / 4


@pytest.mark.parametrize(
    ("kind", "m", "k", "n", "threads", "mib", "said", "fits"),
    [
        # What that program answered at ggml-org/ggml d99724f2. It gives up where its rough sum of bytes was too small.
        ("q8_0", 742, 2144, 9376, 2, 4, None, (512, 128)),
        ("q4_0", 64, 3648, 1504, 8, 4, None, (64, 160)),
        ("q4_0", 1024, 3456, 1568, 6, 2, (128, 64), (128, 64)),
        ("q4_0", 742, 2048, 6144, 6, 8, (768, 352), (768, 352)),
    ],
)
def test_where_ggml_gives_up_the_next_best_chunks_are_taken(
    kind: Any, m: int, k: int, n: int, threads: int, mib: int, said: Any, fits: tuple[int, int]
) -> None:
    assert ggml_chunks(m, k, n, kind, mib << 20, threads) == said
    assert fitting_chunks(m, k, n, kind, mib << 20, threads) == fits


def test_areas_are_whole_tiles() -> None:
    """Of 128 x 3456 x 64 a sum of bytes alone is 2 KiB short of what ggml's layout takes."""
    assert vtcm_bytes(128, 64, 3456, "q4_0", 6) == 2082816
