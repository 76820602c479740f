"""What an operator needs of a machine: sums over its shape at the rates of the machine file, for logs and models alike.

An operator alone takes as long as the resource that it needs most, and the cost of one op; inside it the stages are
taken to overlap perfectly, so what is left to gain between operators is not flattered.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from hexloom.hwmodels import cost
from hexloom.optimizer.kernels.ggml_layout import TILE, TILE_BYTES
from hexloom.optimizer.kernels.matmul_w4a16 import DEQUANTIZE

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.opportunities.graph import Needs

ELEMENT_BYTES = 4
"""Activations are f32 in DDR, as ggml-hexagon keeps them."""


class Work(NamedTuple):
    """Exact microseconds on each resource, and the least scratchpad bytes."""

    hmx: Fraction = Fraction(0)
    hvx: Fraction = Fraction(0)
    ddr: Fraction = Fraction(0)
    vtcm_bytes: int = 0

    def plus(self, other: Work) -> Work:
        """Return both, one after the other."""
        return Work(
            self.hmx + other.hmx,
            self.hvx + other.hvx,
            self.ddr + other.ddr,
            max(self.vtcm_bytes, other.vtcm_bytes),
        )

    def times(self, count: int) -> Work:
        """Return the work ``count`` times."""
        return Work(self.hmx * count, self.hvx * count, self.ddr * count, self.vtcm_bytes)


class Costs:
    """Work by shape on one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.contexts = machine.hvx_contexts

    def op_ns(self) -> int:
        """Return the cost of one op beside its work."""
        return math.ceil(cost.overhead_us(self.machine, "op") * 1000)

    def predicted(self, work: Work) -> tuple[int, Needs]:
        """Return nanoseconds of an operator alone, and of each resource."""
        needs = self._ns(work)
        longest = max(needs)
        return (longest + self.op_ns() if longest else 0), needs

    def measured(self, ns: int, work: Work, main: str | None) -> Needs:
        """Return what an operator that took ``ns`` needs of each resource, at most all of that.

        ``main`` is the engine that the log names: where the rates make less of it than of another one, the log is
        believed, and the operator holds that engine for all of its time.
        """
        needs = [min(ns, need) for need in self._ns(work)]
        if main == "hvx":
            needs[0] = 0
        if main is not None:
            k = 0 if main == "hmx" else 1
            if needs[k] < max(needs) and needs[2] < ns:
                needs[k] = ns
        if not any(needs):
            needs[1] = ns
        return needs[0], needs[1], needs[2]

    def _ns(self, work: Work) -> Needs:
        hmx, hvx, ddr = (math.ceil(us * 1000) for us in (work.hmx, work.hvx, work.ddr))
        return hmx, hvx, ddr

    def matmul(self, m: int, k: int, n: int, weights: str = "f16", *, weight_bytes: bool = True) -> Work:
        """Return the work of ``m`` x ``k`` times ``k`` x ``n``; one row of quantized weights is vector work."""
        machine = self.machine
        kind = weights if weights in TILE_BYTES else "q8_0" if weights.startswith(("q5", "q6", "q8", "iq")) else "q4_0"
        kind = "f16" if weights in ("f16", "f32", "bf16") else kind
        padded = -(-k // TILE) * (-(-n // TILE)) * TILE_BYTES[kind][0] if weight_bytes else 2 * k * n
        moved = padded + ELEMENT_BYTES * (m * k + m * n)
        ddr = cost.ddr_us(machine, moved)
        if m == 1 and kind == "q4_0":
            hvx = cost.hvx_us(machine, "hvx_dot_q4_0", k * n, self.contexts)
            return Work(Fraction(0), hvx, ddr, 2 * self.contexts * k // TILE * TILE_BYTES[kind][1])
        hvx = cost.hvx_us(machine, "hvx_activation_prepare", m * k, self.contexts)
        hvx += cost.hvx_us(machine, DEQUANTIZE[kind], k * n, self.contexts)
        hvx += cost.hvx_us(machine, "hvx_output", m * n, self.contexts)
        vtcm = 2 * (TILE * 2 * k + -(-k // TILE) * TILE_BYTES[kind][1]) + 2 * TILE * k + 4 * TILE * TILE
        return Work(cost.hmx_matmul_us(machine, m, k, n), hvx, ddr, vtcm)

    def rows(self, rate: str, elements: int, inputs: int = 1, row: int = 0, *, passes: int = 1) -> Work:
        """Return vector work on ``elements``, from ``inputs`` tensors of that many to one, row by row."""
        hvx = cost.hvx_us(self.machine, rate, elements * passes, self.contexts)
        ddr = cost.ddr_us(self.machine, (inputs + 1) * elements * ELEMENT_BYTES)
        return Work(Fraction(0), hvx, ddr, 2 * (inputs + 1) * (row or 1) * ELEMENT_BYTES * self.contexts)

    def copy(self, read: int, written: int) -> Work:
        """Return the transfer of so many bytes."""
        return Work(ddr=cost.ddr_us(self.machine, read + written))

    def attention(self, rows: int, head: int, heads: int, kv_heads: int, context: int) -> Work:
        """Return flash attention of ``rows`` queries per head over ``context`` keys, f16."""
        scores = self.rows("hvx_softmax", heads * rows * context)._replace(ddr=Fraction(0))
        products = Work(
            hmx=(
                cost.hmx_matmul_us(self.machine, rows, head, context)
                + cost.hmx_matmul_us(self.machine, rows, context, head)
            )
            * heads
        )
        moved = cost.ddr_us(self.machine, 2 * 2 * kv_heads * context * head + 2 * ELEMENT_BYTES * heads * rows * head)
        return scores.plus(products).plus(Work(ddr=moved))
