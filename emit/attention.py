"""``attention`` in numbers: its tensors, what its kernels are told, and what numpy says of it.

K and V lie in DDR as they are loaded: per head of theirs and block of keys its rows of K, then those of V. Weights are
exp(score - largest so far); their sums, and by what earlier ones were too large, are floats per row in DDR, as there
are no registers that live from one op to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexloom.optimizer.kernels.ggml_layout import TILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexloom.optimizer.draft import OpDraft
    from hexloom.optimizer.kernels.attention import Attention

    Array = np.ndarray[Any, np.dtype[Any]]

KV_TILES, WEIGHTS, ATTEND, NORMALIZE = range(14, 18)
TOLERANCE = 2.0**-6
"""Scores, weights and the output of every block of keys are halves: a score of 4 alone is off by up to 2^-9."""


def block_rows(spec: Attention) -> int:
    """Return the queries of a block."""
    return min(spec.q_block, -(-spec.queries // TILE) * TILE)


def key_blocks(spec: Attention) -> list[tuple[int, int]]:
    """Return the first key of each block, and how many it has."""
    return [(at, min(spec.kv_block, spec.keys_count - at)) for at in range(0, spec.keys_count, spec.kv_block)]


def tensor_sizes(spec: Attention) -> dict[str, int]:
    """Return the bytes of each tensor by its role."""
    rows = spec.heads * spec.queries
    blocks = spec.heads * -(-spec.queries // block_rows(spec)) * len(key_blocks(spec))
    return {
        "q": 4 * rows * spec.head_dim,
        "kv": 4 * (spec.kv_heads or spec.heads) * spec.keys_count * spec.head_dim,
        "states": 8 * rows,
        "factors": 4 * blocks * block_rows(spec),
        "out": 4 * rows * spec.head_dim,
    }


def drawn(spec: Attention, role: str, size: int, chance: np.random.Generator) -> Array | None:
    """Return the bytes of an input, about normal for every ``spec``; None for what kernels write."""
    if role == "q":
        return chance.standard_normal(size // 4, np.float32).view(np.uint8)
    if role == "kv":
        return chance.standard_normal(size // 2, np.float32).astype(np.float16).view(np.uint8)
    return None


def product(spec: Attention, q: Array, kv: Array) -> Array:
    """Return O[heads, queries, head_dim] of Q in float32 and the halves of K and V."""
    dim = spec.head_dim
    queries = q.reshape(spec.heads, spec.queries, dim).astype(np.float16).astype(np.float64)
    found = np.empty_like(queries)
    for head, (keys, values) in enumerate(_of_heads(spec, kv)):
        scores = queries[head] @ keys.T / np.sqrt(dim)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        found[head] = weights @ values / weights.sum(axis=1, keepdims=True)
    return found.astype(np.float32)


def _of_heads(spec: Attention, kv: Array) -> Iterator[tuple[Array, Array]]:
    """Yield K and V of each head."""
    groups = spec.kv_heads or spec.heads
    every = kv.view(np.float16).astype(np.float64).reshape(groups, 2 * spec.keys_count, spec.head_dim)
    for head in range(spec.heads):
        rows = every[head // (spec.heads // groups)]
        pieces = [(rows[2 * at : 2 * at + n], rows[2 * at + n : 2 * (at + n)]) for at, n in key_blocks(spec)]
        yield np.concatenate([k for k, _ in pieces]), np.concatenate([v for _, v in pieces])


def words(spec: Attention, at: Mapping[str, int], op: OpDraft, load: int, halves: int, matmul: int) -> list[Any]:
    """Return the words of an op; ``at`` are offsets of tensors in DDR, the rest numbers of functions."""
    dim, blocks = spec.head_dim, key_blocks(spec)
    of_queries = op.stage in ("q_load", "q_prepare", "store")
    tile, k = (op.tile, 0) if of_queries else divmod(op.tile, len(blocks))
    group, head = divmod(tile, spec.heads)
    first = group * block_rows(spec)
    rows = min(block_rows(spec), spec.queries - first)
    row = head * spec.queries + first
    start, keys = blocks[k]
    states, factors = at["states"] + 8 * row, at["factors"] + 4 * op.tile * block_rows(spec)
    if op.stage == "q_load":
        return [load, "q_f32", 0, rows, 4 * dim, 4 * dim, at["q"] + 4 * dim * row, 4 * dim]
    if op.stage == "q_prepare":
        return [halves, "q_f32", "q_f16", 0, rows * dim]
    if op.stage == "kv_load":
        of_group = head // (spec.heads // (spec.kv_heads or spec.heads)) * 2 * spec.keys_count
        source = at["kv"] + 2 * dim * (of_group + 2 * start)
        return [load, "kv_raw", 0, 2 * keys, 2 * dim, 2 * dim, source, 2 * dim]
    if op.stage == "kv_prepare":
        return [KV_TILES, "kv_raw", "kv_tiles", *op.part, keys, dim]
    if op.stage == "qk":
        return [matmul, "q_f16", "kv_tiles", "scores_f16", rows, dim, -(-keys // TILE) * TILE]
    if op.stage == "softmax":
        return [WEIGHTS, "scores_f16", "weights_f16", *op.part, keys, dim, states, factors, int(k == 0)]
    if op.stage == "pv":
        return [ATTEND, "weights_f16", "kv_tiles", "output_f16", rows, keys, dim, factors]
    if op.stage == "store":
        return [NORMALIZE, "output_f16", rows, dim, at["out"] + 4 * dim * row, states]
    return [0]
