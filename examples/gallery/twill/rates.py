"""What the machine file of an H100's SM says about the tile of FlashAttention-3."""

from __future__ import annotations

from hexloom import load_hw
from hexloom.hwmodels.cost import hmx_matmul_us, hvx_us

SMS = 132


def measure() -> dict[str, float]:
    """Return the time of exponentials over that of the two products of a 128 x 128 x 128 tile, and the peak rate."""
    machine = load_hw("h100-sm")
    products_us = 2 * hmx_matmul_us(machine, 128, 128, 128)
    exp_us = hvx_us(machine, "hvx_softmax", 128 * 128, machine.hvx_contexts)
    flops = 4 * 128**3
    return {
        "exp_share": float(exp_us / products_us),
        "peak_tflops": float(SMS * flops / products_us / 10**6),
        "cycles": float(products_us * machine.hmx_mhz),
    }
