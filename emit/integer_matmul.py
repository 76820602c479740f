"""``matmul_w4a8`` in numbers: its tensors, what its kernels are told, and what numpy says of it.

Rows of A become bytes with 128 for zero and a scale each, the largest magnitude / 127; W is whole numbers with a scale
for each column, in tiles as `runtime/hexloom_kernels.h` describes them. Products of whole numbers are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexloom.optimizer.kernels.matmul_w4a8 import COLUMNS, ROWS, WEIGHT_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.optimizer.draft import OpDraft
    from hexloom.optimizer.kernels.matmul_w4a8 import MatmulW4A8

    Array = np.ndarray[Any, np.dtype[Any]]

QUANTIZE, PRODUCT, READ_OUT, SCALE = range(10, 14)
STEP_TOLERANCE = 2.0**-6
"""Of a result whose input another task computes: where that rounds otherwise, a byte may be the next one."""


def block_rows(spec: MatmulW4A8) -> int:
    """Return the rows of A that are quantized and multiplied at once."""
    return min(spec.m_chunk, -(-spec.m // ROWS) * ROWS)


def tensor_sizes(spec: MatmulW4A8) -> dict[str, int]:
    """Return the bytes of each tensor by its role; ``sums`` stand for the accumulators of the matrix unit."""
    return {
        "a": 4 * spec.m * spec.k,
        "w": spec.k * spec.n * WEIGHT_BITS[spec.weight_type] // 8,
        "column_scales": 4 * spec.n,
        "row_scales": 4 * spec.m,
        "sums": 4 * block_rows(spec) * min(spec.n_chunk, spec.n),
        "out": 4 * spec.m * spec.n,
    }


def tensor_names(spec: MatmulW4A8, _: Sequence[Any]) -> dict[str, str | None]:
    """Return the names of tensors by their role, whatever other tasks do."""
    return {"a": spec.input, "out": spec.output}


def drawn(spec: MatmulW4A8, role: str, size: int, chance: np.random.Generator) -> Array | None:
    """Return the bytes of an input: weights about normal with variance 1 / k; None for what kernels write."""
    if role == "a":
        return chance.standard_normal(size // 4, np.float32).view(np.uint8)
    if role == "w":
        return chance.integers(0, 256, size, np.uint8)
    if role == "column_scales":
        spread = 4.6 if spec.weight_type == "i4" else 74.0  # of whole numbers that are all as likely
        scales = chance.uniform(0.5, 1.5, size // 4) / (spread * np.sqrt(spec.k))
        return np.asarray(scales, np.float32).view(np.uint8)
    return None


def quantized(rows: Array) -> tuple[Array, Array]:
    """Return the bytes of rows of float32, less 128, and their scales: in the steps that the C takes."""
    scales = (np.abs(rows).max(axis=1) / np.float32(127)).astype(np.float32)
    inverse = np.divide(np.float32(1), scales, out=np.zeros_like(scales), where=scales > 0)
    scaled = np.clip(rows * inverse[:, None], np.float32(-127), np.float32(127))
    return np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int32), scales


def weights(tiles: Array, bits: int, k: int, n: int) -> Array:
    """Return the whole numbers W[k, n] of tiles."""
    if bits == 4:
        nibbles = tiles.reshape(-1, COLUMNS // 2)
        values = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.int32) - 8
    else:
        values = tiles.view(np.int8).astype(np.int32)
    # [column block, tile along k, column, k in the tile]
    return values.reshape(n // COLUMNS, k // COLUMNS, COLUMNS, COLUMNS).transpose(1, 3, 0, 2).reshape(k, n)


def product(spec: MatmulW4A8, a: Array, tiles: Array, column_scales: Array) -> Array:
    """Return C[m, n] of A[m, k] in float32."""
    numbers, scales = quantized(a)
    w = weights(tiles, WEIGHT_BITS[spec.weight_type], spec.k, spec.n)
    sums = numbers.astype(np.float64) @ w.astype(np.float64)  # whole numbers below 2^31: exact
    return np.asarray(sums.astype(np.float32) * (scales[:, None] * column_scales[None, :]), np.float32)


def words(spec: MatmulW4A8, at: Mapping[str, int], op: OpDraft, load: int) -> list[Any]:
    """Return the words of an op; ``at`` are offsets of tensors in DDR, ``load`` the number of that function."""
    part, row = op.part, 4 * spec.k
    tile_row = spec.k * COLUMNS * WEIGHT_BITS[spec.weight_type] // 8
    if op.stage == "activation_load":
        return [load, "activation_f32", 0, part[1], row, row, at["a"] + part[0] * row, row]
    if op.stage == "quantize":
        first = op.tile * block_rows(spec) + part[0]
        return [QUANTIZE, "activation_f32", "activation_u8", part[0], part[1], spec.k, at["row_scales"] + 4 * first]
    if op.stage == "weights_load":
        blocks, first = part[1] // COLUMNS, part[0] // COLUMNS
        inside = part[0] % min(spec.n_chunk, spec.n) // COLUMNS * tile_row
        return [load, "weights", inside, blocks, tile_row, tile_row, at["w"] + first * tile_row, tile_row]
    if op.stage == "matmul":
        bits = WEIGHT_BITS[spec.weight_type]
        return [PRODUCT, bits, "activation_u8", "weights", part[0], spec.k, part[1], at["sums"]]
    if op.stage == "readout":
        return [READ_OUT, "result_i32", part[0], part[1], at["sums"]]
    if op.stage == "dequantize":
        first, rows, column, width, within = part
        out = at["out"] + 4 * (first * spec.n + column)
        scales = (at["row_scales"] + 4 * first, at["column_scales"] + 4 * column)
        return [SCALE, "result_i32", within, rows, width, out, 4 * spec.n, *scales]
    return [0]
