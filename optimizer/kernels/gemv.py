"""``gemv``: a quantized matrix times one vector, as in the decode of a language model; bound by its weights' bytes.

Every HVX worker has a share of the columns. It streams their weights through a ring of its own by its own DMA queue,
and multiplies each piece as it arrives; at the end it stores its share of the result through L2. Nothing is forked or
joined in between. The loop people run today is the same with two pieces in flight (ggml-org/ggml d99724f2,
htp/matmul-ops.c): push two, then pop, multiply, push the next.

The part of ``weights_load`` and ``dot`` is (column, columns); weights lie in DDR as those of ``matmul_w4a16`` do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from hexloom.hwmodels import cost
from hexloom.optimizer.draft import Builder, TaskDraft
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import Transfers, hvx_slice, through_l2
from hexloom.optimizer.kernels.matmul_w4a16 import TILE, TILE_BYTES
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
        workers = min(workers_of(machine, self.name, self.workers), self.n // TILE)
        return _Expansion(self, machine, workers).task()


class _Expansion:
    def __init__(self, spec: Gemv, machine: Machine, workers: int) -> None:
        self.spec, self.machine, self.workers = spec, machine, workers
        self.out = Builder(spec.name)
        self.transfer = Transfers(machine)
        self.dots: dict[tuple[int, int], ModeDraft] = {}
        self.stores: dict[tuple[int, int], ModeDraft] = {}

    def task(self) -> TaskDraft:
        tiles = self.spec.n // TILE
        first, prepare = self._vector()
        ahead: list[str] = []
        rest: list[str] = []
        for w in range(self.workers):
            columns = ((w + 1) * tiles // self.workers - w * tiles // self.workers) * TILE
            filling, mine = self._share(w, columns, prepare)
            ahead += filling
            rest += mine
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

    def _share(self, w: int, columns: int, prepare: str) -> tuple[list[str], list[str]]:
        """Add the pieces of worker ``w``; return the loads that fill its ring, and the rest of today's loop."""
        spec, out = self.spec, self.out
        loads: list[str] = []
        dots: list[str] = []
        for j, at in enumerate(range(0, columns, spec.n_chunk)):
            width = min(spec.n_chunk, columns - at)
            ring = out.buffer(
                f"raw.{w}.{j % spec.depth}", self._raw_bytes(min(spec.n_chunk, columns)), self._tile_align
            )
            column = w * (spec.n // TILE) // self.workers * TILE + at
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
                    part=(column, width),
                )
            )
        start = w * (spec.n // TILE) // self.workers * TILE
        written = block_of(spec.output, "write", start * 4, columns * 4, bypass=False)
        mode = self._store(w, columns)
        store = out.op(f"store.{w}", mode, stage="store", tile=w, after=(dots[-1],), regions=written)
        rest: list[str] = []
        for j, dot in enumerate(dots):
            rest += [dot, *loads[j + spec.depth : j + spec.depth + 1]]
        return loads[: spec.depth], [*rest, store]

    @property
    def _tile_align(self) -> int:
        return self.machine.vtcm.align_bytes.whole

    def _tiles(self, columns: int) -> int:
        return columns // TILE * -(-self.spec.k // TILE)

    def _raw_bytes(self, columns: int) -> int:
        return self._tiles(columns) * TILE_BYTES[self.spec.weight_type][1]

    def _dot(self, w: int, columns: int) -> ModeDraft:
        if (w, columns) not in self.dots:
            us = cost.hvx_us(self.machine, "hvx_dot_q4_0", self.spec.k * columns, 1)
            self.dots[w, columns] = hvx_slice(us, w)
        return self.dots[w, columns]

    def _store(self, w: int, columns: int) -> ModeDraft:
        if (w, columns) not in self.stores:
            compute = cost.hvx_us(self.machine, "hvx_output", columns, 1)
            us = max(compute, cost.l2_write_us(self.machine, columns * 4))
            self.stores[w, columns] = hvx_slice(us, w, through_l2(written=columns * 4))
        return self.stores[w, columns]
