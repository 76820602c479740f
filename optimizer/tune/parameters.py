"""What can be chosen for a kernel on a machine: chunks, buffers per edge, how loads and vector work are split."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.kernels.ggml_layout import TILE, Depth, WeightType, ggml_chunks, vtcm_bytes
from hexloom.optimizer.kernels.matmul_w4a16 import MatmulW4A16
from hexloom.optimizer.kernels.spec import Count, Spec
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine

TASK = "matmul"
"""Name of the one task that is tuned."""

MOST_CHUNKS = 1_000
"""Choices with more chunks than this are not looked at: they cost more than they could bring."""

MOST_PAIRS = 1_000
"""Up to so many pairs of chunks all are looked at."""

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
    chunks = ggml_chunks(*shape, machine.available_vtcm_bytes, threads)
    return None if chunks is None else Parameters(m_chunk=chunks[0], n_chunk=chunks[1], threads=threads)


class Grid(NamedTuple):
    """Pairs (m_chunk, n_chunk) to choose from, and how many more there are.

    ``too_large`` do not fit, ``too_small`` make more than `MOST_CHUNKS` chunks, ``alike`` as many as a more even pair.
    """

    chunks: tuple[tuple[int, int], ...]
    too_large: int
    too_small: int
    alike: int


def grid_of(shape: Shape, machine: Machine, threads: int, depth: Depth) -> Grid:
    """Return all multiples of a tile up to the shape that fit in the layout of ggml-hexagon, with these depths.

    Of more than `MOST_PAIRS` those alike are left out.
    """
    rows, columns = (-(-size // TILE) for size in (shape.m, shape.n))
    have = machine.available_vtcm_bytes
    found: dict[tuple[int, int], tuple[int, int]] = {}
    fitting = 0
    for m in range(1, rows + 1):
        # More rows or columns never take fewer bytes, and never make more chunks.
        most = bisect_right(_Bytes(shape, m, threads, depth, columns), have)
        if most == 0:
            break
        fitting += most
        blocks = -(-rows // m)
        for n in range(-(-columns * blocks // MOST_CHUNKS), most + 1):
            if n > 0 and blocks * -(-columns // n) <= MOST_CHUNKS:
                found[m, n] = blocks, -(-columns // n)
    kept = found if len(found) <= MOST_PAIRS else {counts: pair for pair, counts in reversed(found.items())}.values()
    chunks = sorted((m * TILE, n * TILE) for m, n in kept)
    return Grid(tuple(chunks), rows * columns - fitting, fitting - len(found), len(found) - len(chunks))


class _Bytes:
    """Bytes for 1, 2, … tiles of columns, as a sequence to search in."""

    def __init__(self, shape: Shape, m: int, threads: int, depth: Depth, columns: int) -> None:
        self._of = shape, m * TILE, threads, depth
        self._columns = columns

    def __len__(self) -> int:
        return self._columns

    def __getitem__(self, n: int) -> int:
        shape, m_chunk, threads, depth = self._of
        return vtcm_bytes(m_chunk, (n + 1) * TILE, shape.k, shape.weight_type, threads, depth)
