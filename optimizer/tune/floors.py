"""Times below which a choice cannot end, from sums over its chunks alone: enough to exclude most choices unseen."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hexloom.hwmodels import cost
from hexloom.optimizer.kernels.engines import handover_us
from hexloom.optimizer.kernels.ggml_layout import TILE, TILE_BYTES
from hexloom.optimizer.kernels.matmul_w4a16 import DEQUANTIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.tune.parameters import Parameters, Shape


EXACT = 1 - 1e-9
"""What sums of rounded numbers are lowered by, to stay below the exact one."""


class Floor(NamedTuple):
    """Microseconds that no order of the ops can beat, and that the loop of today cannot."""

    plan_us: float
    loop_us: float


class _Weights(NamedTuple):
    """Microseconds for which the weights of a chunk keep the pipe, DMA queues, and all workers who dequantize them."""

    pipe: float
    queue: float
    dequantize: float


class _Block(NamedTuple):
    """Microseconds of one block of rows: its activations on the pipe and on all workers, its jobs and stores.

    ``job`` and ``store`` are the shortest of one chunk.
    """

    arrive: float
    convert: float
    jobs: float
    stores: float
    job: float
    store: float


class Floors:
    """Floors of the choices for one shape on one machine.

    Every chunk has one of at most two heights and two widths, so a choice is a sum of at most four products. A job
    cannot begin before the activations of its rows and its weights have come, all through one pipe, and nothing ends
    before the last result is stored. In the loop of today a block of rows begins when the one before it has ended.
    """

    def __init__(self, shape: Shape, machine: Machine, threads: int) -> None:
        self.shape, self.machine, self.threads = shape, machine, threads
        self._entry = float(cost.overhead_us(machine, "op"))
        self._fork = float(cost.overhead_us(machine, "fork_join"))
        self._row = (
            float(cost.dma_pipe_us(machine, shape.k * 4, "read")),
            float(cost.hvx_us(machine, "hvx_activation_prepare", shape.k, 1)),
        )
        self._weights = cache(self._weights_of)
        self._job = cache(self._job_us)
        self._convert = cache(self._convert_us)
        self._store = cache(self._store_us)

    def __call__(self, chosen: Parameters) -> Floor:
        """Return the floors of one choice."""
        widths = _parts(self.shape.n, chosen.n_chunk)
        blocks = {self._block(height, widths, chosen): n for height, n in _parts(self.shape.m, chosen.m_chunk).items()}
        each = [self._weights(width) for width in widths]
        fork = self._fork if not chosen.slices else 0.0
        columns = sum(widths.values())
        pipe = _sum(n * of.pipe for n, of in zip(widths.values(), each, strict=True))
        queue = _sum(n * of.queue for n, of in zip(widths.values(), each, strict=True))
        dequantize = columns * fork + _sum(n * of.dequantize for n, of in zip(widths.values(), each, strict=True))
        first, least = min(of.pipe for of in each), min(of.dequantize for of in each)
        row_pipe, row_convert = self._row
        count = sum(blocks.values())
        end = min(block.store for block in blocks)
        plan = max(
            # The matrix unit: from the first block's activations and weights to the store of the last.
            min(block.arrive for block in blocks)
            + first
            + min(row_convert, least)
            + _sum(n * block.jobs for block, n in blocks.items())
            + end,
            # The workers: idle until something has come.
            min(first, row_pipe)
            + count * dequantize
            + _sum(n * (block.convert + block.stores) for block, n in blocks.items()),
            # The pipe: after the last bytes at least a job and a store.
            _sum(n * block.arrive for block, n in blocks.items())
            + count * pipe
            + min(row_convert, least)
            + min(block.job for block in blocks)
            + end,
            count * queue / self.threads + min(block.job for block in blocks) + end,
        )
        loop = plan
        if not chosen.slices or min(_parts(self.shape.m, chosen.m_chunk)) >= self.threads:
            loop = _sum(
                n
                * max(
                    max(block.arrive, block.convert) + max(least + block.jobs + block.store, dequantize + block.stores),
                    queue / chosen.load_parts + least + block.job + block.store,
                )
                for block, n in blocks.items()
            )
        return Floor(*((self._entry + of) * EXACT for of in (plan, max(plan, loop))))

    def _block(self, height: int, widths: dict[int, int], chosen: Parameters) -> _Block:
        elements = height * self.shape.k
        fork = self._fork if not chosen.slices else 0.0
        store = self._store if not chosen.slices or height >= self.threads else self._few_stores
        return _Block(
            arrive=float(cost.dma_pipe_us(self.machine, elements * 4, "read")),
            convert=float(cost.hvx_us(self.machine, "hvx_activation_prepare", elements, 1)) / self.threads,
            jobs=_sum(n * self._job(height, width) for width, n in widths.items()),
            stores=_sum(n * (store(height, width) + fork) for width, n in widths.items()),
            job=min(self._job(height, width) for width in widths),
            store=min(self._store(height, width) for width in widths),
        )

    def _job_us(self, height: int, width: int) -> float:
        return float(cost.hmx_matmul_us(self.machine, height, self.shape.k, width) + handover_us(self.machine))

    def _convert_us(self, height: int, width: int) -> float:
        return float(cost.hvx_us(self.machine, "hvx_output", height * width, self.threads))

    def _few_stores(self, height: int, width: int) -> float:
        """Return the time of all workers for slices of one row: each is as long as all of them need for the path."""
        least = float(cost.l2_write_us(self.machine, height * width * 4))
        return max(self._convert(height, width), least * height / self.threads)

    def _store_us(self, height: int, width: int) -> float:
        return max(self._convert(height, width), float(cost.l2_write_us(self.machine, height * width * 4)))

    def _weights_of(self, width: int) -> _Weights:
        tiles = width // TILE * (self.shape.k // TILE)
        row_bytes = TILE_BYTES[self.shape.weight_type][0]
        rate, elements = DEQUANTIZE[self.shape.weight_type], self.shape.k * width
        return _Weights(
            float(cost.dma_pipe_us(self.machine, tiles * row_bytes, "read")),
            float(cost.dma_queue_us(self.machine, row_bytes, tiles)),
            float(cost.hvx_us(self.machine, rate, elements, self.threads)),
        )


def _sum(of: Iterable[float]) -> float:
    return sum(of, 0.0)


def _parts(size: int, chunk: int) -> dict[int, int]:
    """Return how many chunks of each size make up ``size``."""
    whole, rest = divmod(size, chunk)
    return {chunk: whole} | ({rest: 1} if rest else {}) if whole else {rest: 1}
