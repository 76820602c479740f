"""``rmsnorm``, ``copy``, ``softmax``, ``swiglu``, ``add``: row kernels, staged by DMA or read and written through L2.

``dma``: every HVX worker loads, computes and stores blocks of rows of its own, with its own DMA queue; nothing is
forked or joined. The loop people run today is the same with two buffers per edge. ``direct``: all workers read DDR
through L2 together and are held for the time that takes.

The part of an op is (row, rows), but for ``gamma_load``, which needs none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field

from hexloom.hwmodels import cost
from hexloom.optimizer.draft import Builder, TaskDraft
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import DDR, L2_READ, L2_WRITE, Transfers, hvx_gang, hvx_slice, through_l2
from hexloom.optimizer.kernels.regions import block_of
from hexloom.optimizer.kernels.spec import ClassName, Count, KernelSpec, LastTile, Microseconds, Name, workers_of

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.draft import ModeDraft


DIRECT_BLOCKS = 16
"""Blocks of a task that reads and writes through L2, where it does not say their rows."""


class RowKernel(KernelSpec):
    """``rows`` x ``cols`` elements, a block of ``rows_per_block`` rows at a time.

    ``duration_us`` replaces the computed time of all blocks together (mode ``direct`` only). ``input`` and ``output``
    name the tensors in DDR, by which hazards with other tasks are found; both may be the same. So does ``second`` where
    a kernel takes two inputs of one shape.
    """

    rate: ClassVar[str]
    gamma_rows: ClassVar[int] = 0
    inputs: ClassVar[int] = 1

    name: Name
    rows: Count
    cols: Count
    element_bytes: Literal[1, 2, 4] = 4
    mode: Literal["dma", "direct"] = "dma"
    rows_per_block: Count | None = None
    depth: Count = 2
    workers: Count | None = None
    duration_us: Microseconds | None = None
    input: Name | None = None
    output: Name | None = None
    class_: ClassName = Field(default="", alias="class")
    copies: Count = 1

    @property
    def tensors(self) -> tuple[Name | None, ...]:
        """Names of its inputs in DDR."""
        return (self.input,)

    def expand(self, machine: Machine) -> TaskDraft:
        """Return the blocks of the task on ``machine``."""
        workers = workers_of(machine, self.name, self.workers)
        if self.mode == "direct":
            return self._direct(machine, workers)
        if self.duration_us is not None:
            raise InvalidInputError(
                f"task {self.name!r}: duration_us belongs to mode 'direct'; in mode 'dma' costs come from the bytes"
            )
        return self._staged(machine, workers)

    def iterations(self, machine: Machine) -> int:
        """Return the blocks of rows, those of one worker where every worker has its own."""
        return -(-self.rows // self._rows_per_iteration(machine))

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the task with fewer whole blocks before its last ones."""
        rows = self.rows - (self.iterations(machine) - iterations) * self._rows_per_iteration(machine)
        us = None if self.duration_us is None else self.duration_us * Fraction(rows, self.rows)
        return self.model_copy(update={"rows": rows, "rows_per_block": self._block_rows, "duration_us": us})

    def last_tile(self, machine: Machine) -> LastTile:
        """Return the rows of the last block, or of those of all workers."""
        whole = self._rows_per_iteration(machine)
        return LastTile("rows", (self.rows - 1) % whole + 1, whole, 1)

    def with_last_tile(self, machine: Machine, count: int) -> Self:
        """Return the same task with so many rows in its last iteration."""
        rows = self.rows - self.last_tile(machine).have + count
        us = None if self.duration_us is None else self.duration_us * Fraction(rows, self.rows)
        return self.model_copy(update={"rows": rows, "rows_per_block": self._block_rows, "duration_us": us})

    def _rows_per_iteration(self, machine: Machine) -> int:
        apart = 1 if self.mode == "direct" else workers_of(machine, self.name, self.workers)
        return self._block_rows * apart

    @property
    def _block_rows(self) -> int:
        default = -(-self.rows // DIRECT_BLOCKS) if self.mode == "direct" else 1
        return min(self.rows, self.rows_per_block or default)

    def _direct(self, machine: Machine, workers: int) -> TaskDraft:
        step = self._block_rows
        out = Builder(self.name)
        loop: list[str] = []
        for tile, row in enumerate(range(0, self.rows, step)):
            rows = min(step, self.rows - row)
            n_bytes = rows * self.cols * self.element_bytes
            if self.duration_us is not None:
                us = self.duration_us * Fraction(rows, self.rows)
                # A time below what the bytes need says that some of them never left L2.
                most = cost.channel_mb_s(machine)
                each = min(most[L2_READ] // self.inputs, most[L2_WRITE], most[DDR] // (self.inputs + 1))
                n_bytes = min(n_bytes, int(us * each))
            else:
                us = max(
                    cost.hvx_us(machine, self.rate, rows * self.cols, workers),
                    cost.l2_read_us(machine, self.inputs * n_bytes, workers),
                    cost.l2_write_us(machine, n_bytes),
                    cost.ddr_us(machine, (self.inputs + 1) * n_bytes),
                )
            mode = hvx_gang(machine, us, workers, moves=through_l2(read=self.inputs * n_bytes, written=n_bytes))
            at, size = row * self.cols * self.element_bytes, rows * self.cols * self.element_bytes
            read = tuple(r for tensor in self.tensors for r in block_of(tensor, "read", at, size, bypass=False))
            written = block_of(self.output, "write", at, size, bypass=False)
            name = f"compute.{tile}"
            loop.append(out.op(name, mode, stage="compute", tile=tile, regions=read + written, part=(row, rows)))
        return out.task(loop)

    def _staged(self, machine: Machine, workers: int) -> TaskDraft:
        step = self._block_rows
        row_bytes = self.cols * self.element_bytes
        align = machine.vtcm.align_bytes.whole
        blocks = -(-self.rows // step)
        out = Builder(self.name)
        transfer = Transfers(machine)
        slices: dict[tuple[int, int], ModeDraft] = {}
        loop: list[str] = []
        first_use: dict[int, str] = {}
        if self.gamma_rows:
            for w in range(min(workers, blocks)):
                gamma = out.buffer(f"gamma.{w}", self.gamma_rows * row_bytes, align)
                mode = transfer(w, row_bytes, self.gamma_rows, "read")
                first_use[w] = out.op(f"gamma_load.{w}", mode, stage="gamma_load", tile=0, buffers=(gamma,))
                loop.append(first_use[w])
        ahead: dict[int, list[tuple[tuple[str, ...], str, str]]] = {}
        for block in range(blocks):
            w, turn = block % workers, block // workers
            rows = min(step, self.rows - block * step)
            slot = turn % self.depth
            target = out.buffer(f"out.{w}.{slot}", step * row_bytes, align)
            oldest = block - self.depth * workers
            sources, loads = [], []
            for k, tensor in enumerate(self.tensors):
                mark = str(k + 1) if k else ""
                sources.append(out.buffer(f"in{mark}.{w}.{slot}", step * row_bytes, align))
                load = out.op(
                    f"load{mark}.{block}",
                    transfer(w, row_bytes, rows, "read"),
                    stage="load",
                    tile=turn,
                    after=(f"compute.{oldest}" if oldest >= 0 else None,),
                    buffers=(sources[k],),
                    regions=block_of(tensor, "read", block * step * row_bytes, rows * row_bytes, bypass=True),
                    part=(block * step, rows),
                )
                loads.append(load)
            gamma_buffers = (f"gamma.{w}",) if w in first_use else ()
            if (w, rows) not in slices:
                slices[w, rows] = hvx_slice(cost.hvx_us(machine, self.rate, rows * self.cols, 1), w)
            compute = out.op(
                f"compute.{block}",
                slices[w, rows],
                stage="compute",
                tile=turn,
                after=(*loads, f"store.{oldest}" if oldest >= 0 else None, first_use.get(w)),
                buffers=(*sources, target, *gamma_buffers),
                part=(block * step, rows),
            )
            store = out.op(
                f"store.{block}",
                transfer(w, row_bytes, rows, "write"),
                stage="store",
                tile=turn,
                after=(compute,),
                buffers=(target,),
                regions=block_of(self.output, "write", block * step * row_bytes, rows * row_bytes, bypass=True),
                part=(block * step, rows),
            )
            ahead.setdefault(w, []).append((tuple(loads), compute, store))
        for turns in ahead.values():
            loop += [load for of, _, _ in turns[: self.depth] for load in of]
            for turn, (_, compute, store) in enumerate(turns):
                loop += [compute, store, *(load for of, _, _ in turns[turn + self.depth :][:1] for load in of)]
        return out.task(loop)


class RmsNorm(RowKernel):
    """RMS norm of every row, times one row of weights that each worker keeps."""

    rate: ClassVar[str] = "hvx_rmsnorm"
    gamma_rows: ClassVar[int] = 1

    kernel: Literal["rmsnorm"]


class Copy(RowKernel):
    """Copy through the vector unit: load, move, store."""

    rate: ClassVar[str] = "hvx_copy"

    kernel: Literal["copy"]


class Softmax(RowKernel):
    """Softmax of every row."""

    rate: ClassVar[str] = "hvx_softmax"

    kernel: Literal["softmax"]


class TwoInputs(RowKernel):
    """A row kernel of two inputs of one shape."""

    inputs: ClassVar[int] = 2

    second: Name | None = None

    @property
    def tensors(self) -> tuple[Name | None, ...]:
        """Names of its inputs in DDR."""
        return self.input, self.second


class SwiGlu(TwoInputs):
    """``silu(input) * second``, element by element: the gate and the other half of a feed-forward network."""

    rate: ClassVar[str] = "hvx_swiglu"

    kernel: Literal["swiglu"]


class Add(TwoInputs):
    """``input + second``, element by element."""

    rate: ClassVar[str] = "hvx_add"

    kernel: Literal["add"]
