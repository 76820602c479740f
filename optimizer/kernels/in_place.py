"""In-place reuse: an op that overwrites a buffer comes after all others that still need what was there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.optimizer.draft import OpDraft


def after_other_readers(ops: Sequence[OpDraft]) -> tuple[OpDraft, ...]:
    """Return ``ops`` in which every op that overwrites a buffer waits for its other users.

    Not for those that come after it anyway: they read what it wrote. That the reader before it in the file is done by
    then holds in file order alone, not beside other threads. Of two that overwrite a buffer, the later one waits.
    """
    if not any(op.in_place for op in ops):
        return tuple(ops)
    after = {op.name: list(op.after) for op in ops}
    followers: dict[str, list[str]] = {op.name: [] for op in ops}
    for op in ops:
        for before in op.after:
            followers[before].append(op.name)
    for k, op in enumerate(ops):
        if not op.in_place:
            continue
        late = _behind(op.name, followers)
        for at, other in enumerate(ops):
            shared = set(op.in_place).intersection(other.buffers)
            rival = shared.intersection(other.in_place) and at > k
            if shared and not rival and other.name not in late and other.name not in after[op.name]:
                after[op.name].append(other.name)
                followers[other.name].append(op.name)
    return tuple(replace(op, after=tuple(after[op.name])) for op in ops)


def _behind(name: str, followers: dict[str, list[str]]) -> set[str]:
    """Return ``name`` and all ops that come after it."""
    found, waiting = {name}, [name]
    while waiting:
        new: Iterable[str] = (other for other in followers[waiting.pop()] if other not in found)
        for other in new:
            found.add(other)
            waiting.append(other)
    return found
