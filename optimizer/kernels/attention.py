"""``attention``: flash attention of a block of queries at a time, over blocks of keys and values.

Stages of a block of queries of one head: its rows arrive by DMA and are converted (``q_load``, ``q_prepare``). Then,
per block of keys: K and V by DMA (``kv_load``), into tiles on HVX (``kv_prepare``), scores on the matrix unit (``qk``),
the softmax by rows, which also says by what the output so far is rescaled (``softmax``), and the output so far on the
matrix unit (``pv``). At last the output is converted and stored through L2 (``store``). The loop people run today is
ggml-hexagon's (ggml-org/ggml d99724f2, htp/flash-attn-ops.c): with three blocks of keys or more, scores of the next
block are pushed before the softmax of this one, and everything between two stages has two buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from hexloom.hwmodels import cost
from hexloom.optimizer.draft import Builder, TaskDraft
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.engines import Transfers, hmx_job, hvx_gang, hvx_slice, through_l2
from hexloom.optimizer.kernels.ggml_layout import TILE
from hexloom.optimizer.kernels.regions import block_of
from hexloom.optimizer.kernels.spec import ClassName, Count, KernelSpec, Name, workers_of
from hexloom.optimizer.kernels.split import Part, add_parts, in_turn, shared_out

if TYPE_CHECKING:
    from hexloom.formulations.problem import Region
    from hexloom.hwmodels import Machine

PIPELINED_BLOCKS = 3
"""Blocks of keys from which on ggml-hexagon pushes scores ahead."""


class Attention(KernelSpec):
    """O[heads, queries, head_dim] f32 = softmax(Q K^T) V; Q f32, K and V f16, ``kv_heads`` of them shared by heads.

    ``q_block`` queries and ``kv_block`` keys are one tile; ``depth`` are buffers of K and V, of scores and of weights.
    With ``slices`` every worker does its rows on its own: nothing is forked or joined. ``input`` and ``output`` name Q
    and O in DDR, ``keys`` and ``values`` K and V, by which hazards with other tasks are found.
    """

    name: Name
    kernel: Literal["attention"]
    queries: Count
    keys_count: Count = Field(alias="kv")
    heads: Count
    kv_heads: Count | None = None
    head_dim: Count
    q_block: Count = 64
    kv_block: Count = 128
    workers: Count | None = None
    depth: Count = 2
    dma_owner: int = Field(default=0, ge=0)
    fixed_owner: bool = False
    slices: bool = False
    input: Name | None = None
    keys: Name | None = None
    values: Name | None = None
    output: Name | None = None
    class_: ClassName = Field(default="", alias="class")
    copies: Count = 1

    @property
    def block_rows(self) -> int:
        """Queries of a block."""
        return min(self.q_block, -(-self.queries // TILE) * TILE)

    @property
    def key_blocks(self) -> list[tuple[int, int]]:
        """The first key of each block, and how many it has."""
        return [(at, min(self.kv_block, self.keys_count - at)) for at in range(0, self.keys_count, self.kv_block)]

    def kv_head(self, head: int) -> int:
        """Return the head of K and V that a head looks at."""
        return head // (self.heads // (self.kv_heads or self.heads))

    def expand(self, machine: Machine) -> TaskDraft:
        """Return the tiles of the task on ``machine``."""
        for key, size in (("head_dim", self.head_dim), ("q_block", self.q_block), ("kv_block", self.kv_block)):
            if size % TILE:
                raise InvalidInputError(f"task {self.name!r}: {key} = {size} must be a multiple of {TILE}")
        if self.heads % (self.kv_heads or self.heads):
            raise InvalidInputError(
                f"task {self.name!r}: heads = {self.heads} must be a multiple of kv_heads = {self.kv_heads}"
            )
        workers = workers_of(machine, self.name, self.workers)
        if self.dma_owner >= workers:
            raise InvalidInputError(
                f"task {self.name!r}: dma_owner {self.dma_owner} is not one of its {workers} HVX workers"
            )
        return _Expansion(self, machine, workers).task()

    def iterations(self, machine: Machine) -> int | None:
        """Return the blocks of queries of all heads, None where the last ones are smaller."""
        return self.heads * (self.queries // self.q_block) if self.queries % self.q_block == 0 else None

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the task with fewer blocks of queries: of a head each, with keys and values of its own."""
        return self.model_copy(update={"heads": iterations, "kv_heads": None, "queries": self.q_block})


