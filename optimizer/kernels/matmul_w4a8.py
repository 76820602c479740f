"""``matmul_w4a8``: int8 activations times int4 or int8 weights on the matrix unit; its results are read out as int32.

Stages of a block of rows: its activations arrive over the workers' own DMA queues and are quantized as they arrive.
Then, per chunk of columns: weights DDR -> VTCM by DMA; one HMX job, which takes int4 weights as they are; a read-out of
the accumulators, which holds the matrix unit, too; and a conversion to f32 with its store through L2. The loop people
run today does one stage after the other (nntrainer's fully connected layer on v79).

The part of an op is, by its stage: ``activation_load`` (row, rows); ``quantize`` (row in the block, rows);
``weights_load`` (column, columns); ``matmul`` and ``readout`` (rows, columns); ``dequantize`` (row, rows, column,
columns, row in the block).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from hexloom.hwmodels import cost
from hexloom.optimizer.draft import Builder, TaskDraft
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import Transfers, hmx_job, hvx_gang, hvx_slice, marker, through_l2
from hexloom.optimizer.kernels.regions import block_of
from hexloom.optimizer.kernels.spec import ClassName, Count, KernelSpec, Name, Spec, workers_of
from hexloom.optimizer.kernels.split import Part, add_parts, in_turn, shared_out

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine

ROWS, COLUMNS = 64, 32
"""Of a tile of the matrix unit's int8 products."""

WEIGHT_BITS = {"i4": 4, "i8": 8}
M_CHUNK, N_CHUNK = 64, 512
"""Rows and columns of a chunk where the task does not say them: 16 tiles of columns, as nntrainer has them."""


class Rings(Spec):
    """Buffers per edge: 1 serialises its two stages, 2 lets them overlap."""

    activations: Count = 2
    weights: Count = 2
    output: Count = 2


