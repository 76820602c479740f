"""ggml-hexagon's tiles of weights, the VTCM layout of its 2-D matmul, and the chunks that its solver chooses.

Read in source at ggml-org/ggml d99724f2, htp/matmul-ops.h: ``htp_mm_hmx_vtcm_layout_build``, and
``htp_mm_hmx_solve_2d_params`` with ``htp_mm_hmx_compute_chunks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.kernels.spec import Count, Spec

if TYPE_CHECKING:
    from collections.abc import Iterator

WeightType = Literal["q4_0", "q8_0", "f16"]
TILE = 32
TILE_BYTES: dict[str, tuple[int, int]] = {"q4_0": (576, 640), "q8_0": (1088, 1152), "f16": (2048, 2048)}
"""Bytes of a 32 x 32 weight tile in DDR and in VTCM (ggml-hexagon's tiled layouts)."""
SCALES_BYTES = AREA_BYTES = 2048
"""Of its scales, and what each of its areas is a multiple of: one 32 x 32 tile of fp16."""


class Depth(Spec):
    """Buffers per edge of the pipeline: 1 serialises its two stages, 2 lets them overlap."""

    raw: Count = 2
    weights: Count = 2
    output: Count = 2


TODAY = Depth()


def work_bytes(m_chunk: int, n_chunk: int, k: int, weight_type: WeightType, depth: Depth) -> int:
    """Return the bytes of all raw, weight and output buffers, each a multiple of `AREA_BYTES`."""
    tiles = n_chunk // TILE * (k // TILE)
    areas = tiles * TILE_BYTES[weight_type][1], k * n_chunk * 2, m_chunk * n_chunk * 2
    raw, weights, output = (-(-area // AREA_BYTES) * AREA_BYTES for area in areas)
    return depth.raw * raw + depth.weights * weights + depth.output * output


def vtcm_bytes(m_chunk: int, n_chunk: int, k: int, weight_type: WeightType, threads: int, depth: Depth = TODAY) -> int:
    """Return the bytes of ggml-hexagon's VTCM layout: scales, activations, and the larger of the two work areas.

    Its own ``depth`` is two buffers per edge.
    """
    permanent = SCALES_BYTES + -(-m_chunk * k * 2 // AREA_BYTES) * AREA_BYTES
    compute = work_bytes(m_chunk, n_chunk, k, weight_type, depth)
    staging = -(-min(threads * 64 * k * 4, max(threads * 4 * k * 4, compute)) // 128) * 128
    return permanent + max(compute, staging)


def ggml_chunks(
    m: int, k: int, n: int, weight_type: WeightType, available_bytes: int, threads: int = 8, depth: Depth = TODAY
) -> tuple[int, int] | None:
    """Return (m_chunk, n_chunk) as ggml-hexagon's parameter solver chooses them, or None where it finds none.

    It minimises ceil(M / mc) 3 N + ceil(N / nc) 2 M under capacity (ggml-org/ggml d99724f2, htp/matmul-ops.h), with a
    rough sum of bytes. Where the exact layout of that choice does not fit, with ever fewer workers that convert
    activations, it gives up, although smaller chunks may fit.
    """
    best = min(_chunks_by_cost(m, k, n, weight_type, available_bytes, depth), default=None)
    return best and best[2:] if best and _fits(best[2:], k, weight_type, available_bytes, threads, depth) else None


def fitting_chunks(
    m: int, k: int, n: int, weight_type: WeightType, available_bytes: int, threads: int = 8, depth: Depth = TODAY
) -> tuple[int, int] | None:
    """Return ggml-hexagon's choice, or where it gives up the next best one by its measure that fits."""
    for _, _, *pair in sorted(_chunks_by_cost(m, k, n, weight_type, available_bytes, depth)):
        m_chunk, n_chunk = pair
        if _fits((m_chunk, n_chunk), k, weight_type, available_bytes, threads, depth):
            return m_chunk, n_chunk
    return None


def _chunks_by_cost(
    m: int, k: int, n: int, weight_type: WeightType, available_bytes: int, depth: Depth
) -> Iterator[tuple[int, int, int, int]]:
    """Yield (cost, -area, m_chunk, n_chunk) of the most rows that go with each number of columns."""
    rows, columns = (-(-size // TILE) * TILE for size in (m, n))
    raw = k // TILE * TILE_BYTES[weight_type][1] // TILE
    per_n = depth.raw * raw + depth.weights * 2 * k
    budget = available_bytes - 256
    for n_chunk in range(min(columns, budget // per_n // TILE * TILE), 0, -TILE):  # wider ones leave no room for a row
        left = budget - n_chunk * per_n
        m_chunk = min(rows, left // (2 * k + n_chunk * 2 * depth.output) // TILE * TILE)
        if m_chunk > 0:
            cost = -(-rows // m_chunk) * 3 * columns + -(-columns // n_chunk) * 2 * m
            yield cost, -m_chunk * n_chunk, m_chunk, n_chunk


def _fits(
    chunks: tuple[int, int], k: int, weight_type: WeightType, available_bytes: int, threads: int, depth: Depth
) -> bool:
    """Say whether the layout fits with so many workers that convert activations, or half of them, and so on."""
    while threads > 1 and vtcm_bytes(*chunks, k, weight_type, threads, depth) > available_bytes:
        threads //= 2
    return vtcm_bytes(*chunks, k, weight_type, threads, depth) <= available_bytes
