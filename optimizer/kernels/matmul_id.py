"""``matmul_id``: rows that were routed to experts, each with weights of its own; a mixture-of-experts layer's product.

Every expert is a block of rows as in ``matmul_w4a16``, with the stages and parts that are told there, and with its own
weights: those of all experts lie one behind the other. The rows of an expert are scattered in the input, so each comes
by a descriptor of its own. The loop people run today is ggml-hexagon's MUL_MAT_ID (ggml-org/ggml d99724f2,
htp/matmul-ops.c): it pushes one HMX job and pops it at once, so that only DMA runs ahead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field

from hexloom.optimizer.kernels.ggml_layout import TILE, Depth, WeightType, fitting_chunks
from hexloom.optimizer.kernels.matmul_w4a16 import Expansion, sizes_of
from hexloom.optimizer.kernels.spec import ClassName, Count, KernelSpec, Name

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.draft import ModeDraft, TaskDraft


class MatmulId(KernelSpec):
    """C[rows, n] f32 = A[rows, k] f32 x W_e[k, n] of ``weight_type`` for each expert e, with ``rows[e]`` rows.

    The rows of an expert stand together in A and C, those of the first one first. All other keys are those of
    ``matmul_w4a16``; chunks default to the choice of ggml-hexagon's parameter solver for the expert with most rows.
    """

    name: Name
    kernel: Literal["matmul_id"]
    rows: tuple[Count, ...] = Field(min_length=1)
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

    @property
    def m(self) -> int:
        """Rows of all experts."""
        return sum(self.rows)

    def expand(self, machine: Machine) -> TaskDraft:
        """Return the tiles of the task on ``machine``."""
        return _Expansion(self, machine, *sizes_of(self, machine)).task()

    def chunks(self, machine: Machine) -> tuple[int, int]:
        """Return the rows and columns of a chunk: the given ones, else those of today's tool."""
        if self.m_chunk is not None and self.n_chunk is not None:
            return self.m_chunk, self.n_chunk
        # ggml-hexagon chooses for each expert, by its padded rows, and converts its activations as they are gathered.
        rows, available = -(-max(self.rows) // TILE) * TILE, machine.available_vtcm_bytes
        chosen = fitting_chunks(rows, self.k, self.n, self.weight_type, available, 0, self.depth)
        chosen = chosen or (TILE, TILE)
        return self.m_chunk or chosen[0], self.n_chunk or chosen[1]

    def iterations(self, machine: Machine) -> int | None:
        """Return the experts, where all but the last have equally many rows, which are one chunk."""
        most = self.rows[0]
        alike = set(self.rows[:-1]) <= {most} and self.rows[-1] <= most and self.chunks(machine)[0] >= most
        return len(self.rows) if alike else None

    def shortened(self, machine: Machine, iterations: int) -> Self:
        """Return the task with fewer experts before its last one."""
        m_chunk, n_chunk = self.chunks(machine)
        rows = (*(self.rows[:1] * (iterations - 1)), self.rows[-1])
        return self.model_copy(update={"rows": rows, "m_chunk": m_chunk, "n_chunk": n_chunk})


class _Expansion(Expansion):
    spec: MatmulId

    def blocks(self) -> list[tuple[int, int, int]]:
        """Return the blocks of rows of every expert, and the first column of its weights among all weights."""
        found, row = [], 0
        for expert, count in enumerate(self.spec.rows):
            for at in range(0, count, self.m_chunk):
                found.append((row + at, min(self.m_chunk, count - at), expert * self.spec.n))
            row += count
        return found

    def activations(self, worker: int, rows: int) -> ModeDraft:
        """Return the transfer of so many rows to ``worker``, each with a descriptor of its own."""
        mode = super().activations(worker, rows)
        each = mode.issue_us / mode.descriptors
        return replace(mode, descriptors=rows, issue_us=rows * each)

    def reference(self, chunks: range) -> None:
        """Append ggml's loop: pop A(i), B(i), push A(i + 2), push C(i) and pop it, D(i)."""
        ahead = self.spec.depth.raw
        for c in chunks[:ahead]:
            self.loop += self.stages["weights_load", c]
        for c in chunks:
            self.loop += self.stages["dequantize", c]
            if c + ahead in chunks:
                self.loop += self.stages["weights_load", c + ahead]
            self.loop += (*self.stages["matmul", c], *self.stages["store", c])
