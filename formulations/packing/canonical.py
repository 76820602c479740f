"""Exact search for offsets: every block lies as low as those below it allow, and time falls apart into parts.

In any packing blocks can be moved down, one after the other, until each lies on the floor, on the top of another
that is alive with it, or on a pin. So it is enough to look at such packings. The search keeps the floor of every
section of time and works in a valley, a run of sections with equal floors between higher ones, at one of its ends:
the lowest block still to come at that end either lies on the valley, and then is one of the few that live within it,
or nothing can lie there below the next level, and the bytes up to it are lost. Choices exclude each other, so no
packing is met twice.

What makes it fast: the end with the fewest choices goes first (a single choice is no choice); every section knows
how many bytes it can still lose, and how high its open blocks pile up; parts of time that no open block bridges are
solved on their own; a dead end names the choices that it rests on, and the others are not tried again; and states
that failed are remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.packing.corners import choose_corners
from hexloom.formulations.packing.skyline import Skyline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hexloom.formulations.packing.block import Block
    from hexloom.formulations.packing.corners import Corner, CornerRule
    from hexloom.formulations.packing.skyline import Kept

    State = tuple[tuple[int, ...], tuple[int, ...]]
    """Blocks still open in a part of time, and its floors."""

REMEMBERED = 4_000_000
"""Numbers kept of failed states, about 32 MB; when there are more, all are forgotten."""

DONE, SPENT, OPEN = -1, -2, -3
"""What comes of a part beside a conflict, which is a set of choices as bits: packed; out of work; choices to try."""


LIFT = -1
"""The alternative in which nothing lies on the valley."""


class View(NamedTuple):
    """One way through the same search: ``rank`` orders the choices of a corner, ``rule`` the corners."""

    rank: Sequence[int]
    rule: CornerRule


@dataclass(slots=True)
class _Choice:
    """A corner whose alternatives are tried one after the other; ``untried`` ends with the next, -1 is to lift."""

    corner: Corner
    blocks: list[int]
    low: int
    high: int
    kept: Kept
    key: State
    bit: int
    conflict: int
    untried: list[int]


@dataclass(slots=True)
class _Frame:
    """Parts of time that must all be packed, the next one last; for as long as ``choice`` stands, if there is one."""

    pending: list[list[int]]
    choice: _Choice | None = None


class CanonicalSearch:
    """Search for offsets of ``blocks``, none of them empty, below ``capacity``.

    What is learned in one `run`, states that fail, is used in the next.
    """

    def __init__(self, blocks: Sequence[Block], capacity: int) -> None:
        self._sky = Skyline(blocks, capacity)
        self._free = sorted((b for b, block in enumerate(blocks) if block.pin is None), key=self._sky.span.__getitem__)
        self._offsets = [block.pin or 0 for block in blocks]
        self._failed: set[State] = set()
        self._kept_numbers = 0
        self.impossible = False
        self.spent = 0

    def run(self, view: View, work: int, stop: Callable[[], bool] = lambda: False) -> tuple[int, ...] | None:
        """Search on with ``view`` for as much ``work``, counted in blocks looked at, or until ``stop`` says so.

        Return the offsets; None when there are none (then ``impossible``) or the work is spent.
        """
        sky = self._sky
        if not sky.reset():
            self.impossible = True
        if self.impossible:
            return None
        self._view, self._stop, self._until = view, stop, self.spent + work
        self._stack: list[_Frame] = [_Frame(sky.parts(self._free))]
        while self._stack:
            frame = self._stack[-1]
            if not frame.pending:
                self._stack.pop()
                continue
            result = self._descend(frame.pending.pop())
            if result == SPENT or (result >= 0 and not self._back(result)):
                return None
        return tuple(self._offsets)

    def _descend(self, blocks: list[int]) -> int:
        """Pack ``blocks``, one part of time, up to the first real choice, which becomes a frame (`OPEN`)."""
        sky = self._sky
        low, high = sky.span[blocks[0]][0], sky.end_of(blocks)
        while True:
            self.spent += len(blocks) + 8
            if self.spent > self._until or self._stop():
                return SPENT
            lows, conflict = sky.settle(blocks, low, high)
            if lows is None:
                return conflict
            if len(blocks) == 1:
                self._offsets[blocks[0]] = lows[0]
                return DONE
            corners = choose_corners(sky, blocks, lows, low, high, self._view.rule)
            if corners[0].alternatives == 0:
                return corners[0].cause
            if corners[0].alternatives > 1:
                return self._branch(corners[0], blocks, low, high)
            placed = set()
            for corner in corners:
                if corner.next_floor is not None:
                    conflict = sky.lift(corner.section, corner.next_floor, corner.cause)
                else:
                    placed.add(corner.blocks[0])
                    conflict = self._place(corner.blocks[0], corner, corner.cause)
                if conflict >= 0:
                    return conflict
            if placed:
                blocks = [b for b in blocks if b not in placed]
                parts = sky.parts(blocks)
                if len(parts) != 1:
                    self._stack.append(_Frame(parts))
                    return OPEN
                low, high = sky.span[blocks[0]][0], sky.end_of(blocks)

    def _branch(self, corner: Corner, blocks: list[int], low: int, high: int) -> int:
        sky = self._sky
        key = tuple(blocks), tuple(sky.floor[low:high])
        if key in self._failed:
            return sky.causes(low, high)
        bit = 1 << sum(frame.choice is not None for frame in self._stack)
        untried = sorted(corner.blocks, key=self._view.rank.__getitem__, reverse=True)
        if corner.next_floor is not None:
            untried.insert(0, LIFT)
        choice = _Choice(corner, blocks, low, high, sky.copy(low, high), key, bit, corner.cause, untried)
        frame = _Frame([], choice)
        self._stack.append(frame)
        if self._try_next(frame, choice):
            return OPEN
        self._stack.pop()
        self._remember(choice)
        return choice.conflict

    def _try_next(self, frame: _Frame, choice: _Choice) -> bool:
        """Take the next alternative that is not refused at once; False when there is none left."""
        sky, corner = self._sky, choice.corner
        while choice.untried:
            b = choice.untried.pop()
            if b == LIFT:
                assert corner.next_floor is not None
                refused = sky.lift(corner.section, corner.next_floor, corner.cause | choice.bit)
                frame.pending = [choice.blocks]
            else:
                refused = self._place(b, corner, choice.bit)
                frame.pending = sky.parts([other for other in choice.blocks if other != b])
            if refused < 0:
                return True
            choice.conflict |= refused & ~choice.bit
            sky.restore(choice.low, choice.high, choice.kept)
        return False

    def _place(self, b: int, corner: Corner, cause: int) -> int:
        at = self._sky.lowest(b, corner.level)
        self._offsets[b] = at
        return self._sky.place(b, at, cause)

    def _back(self, conflict: int) -> bool:
        """Go back to the last choice that ``conflict`` rests on and has another way; False when there is none."""
        while self._stack:
            frame = self._stack[-1]
            choice = frame.choice
            if choice is not None:
                self._sky.restore(choice.low, choice.high, choice.kept)
                if conflict & choice.bit:
                    choice.conflict |= conflict & ~choice.bit
                    if self._try_next(frame, choice):
                        return True
                    conflict = choice.conflict
                self._remember(choice)
            self._stack.pop()
        self.impossible = True
        return False

    def _remember(self, choice: _Choice) -> None:
        """Note that the state in which ``choice`` arose fails, whatever it rests on."""
        self._kept_numbers += len(choice.key[0]) + len(choice.key[1])
        if self._kept_numbers > REMEMBERED:
            self._failed.clear()
            self._kept_numbers = 0
        self._failed.add(choice.key)
