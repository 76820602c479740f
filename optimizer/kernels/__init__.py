"""The kernel library: each kernel as tiles of work for engines, with the loop people run today."""

from __future__ import annotations

from hexloom.optimizer.kernels.explicit import Explicit
from hexloom.optimizer.kernels.gemv import Gemv
from hexloom.optimizer.kernels.matmul_w4a16 import MatmulW4A16
from hexloom.optimizer.kernels.rows import Add, Copy, RmsNorm, RowKernel, Softmax, SwiGlu

KERNELS: dict[str, type[MatmulW4A16] | type[RowKernel] | type[Gemv]] = {
    "matmul_w4a16": MatmulW4A16,
    "rmsnorm": RmsNorm,
    "copy": Copy,
    "softmax": Softmax,
    "swiglu": SwiGlu,
    "add": Add,
    "gemv": Gemv,
}

__all__ = ["KERNELS", "Add", "Copy", "Explicit", "Gemv", "MatmulW4A16", "RmsNorm", "Softmax", "SwiGlu"]
