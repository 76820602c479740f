"""Published stages of single kernels beside what machine files say of them, each at the clock of its row.

``COVERED`` are rows for which a machine file holds all that is needed; ``LEFT_OUT`` are published points of the same
sources for which it does not, and why. A clock that a row states takes the place of the file's; costs in nanoseconds
(rows of a transfer, DDR) stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom import Machine, load_hw
from hexloom.hwmodels import cost

if TYPE_CHECKING:
    from collections.abc import Callable

NNTRAINER = "nntrainer notes, fully connected layer, u8 x i4, K 1024, N 2048, SM8750 (v79)"
ATTENTION = "nntrainer attention notes, v79 and v81"
TMAN = "T-MAN, arXiv 2511.11248, Table 2, 8 Gen 3 (v75)"
TEST_TIME = "arXiv 2509.23324, Table 2, 8 Gen 3 (v75)"
PR = "llama.cpp PR 26501, op profile, v81, 1,883,599 cycles in 891 us"
PR_MHZ = 1_883_599 / 891
LFM2 = "LFM2-1.2B per-op profile, SM8750 (v79), llama.cpp 4fc4ec55"
LFM2_MHZ = 812_491 / 384.2


@dataclass(frozen=True)
class Stage:
    """A published number: ``mhz`` is the core clock that its source states, ``spread`` what it or the file admits."""

    name: str
    source: str
    hw: str
    predicted: Callable[[Machine], float]
    published: float
    unit: str
    spread: float | None = None
    used_to_fit: bool = False
    mhz: float | None = None

    def value(self) -> float:
        """Return the prediction, with the core at the clock of the row."""
        machine = load_hw(self.hw)
        if self.mhz is not None:
            machine = machine.with_values({"clocks.core_mhz": round(self.mhz, 3)})
        return self.predicted(machine)


def product(m: int) -> Callable[[Machine], float]:
    """Return the time of the layer's int8 product."""
    return lambda hw: float(cost.hmx_int8_matmul_us(hw, m, 1024, 2048))


def read_out(m: int) -> Callable[[Machine], float]:
    """Return the time of the layer's read-out."""
    return lambda hw: float(cost.hmx_int8_readout_us(hw, m, 2048))


def vector(rate: str, elements: int, contexts: int = 6) -> Callable[[Machine], float]:
    """Return the time of vector work."""
    return lambda hw: float(cost.hvx_us(hw, "hvx_" + rate, elements, contexts))


def l2_gb_s(contexts: int, *, prefetched: bool) -> Callable[[Machine], float]:
    """Return the rate at which so many contexts read through L2."""
    return lambda hw: 1e4 / float(cost.l2_read_us(hw, 10**7, contexts, prefetched=prefetched))


def int8_lane(m: int, times: int = 1) -> Callable[[Machine], float]:
    """Return what the matrix unit is busy for in the layer, read-out included, ``times`` over."""
    return lambda hw: times * float(cost.hmx_int8_matmul_us(hw, m, 1024, 2048) + cost.hmx_int8_readout_us(hw, m, 2048))


def queue_gb_s(row_bytes: int) -> Callable[[Machine], float]:
    """Return the rate of one queue with rows of so many bytes."""
    return lambda hw: row_bytes * 1000 / float(cost.dma_queue_us(hw, row_bytes, 1000)) / 1000


def per_thread_cycles(rate: str, elements: int, threads: int) -> Callable[[Machine], float]:
    """Return the core cycles of one of so many threads that share vector work."""
    return lambda hw: float(cost.hvx_us(hw, rate, elements, threads) * hw.core_mhz)


V75, V79, V81 = "hexagon-v75", "hexagon-v79", "hexagon-v81"
MOE = "nntrainer mixture-of-experts notes, v79"

