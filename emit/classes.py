"""Which ops of a folded schedule are one in every lap of a loop, and how their iterations are counted."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit.fold import Folded
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.check_bounds import ONCE

if TYPE_CHECKING:
    from hexloom.emit.fold import Key
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule


class Class(NamedTuple):
    """The same op of every lap: those of ``key`` whose iteration leaves ``rest`` by the iterations of a lap."""

    key: Key
    rest: int


class Classes:
    """A folded schedule whose ops are told apart: what is kept of them, and which of these are the same in every lap.

    ``kept`` are ops that have a task: those before, between and behind loops, and those of one lap. ``at`` is where an
    op begins (`Folded.segment`).

    Raises
    ------
    InvalidInputError
        In a loop there is what tables of loops do not know.
    """

    def __init__(self, periodic: PeriodicSchedule, *, whole: bool = False, without: int = 0) -> None:
        self.folded = Folded(periodic, whole=whole, without=without)
        self.periodic, self.problem, self.orders = periodic, self.folded.problem, self.folded.orders
        self.windows = self.folded.windows
        self.slices: dict[int, int] = defaultdict(int)
        self.queue_of: dict[int, int] = {}
        self.lane_of: dict[tuple[int, int], int] = {}
        self.at: dict[int, tuple[int, int]] = {}
        self.turn: dict[tuple[int, int, bool], int] = {}
        for q, lane in enumerate(self.orders.lanes):
            for turn, step in enumerate(lane.steps):
                self.turn[step.op, step.slice, step.action != "start"] = turn
                if step.action != "start":
                    self.slices[step.op] += 1
                    self.lane_of[step.op, step.slice] = q
                if step.action != "wait":
                    self.at[step.op] = self.folded.segment(self.folded.moment(step))
                self.queue_of.setdefault(step.op, q)
        self.kept = sorted((i for i, (_, lap) in self.at.items() if lap == 0), key=lambda i: (self.at[i][0], i))
        self.task_of = {i: t for t, i in enumerate(self.kept)}
        self.members = self._members()
        self.classes = {i: of for of, members in self.members.items() for i in members}
        self.rank = {i: x for members in self.members.values() for x, i in enumerate(members)}
        self.stand_in = {of: next(i for i in members if self._in_lap(i)) for of, members in self.members.items()}
        self._refuse_what_no_loop_has()

    def _members(self) -> dict[Class, list[int]]:
        """Return the ops of every class by iteration: those of laps, and before and behind while they keep order."""
        found: dict[Class, list[int]] = defaultdict(list)
        for i in self.at:
            key = self.folded.key(i)
            if key is not None:
                advance = self.windows[self.folded.loop_of[key.stretch]].advance[key.task]
                found[Class(key, self.folded.labels[i][3] % advance)].append(i)
        for of, members in found.items():
            members.sort(key=lambda i: self.folded.labels[i][3])
            inside = [x for x, i in enumerate(members) if self.at[i][0] % 2]
            if not inside:
                name = self.problem.ops[members[0]].name
                raise InvalidInputError(f"op {name!r} is in stretch {of.key.stretch}, but not in its steady state")
            first, last = min(inside), max(inside)
            while first > 0 and self._in_order(members[first - 1], members[first]):
                first -= 1
            while last + 1 < len(members) and self._in_order(members[last], members[last + 1]):
                last += 1
            found[of] = members[first : last + 1]
        return dict(found)

    def _in_order(self, one: int, next_one: int) -> bool:
        """Whether each slice of an op begins and ends before that of the next one, on the same queue."""
        for piece in range(self.slices[one]):
            if self.lane_of[one, piece] != self.lane_of.get((next_one, piece)):
                return False
            ends = [self.turn[i, piece, True] for i in (one, next_one)]
            starts = [self.turn.get((i, piece, False), ends[n]) for n, i in enumerate((one, next_one))]
            if ends[0] >= ends[1] or starts[0] >= starts[1]:
                return False
        return True

    def _in_lap(self, op: int) -> bool:
        segment, lap = self.at[op]
        return bool(segment % 2) and lap == 0

    def _refuse_what_no_loop_has(self) -> None:
        for members in self.members.values():
            name = self.problem.ops[members[0]].name
            if any(self.orders.late[i] for i in members):
                raise InvalidInputError(f"op {name!r} is in a loop, and its result is late: tables do not know which")
            if any(not self._in_order(one, two) for one, two in pairwise(members)):
                raise InvalidInputError(f"op {name!r} and its like in other laps are not in order on its threads")

    def behind(self, op: int) -> list[int]:
        """Return the loops that an op is behind."""
        return [k for k in range(len(self.windows)) if self.at[op][0] > 2 * k + 1]

    def advance(self, loop: int, group: str) -> int:
        """Return the iterations of a task in a lap."""
        return self.windows[loop].advance.get(group, 0)

    def iteration(self, op: int) -> int:
        """Return the iteration of a kept op if all loops it is behind had made no lap."""
        task, _, _, iteration = self.folded.labels[op]
        if iteration == ONCE:
            return 0
        return iteration - sum(self.advance(k, task) * self.windows[k].count for k in self.behind(op))

    def threshold(self, op: int, producer: int) -> int:
        """Return how many triggers come up to that of ``producer``, for an op of its class; as if loops made no lap."""
        of = self.classes[producer]
        loop = self.folded.loop_of[of.key.stretch]
        if loop not in self.behind(op):
            return self.rank[producer] + 1
        if self.at[producer][0] < 2 * loop + 1:
            names = [self.problem.ops[i].name for i in (op, producer)]
            raise InvalidInputError(f"op {names[0]!r} behind a loop waits for {names[1]!r} before it")
        return self.rank[producer] + 1 - self.windows[loop].count
