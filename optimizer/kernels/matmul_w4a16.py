"""``matmul_w4a16``: quantized weights, f32 activations, fp16 matrix jobs; four stages per chunk of columns.

Stages: weights DDR -> VTCM by DMA, dequantize on all HVX workers, one HMX job, convert and store through L2. Before
the first job of a block of rows its activations arrive over the workers' own DMA queues and are converted as they
arrive. The loop people run today is ggml-hexagon's 2-D matmul (ggml-org/ggml d99724f2, htp/matmul-ops.c).

Weights lie in DDR in tiles of 32 x 32, those of 32 columns one behind the other. The part of an op is, by its stage:
``activation_load`` (row, rows); ``activation_convert`` (row in the block, rows); ``weights_load`` (tile of the matrix,
tile of the chunk, tiles); ``dequantize`` (tile of the chunk, tiles); ``matmul`` (rows, columns); ``store`` (row, rows,
column, columns, row in the block).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from hexloom.hwmodels import cost
from hexloom.optimizer.draft import Builder, ModeDraft, TaskDraft
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import Transfers, hmx_job, hvx_gang, hvx_slice, marker, through_l2
from hexloom.optimizer.kernels.ggml_layout import (
    SCALES_BYTES,
    TILE,
    TILE_BYTES,
    Depth,
    WeightType,
    fitting_chunks,
    work_bytes,
)
from hexloom.optimizer.kernels.regions import block_of
from hexloom.optimizer.kernels.spec import ClassName, Count, KernelSpec, LastTile, Name, workers_of
from hexloom.optimizer.kernels.split import Part, add_parts, in_turn, shared_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.kernels.matmul_id import MatmulId

DEQUANTIZE = {"q4_0": "hvx_dequantize_q4_0", "q8_0": "hvx_dequantize_q8_0", "f16": "hvx_prepare_f16"}
ACTIVATION_ROWS, LEAST_ACTIVATION_ROWS = 8, 2
"""Rows of one activation transfer: more gain nothing, and ggml-hexagon never takes fewer."""


class MatmulW4A16(KernelSpec):
    """C[m, n] f32 = A[m, k] f32 x W[k, n] of ``weight_type``.

    ``m_chunk`` and ``n_chunk`` default to the choice of ggml-hexagon's parameter solver for the machine's VTCM.
    ``activation_rows`` is the number of rows in one activation transfer of one worker; by default 8, or fewer where two
    such steps of all workers take more bytes than the buffers that are not in use yet. Today all weights come over
    the DMA queue of ``dma_owner``; a plan may give each load to the queue of any worker unless ``fixed_owner``. With
    ``load_parts`` above 1 the weights of a chunk come in so many parts, over the queues of ``dma_owner`` and the
    workers after it. With ``slices`` every worker dequantizes and stores its part on its own: nothing is forked or
    joined, whoever needs the whole waits for all of them.
    ``input`` and ``output`` name A and C in DDR, by which hazards with other tasks are found.
    """

    name: Name
    kernel: Literal["matmul_w4a16"]
    m: Count
    k: Count
    n: Count
    weight_type: WeightType = "q4_0"
    m_chunk: Count | None = None
    n_chunk: Count | None = None
    workers: Count | None = None
    activation_rows: Count | None = None
    depth: Depth = Depth()
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
        return Expansion(self, machine, *sizes_of(self, machine)).task()

    def chunks(self, machine: Machine) -> tuple[int, int]:
        """Return the rows and columns of a chunk: the given ones, else those of today's tool."""
        if self.m_chunk is not None and self.n_chunk is not None:
            return self.m_chunk, self.n_chunk
        chosen = fitting_chunks(self.m, self.k, self.n, self.weight_type, machine.available_vtcm_bytes)
        # Where no chunk fits, the smallest says how many bytes are short, and levers say what would help.
        chosen = chosen or (TILE, TILE)
        return self.m_chunk or chosen[0], self.n_chunk or chosen[1]

    def iterations(self, machine: Machine) -> int:
        """Return the chunks of columns where one chunk has all rows, else the blocks of rows."""
        m_chunk, n_chunk = self.chunks(machine)
        return -(-self.n // n_chunk) if m_chunk >= self.m else -(-self.m // m_chunk)

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the task with fewer whole chunks of columns, or blocks of rows, before its last one."""
        m_chunk, n_chunk = self.chunks(machine)
        kept: dict[str, int] = {"m_chunk": m_chunk, "n_chunk": n_chunk}
        if m_chunk < self.m:
            return self.model_copy(update=kept | {"m": self.m - (-(-self.m // m_chunk) - iterations) * m_chunk})
        return self.model_copy(update=kept | {"n": self.n - (-(-self.n // n_chunk) - iterations) * n_chunk})

    def last_tile(self, machine: Machine) -> LastTile:
        """Return the columns of the last chunk, or the rows of the last block."""
        m_chunk, n_chunk = self.chunks(machine)
        if m_chunk < self.m:
            return LastTile("rows", (self.m - 1) % m_chunk + 1, m_chunk, 1)
        return LastTile("columns", (self.n - 1) % n_chunk + 1, n_chunk, TILE)

    def with_last_tile(self, machine: Machine, count: int) -> Self:
        """Return the same product with so many columns in the last chunk, or rows in the last block."""
        tile = self.last_tile(machine)
        kept = dict(zip(("m_chunk", "n_chunk"), self.chunks(machine), strict=True))
        name = "m" if tile.counts == "rows" else "n"
        return self.model_copy(update={**kept, name: getattr(self, name) - tile.have + count})


def sizes_of(spec: MatmulW4A16 | MatmulId, machine: Machine) -> tuple[int, int, int]:
    """Return workers, and rows and columns of a chunk.

    Raises
    ------
    InvalidInputError
        The task asks for what does not divide, or for more workers than there are.
    """
    if spec.k % TILE or spec.n % TILE:
        raise InvalidInputError(
            f"task {spec.name!r}: k = {spec.k} and n = {spec.n} must be multiples of {TILE}; pad the weights"
        )
    workers = workers_of(machine, spec.name, spec.workers)
    m_chunk, n_chunk = spec.chunks(machine)
    if m_chunk % TILE or n_chunk % TILE:
        raise InvalidInputError(
            f"task {spec.name!r}: m_chunk = {m_chunk} and n_chunk = {n_chunk} must be multiples of {TILE}"
        )
    if spec.dma_owner >= workers:
        raise InvalidInputError(
            f"task {spec.name!r}: dma_owner {spec.dma_owner} is not one of its {workers} HVX workers"
        )
    if spec.load_parts > workers:
        raise InvalidInputError(
            f"task {spec.name!r}: load_parts {spec.load_parts} is more than the queues of its {workers} HVX workers"
        )
    return workers, m_chunk, n_chunk


class Expansion:
    """Blocks of rows one after the other, each with its chunks of columns; every op and buffer is made here."""

    def __init__(
        self, spec: MatmulW4A16 | MatmulId, machine: Machine, workers: int, m_chunk: int, n_chunk: int
    ) -> None:
        self.spec, self.machine, self.workers = spec, machine, workers
        # No chunk or step has more rows than there are.
        self.m_chunk, self.n_chunk = min(m_chunk, -(-spec.m // TILE) * TILE), n_chunk
        self.align = machine.vtcm.align_bytes.whole
        self.tile_align = machine.vtcm.hmx_align_bytes.whole
        self.out = Builder(spec.name)
        self.first_column = 0
        self.loop: list[str] = []
        self.transfer = Transfers(machine)
        self.slices: dict[tuple[int, int], ModeDraft] = {}
        self.stages: dict[tuple[str, int], tuple[str, ...]] = {}
        unused = work_bytes(m_chunk, n_chunk, spec.k, spec.weight_type, spec.depth)
        fitting = unused // (2 * workers * spec.k * 4)
        wanted = spec.activation_rows or min(ACTIVATION_ROWS, max(LEAST_ACTIVATION_ROWS, fitting))
        self.activation_rows = min(wanted, self.m_chunk)

    def task(self) -> TaskDraft:
        """Return all ops, and the order in which the loop of today meets them."""
        spec = self.spec
        previous_jobs: list[str] = []
        chunk = 0
        for block, (row, rows, first_column) in enumerate(self.blocks()):
            self.first_column = first_column
            ready = self._activations(block, row, rows, previous_jobs)
            columns = [min(self.n_chunk, spec.n - c) for c in range(0, spec.n, self.n_chunk)]
            previous_jobs = self._chunks(chunk, block, row, rows, columns, ready)
            chunk += len(columns)
        return self.out.task(self.loop)

    def blocks(self) -> list[tuple[int, int, int]]:
        """Return the blocks of rows: the first, how many, and the first column of their weights among all weights."""
        return [(row, min(self.m_chunk, self.spec.m - row), 0) for row in range(0, self.spec.m, self.m_chunk)]

    def activations(self, worker: int, rows: int) -> ModeDraft:
        """Return the transfer of so many rows of the input to ``worker``: they lie one behind the other."""
        return self.transfer(worker, self.spec.k * 4, rows, "read")

    def _activations(self, block: int, row: int, rows: int, previous_jobs: list[str]) -> str:
        """Load and convert the rows of one block; the converted block has one buffer, so it waits for the last."""
        spec, machine, out = self.spec, self.machine, self.out
        row_bytes = spec.k * 4
        tiles = self._act_buffer()
        converts: dict[tuple[int, int], str] = {}
        loads: dict[tuple[int, int], str] = {}
        step = self.activation_rows
        groups = -(-rows // (step * self.workers))
        # Job c follows job c - depth.weights, so all jobs have ended when the last depth.weights of them have.
        after_jobs: tuple[str | None, ...] = tuple(previous_jobs[-spec.depth.weights :])
        for g in range(groups):
            for w in range(self.workers):
                at = (g * self.workers + w) * step
                mine = min(step, rows - at)
                if mine <= 0:
                    break
                staging = self._buffer(block, f"activation_f32.{w}.{g % 2}", step * row_bytes, self.align)
                loads[g, w] = out.op(
                    f"activation_load.{block}.{g}.{w}",
                    self.activations(w, mine),
                    stage="activation_load",
                    tile=block * groups + g,
                    after=(converts.get((g - 2, w)),) if g >= 2 else after_jobs,
                    buffers=(staging,),
                    regions=block_of(spec.input, "read", (row + at) * row_bytes, mine * row_bytes, bypass=True),
                    part=(row + at, mine),
                )
                if (w, mine) not in self.slices:
                    us = cost.hvx_us(machine, "hvx_activation_prepare", mine * spec.k, 1)
                    self.slices[w, mine] = hvx_slice(us, w)
                converts[g, w] = out.op(
                    f"activation_convert.{block}.{g}.{w}",
                    self.slices[w, mine],
                    stage="activation_convert",
                    tile=block * groups + g,
                    after=(loads[g, w],) + (after_jobs if g < 2 else ()),
                    buffers=(staging, tiles),
                    part=(at, mine),
                )
        ready = out.op(
            f"activation_ready.{block}", marker(), stage="activation_ready", tile=block, after=tuple(converts.values())
        )
        self.loop += [loads[key] for key in loads if key[0] < 2]
        for key, convert in converts.items():
            self.loop.append(convert)
            if (key[0] + 2, key[1]) in loads:
                self.loop.append(loads[key[0] + 2, key[1]])
        self.loop.append(ready)
        return ready

    def _act_buffer(self) -> str:
        size = self.m_chunk * self.spec.k * 2
        return self.out.buffer("activation_f16", size, self.tile_align, self.tile_align)

    def _chunks(self, first: int, block: int, row: int, rows: int, columns: list[int], ready: str) -> list[str]:
        """Add the four stages of every chunk of one block; return the names of its HMX jobs in order."""
        depth, stages = self.spec.depth, self.stages
        padded = -(-rows // TILE) * TILE
        for c, width in enumerate(columns, start=first):
            raw, weights, output = self._slots(block, c)
            us = cost.hmx_matmul_us(self.machine, padded, self.spec.k, width)
            job = Part((hmx_job(self.machine, us),), part=(rows, width))
            column = (c - first) * self.n_chunk
            self._add("weights_load", c, self._loads(column, width), self._earlier("dequantize", c, depth.raw), (raw,))
            loaded = (*stages["weights_load", c], *self._earlier("matmul", c, depth.weights))
            self._add("dequantize", c, self._dequantize(width), loaded, (raw, weights))
            ready_to_run = (*stages["dequantize", c], ready, *self._earlier("store", c, depth.output))
            self._add("matmul", c, [job], ready_to_run, (weights, "activation_f16", self._scales(), output))
            self._add("store", c, self._stores(row, rows, column, width), stages["matmul", c], (output,))
        self.reference(range(first, first + len(columns)))
        return [name for c in range(first, first + len(columns)) for name in stages["matmul", c]]

    def _add(self, stage: str, c: int, parts: Sequence[Part], after: tuple[str, ...], buffers: tuple[str, ...]) -> None:
        """Add one stage of chunk ``c``, in one op or in one per part."""
        self.stages[stage, c] = add_parts(self.out, stage, c, parts, after, buffers)

    def _earlier(self, stage: str, c: int, depth: int) -> tuple[str, ...]:
        return self.stages[stage, c - depth] if c >= depth else ()

    def _loads(self, column: int, width: int) -> list[Part]:
        """Return the loads of one chunk: a whole one has a mode per worker that may own it, today's owner first."""
        spec = self.spec
        tiles = width // TILE * (spec.k // TILE)
        others = [] if spec.fixed_owner else [w for w in range(self.workers) if w != spec.dma_owner]
        ddr_bytes = TILE_BYTES[spec.weight_type][0]
        first = (self.first_column + column) // TILE * (spec.k // TILE)
        if spec.load_parts == 1:
            owners = (spec.dma_owner, *others)
            modes = tuple(self.transfer(w, ddr_bytes, tiles, "read") for w in owners)
            return [Part(modes, part=(first, 0, tiles))]
        return [
            Part(
                (self.transfer((spec.dma_owner + p) % self.workers, ddr_bytes, mine, "read"),),
                part=(first + at, at, mine),
            )
            for p, (at, mine) in enumerate(in_turn(shared_out(tiles, spec.load_parts)))
        ]

    def _dequantize(self, width: int) -> list[Part]:
        spec, rate = self.spec, DEQUANTIZE[self.spec.weight_type]
        tiles = width // TILE * (spec.k // TILE)
        if not spec.slices:
            us = cost.hvx_us(self.machine, rate, spec.k * width, self.workers)
            return [Part((hvx_gang(self.machine, us, self.workers),), part=(0, tiles))]
        return [
            Part((hvx_slice(cost.hvx_us(self.machine, rate, mine * TILE * TILE, 1), w),), part=(at, mine))
            for w, (at, mine) in enumerate(in_turn(shared_out(tiles, self.workers)))
        ]

    def _stores(self, row: int, rows: int, column: int, width: int) -> list[Part]:
        """Return the conversions to f32 and the stores of it, by plain vector stores through L2."""
        spec = self.spec
        parts = shared_out(rows, self.workers if spec.slices else 1)
        # Slices are no faster than all together: without contention nothing else keeps them below the rate of the path.
        least = cost.l2_write_us(self.machine, rows * width * 4)
        found, at = [], row
        for w, mine in enumerate(parts):
            elements = mine * width
            us = max(cost.hvx_us(self.machine, "hvx_output", elements, 1 if spec.slices else self.workers), least)
            moves = through_l2(written=elements * 4)
            mode = hvx_slice(us, w, moves) if spec.slices else hvx_gang(self.machine, us, self.workers, moves=moves)
            first_byte = (at * spec.n + column) * 4
            regions = block_of(spec.output, "write", first_byte, width * 4, mine, spec.n * 4, bypass=False)
            found.append(Part((mode,), regions, (at, mine, column, width, at - row)))
            at += mine
        return found

    def _scales(self) -> str:
        return self.out.buffer("scales", SCALES_BYTES, self.tile_align, self.tile_align)

    def _slots(self, block: int, c: int) -> tuple[str, str, str]:
        """Names of the raw, fp16 weight and output slots of chunk ``c``; slots are rings of the given depth."""
        spec, align = self.spec, self.tile_align
        columns = min(self.n_chunk, spec.n)
        tiles = columns // TILE * (spec.k // TILE)
        raw_bytes = tiles * TILE_BYTES[spec.weight_type][1]
        raw = self._buffer(block, f"raw.{c % spec.depth.raw}", raw_bytes, align)
        weights = self._buffer(block, f"weights_f16.{c % spec.depth.weights}", spec.k * columns * 2, align)
        output = self._buffer(block, f"output_f16.{c % spec.depth.output}", self.m_chunk * columns * 2, align)
        return raw, weights, output

    def _buffer(self, block: int, name: str, size: int, align: int) -> str:
        """Declare a buffer of one block of rows: what another block uses later may lie in the same bytes."""
        kind, rest = name.split(".", 1)
        name = name if self.m_chunk >= self.spec.m else f"{kind}.{block}.{rest}"
        return self.out.buffer(name, size, align, align)

    def reference(self, chunks: range) -> None:
        """Append ggml's loop: pop A(i), B(i), push A(i + 2), submit C(i), wait C(i - 1), D(i - 1).

        With one output buffer D(i - 1) has to come before C(i).
        """
        ahead = self.spec.depth.raw
        for c in chunks[:ahead]:
            self.loop += self.stages["weights_load", c]
        store_first = self.spec.depth.output == 1
        for c in chunks:
            self.loop += self.stages["dequantize", c]
            if c + ahead in chunks:
                self.loop += self.stages["weights_load", c + ahead]
            before = self.stages["store", c - 1] if c > chunks[0] else ()
            job = self.stages["matmul", c]
            self.loop += (*before, *job) if store_first else (*job, *before)
        self.loop += self.stages["store", chunks[-1]]