COVERED = (
    Stage("int8 product, M 64", NNTRAINER, V79, product(64), 40, "us"),
    Stage("int8 product, M 1024", NNTRAINER, V79, product(1024), 619, "us", used_to_fit=True),
    Stage("int8 read-out, M 64", NNTRAINER, V79, read_out(64), 26, "us", spread=0.16),
    Stage("int8 read-out, M 1024", NNTRAINER, V79, read_out(1024), 380, "us", used_to_fit=True),
    Stage("HMX lane, i4, M 1", NNTRAINER, V79, int8_lane(1), 60, "us"),
    Stage("HMX lane, i4, M 64", NNTRAINER, V79, int8_lane(64), 66, "us"),
    Stage("HMX lane, i8, M 1024", NNTRAINER, V79, int8_lane(1024), 1040, "us"),
    Stage("HMX lane, six of i4, M 1024", NNTRAINER, V79, int8_lane(1024, 6), 5888, "us"),
    Stage("quantize, M 64", NNTRAINER, V79, vector("quantize_u8", 64 * 1024), 22, "us", used_to_fit=True),
    Stage("dequantize, M 64", NNTRAINER, V79, vector("dequantize_i32", 64 * 2048), 33, "us", used_to_fit=True),
    Stage("dequantize, M 1024", NNTRAINER, V79, vector("dequantize_i32", 1024 * 2048), 558, "us"),
    Stage("SwiGLU 64 x 1792, one thread", MOE, V79, vector("swiglu", 64 * 1792, 1), 56.6, "us", used_to_fit=True),
    Stage(
        "fp16 1024^3 in scratchpad",
        TEST_TIME,
        V75,
        lambda hw: float(cost.hmx_matmul_us(hw, 1024, 1024, 1024)),
        178.5,
        "us",
        used_to_fit=True,
    ),
    Stage("DMA, one thread", TMAN, V75, queue_gb_s(1 << 20), 59, "GB/s", used_to_fit=True),
    Stage("DMA, four threads", TMAN, V75, lambda hw: cost.channel_mb_s(hw)["dma"] / 1000, 59, "GB/s", used_to_fit=True),
    Stage("vector loads, one thread", TMAN, V75, l2_gb_s(1, prefetched=False), 5, "GB/s", used_to_fit=True),
    Stage("vector loads, four threads", TMAN, V75, l2_gb_s(4, prefetched=False), 20, "GB/s"),
    Stage("l2fetch, four threads", TMAN, V75, l2_gb_s(4, prefetched=True), 32, "GB/s", used_to_fit=True),
    Stage("2-D DMA, rows of 64 B", ATTENTION, V79, queue_gb_s(64), 8, "GB/s", spread=0.13),
    Stage("2-D DMA, rows of 2 KiB", ATTENTION, V79, queue_gb_s(2048), 42, "GB/s", used_to_fit=True),
    Stage("2-D DMA, rows of 64 KiB", ATTENTION, V79, queue_gb_s(65536), 55, "GB/s", used_to_fit=True),
    Stage(
        "W-DEQUANT of thread 0",
        PR,
        V81,
        per_thread_cycles("hvx_dequantize_q4_0", 2048 * 6144, 8),
        240_740,
        "cycles",
        used_to_fit=True,
        mhz=PR_MHZ,
    ),
    Stage(
        "A-PREP of thread 0",
        PR,
        V81,
        per_thread_cycles("hvx_activation_prepare", 742 * 2048, 8),
        52_128,
        "cycles",
        used_to_fit=True,
        mhz=PR_MHZ,
    ),
    Stage(
        "O-PROC, 18.2 MB through L2",
        PR,
        V81,
        lambda hw: float(cost.l2_write_us(hw, 742 * 6144 * 4)),
        398,
        "us",
        used_to_fit=True,
        mhz=PR_MHZ,
    ),
)

MATMULS = (
    ("attn_q q4_0 2048 x 2048, 35 rows", (35, 2048, 2048), 110.0, None, False),
    # The two roles have one shape: 55.2 and 41.8 us, 14 % from their middle.
    ("attn_k and attn_v q4_0 2048 x 512, 35 rows", (35, 2048, 512), 48.5, 0.14, False),
    ("ffn_up and ffn_gate q4_0 2048 x 8192, 35 rows", (35, 2048, 8192), 339.0, None, True),
)
"""Whole operators: name, (m, k, n), microseconds, spread, whether a number of the file was fitted to it."""

LEFT_OUT = (
    ("int8 layer: DMA drain 35 and 39 us (i4), 74 us (i8)", "the length of its rows is not published"),
    ("int8 layer: quantize 633 us at M 1024", "memory binds there, and its share is not published; end of the range"),
    ("int8 layer: whole calls and walls", "they hold the drain and the RPC"),
    ("mixture of experts, LFM2.5: all stages but SwiGLU", "rows per expert are only known on average (about 55)"),
    ("attention on v81, fp16 and int8", "stages are sums over threads; what ran beside what is not published"),
    ("V8: GPU and NPU share 61.9 GB/s", "machine files hold no GPU"),
    ("V9, V10: best and realistic overlap", "ceilings, no times of a run"),
    ("V11: 5 % by double buffering", "which kernel it was is not published"),
    ("chunks of ggml-hexagon's solver", "bytes, not times; tests hold them"),
    ("vector operators of the LFM2 profile", "averages over shapes of prefill and decode that are not published apart"),
    ("practice.md 2: other shapes", "arithmetic of that file, not measured"),
)
"""What is published in the same places and not predicted, and why."""
