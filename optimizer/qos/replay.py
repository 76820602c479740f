"""An arrival trace replayed under a policy, event by event, in whole nanoseconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.qos.choice import Choice, filling, fusion, headroom, wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.optimizer.qos.choice import Table

Policy = Literal["alone", "reorder", "whole", "part"]

POLICIES: dict[Policy, str] = {
    "alone": "fillers only while no query waits",
    "reorder": "a filler before a query where its headroom allows",
    "whole": "fuse with a whole filler, else reorder, else alone (Tacker)",
    "part": "fuse with as much of a filler as gains most, else reorder, else alone (Aker)",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that ran in ``[start, end)``: for query ``query`` (-1: none), kernel ``kernel`` of it.

    ``room`` is the headroom when it was chosen, ``extra`` what it took of that.
    """

    kind: str
    start: int
    end: int
    query: int
    kernel: int
    filler: int
    taken: int
    room: int
    extra: int


@dataclass
class Replayed:
    """All steps, when each query was answered, and the iterations that every filler got done before the end."""

    steps: list[Step] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    iterations: list[int] = field(default_factory=list)
    end: int = 0


def replay(table: Table, arrivals: Sequence[int], policy: Policy) -> Replayed:
    """Return what happens; ends when all queries are answered and the last one was due.

    No step is interrupted, and no filler is taken in parts but with policy ``part``. While no query waits, a filler
    runs for no longer than a query that comes right after its start could lose.
    """
    if policy == "part":
        return _Replay(table, arrivals, policy).run()
    found = _Replay(table.indivisible, arrivals, policy).run()
    found.steps = [replace(step, taken=step.taken * table.iterations[step.filler]) for step in found.steps]
    found.iterations = [n * each for n, each in zip(found.iterations, table.iterations, strict=True)]
    return found


MOST_FILLS = 500_000
"""Fillers in the idle time of one replay: each is a step that is kept."""


class _Replay:
    def __init__(self, table: Table, arrivals: Sequence[int], policy: Policy) -> None:
        self.table, self.arrivals, self.policy = table, arrivals, policy
        self.found = Replayed(answered=[-1] * len(arrivals), iterations=[0] * len(table.iteration))
        self.left = list(table.iterations)
        self.waiting: deque[list[int]] = deque()  # query, kernels done
        self.next = 0
        self.now = 0
        self.fills = 0
        self.close = (arrivals[-1] if arrivals else 0) + table.deadline

    def run(self) -> Replayed:
        while True:
            while self.next < len(self.arrivals) and self.arrivals[self.next] <= self.now:
                self.waiting.append([self.next, 0])
                self.next += 1
            if self.waiting:
                self._serve()
            elif not self._fill():
                if self.next == len(self.arrivals):
                    break
                self.now = self.arrivals[self.next]
        self.found.end = max(self.now, self.close)
        return self.found

    def _serve(self) -> None:
        query, done = self.waiting[0]
        table = self.table
        room = headroom(table, [(self.arrivals[q], k) for q, k in self.waiting], self.now)
        choice = self._choice(done, max(0, room))
        if choice is None:
            choice = Choice("alone", table.stream[done])
        self._do(choice, query if choice.kind != "reorder" else -1, done, room)
        if choice.kind == "reorder":
            return
        self.waiting[0][1] += 1
        if done + 1 == len(table.stream):
            self.waiting.popleft()
            self.found.answered[query] = self.now

    def _choice(self, done: int, room: int) -> Choice | None:
        table = self.table
        if self.policy == "alone":
            return None
        if self.policy == "reorder":
            return filling(table, room, self.left, "reorder")
        best = fusion(table, done, room, self.left)
        if best is not None:
            return best
        # What fusing the rest of this query could use is kept for it.
        return filling(table, max(0, room - wanted(table, done, self.left)), self.left, "reorder")

    def _fill(self) -> bool:
        """Run a filler while nobody waits; return whether one fits."""
        room = self.table.deadline - self.table.guard - self.table.work
        room = min(room, self.close - self.now)
        choice = filling(self.table, max(0, room), self.left, "fill")
        if choice is None:
            return False
        self.fills += 1
        if self.fills > MOST_FILLS:
            raise InvalidInputError(
                f"more than {MOST_FILLS:,} fillers run while no query waits, in the first {self.now / 1000:,.0f} of "
                f"{self.close / 1000:,.0f} us; write arrivals closer together, a shorter deadline, or longer fillers"
            )
        self._do(choice, -1, -1, room)
        return True

    def _do(self, choice: Choice, query: int, kernel: int, room: int) -> None:
        end = self.now + choice.ns
        self.found.steps.append(
            Step(choice.kind, self.now, end, query, kernel, choice.filler, choice.taken, room, choice.extra)
        )
        if choice.taken:
            self.left[choice.filler] -= choice.taken
            self.found.iterations[choice.filler] += choice.taken
            if not self.left[choice.filler]:
                self.left[choice.filler] = self.table.iterations[choice.filler]
        self.now = end
