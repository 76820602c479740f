"""Descriptors of user DMA: their words are read back field by field, as ggml-hexagon declares them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import pytest
from compile.conftest import Compiler
from hypothesis import given
from hypothesis import strategies as st
from runtime.hosts import GCC, INCLUDES

from hexloom.emit.descriptors import pieces_of
from hexloom.formulations.problem import Region

if TYPE_CHECKING:
    from pathlib import Path

FROM, TO = 0x12345680, 0x87654300
SHORT, LONG = 2**16 - 1, 2**24 - 1
TRANSFER = np.dtype([("to", "<u8"), ("from", "<u8"), *((name, "<u4") for name in ("row", "rows", "to_step", "step"))])
"""`hexloom_transfer` on a machine of 64 bits."""

CODE = """
#include "hexloom_udma.h"
int fill(uint32_t *words, const hexloom_transfer *t, int is_wide, int past_l2);
int fill(uint32_t *words, const hexloom_transfer *t, int is_wide, int past_l2) {
  return hexloom_udma_fill(words, t, is_wide, past_l2);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("udma")
    (folder / "fill.c").write_text(CODE, encoding="utf-8")
    Compiler(GCC, ("-std=c11", "-O1", "-shared", "-fPIC"))(*INCLUDES, folder / "fill.c", "-o", folder / "fill.so")
    return ctypes.CDLL(str(folder / "fill.so"))


def words_of(library: ctypes.CDLL, row: int, rows: int, to_step: int, step: int, *flags: bool) -> list[int] | None:
    transfer = np.array([(TO, FROM, row, rows, to_step, step)], TRANSFER)
    words = np.full(8, 0xFFFFFFFF, np.uint32)
    where = [array.ctypes.data_as(ctypes.c_void_p) for array in (words, transfer)]
    return [int(word) for word in words] if library.fill(*where, *map(int, flags)) else None


def field(words: list[int], word: int, low: int, size: int) -> int:
    return words[word] >> low & (1 << size) - 1


def moved(words: list[int]) -> tuple[str, int, int, int, int]:
    """Return kind, bytes of a row, rows, distances at target and source: as dma_descriptor_1d and _2d are declared."""
    assert (words[0], words[2], words[3]) == (0, FROM, TO)
    assert field(words, 1, 26, 2) == 0 and field(words, 1, 30, 2) == 0  # not compressed, not ordered, not done
    if field(words, 1, 24, 2) == 0:
        return "one", field(words, 1, 0, 24), 1, 0, 0
    assert field(words, 1, 24, 2) == 1
    if field(words, 4, 0, 8) == 9:
        assert words[4] >> 8 == 0 and words[7] == 0
        rows = field(words, 5, 24, 8) | field(words, 6, 0, 8) << 8
        return "wide", field(words, 5, 0, 24), rows, field(words, 1, 0, 24), field(words, 6, 8, 24)
    assert words[4] == 0 and words[7] == 0 and field(words, 1, 0, 24) == 0
    return "two", field(words, 5, 0, 16), field(words, 5, 16, 16), field(words, 6, 16, 16), field(words, 6, 0, 16)


def test_by_hand(library: ctypes.CDLL) -> None:
    """576-byte rows of weights with 640 in the scratchpad, as ggml loads them; past L2 on both sides, or through it."""
    assert words_of(library, 576, 12, 640, 576, False, True) == [
        0,
        0x31000000,
        FROM,
        TO,
        0,
        576 | 12 << 16,
        576 | 640 << 16,
        0,
    ]
    assert words_of(library, 576, 300, 640, 576, True, False) == [
        *(0, 0x01000000 | 640, FROM, TO, 9, 576 | (300 & 255) << 24, 300 >> 8 | 576 << 8, 0)
    ]
    assert words_of(library, 70_000, 1, 0, 0, False, False) == [0, 70_000, FROM, TO, 0, 0, 0, 0]


SIZES = st.one_of(st.integers(1, 300), st.sampled_from([SHORT, SHORT + 1, LONG, LONG + 1]), st.integers(1, 2**26))


@given(SIZES, SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_what_is_written_is_what_is_moved(
    library: ctypes.CDLL, row: int, rows: int, to_gap: int, gap: int, is_wide: bool, past_l2: bool
) -> None:
    dense = to_gap % 7 == 0
    to_step, step = (row, row) if dense else (row + to_gap, row + gap)
    words = words_of(library, row, rows, to_step, step, is_wide, past_l2)
    limit = LONG if is_wide else SHORT
    one = (rows == 1 or dense) and row * rows <= LONG
    two = rows > 1 and rows <= SHORT and max(row, to_step, step) <= limit
    assert (words is not None) == (one or two)
    if words is None:
        return
    assert field(words, 1, 28, 2) == (3 if past_l2 else 0)
    if one:
        assert moved(words) == ("one", row * rows, 1, 0, 0)
    else:
        assert moved(words) == ("wide" if is_wide else "two", row, rows, to_step, step)


@given(st.integers(1, 200_000), st.integers(1, 2**25), st.integers(0, 2**25), st.sampled_from([73, 75, 79]))
def test_what_tables_are_cut_to_fits(library: ctypes.CDLL, rows: int, row: int, gap: int, arch: int) -> None:
    """The pieces of `emit --descriptors` are one descriptor each, on the architecture that they were cut for."""
    rows = rows if row + gap <= SHORT else rows % 5 + 1
    region = Region(
        tensor="x", kind="read", bypass=True, offset_bytes=0, row_bytes=row, rows=rows, stride_bytes=row + gap
    )
    for piece in pieces_of(region, 0, arch):
        packed = (piece.row_bytes, piece.rows, piece.row_bytes, piece.stride)
        assert words_of(library, *packed, arch >= 75, True) is not None
