"""``gemv``: a quantized matrix times one vector, as in the decode of a language model; bound by its weights' bytes.

Every HVX worker has a share of the columns. It streams their weights through a ring of its own by its own DMA queue,
multiplies each piece as it arrives, and stores what comes of it through L2. Nothing is forked or joined in between. The
loop people run today is the same with two pieces in flight (ggml-org/ggml d99724f2, htp/matmul-ops.c): push two, then
pop, multiply, push the next.

The part of ``weights_load`` and ``dot`` is (column, columns); weights lie in DDR as those of ``matmul_w4a16`` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from hexloom.hwmodels import cost
from hexloom.optimizer.draft import Builder, TaskDraft
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import Transfers, hvx_slice, through_l2
from hexloom.optimizer.kernels.ggml_layout import TILE, TILE_BYTES
from hexloom.optimizer.kernels.regions import block_of
from hexloom.optimizer.kernels.spec import ClassName, Count, KernelSpec, Name, workers_of

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.draft import ModeDraft


class Gemv(KernelSpec):
    """y[n] f32 = x[k] f32 x W[k, n] of ``weight_type``: one row, as in decode.

    ``n_chunk`` are the columns of one transfer of one worker, ``depth`` the transfers that its ring holds. Columns go
    to the workers in whole tiles of 32, as evenly as these allow. ``input`` and ``output`` name x and y in DDR, by
    which hazards with other tasks are found.
    """

    name: Name
    kernel: Literal["gemv"]
    k: Count
    n: Count
    weight_type: Literal["q4_0"] = "q4_0"
    n_chunk: Count = 128
    workers: Count | None = None
    depth: Count = 2
    input: Name | None = None
    output: Name | None = None
    class_: ClassName = Field(default="", alias="class")
    copies: Count = 1

    def expand(self, machine: Machine) -> TaskDraft:
        """Return the pieces of the task on ``machine``."""
        for key, size in (("k", self.k), ("n", self.n), ("n_chunk", self.n_chunk)):
            if size % TILE:
                raise InvalidInputError(f"task {self.name!r}: {key} = {size} must be a multiple of {TILE}")
        return _Expansion(self, machine, self._working(machine)).task()

    def iterations(self, machine: Machine) -> int | None:
        """Return the pieces of every worker, None where some have one more than others."""
        workers = self._working(machine)
        fewest = -(-(self.n // TILE // workers * TILE) // self.n_chunk)
        return fewest if fewest == self.pieces(workers) else None

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the task in which every worker has so many pieces less."""
        workers = self._working(machine)
        n = self.n - (self.pieces(workers) - iterations) * self.n_chunk * workers
        return self.model_copy(update={"n": n, "workers": workers})

    def pieces(self, workers: int) -> int:
        """Return how many pieces the worker with most columns has."""
        return -(-(-(-self.n // TILE // workers) * TILE) // self.n_chunk)

    def _working(self, machine: Machine) -> int:
        return min(workers_of(machine, self.name, self.workers), self.n // TILE)


class _Expansion:
    """Pieces of all workers, the first of each, then the second, ...: so a piece of every worker is an iteration."""

    def __init__(self, spec: Gemv, machine: Machine, workers: int) -> None:
        self.spec, self.machine, self.workers = spec, machine, workers
        self.out = Builder(spec.name)
        self.transfer = Transfers(machine)
        self.dot_modes: dict[tuple[int, int], ModeDraft] = {}
        self.loads: list[list[str]] = [[] for _ in range(workers)]
        self.dots: list[list[str]] = [[] for _ in range(workers)]
        tiles = spec.n // TILE
        self.first = [w * tiles // workers * TILE for w in range(workers + 1)]

    def task(self) -> TaskDraft:
        spec = self.spec
        first, prepare = self._vector()
        for j in range(spec.pieces(self.workers)):
            for w in range(self.workers):
                left = self.first[w + 1] - self.first[w] - j * spec.n_chunk
                if left > 0:
                    self._piece(w, j, min(spec.n_chunk, left), prepare)
        ahead = [load for of in self.loads for load in of[: spec.depth]]
        rest: list[str] = []
        for loads, dots in zip(self.loads, self.dots, strict=True):
            for j, dot in enumerate(dots):
                rest += [dot, *loads[j + spec.depth : j + spec.depth + 1]]
        return self.out.task([first, *ahead, prepare, *rest])

    def _vector(self) -> tuple[str, str]:
        """Load the vector once and convert it; all workers read the result."""
        spec, machine, out = self.spec, self.machine, self.out
        align = machine.vtcm.align_bytes.whole
        source = out.buffer("x_f32", spec.k * 4, align)
        target = out.buffer("x", spec.k * 2, align)
        load = self.transfer(0, spec.k * 4, 1, "read")
        read = block_of(spec.input, "read", 0, spec.k * 4, bypass=True)
        first = out.op("x_load", load, stage="x_load", tile=0, buffers=(source,), regions=read)
        convert = hvx_slice(cost.hvx_us(machine, "hvx_activation_prepare", spec.k, 1), 0)
        prepare = out.op("x_convert", convert, stage="x_convert", tile=0, after=(first,), buffers=(source, target))
        return first, prepare

    def _piece(self, w: int, j: int, width: int, prepare: str) -> None:
        """Add the load and the product of the ``j``-th piece of worker ``w``."""
        spec, out, loads, dots = self.spec, self.out, self.loads[w], self.dots[w]
        column = self.first[w] + j * spec.n_chunk
        widest = min(spec.n_chunk, self.first[w + 1] - self.first[w])
        align = self.machine.vtcm.align_bytes.whole
        ring = out.buffer(f"raw.{w}.{j % spec.depth}", self._tiles(widest) * TILE_BYTES[spec.weight_type][1], align)
        loads.append(
            out.op(
                f"weights_load.{w}.{j}",
                self.transfer(w, TILE_BYTES[spec.weight_type][0], self._tiles(width), "read"),
                stage="weights_load",
                tile=j,
                after=(dots[j - spec.depth] if j >= spec.depth else None,),
                buffers=(ring,),
                part=(column, width),
            )
        )
        dots.append(
            out.op(
                f"dot.{w}.{j}",
                self._dot(w, width),
                stage="dot",
                tile=j,
                after=(loads[j], prepare, dots[j - 1] if j else None),
                buffers=(ring, "x"),
                regions=block_of(spec.output, "write", column * 4, width * 4, bypass=False),
                part=(column, width),
            )
        )

    def _tiles(self, columns: int) -> int:
        return columns // TILE * -(-self.spec.k // TILE)

    def _dot(self, w: int, columns: int) -> ModeDraft:
        if (w, columns) not in self.dot_modes:
            us = cost.hvx_us(self.machine, "hvx_dot_q4_0", self.spec.k * columns, 1)
            compute = cost.hvx_us(self.machine, "hvx_output", columns, 1)
            us += max(compute, cost.l2_write_us(self.machine, columns * 4))
            self.dot_modes[w, columns] = hvx_slice(us, w, through_l2(written=columns * 4))
        return self.dot_modes[w, columns]
