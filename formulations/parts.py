"""Ranges of addresses in parts: one fixed distance between them, a life and users for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.memory import still_overwriting

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hexloom.formulations.memory import Buffer


class Whole(NamedTuple):
    """A range and the buffers that are parts of it, by their positions, with their distances from its begin.

    A buffer that is no part is a whole of its own.
    """

    name: str
    parts: tuple[int, ...]
    shifts: tuple[int, ...]
    size: int

    @property
    def head(self) -> int:
        """The part at its begin, which says the alignment and the pin."""
        return self.parts[0]

    def placed(self, part: int, at: int) -> dict[int, int]:
        """Return the addresses of all parts when ``part`` lies at ``at``."""
        base = at - self.shifts[self.parts.index(part)]
        return {b: base + shift for b, shift in zip(self.parts, self.shifts, strict=True)}


def wholes_of(buffers: Sequence[Buffer]) -> dict[int, Whole]:
    """Return the range of every buffer that is part of one.

    Raises
    ------
    ValueError
        The range is called like a buffer, nobody uses it, or its parts lie in different pools, live differently, or
        ask for addresses of their own.
    """
    members: dict[str, list[int]] = {}
    for b, buffer in enumerate(buffers):
        if buffer.part_of is not None:
            members.setdefault(buffer.part_of, []).append(b)
    if not members:
        return {}
    for buffer in buffers:
        if buffer.name in members:
            raise ValueError(f"buffer {buffer.name!r} is called like a range in parts; rename one")
    found: dict[int, Whole] = {}
    for name, parts in members.items():
        _check(name, [buffers[b] for b in parts])
        shifts, size = [], 0
        for b in parts:
            shifts.append(size)
            size += buffers[b].occupied_bytes
        whole = Whole(name, tuple(parts), tuple(shifts), size)
        found.update(dict.fromkeys(parts, whole))
    return found


def _check(name: str, parts: Sequence[Buffer]) -> None:
    if len({part.pool for part in parts}) > 1:
        raise ValueError(f"the parts of {name!r} lie in different pools; give all the same one")
    lives = {part.resident for part in parts if part.ops or part.always}
    if not lives:
        raise ValueError(f"no op uses any part of {name!r}; drop it, or say resident: true")
    if len(lives) > 1:
        raise ValueError(f"the parts of {name!r} are resident in different ways; say the same of all")
    for part in parts[1:]:
        if part.address is not None or part.align_bytes > 1:
            what = f"pinned at {part.address}" if part.address is not None else f"aligned to {part.align_bytes} B"
            raise ValueError(
                f"buffer {part.name!r} is {what}, but lies where the part of {name!r} before it ends; say it of "
                f"{parts[0].name!r}"
            )


def as_one(buffers: Sequence[Buffer]) -> tuple[tuple[Buffer, tuple[int, ...]], ...]:
    """Return ``buffers`` with ranges in place of their parts, each with the positions of what it stands for."""
    wholes = wholes_of(buffers)
    found: list[tuple[Buffer, tuple[int, ...]]] = []
    for b, buffer in enumerate(buffers):
        whole = wholes.get(b)
        if whole is None:
            found.append((buffer, (b,)))
        elif b == whole.head:
            parts = [buffers[part] for part in whole.parts]
            last = parts[-1]
            changes = {
                "name": whole.name,
                "size_bytes": whole.size - last.occupied_bytes + last.size_bytes,
                "granule_bytes": last.granule_bytes if whole.size % last.granule_bytes == 0 else 1,
                "ops": tuple(dict.fromkeys(op for part in parts for op in part.ops)),
                "resident": next(part.resident for part in parts if part.ops or part.always),
                "part_of": None,
            }
            found.append((buffer.model_copy(update=changes), whole.parts))
    return tuple(found)


def kept_for(buffers: Sequence[Buffer], keep: Collection[str]) -> tuple[Buffer, ...]:
    """Return the buffers that the ops ``keep`` use, or that are always resident, with these users alone.

    Of a range no part is left out, for the others lie behind it; that nobody uses it is enough.
    """
    found, ranges = [], set()
    for buffer in buffers:
        users = tuple(op for op in buffer.ops if op in keep)
        changes: dict[str, object] = {"ops": users}
        if buffer.part_of is not None and not users and not buffer.always:
            changes["resident"] = False
        elif users or buffer.always:
            ranges.add(buffer.part_of)
        found.append(buffer.model_copy(update=changes))
    return still_overwriting(b for b in found if b.ops or b.always or (b.part_of is not None and b.part_of in ranges))