class _Expansion:
    def __init__(self, spec: Attention, machine: Machine, workers: int) -> None:
        self.spec, self.machine, self.workers = spec, machine, workers
        self.rows, self.keys = spec.block_rows, spec.kv_block
        self.align = machine.vtcm.hmx_align_bytes.whole
        self.out = Builder(spec.name)
        self.transfer = Transfers(machine)
        self.stages: dict[str, list[tuple[str, ...]]] = {}
        self.loop: list[str] = []

    def task(self) -> TaskDraft:
        """Return all ops, and the order in which the loop of today meets them."""
        spec, tile = self.spec, 0
        for first in range(0, spec.queries, self.rows):
            for head in range(spec.heads):
                self._block(tile, head, first, min(self.rows, spec.queries - first))
                tile += 1
        return self.out.task(self.loop)

    def _block(self, tile: int, head: int, first: int, rows: int) -> None:
        """Add one block of queries of one head."""
        spec, machine, dim = self.spec, self.machine, self.spec.head_dim
        blocks = spec.key_blocks
        raw = self._ring("q_f32", tile, 2, self.rows * dim * 4)
        queries = self._ring("q_f16", tile, 2, self.rows * dim * 2)
        output = self._ring("output_f16", tile, 2, self.rows * dim * 2)
        at = (head * spec.queries + first) * dim * 4
        load = self._add(
            "q_load",
            tile,
            self._load(dim * 4, rows, (first + head * spec.queries, rows)),
            self._before("q_prepare", 2),
            (raw,),
            block_of(spec.input, "read", at, rows * dim * 4, bypass=True),
        )
        us = cost.hvx_us(machine, "hvx_activation_prepare", rows * dim, 1)
        done = (*load, *self._before("q_done", 2))
        ready = self._add("q_prepare", tile, [Part((hvx_slice(us, spec.dma_owner),))], done, (raw, queries))
        for k, (_, keys) in enumerate(blocks):
            self._keys(tile, head, k, rows, keys, (queries, output), ready)
        last = self.stages["pv"][-1]
        self.stages.setdefault("q_done", []).append(last)
        self._add("store", tile, self._stores(at, rows, (first + head * spec.queries, rows)), last, (output,))
        self._reference(tile, len(blocks))

    def _keys(
        self, tile: int, head: int, k: int, rows: int, keys: int, of: tuple[str, str], ready: tuple[str, ...]
    ) -> None:
        """Add the stages of one block of keys."""
        spec, machine, dim, depth = self.spec, self.machine, self.spec.head_dim, self.spec.depth
        queries, output = of
        c = len(self.stages.get("kv_load", []))
        raw = self._ring("kv_raw", c, depth, 2 * self.keys * dim * 2)
        tiles = self._ring("kv_tiles", c, depth, 2 * self.keys * dim * 2)
        scores = self._ring("scores_f16", c, depth, self.rows * self.keys * 2)
        weights = self._ring("weights_f16", c, depth, self.rows * self.keys * 2)
        start = (spec.kv_head(head) * spec.keys_count + k * self.keys) * dim * 2
        regions = tuple(
            region
            for tensor in (spec.keys, spec.values)
            for region in block_of(tensor, "read", start, keys * dim * 2, bypass=True)
        )
        part = (k * self.keys, keys)
        load = self._add(
            "kv_load", c, self._load(dim * 2, 2 * keys, part), self._before("kv_prepare", depth), (raw,), regions
        )
        prepare = self._vector("hvx_prepare_f16", 2 * keys, dim)
        done = (*load, *self._before("pv", depth))
        prepared = self._add("kv_prepare", c, prepare, done, (raw, tiles))
        job = hmx_job(machine, cost.hmx_matmul_us(machine, rows, dim, keys))
        after = (*prepared, *ready, *self._before("softmax", depth))
        scored = self._add("qk", c, [Part((job,), part=(rows, keys))], after, (queries, tiles, scores))
        softmax = self._vector("hvx_softmax", rows, keys)
        before = (self.stages["softmax"][-1] if k else ()) + self._before("pv", depth)
        weighted = self._add("softmax", c, softmax, (*scored, *before), (scores, weights))
        job = hmx_job(machine, cost.hmx_matmul_us(machine, rows, keys, dim))
        chain = self.stages["pv"][-1] if k else self._before("store", 2)
        self._add("pv", c, [Part((job,), part=(rows, keys))], (*weighted, *chain), (weights, tiles, output))

    def _load(self, row_bytes: int, rows: int, part: tuple[int, ...]) -> list[Part]:
        spec = self.spec
        others = [] if spec.fixed_owner else [w for w in range(self.workers) if w != spec.dma_owner]
        return [Part(tuple(self.transfer(w, row_bytes, rows, "read") for w in (spec.dma_owner, *others)), part=part)]

    def _vector(self, rate: str, rows: int, columns: int) -> list[Part]:
        """Return vector work on rows: by all workers together, or a part of the rows by each."""
        if not self.spec.slices:
            us = cost.hvx_us(self.machine, rate, rows * columns, self.workers)
            return [Part((hvx_gang(self.machine, us, self.workers),), part=(0, rows))]
        return [
            Part((hvx_slice(cost.hvx_us(self.machine, rate, mine * columns, 1), w),), part=(at, mine))
            for w, (at, mine) in enumerate(in_turn(shared_out(rows, self.workers)))
        ]

    def _stores(self, first_byte: int, rows: int, part: tuple[int, int]) -> list[Part]:
        spec, n_bytes = self.spec, rows * self.spec.head_dim * 4
        us = max(
            cost.hvx_us(self.machine, "hvx_output", rows * spec.head_dim, self.workers),
            cost.l2_write_us(self.machine, n_bytes),
        )
        mode = hvx_gang(self.machine, us, self.workers, moves=through_l2(written=n_bytes))
        return [Part((mode,), block_of(spec.output, "write", first_byte, n_bytes, bypass=False), part)]

    def _add(
        self,
        stage: str,
        c: int,
        parts: list[Part],
        after: tuple[str, ...],
        buffers: tuple[str, ...],
        regions: tuple[Region, ...] = (),
    ) -> tuple[str, ...]:
        """Add one stage, in one op or in one per part."""
        names = add_parts(self.out, stage, c, parts, after, buffers, regions)
        self.stages.setdefault(stage, []).append(names)
        return names

    def _before(self, stage: str, depth: int) -> tuple[str, ...]:
        """Return the ops of ``stage`` that are over before the one after the last ``depth`` - 1 of them may begin."""
        found = self.stages.get(stage, [])
        return found[-depth] if len(found) >= depth else ()

    def _ring(self, name: str, c: int, depth: int, size: int) -> str:
        return self.out.buffer(f"{name}.{c % depth}", size, self.align, self.align)

    def _reference(self, tile: int, blocks: int) -> None:
        """Append ggml's loop for one block of queries: K and V two blocks ahead, scores one, where there are three."""
        first = len(self.stages["qk"]) - blocks

        def stage(name: str, k: int) -> tuple[str, ...]:
            return self.stages[name][first + k] if k < blocks else ()

        ahead = blocks >= PIPELINED_BLOCKS
        self.loop += self.stages["q_load"][tile]
        for k in range(self.spec.depth):
            self.loop += stage("kv_load", k)
        self.loop += self.stages["q_prepare"][tile]
        if ahead:
            self.loop += (*stage("kv_prepare", 0), *stage("kv_load", self.spec.depth), *stage("qk", 0))
        for k in range(blocks):
            at = k + 1 if ahead else k
            self.loop += (*stage("kv_prepare", at), *stage("kv_load", at + self.spec.depth), *stage("qk", at))
            self.loop += (*stage("softmax", k), *stage("pv", k))
        self.loop += self.stages["store"][tile]
