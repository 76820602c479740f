"""Rings: every kind of buffer has slots of its own, so that no lifetimes can split the room that others need.

It is how kernels hold their tiles: two slots for weights, one for what is loaded, two for the output. While one of the
buffers that take turns is alive, the rest of the scratchpad is divided among the kinds that are needed then.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from hexloom.formulations.packing.allocator import Allocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Problem

MOST_SLOTS = 3
"""Slots of one kind; more are only asked for by what is loaded far ahead, for which there is no room here."""

MOST_SIZES = 10
"""So many divisions of the room are offered per turn."""

MOST_KINDS = 4
"""Above so many kinds of one turn only equal numbers of slots are tried."""


@dataclass(frozen=True, slots=True)
class Rings:
    """Per turn, for every kind the slots ``(start, end)`` that its buffers may take."""

    slots: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]


@dataclass(frozen=True)
class Kinds:
    """Buffers of equal use: ``of`` is the kind of each buffer (-1: none), ``size`` the largest of each kind.

    ``turn`` is the one to which the kind belongs, -1 if it is needed whenever its ops run.
    """

    of: tuple[int, ...]
    size: tuple[int, ...]
    align: tuple[int, ...]
    turn: tuple[int, ...]


def kinds_of(problem: Problem, turns: Sequence[int]) -> Kinds:
    """Return the kinds of the buffers that only one tile uses: by task and stages."""
    turn_of_task = {
        problem.ops[problem.op_index[o]].task: k for k, b in enumerate(turns) for o in problem.buffers[b].ops
    }
    number: dict[tuple[object, ...], int] = {}
    of: list[int] = []
    size: list[int] = []
    align: list[int] = []
    turn: list[int] = []
    for b, buffer in enumerate(problem.buffers):
        users = [problem.ops[problem.op_index[name]] for name in buffer.ops]
        if buffer.resident or b in turns or not users or buffer.address is not None or buffer.part_of is not None:
            of.append(-1)
            continue
        key = tuple(sorted({(op.task, op.stage) for op in users}))
        kind = number.setdefault(key, len(number))
        if kind == len(size):
            size.append(0)
            align.append(1)
            turn.append(turn_of_task.get(users[0].task, -1))
        of.append(kind)
        size[kind] = max(size[kind], buffer.occupied_bytes)
        align[kind] = max(align[kind], buffer.align_bytes)
    return Kinds(tuple(of), tuple(size), tuple(align), tuple(turn))


def ring_sizes(problem: Problem, kinds: Kinds, turns: Sequence[int], turn: int) -> list[tuple[int, ...]]:
    """Return numbers of slots per kind that fit beside the buffer of ``turn``, the most slots first.

    What belongs to no turn gets equally many slots of each kind, as many as the others leave; all that could have one
    slot more without a loss for others are left out.
    """
    pool = Allocator(problem)
    room = problem.scratchpad.available_bytes - pool.top_of(turns[turn])
    slot = [-(-size // align) * align for size, align in zip(kinds.size, kinds.align, strict=True)]
    mine = [k for k, of in enumerate(kinds.turn) if of == turn]
    free = [k for k, of in enumerate(kinds.turn) if of == -1]
    one_free = sum(slot[k] for k in free)
    found: dict[tuple[int, ...], None] = {}
    if len(mine) > MOST_KINDS:
        choices: list[tuple[int, ...]] = [(n,) * len(mine) for n in range(1, MOST_SLOTS + 1)]
    else:
        choices = list(product(range(1, MOST_SLOTS + 1), repeat=len(mine)))
    for counts in choices:
        left = room - sum(n * slot[k] for n, k in zip(counts, mine, strict=True))
        if left < 0:
            continue
        spare = min(4, left // one_free) if one_free else 0
        sizes = [0] * len(slot)
        for n, k in zip(counts, mine, strict=True):
            sizes[k] = n
        for k in free:
            sizes[k] = spare
        found[tuple(sizes)] = None
    best = [a for a in found if not any(a != b and all(x <= y for x, y in zip(a, b, strict=True)) for b in found)]
    # What belongs to no turn should not have to wait for the end; then two slots of each kind are worth most.
    return sorted(
        best, key=lambda a: (-min((min(a[k], 1) for k in free), default=0), -sum(min(a[k], 2) for k in mine), a)
    )[:MOST_SIZES]


def lay_out(problem: Problem, kinds: Kinds, sizes: Sequence[Sequence[int]]) -> Rings:
    """Return the slots for the numbers ``sizes`` per turn, from the top down: what belongs to no turn comes first."""
    turns = []
    order = sorted(range(len(kinds.size)), key=lambda k: (kinds.turn[k] >= 0, -kinds.size[k], k))
    for counts in sizes:
        top = problem.scratchpad.available_bytes
        slots: list[tuple[tuple[int, int], ...]] = [()] * len(kinds.size)
        for k in order:
            for _ in range(counts[k]):
                start = (top - kinds.size[k]) // kinds.align[k] * kinds.align[k]
                slots[k] = (*slots[k], (start, start + kinds.size[k]))
                top = start
        turns.append(tuple(slots))
    return Rings(tuple(turns))


class RingAllocator(Allocator):
    """Gives each buffer a free slot of its kind, in the layout of its turn or, if it has none, of the present turn."""

    has_slots = True

    def __init__(self, problem: Problem, kinds: Kinds, rings: Rings) -> None:
        # Before the base: it places what is always live, by the ``place`` below.
        self._kinds = kinds
        self._rings = rings
        super().__init__(problem)

    def place(self, b: int, floor: int = 0) -> bool:
        """Give buffer ``b`` a free slot; after the last turn, and to what has no kind, any address."""
        kind = self._kinds.of[b]
        turn = -1 if kind < 0 else max(self._kinds.turn[kind], self.turn)
        if kind < 0 or turn >= len(self._rings.slots):
            return super().place(b, floor)
        return any(self.put(b, start) for start, _ in self._rings.slots[turn][kind])
