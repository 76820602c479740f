"""What can be chosen for a kernel on a machine: chunks, buffers per edge, how loads and vector work are split."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.kernels.matmul_w4a16 import (
    TILE,
    Depth,
    MatmulW4A16,
    WeightType,
    ggml_chunks,
    vtcm_bytes,
)
from hexloom.optimizer.kernels.spec import Count, Spec
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine

TASK = "matmul"
"""Name of the one task that is tuned."""

DEPTHS = (Depth(), Depth(raw=1), Depth(raw=3), Depth(raw=3, weights=3), Depth(output=1))
"""Buffers per edge that are tried: today's two everywhere, first."""


class Shape(NamedTuple):
    """A product of (m, k) by (k, n), and how its weights are stored."""

    m: int
    k: int
    n: int
    weight_type: WeightType


class Parameters(Spec):
    """One choice. ``threads`` are HVX workers; ``load_parts`` and ``slices`` are those of the kernel's task."""

    m_chunk: Count
    n_chunk: Count
    threads: Count
    depth: Depth = Depth()
    load_parts: Count = 1
    slices: bool = False


def in_words(chosen: Parameters) -> str:
    """Return the choice in a few words: chunks, buffers per edge, splits."""
    depth = "/".join(str(getattr(chosen.depth, edge)) for edge in Depth.model_fields)
    split = f", loads in {chosen.load_parts} parts" if chosen.load_parts > 1 else ""
    return f"{chosen.m_chunk} x {chosen.n_chunk}, depth {depth}{split}{', slices' if chosen.slices else ''}"


def workload_of(shape: Shape, machine: Machine, chosen: Parameters, *, fixed_owner: bool = False) -> Workload:
    """Return the product as a workload of one task with these parameters."""
    task = MatmulW4A16(
        name=TASK,
        kernel="matmul_w4a16",
        m=shape.m,
        k=shape.k,
        n=shape.n,
        weight_type=shape.weight_type,
        m_chunk=chosen.m_chunk,
        n_chunk=chosen.n_chunk,
        workers=chosen.threads,
        depth=chosen.depth,
        load_parts=chosen.load_parts,
        slices=chosen.slices,
        fixed_owner=fixed_owner,
    )
    name = f"{task.kernel}_{shape.m}x{shape.k}x{shape.n}_{shape.weight_type}"
    return Workload(name=name, hw=machine.name, tasks=(task,))


def todays(shape: Shape, machine: Machine, threads: int) -> Parameters | None:
    """Return what ggml-hexagon chooses, or None where nothing fits."""
    chunks = ggml_chunks(*shape, machine.available_vtcm_bytes)
    return None if chunks is None else Parameters(m_chunk=chunks[0], n_chunk=chunks[1], threads=threads)


class Grid(NamedTuple):
    """Pairs (m_chunk, n_chunk) that fit into the scratchpad, and how many more there are that do not."""

    chunks: tuple[tuple[int, int], ...]
    too_large: int


def grid_of(shape: Shape, machine: Machine, threads: int, depth: Depth) -> Grid:
    """Return all multiples of a tile up to the shape that fit in the layout of ggml-hexagon, with these depths."""
    rows, columns = (range(TILE, -(-size // TILE) * TILE + 1, TILE) for size in (shape.m, shape.n))
    have = machine.available_vtcm_bytes
    fitting = tuple(
        (m, n) for m in rows for n in columns if vtcm_bytes(m, n, shape.k, shape.weight_type, threads, depth) <= have
    )
    return Grid(fitting, len(rows) * len(columns) - len(fitting))
