"""What is packed: bytes over a lifetime, in integers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Buffer

Lifetime = tuple[int, int]
"""Half-open interval in any strictly ordered measure: ticks or event ranks."""


class Block(NamedTuple):
    """A buffer alive in ``[born, died)`` that takes ``size`` bytes at a multiple of ``align``; at ``pin`` if given."""

    born: int
    died: int
    size: int
    align: int = 1
    pin: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it takes nothing: no bytes, or no time."""
        return self.size == 0 or self.died <= self.born


def blocks_of(buffers: Sequence[Buffer], lifetimes: Sequence[Lifetime]) -> list[Block]:
    """Return a block per buffer, of the bytes that it occupies."""
    return [
        Block(born, died, buffer.occupied_bytes, buffer.align_bytes, buffer.address)
        for buffer, (born, died) in zip(buffers, lifetimes, strict=True)
    ]


def peak(blocks: Sequence[Block]) -> tuple[int, int]:
    """Return the most bytes alive at once, and the first moment at which they are; half-open, so ends come first."""
    changes = [(block.born, block.size) for block in blocks if not block.is_empty]
    changes += [(block.died, -block.size) for block in blocks if not block.is_empty]
    used = most = moment = 0
    for at, size in sorted(changes):
        used += size
        if used > most:
            most, moment = used, at
    return most, moment
