"""Quantized weights in tiles of 32 x 32, as `runtime/hexloom_kernels.h` describes them, drawn and read by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

TILE = 32
TYPES = {"q4_0": 4, "q8_0": 8, "f16": 16}
"""The numbers of the types in C."""

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCKS = {
    "q4_0": np.dtype([("scale", "<f2"), ("q", "u1", (16,))]),
    "q8_0": np.dtype([("scale", "<f2"), ("q", "i1", (32,))]),
    "f16": np.dtype([("q", "<f2", (32,))]),
}
"""32 values along k of one column."""


def random_tiles(chance: np.random.Generator, weight_type: str, k: int, n: int) -> Array:
    """Return the bytes of weights W[k, n], about normal with variance 1 / k, tile after tile, column blocks first."""
    count = k // TILE * n
    blocks = np.zeros(count, _BLOCKS[weight_type])
    if weight_type == "f16":
        blocks["q"] = chance.standard_normal((count, TILE)) / np.sqrt(k)
    else:
        spread = 4.6 if weight_type == "q4_0" else 74.0  # of numbers of 4 and 8 bits that are all as likely
        blocks["scale"] = chance.uniform(0.5, 1.5, count) / (spread * np.sqrt(k))
        low, high = (0, 256) if weight_type == "q4_0" else (-127, 128)
        blocks["q"] = chance.integers(low, high, blocks["q"].shape)
    return blocks.view(np.uint8)


def tiles_to_matrix(tiles: Array, weight_type: str, k: int, n: int) -> Array:
    """Return W[k, n] in float32."""
    blocks = tiles.view(_BLOCKS[weight_type])
    if weight_type == "q4_0":
        values = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1).astype(np.float32) - 8
    else:
        values = blocks["q"].astype(np.float32)
    if weight_type != "f16":
        values *= blocks["scale"].astype(np.float32)[:, None]
    # [column block, tile along k, column, k in the tile]
    return values.reshape(n // TILE, k // TILE, TILE, TILE).transpose(1, 3, 0, 2).reshape(k, n)
