"""What ops touch in memory: strided byte ranges of named tensors, through the cache or past it. Data only."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from hexloom.formulations.mode import Frozen, Name

MAX_END_BYTES = 2**53 - 1
"""Largest end of a region, for readers that use doubles."""

MAX_ROWS = 1_000_000
"""Most rows of a region: of rows that do not repeat in step each is looked at."""


class Region(Frozen):
    """``rows`` rows of ``row_bytes`` bytes, every ``stride_bytes`` bytes from ``offset_bytes`` of ``tensor`` on.

    ``bypass`` says that the access goes past the cache, as DMA does. ``clean`` (dirty lines are written back) and
    ``invalidate`` (lines are written back where dirty, and dropped) are maintenance of the cache, not accesses.
    """

    tensor: Name
    kind: Literal["read", "write", "clean", "invalidate"]
    bypass: bool = False
    offset_bytes: int = Field(default=0, ge=0, le=MAX_END_BYTES)
    row_bytes: int = Field(ge=1, le=MAX_END_BYTES)
    rows: int = Field(default=1, ge=1, le=MAX_ROWS)
    stride_bytes: int = Field(default=0, ge=0, le=MAX_END_BYTES)

    @model_validator(mode="after")
    def _rows_apart(self) -> Self:
        if self.rows > 1 and self.stride_bytes < self.row_bytes:
            raise ValueError(
                f"region of {self.tensor!r}: stride {self.stride_bytes} is below the {self.row_bytes} bytes of a row; "
                "rows must not overlap"
            )
        if self.end_bytes > MAX_END_BYTES:
            raise ValueError(f"region of {self.tensor!r} ends at {self.end_bytes}, above {MAX_END_BYTES} bytes")
        return self

    @property
    def end_bytes(self) -> int:
        """First byte behind the last row."""
        return self.offset_bytes + (self.rows - 1) * self.stride_bytes + self.row_bytes

    def __str__(self) -> str:
        strided = f" in {self.rows} rows" if self.rows > 1 else ""
        return f"{self.tensor!r} [{self.offset_bytes}, {self.end_bytes}){strided}"


class Access(Frozen):
    """The regions of one op; of an op that was cut, those that its parts ``ops`` touch together."""

    ops: tuple[str, ...] = Field(min_length=1)
    regions: tuple[Region, ...] = Field(min_length=1)
