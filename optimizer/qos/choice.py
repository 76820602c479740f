"""What to run next: fuse, reorder, or run alone, within the headroom of the queries that wait.

Everything is whole nanoseconds. Headroom is what all waiting queries together can still lose: the least of their
deadlines minus now minus the work up to and with each of them. A choice takes no more than that, so it makes nobody
late who would not be.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["alone", "fuse", "reorder", "fill"]
"""``reorder``: a filler before a query that waits; ``fill``: one while none does."""


@dataclass(frozen=True)
class Fused:
    """What a kernel takes with so many iterations of a filler: linear between points, from the kernel alone on.

    With one point where the kernel's own end lies and one for the whole filler this is the law of two phases: running
    together, then the rest alone.
    """

    alone: int
    points: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        before = (0, self.alone)
        for taken, ns in self.points:
            if taken <= before[0] or ns < before[1]:
                raise InvalidInputError(
                    f"fused times must not fall with more iterations: {ns} ns for {taken} after {before[1]} ns for "
                    f"{before[0]}"
                )
            before = taken, ns

    @property
    def most(self) -> int:
        """The most iterations that a time is known for."""
        return self.points[-1][0] if self.points else 0

    def ns(self, taken: int) -> int:
        """Return the time with ``taken`` iterations, rounded up."""
        if not 0 <= taken <= self.most:
            raise ValueError(f"{taken} iterations are not between 0 and {self.most}")
        k = bisect_right(self.points, (taken, self.points[-1][1] + 1)) if self.points else 0
        low, start = self.points[k - 1] if k else (0, self.alone)
        if taken == low:
            return start
        high, end = self.points[k]
        return start + -(-(end - start) * (taken - low) // (high - low))

    def take(self, iteration: int, headroom: int, left: int) -> tuple[int, int]:
        """Return how many iterations to take along, and the nanoseconds of machine time that this gains.

        The gain of x iterations is what they take alone minus what they add to the kernel. Of all x up to ``left``
        that add at most ``headroom`` it is the best, the fewest of equals; (0, 0) where none gains. The gain is
        linear between points, so only points, and the last x that fits, can be best.
        """
        low, high = 0, min(self.most, left)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.ns(middle) - self.alone <= headroom else (low, middle - 1)
        best = (0, 0)
        for x in sorted({*(taken for taken, _ in self.points if taken <= low), low}):
            gain = x * iteration - (self.ns(x) - self.alone)
            if gain > best[1]:
                best = x, gain
        return best


@dataclass(frozen=True)
class Table:
    """Times in nanoseconds: of the kernels of a query in their order, of an iteration of each filler, of pairs.

    ``iteration`` is what one of all iterations takes: what it is worth. ``parts`` says what some of them take by
    themselves, where that is more: a loop that is begun again prepares its inputs again.
    """

    stream: tuple[int, ...]
    iteration: tuple[int, ...]
    iterations: tuple[int, ...]
    fused: tuple[tuple[Fused | None, ...], ...]
    deadline: int
    guard: int = 0
    parts: tuple[Fused | None, ...] = ()

    def alone(self, filler: int, taken: int) -> int:
        """Return what so many iterations of a filler take by themselves."""
        found = self.parts[filler] if self.parts else None
        return taken * self.iteration[filler] if found is None else found.ns(taken)

    def fitting(self, filler: int, room: int, left: int) -> int:
        """Return the most iterations of a filler, up to ``left``, that take no longer than ``room``."""
        low, high = 0, left
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.alone(filler, middle) <= room else (low, middle - 1)
        return low

    @property
    def indivisible(self) -> Table:
        """The same with fillers of which all or nothing runs."""
        rows = tuple(
            tuple(
                None if pair is None or pair.most < count else Fused(pair.alone, ((1, pair.ns(count)),))
                for pair, count in zip(row, self.iterations, strict=True)
            )
            for row in self.fused
        )
        each = tuple(ns * count for ns, count in zip(self.iteration, self.iterations, strict=True))
        return replace(self, iteration=each, iterations=(1,) * len(each), fused=rows, parts=())

    @property
    def work(self) -> int:
        """Work of one query."""
        return sum(self.stream)


@dataclass(frozen=True, slots=True)
class Choice:
    """What is run: for how long, which filler and how many iterations of it; ``extra`` is taken from the headroom."""

    kind: Kind
    ns: int
    filler: int = -1
    taken: int = 0
    extra: int = 0


def headroom(table: Table, waiting: Sequence[tuple[int, int]], now: int) -> int:
    """Return what all waiting queries can lose; less than nothing where one is late already.

    Parameters
    ----------
    table
        Times.
    waiting
        For each query when it arrived and how many of its kernels are done, in the order of arrival.
    now
        The time.
    """
    least, work = table.deadline, 0
    for arrived, done in waiting:
        work += sum(table.stream[done:])
        least = min(least, arrived + table.deadline - table.guard - now - work)
    return least


def fusion(table: Table, kernel: int, room: int, left: Sequence[int]) -> Choice | None:
    """Return the fusion of a kernel that gains most machine time within ``room``; None where none gains."""
    best: Choice | None = None
    most = 0
    for f, pair in enumerate(table.fused[kernel]):
        if pair is None:
            continue
        taken, gain = pair.take(table.iteration[f], room, left[f])
        if gain > most:
            ns = pair.ns(taken)
            best, most = Choice("fuse", ns, f, taken, ns - pair.alone), gain
    return best


def filling(table: Table, room: int, left: Sequence[int], kind: Kind) -> Choice | None:
    """Return the filler of which most work fits into ``room`` by itself; None where not one iteration does."""
    best: Choice | None = None
    most = 0
    for f, iteration in enumerate(table.iteration):
        taken = table.fitting(f, room, left[f])
        if taken * iteration > most:
            ns = table.alone(f, taken)
            best, most = Choice(kind, ns, f, taken, ns), taken * iteration
    return best


def wanted(table: Table, done: int, left: Sequence[int]) -> int:
    """Return the headroom that fusing the rest of a query would take, if it had all it wants."""
    return sum(
        0 if (best := fusion(table, kernel, table.deadline, left)) is None else best.extra
        for kernel in range(done, len(table.stream))
    )