class MatmulW4A8(KernelSpec):
    """C[m, n] f32 = A[m, k] f32, quantized to u8, x W[k, n] of ``weight_type``.

    ``depth`` are buffers per edge: of blocks of quantized rows, of chunks of weights, and of results. Weights come
    over the queue of ``dma_owner``, in ``load_parts`` over those after it, too; a whole load may have any owner unless
    ``fixed_owner``. With ``slices`` every worker quantizes and converts its part on its own: nothing is forked or
    joined. ``input`` and ``output`` name A and C in DDR, by which hazards with other tasks are found.
    """

    name: Name
    kernel: Literal["matmul_w4a8"]
    m: Count
    k: Count
    n: Count
    weight_type: Literal["i4", "i8"] = "i4"
    m_chunk: Count = M_CHUNK
    n_chunk: Count = N_CHUNK
    workers: Count | None = None
    depth: Rings = Rings()
    dma_owner: int = Field(default=0, ge=0)
    fixed_owner: bool = False
    load_parts: Count = 1
    slices: bool = False
    input: Name | None = None
    output: Name | None = None
    class_: ClassName = Field(default="", alias="class")
    copies: Count = 1

    def expand(self, machine: Machine) -> TaskDraft:
        """Return the tiles of the task on ``machine``."""
        for key, size, unit in (
            ("k", self.k, COLUMNS),
            ("n", self.n, COLUMNS),
            ("n_chunk", self.n_chunk, COLUMNS),
            ("m_chunk", self.m_chunk, ROWS),
        ):
            if size % unit:
                raise InvalidInputError(f"task {self.name!r}: {key} = {size} must be a multiple of {unit}")
        workers = workers_of(machine, self.name, self.workers)
        if max(self.dma_owner + 1, self.load_parts) > workers:
            raise InvalidInputError(
                f"task {self.name!r}: dma_owner {self.dma_owner} and load_parts {self.load_parts} need more than its "
                f"{workers} HVX workers; name a smaller owner or fewer parts"
            )
        return _Expansion(self, machine, workers).task()

    def iterations(self, machine: Machine) -> int:
        """Return the chunks of columns where one block has all rows, else the blocks of rows."""
        return -(-self.n // self.n_chunk) if self.m_chunk >= self.m else -(-self.m // self.m_chunk)

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the task with fewer whole chunks of columns, or blocks of rows, before its last one."""
        fewer = self.iterations(machine) - iterations
        if self.m_chunk < self.m:
            return self.model_copy(update={"m": self.m - fewer * self.m_chunk})
        return self.model_copy(update={"n": self.n - fewer * self.n_chunk})


class _Expansion:
    def __init__(self, spec: MatmulW4A8, machine: Machine, workers: int) -> None:
        self.spec, self.machine, self.workers = spec, machine, workers
        self.rows = min(spec.m_chunk, -(-spec.m // ROWS) * ROWS)
        self.columns = min(spec.n_chunk, spec.n)
        self.align = machine.vtcm.align_bytes.whole
        self.tile_align = machine.vtcm.hmx_align_bytes.whole
        self.out = Builder(spec.name)
        self.transfer = Transfers(machine)
        self.stages: dict[tuple[str, int], tuple[str, ...]] = {}
        self.ready: list[str] = []

    def task(self) -> TaskDraft:
        """Return all ops; the loop of today meets them stage by stage."""
        spec, chunk = self.spec, 0
        for block, row in enumerate(range(0, spec.m, self.rows)):
            rows = min(self.rows, spec.m - row)
            self._quantized(block, row, rows)
            for column in range(0, spec.n, self.columns):
                self._chunk(chunk, block, (row, rows), (column, min(self.columns, spec.n - column)))
                chunk += 1
        return replace(self.out.task([op.name for op in self.out.ops]), one_stage_at_a_time=True)

    def _quantized(self, block: int, row: int, rows: int) -> None:
        """Load the rows of a block, each worker its part, and quantize them into the ring of blocks."""
        spec, machine, out = self.spec, self.machine, self.out
        ring = spec.depth.activations
        target = self._ring("activation_u8", block, ring, self.rows * spec.k)
        # The last jobs that read what is overwritten: all jobs of a block follow each other.
        per_block = -(-spec.n // self.columns)
        free = self.stages.get(("matmul", (block - ring + 1) * per_block - 1), ()) if block >= ring else ()
        done = []
        for w, (at, mine) in enumerate(in_turn(shared_out(rows, self.workers))):
            staging = out.buffer(
                f"activation_f32.{w}.{block % 2}", -(-self.rows // self.workers) * spec.k * 4, self.align
            )
            load = out.op(
                f"activation_load.{block}.{w}",
                self.transfer(w, spec.k * 4, mine, "read"),
                stage="activation_load",
                tile=block,
                after=self._staged(block - 2, w),
                buffers=(staging,),
                regions=block_of(spec.input, "read", (row + at) * spec.k * 4, mine * spec.k * 4, bypass=True),
                part=(row + at, mine),
            )
            us = cost.hvx_us(machine, "hvx_quantize_u8", mine * spec.k, 1)
            done.append(
                out.op(
                    f"quantize.{block}.{w}",
                    hvx_slice(us, w),
                    stage="quantize",
                    tile=block,
                    after=(load, *free),
                    buffers=(staging, target),
                    part=(at, mine),
                )
            )
        self.stages["quantize", block] = tuple(done)
        self.ready.append(
            out.op(f"activation_ready.{block}", marker(), stage="activation_ready", tile=block, after=tuple(done))
        )

    def _staged(self, block: int, worker: int) -> tuple[str, ...]:
        return self.stages["quantize", block][worker : worker + 1] if block >= 0 else ()

    def _chunk(self, c: int, block: int, rows: tuple[int, int], columns: tuple[int, int]) -> None:
        """Add the stages of one chunk of columns of one block."""
        spec, machine, depth = self.spec, self.machine, self.spec.depth
        (row, height), (column, width) = rows, columns
        weights = self._ring("weights", c, depth.weights, spec.k * self.columns * WEIGHT_BITS[spec.weight_type] // 8)
        result = self._ring("result_i32", c, depth.output, self.rows * self.columns * 4)
        activations = f"activation_u8.{block % depth.activations}"
        job = hmx_job(machine, cost.hmx_int8_matmul_us(machine, height, spec.k, width))
        read = hmx_job(machine, cost.hmx_int8_readout_us(machine, height, width))
        self._add("weights_load", c, self._loads(column, width), self._before("matmul", c, depth.weights), (weights,))
        ready = (*self.stages["weights_load", c], self.ready[block], *self._before("readout", c, 1))
        self._add("matmul", c, [Part((job,), part=(height, width))], ready, (weights, activations))
        ready = (*self.stages["matmul", c], *self._before("dequantize", c, depth.output))
        self._add("readout", c, [Part((read,), part=(height, width))], ready, (result,))
        self._add("dequantize", c, self._stores(row, height, column, width), self.stages["readout", c], (result,))

    def _add(self, stage: str, c: int, parts: list[Part], after: tuple[str, ...], buffers: tuple[str, ...]) -> None:
        self.stages[stage, c] = add_parts(self.out, stage, c, parts, after, buffers)

    def _before(self, stage: str, c: int, depth: int) -> tuple[str, ...]:
        return self.stages[stage, c - depth] if c >= depth else ()

    def _loads(self, column: int, width: int) -> list[Part]:
        """Return the loads of one chunk, a row for every 32 columns."""
        spec = self.spec
        row_bytes, rows = spec.k * COLUMNS * WEIGHT_BITS[spec.weight_type] // 8, width // COLUMNS
        if spec.load_parts == 1:
            others = [] if spec.fixed_owner else [w for w in range(self.workers) if w != spec.dma_owner]
            modes = tuple(self.transfer(w, row_bytes, rows, "read") for w in (spec.dma_owner, *others))
            return [Part(modes, part=(column, width))]
        return [
            Part(
                (self.transfer((spec.dma_owner + p) % self.workers, row_bytes, mine, "read"),),
                part=(column + at * COLUMNS, mine * COLUMNS),
            )
            for p, (at, mine) in enumerate(in_turn(shared_out(rows, spec.load_parts)))
        ]

    def _stores(self, row: int, height: int, column: int, width: int) -> list[Part]:
        """Return the conversions to f32 and the stores of them, by plain vector stores through L2."""
        spec, machine = self.spec, self.machine
        least = cost.l2_write_us(machine, height * width * 4)
        found = []
        for w, (at, mine) in enumerate(in_turn(shared_out(height, self.workers if spec.slices else 1))):
            elements = mine * width
            contexts = 1 if spec.slices else self.workers
            us = max(cost.hvx_us(machine, "hvx_dequantize_i32", elements, contexts), least)
            moves = through_l2(written=elements * 4)
            mode = hvx_slice(us, w, moves) if spec.slices else hvx_gang(machine, us, self.workers, moves=moves)
            first_byte = ((row + at) * spec.n + column) * 4
            regions = block_of(spec.output, "write", first_byte, width * 4, mine, spec.n * 4, bypass=False)
            found.append(Part((mode,), regions, (row + at, mine, column, width, at)))
        return found

    def _ring(self, name: str, c: int, depth: int, size: int) -> str:
        return self.out.buffer(f"{name}.{c % depth}", size, self.tile_align, self.tile_align)
