"""The kernel library: each kernel as tiles of work for engines, with the loop people run today.

The kernels are loaded when one of them is asked for: who reads or checks a schedule needs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hexloom.optimizer.kernels.library import (
        KERNELS,
        Add,
        Attention,
        Copy,
        Explicit,
        Gemv,
        MatmulId,
        MatmulW4A8,
        MatmulW4A16,
        RmsNorm,
        Softmax,
        SwiGlu,
    )

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


def __getattr__(name: str) -> Any:
    """Load the library when a kernel is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module("hexloom.optimizer.kernels.library"), name)
    return value
