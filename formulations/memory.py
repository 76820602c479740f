"""What a problem says of the scratchpad: its bytes, and the buffers that must find addresses there."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hexloom.formulations.mode import Frozen


class Buffer(Frozen):
    """Bytes in the scratchpad, alive from the start of the first op in ``ops`` to the end of the last.

    A DMA op uses its buffers from issue until its end is observed. ``resident`` buffers live for longer: for the whole
    schedule, ``from_start`` before the entry on until the end of their last op, ``to_end`` from the start of their
    first op on. ``address`` pins a buffer. The size is rounded up to ``granule_bytes``.
    """

    name: str = Field(min_length=1)
    size_bytes: int = Field(ge=0)
    ops: tuple[str, ...] = ()
    align_bytes: int = Field(default=1, ge=1)
    granule_bytes: int = Field(default=1, ge=1)
    address: int | None = Field(default=None, ge=0)
    resident: bool | Literal["from_start", "to_end"] = False

    @property
    def occupied_bytes(self) -> int:
        """Size after rounding to the granule."""
        return -(-self.size_bytes // self.granule_bytes) * self.granule_bytes

    @property
    def always(self) -> bool:
        """Whether it lives for the whole schedule."""
        return self.resident is True

    @property
    def from_start(self) -> bool:
        """Whether it is alive before the first op starts."""
        return self.resident in (True, "from_start")

    @property
    def to_end(self) -> bool:
        """Whether it is alive after the last op has ended."""
        return self.resident in (True, "to_end")


class Scratchpad(Frozen):
    """Addresses ``[0, total_bytes - reserved_bytes)`` are available."""

    total_bytes: int = Field(default=0, ge=0)
    reserved_bytes: int = Field(default=0, ge=0)

    @property
    def available_bytes(self) -> int:
        """What the plan may use."""
        return max(0, self.total_bytes - self.reserved_bytes)
