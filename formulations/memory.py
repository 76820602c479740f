"""What a problem says of the scratchpad: its bytes, and the buffers that must find addresses there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import Field

from hexloom.formulations.mode import Frozen, Name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hexloom.formulations.problem import Op


class Buffer(Frozen):
    """Bytes in the scratchpad, alive from the start of the first op in ``ops`` to the end of the last.

    A DMA op uses its buffers from issue until its end is observed. ``resident`` buffers live for longer: for the whole
    schedule, ``from_start`` before the entry on until the end of their last op, ``to_end`` from the start of their
    first op on. ``address`` pins a buffer. The size is rounded up to ``granule_bytes``. With ``pool`` it lies in the
    pool of that name instead, and so does its address.

    ``overwrites`` names a buffer at whose address this one may lie although one op uses both: the op reads that one as
    its last user, and writes this one as its first.

    Buffers that are ``part_of`` the same range lie one right behind the other in their order, each with a life of its
    own: what nobody reads any more of a range that drains can be used again while the rest is still alive.

    What is ``held`` is somebody else's: its ops say from when and until when, and do not touch it.
    """

    name: Name
    size_bytes: int = Field(ge=0)
    ops: tuple[str, ...] = ()
    align_bytes: int = Field(default=1, ge=1)
    granule_bytes: int = Field(default=1, ge=1)
    address: int | None = Field(default=None, ge=0)
    resident: bool | Literal["from_start", "to_end"] = False
    # Left out of files where they say nothing, so that these stay what they were.
    overwrites: str | None = Field(default=None, exclude_if=lambda name: name is None)
    pool: str | None = Field(default=None, min_length=1, exclude_if=lambda name: name is None)
    part_of: Name | None = Field(default=None, exclude_if=lambda name: name is None)
    held: bool = Field(default=False, exclude_if=lambda held: not held)

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


class Takeover(NamedTuple):
    """Buffer ``new`` may take the address of buffer ``old`` while op ``op`` uses both; all by their positions."""

    new: int
    old: int
    op: int


def takeovers_of(buffers: Sequence[Buffer], op_index: Mapping[str, int]) -> tuple[Takeover, ...]:
    """Return who may take over whose bytes.

    Raises
    ------
    ValueError
        There is no such buffer, it is smaller, lives on, shares more or fewer than one op with the other, or is itself
        written over another by that op.
    """
    place = {buffer.name: b for b, buffer in enumerate(buffers)}
    found = []
    for b, buffer in enumerate(buffers):
        if buffer.overwrites is None:
            continue
        what = f"buffer {buffer.name!r} overwrites {buffer.overwrites!r}"
        if buffer.overwrites not in place or place[buffer.overwrites] == b:
            raise ValueError(f"{what}, which is no other buffer")
        old = buffers[place[buffer.overwrites]]
        if old.part_of or buffer.part_of:
            raise ValueError(f"{what}, but one of them is part of a range with parts around it; drop it")
        if old.pool != buffer.pool:
            raise ValueError(f"{what}, but they lie in different pools; give both the same one")
        common = set(buffer.ops).intersection(old.ops)
        if len(common) != 1:
            raise ValueError(f"{what}, but {len(common)} ops use both; one must, which reads that and writes this")
        if old.overwrites == buffer.name:
            raise ValueError(f"{what}, and that one this; drop one")
        if buffer.occupied_bytes > old.occupied_bytes:
            raise ValueError(
                f"{what}, but takes {buffer.occupied_bytes} B of its {old.occupied_bytes}; make it smaller"
            )
        if old.to_end or buffer.from_start:
            raise ValueError(f"{what}, but these are alive together at the start or at the end; drop it")
        found.append(Takeover(b, place[old.name], op_index[common.pop()]))
    turns = {(one.new, one.op) for one in found}
    for one in found:
        if (one.old, one.op) in turns:
            what = f"buffer {buffers[one.new].name!r} overwrites {buffers[one.old].name!r}"
            raise ValueError(f"{what}, which the same op writes over another; drop one")
    return tuple(found)


def still_overwriting(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """Return ``buffers`` of a changed problem: none may overwrite what is gone, smaller, or has other users by now."""
    known = {buffer.name: buffer for buffer in buffers}
    found = []
    for buffer in known.values():
        old = known.get(buffer.overwrites or "")
        lost = (
            old is None or len(set(old.ops).intersection(buffer.ops)) != 1 or buffer.occupied_bytes > old.occupied_bytes
        )
        found.append(buffer.model_copy(update={"overwrites": None}) if buffer.overwrites and lost else buffer)
    return tuple(found)


class Scratchpad(Frozen):
    """Addresses ``[0, total_bytes - reserved_bytes)`` are available."""

    total_bytes: int = Field(default=0, ge=0)
    reserved_bytes: int = Field(default=0, ge=0)

    @property
    def available_bytes(self) -> int:
        """What the plan may use."""
        return max(0, self.total_bytes - self.reserved_bytes)

    @property
    def label(self) -> str:
        """Its name for people."""
        return "scratchpad"


class Pool(Scratchpad):
    """A memory beside the scratchpad with addresses of its own from 0 on: a locked part of a cache, another level.

    Where it is ``dma_only``, as DDR above the mapped window, only transfers use what lies there.
    """

    name: Name
    dma_only: bool = Field(default=False, exclude_if=lambda only: not only)

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"pool {self.name!r}"


def check_buffer(buffer: Buffer, ops: Mapping[str, Op], pools: Iterable[Pool]) -> None:
    """Raise ValueError where ``buffer`` names what does not exist, lives without an edge, or is pinned crookedly.

    Also where an op uses it directly that lies where only DMA reaches.
    """
    for name in buffer.ops:
        if name not in ops:
            raise ValueError(f"buffer {buffer.name!r}: there is no op {name!r}")
    if buffer.pool is not None and all(pool.name != buffer.pool for pool in pools):
        raise ValueError(f"buffer {buffer.name!r}: there is no pool {buffer.pool!r}")
    far = next((pool for pool in pools if pool.name == buffer.pool and pool.dma_only), None)
    for name in buffer.ops if far is not None and not buffer.held else ():
        direct = next((mode for mode in ops[name].modes if mode.dma is None), None)
        if far is not None and direct is not None:
            engines = ", ".join(dict.fromkeys(use.engine for use in direct.uses)) or "no engine"
            raise ValueError(
                f"op {name!r} on {engines} touches buffer {buffer.name!r} directly, but {far.label} [0, "
                f"{far.total_bytes}) B is a DMA-only window: bring it into the scratchpad by an op on dma, and let "
                "this op use the copy"
            )
    if buffer.resident and not buffer.always and not buffer.ops:
        ends = "ends" if buffer.from_start else "begins"
        raise ValueError(
            f"buffer {buffer.name!r} is resident {buffer.resident}, but no op uses it: nothing says when its "
            f"life {ends}; name an op, or say resident: true"
        )
    if buffer.address is not None and buffer.address % buffer.align_bytes:
        raise ValueError(
            f"buffer {(buffer.part_of or buffer.name)!r} is pinned at {buffer.address}, not a multiple of its "
            f"alignment {buffer.align_bytes}"
        )
