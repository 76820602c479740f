"""All kernels by their names in workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.optimizer.kernels.attention import Attention
from hexloom.optimizer.kernels.explicit import Explicit
from hexloom.optimizer.kernels.gemv import Gemv
from hexloom.optimizer.kernels.matmul_id import MatmulId
from hexloom.optimizer.kernels.matmul_w4a8 import MatmulW4A8
from hexloom.optimizer.kernels.matmul_w4a16 import MatmulW4A16
from hexloom.optimizer.kernels.rows import Add, Copy, RmsNorm, Softmax, SwiGlu

if TYPE_CHECKING:
    from hexloom.optimizer.kernels.spec import KernelSpec

KERNELS: dict[str, type[KernelSpec]] = {
    "matmul_w4a16": MatmulW4A16,
    "rmsnorm": RmsNorm,
    "copy": Copy,
    "softmax": Softmax,
    "swiglu": SwiGlu,
    "add": Add,
    "gemv": Gemv,
    "matmul_id": MatmulId,
    "matmul_w4a8": MatmulW4A8,
    "attention": Attention,
}

__all__ = [
    "KERNELS",
    "Add",
    "Attention",
    "Copy",
    "Explicit",
    "Gemv",
    "MatmulId",
    "MatmulW4A8",
    "MatmulW4A16",
    "RmsNorm",
    "Softmax",
    "SwiGlu",
]
