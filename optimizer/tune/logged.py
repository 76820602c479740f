"""Products that a ggml-hexagon log shows on the matrix unit: their shapes, how long they took, and in which chunks.

A log says of a product its shapes, the kernel that ran, and the bytes of scratchpad that its layout took. Where the
parameter solver's choice for the machine takes just these, they are its chunks; else those of the only pair that does.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.kernels.ggml_layout import TILE, ggml_chunks, vtcm_bytes
from hexloom.optimizer.traces.floors import task_of
from hexloom.optimizer.traces.summary import nanoseconds
from hexloom.optimizer.tune.parameters import Shape

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.traces.trace import Event, Trace

KERNEL = re.compile(r"\|(?P<kernel>[\w-]+) vtcm (?P<bytes>\d{1,18})$")
THREADS = re.compile(r"\bhvx (\d{1,3})\b")

MANY_NAMES = 4
"""Of ops that are not tuned, named where they are counted."""


class Logged(NamedTuple):
    """A product of a log: how often it ran, and in microseconds; ``vtcm_bytes`` of its layout, None if it says none."""

    shape: Shape
    runs: int
    median_us: float
    least_us: float
    vtcm_bytes: int | None

    @property
    def total_us(self) -> float:
        """Microseconds of all runs, were each as long as the median."""
        return self.runs * self.median_us


class Log(NamedTuple):
    """Products, those that take longest first; workers that the log states; ops that are none of these, by why."""

    products: tuple[Logged, ...]
    threads: int | None
    others: dict[str, int]


def read_log(trace: Trace) -> Log:
    """Return what there is to tune in a trace of ggml-hexagon."""
    times: dict[tuple[Shape, int | None], list[float]] = defaultdict(list)
    others: Counter[str] = Counter()
    for event in trace:
        if event.kind != "op":
            continue
        found = _product(event)
        ns = nanoseconds(event.ticks, trace.clock, event.khz or trace.khz)
        if isinstance(found, str) or not ns:
            others[found if isinstance(found, str) else "without a time"] += 1
        else:
            times[found].append(ns / 1000)
    products = [Logged(shape, len(us), median(us), min(us), n_bytes) for (shape, n_bytes), us in times.items()]
    stated = THREADS.search(trace.meta.get("hwinfo", ""))
    return Log(
        tuple(sorted(products, key=lambda one: (-one.total_us, one.shape))),
        int(stated[1]) if stated else None,
        dict(others),
    )


def _product(event: Event) -> tuple[Shape, int | None] | str:
    """Return the shape of an op, and the bytes that its layout took; else in words why it is not tuned."""
    task = task_of(event.name, event.detail)
    if task is None or task["kernel"] not in ("matmul_w4a16", "gemv"):
        return "no product of two matrices that the kernel knows"
    ran = KERNEL.search(event.detail)
    if task["kernel"] == "gemv" or (ran is not None and not ran["kernel"].startswith("hmx")):
        return "on HVX"
    shape = Shape(task["m"], task["k"], task["n"], task["weight_type"])
    return shape, None if ran is None else int(ran["bytes"])


def chunks_of(shape: Shape, n_bytes: int | None, machine: Machine, threads: int) -> tuple[int, int] | None:
    """Return the chunks whose layout takes ``n_bytes``; None where the log does not tell them."""
    if n_bytes is None:
        return None
    rows = -(-shape.m // TILE) * TILE

    def takes(m_chunk: int, n_chunk: int) -> bool:
        # Activations are converted by all workers, by half of them where that does not fit, and so on.
        converting = {threads >> k for k in range(threads.bit_length())}
        sizes = {vtcm_bytes(m_chunk, n_chunk, shape.k, shape.weight_type, t) for t in converting}
        return n_bytes in sizes

    chosen = ggml_chunks(*shape, machine.available_vtcm_bytes, threads)
    if chosen is not None and takes(*chosen):
        return chosen
    pairs = [(m, n) for m in range(TILE, rows + 1, TILE) for n in range(TILE, shape.n + 1, TILE) if takes(m, n)]
    return pairs[0] if len(pairs) == 1 else None
