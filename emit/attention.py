"""``attention`` in numbers: its tensors, what its kernels are told, and what numpy says of it.

K and V are halves in DDR, [kv_heads, keys, head_dim]; a block of both is loaded at once. Weights are exp(score - the
largest so far); their sums, and by what earlier ones were too large, are floats per row in DDR, as there are no
registers that live from one op to the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.ggml_layout import TILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.optimizer.draft import OpDraft
    from hexloom.optimizer.kernels.attention import Attention

    Array = np.ndarray[Any, np.dtype[Any]]

KV_TILES, WEIGHTS, ATTEND, NORMALIZE = range(14, 18)
TOLERANCE = 2.0**-6
"""Scores, weights and the output of every block of keys are halves: a score of 4 alone is off by up to 2^-9."""


def tensor_sizes(spec: Attention) -> dict[str, int]:
    """Return the bytes of each tensor by its role."""
    rows = spec.heads * spec.queries
    blocks = spec.heads * -(-spec.queries // spec.block_rows) * len(spec.key_blocks)
    halves = 2 * (spec.kv_heads or spec.heads) * spec.keys_count * spec.head_dim
    return {
        "q": 4 * rows * spec.head_dim,
        "k": halves,
        "v": halves,
        "states": 8 * rows,
        "factors": 4 * blocks * spec.block_rows,
        "out": 4 * rows * spec.head_dim,
    }


def tensor_names(spec: Attention, tasks: Sequence[Any]) -> dict[str, str | None]:
    """Return the names of tensors by their role.

    Raises
    ------
    InvalidInputError
        One of ``tasks`` has K or V as floats.
    """
    floats = {name for one in tasks for name in (*getattr(one, "tensors", ()), one.input, one.output)}
    for key, name in (("keys", spec.keys), ("values", spec.values)):
        if name is not None and name in floats:
            raise InvalidInputError(
                f"task {spec.name!r}: {key} {name!r} are halves, but a task has tensor {name!r} as floats of 4 bytes; "
                "name another tensor, or run it without --workload"
            )
    return {"q": spec.input, "k": spec.keys, "v": spec.values, "out": spec.output}


def drawn(_: Attention, role: str, size: int, chance: np.random.Generator) -> Array | None:
    """Return the bytes of an input, normal; None for what kernels write."""
    if role == "q":
        return chance.standard_normal(size // 4, np.float32).view(np.uint8)
    if role in ("k", "v"):
        return chance.standard_normal(size // 2, np.float32).astype(np.float16).view(np.uint8)
    return None


def product(spec: Attention, q: Array, k: Array, v: Array) -> Array:
    """Return O[heads, queries, head_dim] of Q in float32 and the bytes of K and V."""
    dim = spec.head_dim
    queries = q.reshape(spec.heads, spec.queries, dim).astype(np.float16).astype(np.float64)
    keys, values = (x.view(np.float16).astype(np.float64).reshape(-1, spec.keys_count, dim) for x in (k, v))
    found = np.empty_like(queries)
    for head in range(spec.heads):
        of = spec.kv_head(head)
        scores = queries[head] @ keys[of].T / np.sqrt(dim)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        found[head] = weights @ values[of] / weights.sum(axis=1, keepdims=True)
    return found.astype(np.float32)


def words(spec: Attention, at: Mapping[str, int], op: OpDraft, load: int, halves: int, matmul: int) -> list[Any]:
    """Return the words of an op; ``at`` are offsets of tensors in DDR, the rest numbers of functions."""
    dim, blocks = spec.head_dim, spec.key_blocks
    of_queries = op.stage in ("q_load", "q_prepare", "store")
    tile, k = (op.tile, 0) if of_queries else divmod(op.tile, len(blocks))
    group, head = divmod(tile, spec.heads)
    first = group * spec.block_rows
    rows = min(spec.block_rows, spec.queries - first)
    row = head * spec.queries + first
    start, keys = blocks[k]
    states, factors = at["states"] + 8 * row, at["factors"] + 4 * op.tile * spec.block_rows
    if op.stage == "q_load":
        return [load, "q_f32", 0, rows, 4 * dim, 4 * dim, at["q"] + 4 * dim * row, 4 * dim]
    if op.stage == "q_prepare":
        return [halves, "q_f32", "q_f16", 0, rows * dim]
    if op.stage == "kv_load":
        if at["v"] < at["k"]:
            raise InvalidInputError(
                f"task {spec.name!r}: values {spec.values!r} lie before keys {spec.keys!r}, as another task names them "
                "the other way round; name other tensors, or run it without --workload"
            )
        block = 2 * dim * keys  # two rows from afar: one block of K, and that of V
        source = at["k"] + 2 * dim * (spec.kv_head(head) * spec.keys_count + start)
        return [load, "kv_raw", 0, 2, block, block, source, at["v"] - at["k"]]
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
