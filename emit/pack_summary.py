"""What `pack` found, as one line for people and as numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.hwmodels import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Buffer
    from hexloom.optimizer.pack import PackResult


def pack_summary(result: PackResult, buffers: int) -> str:
    """Return one line: packed and how high, or who needs what, or what the limit was spent on."""
    if result.infeasibility is not None:
        return f"INFEASIBLE: {result.infeasibility.message}"
    bound = format_bytes(result.lower_bound_bytes)
    if result.height_bytes is None or result.gap is None:
        return f"LIMIT: no packing of {buffers} buffers found, none excluded (lower bound {bound}); give more time"
    ends = format_bytes(result.height_bytes)
    if result.capacity_bytes is None:
        text = f"least capacity found {ends}, lower bound {bound}, gap {float(result.gap):.2%}"
    else:
        text = f"up to {ends} of {format_bytes(result.capacity_bytes)}, lower bound {bound}"
    return f"PACKED, checked: {buffers} buffers, {text}; {result.found_by}, {result.wall_s:.2f} s"


def pack_numbers(result: PackResult, buffers: Sequence[Buffer]) -> dict[str, Any]:
    """Return the numbers of ``result``; sizes and offsets are in bytes, ``moment`` and lives in the file's time."""
    offsets = result.offsets
    return {
        "status": result.status,
        "buffers": len(buffers),
        "capacity_bytes": result.capacity_bytes,
        "height_bytes": result.height_bytes,
        "lower_bound_bytes": result.lower_bound_bytes,
        "gap": None if result.gap is None else float(result.gap),
        "found_by": result.found_by,
        "wall_s": round(result.wall_s, 3),
        "offsets": None if offsets is None else {b.name: at for b, at in zip(buffers, offsets, strict=True)},
        "infeasibility": None if result.infeasibility is None else result.infeasibility.model_dump(mode="json"),
    }
