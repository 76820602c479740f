"""What can be written in an ``explicit`` task: ops, buffers and loops around them; the engines it may use."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from hexloom.formulations.mode import Text
from hexloom.formulations.problem import MAX_PIECES, MAX_UNITS
from hexloom.optimizer.kernels.regions import RegionSpec
from hexloom.optimizer.kernels.spec import Bytes, ClassName, Count, Microseconds, Name, Rate, Spec


class UserEngine(Spec):
    """An engine beside the machine's: a hardware thread of its own (``worker``), or counted units (``resource``).

    A ``fifo`` does what HVX workers push in the order of the pushes, and holds ``depth`` ops that are pushed and not
    yet taken off by who pushed them; ``push_us`` and ``pop_us`` of its worker's time go into either.
    """

    name: Name
    units: Annotated[int, Field(ge=1, le=MAX_UNITS, strict=True)] = 1
    kind: Literal["worker", "resource", "fifo"] = "resource"
    depth: Annotated[int, Field(ge=1, le=MAX_UNITS, strict=True)] | None = None
    push_us: Microseconds = Fraction(0)
    pop_us: Microseconds = Fraction(0)

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> Self:
        if self.kind == "fifo":
            if self.depth is None:
                raise ValueError(f"engine {self.name!r} is a fifo: say its depth, the ops that fit into it")
        elif self.depth is not None or self.push_us or self.pop_us:
            raise ValueError(f"engine {self.name!r}: depth, push_us and pop_us are for kind 'fifo', not {self.kind!r}")
        return self


class ModeSpec(Spec):
    """Another way to run an op; keys as in the op itself."""

    engine: Name
    units: Count | Literal["all"] = 1
    duration_us: Microseconds
    latency_us: Microseconds | None = None


class OpSpec(Spec):
    """One op.

    Its time is ``duration_us``, or comes from the machine: ``transfer_bytes`` in ``rows`` rows, ``stride_bytes`` apart
    where there are gaps, for DMA, ``macs`` for HMX (fp16), ``work`` in units of its ``class`` where the machine file
    knows that class. ``owner`` is the HVX worker whose queue a DMA op uses;
    without it the op is taken by worker 0. An op on an engine of kind ``fifo`` is pushed, and later taken off, by its
    owner too. ``also`` are further engines held for the same time. ``latency_us``: when the result can be used, if
    later.

    What it shares with others while it works: ``channels`` are rates (``ddr: 20GB/s``), ``bytes`` what it moves in all
    (``ddr: 4MiB``); the ``transfer_bytes`` of DMA load ``ddr`` by themselves. ``class`` is its name in `interference`.
    ``pieces``: equal parts of its work that can be told apart (descriptors); where it pays the op is cut between two.

    ``reads`` and ``writes`` are the bytes it touches in DDR: by them hazards are found. ``in_place`` are those of its
    ``buffers`` that it overwrites: it waits for all others that use them, but those that come after it anyway.
    ``may_overwrite`` (``{out: in}``, both in its ``buffers``): out may take the address of in, where it pays, if this
    op is then the last that uses in and the first that uses out.

    ``frees`` (``{raw: 256KiB}``) are bytes of its ``buffers`` that nobody needs once this op, and those before it in
    the file that free bytes of the same buffer, have ended: from the low end up, the next where the last ones end. Who
    uses the buffer and frees nothing of it holds all of it.
    """

    name: Name
    stage: Text | None = None
    engine: Name | None = None
    units: Count | Literal["all"] = 1
    duration_us: Microseconds | None = None
    latency_us: Microseconds | None = None
    macs: Annotated[int, Field(ge=1, le=10**15, strict=True)] | None = None
    work: Annotated[int, Field(ge=1, le=10**15, strict=True)] | None = Field(
        default=None, exclude_if=lambda work: work is None
    )
    transfer_bytes: Bytes | None = None
    rows: Count = 1
    stride_bytes: Bytes | None = None
    direction: Literal["read", "write"] = "read"
    owner: int = Field(default=0, ge=0)
    also: dict[Name, Count] = Field(default_factory=dict)
    channels: dict[Name, Rate] = Field(default_factory=dict)
    bytes: dict[Name, Bytes] = Field(default_factory=dict)
    class_: ClassName = Field(default="", alias="class")
    alternatives: tuple[ModeSpec, ...] = ()
    after: tuple[Name, ...] = ()
    buffers: tuple[Name, ...] = ()
    in_place: tuple[Name, ...] = ()
    # Left out where it says nothing, so that digests stay what they were.
    may_overwrite: dict[Name, Name] = Field(default_factory=dict, exclude_if=lambda over: not over)
    frees: dict[Name, Annotated[Bytes, Field(ge=1)]] = Field(default_factory=dict, exclude_if=lambda freed: not freed)
    reads: tuple[RegionSpec, ...] = ()
    writes: tuple[RegionSpec, ...] = ()
    scratch_bytes: Bytes = 0
    deadline_us: Microseconds | None = None
    pieces: Annotated[int, Field(ge=1, le=MAX_PIECES, strict=True)] = 1


class BufferSpec(Spec):
    """One scratchpad buffer; ``align_bytes`` defaults to the machine's.

    It is alive from its first op to its last. ``resident: from_start`` is there before the plan begins (filled by
    whoever ran before), ``to_end`` stays after it, ``true`` holds its address throughout. In a ``pool`` of the
    workload addresses are the pool's, and ``align_bytes`` defaults to 1.
    """

    name: Name
    size_bytes: Bytes
    align_bytes: Annotated[Bytes, Field(ge=1)] | None = None
    granule_bytes: Annotated[Bytes, Field(ge=1)] = 1
    address: Bytes | None = None
    resident: bool | Literal["from_start", "to_end"] = False
    pool: Name | None = Field(default=None, exclude_if=lambda name: name is None)


def _item(data: Any) -> str:
    if isinstance(data, dict):
        return "loop" if not {"for", "for_", "count", "ops"}.isdisjoint(data) else "op"
    return "loop" if isinstance(data, Loop) else "op"


class Loop(Spec):
    """``count`` repetitions of ``ops`` and ``buffers`` with the index named by ``for``: 0, 1, 2, …"""

    for_: str = Field(alias="for", pattern=r"^[a-z]\w*$")
    count: Count
    ops: tuple[Item, ...] = Field(min_length=1)
    buffers: tuple[BufferSpec, ...] = ()


Item = Annotated[Annotated[OpSpec, Tag("op")] | Annotated[Loop, Tag("loop")], Discriminator(_item)]
"""An op, or a loop: what has a key of a loop is one, so that a wrong key in it is named once."""
