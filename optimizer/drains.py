"""Buffers that free their bytes as they drain: the parts of each, and who uses which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Buffer
    from hexloom.optimizer.draft import BufferDraft, TaskDraft


MOST_STEPS = 64
"""Ops that free bytes of one buffer: waits grow with the square of them."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes ``[low, high)`` of a buffer and the ops that use them."""

    low: int
    high: int
    users: tuple[str, ...]


def parts_of(task: str, draft: TaskDraft) -> dict[str, tuple[Part, ...]]:
    """Return the parts of every buffer that drains, lowest first.

    A part is used by all users of the buffer but those that free bytes of it after the part is free. Whole granules
    are freed, so a part ends where one does.

    Raises
    ------
    InvalidInputError
        More is freed than there is, or the buffer cannot be free before its end.
    """
    buffers = {buffer.name: buffer for buffer in draft.buffers}
    users: dict[str, list[str]] = {name: [] for name in buffers}
    freed: dict[str, list[tuple[str, int]]] = {}
    overwritten = {name for op in draft.ops for pair in op.may_overwrite for name in pair}
    for op in draft.ops:
        for name in dict.fromkeys(op.buffers):
            users[name].append(op.name)
        for name, count in op.frees:
            freed.setdefault(name, []).append((op.name, count))
    for name, steps in freed.items():
        _check(task, buffers[name], steps, name in overwritten)
    return {name: _parts(buffers[name], users[name], steps) for name, steps in freed.items()}


def in_parts(whole: Buffer, parts: Sequence[Part], prefix: str) -> tuple[Buffer, ...]:
    """Return a buffer for every one of ``parts``, the first at the alignment and the pin of the ``whole``."""
    if len(parts) < 2:
        return (whole,)
    rest = whole.model_copy(update={"align_bytes": 1, "address": None})
    return tuple(
        (rest if part.low else whole).model_copy(
            update={
                "name": f"{whole.name}[{part.low}:{part.high}]",
                "size_bytes": part.high - part.low,
                "ops": tuple(prefix + user for user in part.users),
                "part_of": whole.name,
            }
        )
        for part in parts
    )


def check_part_names(buffers: Sequence[Buffer]) -> None:
    """Refuse a buffer that is called as a part of another one is."""
    parts = {buffer.name: buffer.part_of for buffer in buffers if buffer.part_of is not None}
    for buffer in buffers:
        if buffer.part_of is None and buffer.name in parts:
            raise InvalidInputError(
                f"buffer {buffer.name!r} is called as the bytes that {parts[buffer.name]!r} frees are; rename it"
            )


def _check(task: str, buffer: BufferDraft, steps: Sequence[tuple[str, int]], overwritten: bool) -> None:
    total = 0
    for k, (op, count) in enumerate(steps):
        total += count
        if total > buffer.size_bytes:
            raise InvalidInputError(
                f"task {task!r}, op {op!r} frees {count} B of {buffer.name!r}: with what the {k} ops before it free "
                f"{total} B, but the buffer has {buffer.size_bytes}; free less"
            )
    what = f"task {task!r}, op {steps[0][0]!r} frees bytes of {buffer.name!r}"
    if len(steps) > MOST_STEPS:
        raise InvalidInputError(f"{what}, as do {len(steps) - 1} others; free them in at most {MOST_STEPS} steps")
    if buffer.resident in (True, "to_end"):
        raise InvalidInputError(f"{what}, which is resident to the end; drop one of the two")
    if overwritten:
        raise InvalidInputError(f"{what}, which is in 'may_overwrite' too; drop one of the two")


def _parts(buffer: BufferDraft, users: Sequence[str], steps: Sequence[tuple[str, int]]) -> tuple[Part, ...]:
    found: list[Part] = []
    later = {op for op, _ in steps}
    low = end = 0
    for op, count in steps:
        later.discard(op)
        end += count
        high = end // buffer.granule_bytes * buffer.granule_bytes
        if low < high < buffer.size_bytes:
            found.append(Part(low, high, tuple(user for user in users if user not in later)))
            low = high
    return (*found, Part(low, buffer.size_bytes, tuple(users)))
