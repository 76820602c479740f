"""What an op of a task says about the bytes it reads and writes in DDR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, ValidationError

from hexloom.formulations.problem import Region
from hexloom.formulations.region import MAX_END_BYTES, MAX_ROWS
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import Bytes, Name, Spec, explain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class RegionSpec(Spec):
    """``bytes`` bytes from ``offset`` of a tensor on, or ``rows`` rows of so many, every ``stride`` bytes.

    In a loop ``step`` says by how much the offset grows with an index: ``step: {i: 4096}``. ``path`` is ``bypass`` for
    DMA and ``cached`` for all else, unless it is given.
    """

    tensor: Name
    offset: Bytes = 0
    bytes: Annotated[Bytes, Field(ge=1)]
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS, strict=True)] = 1
    stride: Bytes | None = None
    path: Literal["cached", "bypass"] | None = None
    step: dict[str, Bytes] = Field(default_factory=dict)


def block_of(
    tensor: str | None,
    kind: Literal["read", "write"],
    offset: int,
    row_bytes: int,
    rows: int = 1,
    stride: int = 0,
    *,
    bypass: bool,
) -> tuple[Region, ...]:
    """Return what a kernel touches of ``tensor``; nothing where the user does not say which tensor it is."""
    if tensor is None:
        return ()
    if stride == row_bytes:
        row_bytes, rows, stride = row_bytes * rows, 1, 0
    one = Region(
        tensor=tensor,
        kind=kind,
        bypass=bypass,
        offset_bytes=offset,
        row_bytes=row_bytes,
        rows=rows,
        stride_bytes=stride if rows > 1 else 0,
    )
    return (one,)


def regions_of(
    where: str,
    reads: Iterable[RegionSpec],
    writes: Iterable[RegionSpec],
    index: Mapping[str, int],
    name_of: Callable[[str], str],
    bypass: bool,
) -> tuple[Region, ...]:
    """Return the regions of one op; ``index`` are the loops around it, ``name_of`` puts them into names.

    Raises
    ------
    InvalidInputError
        A step names no loop, rows overlap, or a key would have no effect.
    """
    both: tuple[tuple[Literal["read", "write"], Iterable[RegionSpec]], ...] = (("read", reads), ("write", writes))
    return tuple(_region(where, kind, spec, index, name_of, bypass) for kind, specs in both for spec in specs)


def _region(
    where: str,
    kind: Literal["read", "write"],
    spec: RegionSpec,
    index: Mapping[str, int],
    name_of: Callable[[str], str],
    bypass: bool,
) -> Region:
    for name in spec.step:
        if name not in index:
            raise InvalidInputError(
                f"{where}: the step of {spec.tensor!r} names index {name!r}, but no loop around it has that name"
            )
    if (spec.rows > 1) != (spec.stride is not None):
        missing = "rows need a stride" if spec.stride is None else "one row has no stride"
        raise InvalidInputError(f"{where}: region of {spec.tensor!r}: {missing}; give both rows and stride, or neither")
    begin = spec.offset + sum(step * index[name] for name, step in spec.step.items())
    end = begin + (spec.rows - 1) * (spec.stride or 0) + spec.bytes
    if begin < 0 or end > MAX_END_BYTES:
        raise InvalidInputError(
            f"{where}: region of {spec.tensor!r} is [{begin}, {end}) B, outside of [0, {MAX_END_BYTES}); write a "
            "smaller offset, step, stride or number of bytes"
        )
    try:
        return Region(
            tensor=name_of(spec.tensor),
            kind=kind,
            bypass=bypass if spec.path is None else spec.path == "bypass",
            offset_bytes=begin,
            row_bytes=spec.bytes,
            rows=spec.rows,
            stride_bytes=spec.stride or 0,
        )
    except ValidationError as error:
        raise InvalidInputError(f"{where}: {explain(error)}") from None
