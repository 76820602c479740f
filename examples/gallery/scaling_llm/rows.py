"""What the matrix unit of v75 takes for a few rows, by the machine file."""

from __future__ import annotations

from hexloom import load_hw
from hexloom.hwmodels.cost import hmx_matmul_us


def measure() -> dict[str, float]:
    """Return GFLOPS of 1024 cubed, and the time of 32 rows over that of one."""
    machine = load_hw("hexagon-v75")
    cube_us = hmx_matmul_us(machine, 1024, 1024, 1024)
    few = {m: float(hmx_matmul_us(machine, m, 1024, 1024)) for m in (1, 32, 64)}
    return {"gflops": float(2 * 1024**3 / cube_us / 1000), "few_rows": few[32] / few[1], "more_rows": few[64] / few[1]}
