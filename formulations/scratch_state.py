"""Who holds which scratchpad bytes while ops are dispatched, and whether everyone who has begun can still end.

Ops of one tile that share buffers, directly or through others, form a group. Taking bytes is safe when the groups that
hold some can be finished one after the other with what is free then: the banker's rule. Without it, loads that run
ahead take what their consumers need to go on. Buffers that several tiles share belong to no group; room for those that
a group will need, and that nobody has brought to life yet, is set aside when the group begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.formulations.packing import Allocator
    from hexloom.formulations.problem import Problem


class ScratchState:
    """Bytes (and with an ``allocator`` addresses) of the buffers alive, and their lifetimes in ranks of events.

    At most ``depth`` groups of a task hold bytes at a time: loads that run far ahead are safe, but keep the next stage
    from its room.
    """

    def __init__(
        self,
        problem: Problem,
        allocator: Allocator | None,
        spare_bytes: int = 0,
        *,
        careful: bool = True,
        depth: int | None = None,
    ) -> None:
        self._careful = careful
        self._depth = depth
        self.allocator = allocator
        self._problem = problem
        self._rank = 0
        self._born: dict[int, int] = {}
        self._died: dict[int, int] = {}
        self._users_left = [len(set(b.ops)) for b in problem.buffers]
        resident = sum(b.occupied_bytes for b in problem.buffers if b.resident)
        self._free = problem.scratchpad.available_bytes - resident - spare_bytes
        self._group_of, self._peaks, self._owned = _groups(problem)
        self._begun = [0] * len(self._peaks)
        self._task_of = {group: problem.ops[i].task for i, group in enumerate(self._group_of)}
        self._shared: list[set[int]] = [set() for _ in self._peaks]
        for i, group in enumerate(self._group_of):
            self._shared[group].update(
                b for b in problem.op_buffers[i] if b not in self._owned and not problem.buffers[b].resident
            )
        self._held: dict[int, int] = {}

    def take(self, op: int, *, hungry: bool) -> bool:
        """Start ``op``: take the bytes of the buffers it is the first to use; False when they are not there.

        ``hungry`` says that someone more urgent is short of bytes: then what would begin a group waits, or, where
        the state is not careful, everyone who needs new bytes.
        """
        problem, group = self._problem, self._group_of[op]
        new = [b for b in problem.op_buffers[op] if b not in self._born and not problem.buffers[b].resident]
        if new:
            need = sum(problem.buffers[b].occupied_bytes for b in new)
            own = sum(problem.buffers[b].occupied_bytes for b in new if b in self._owned)
            yields = hungry and not (self._careful and self._held.get(group))
            if (
                need > self._free
                or yields
                or self._too_deep(group, own)
                or (self._careful and not self._safe(op, own, need))
            ):
                return False
            if self.allocator is not None and not self._place(new):
                return False
            self._free -= need
            self._held[group] = self._held.get(group, 0) + own
            for b in new:
                self._born[b] = self._rank
        self._rank += 1
        self._begun[group] += 1
        return True

    def finish(self, op: int) -> None:
        """End ``op``: free the buffers it is the last to use."""
        self._rank += 1
        for b in self._problem.op_buffers[op]:
            self._users_left[b] -= 1
            if self._users_left[b] == 0 and not self._problem.buffers[b].resident:
                size = self._problem.buffers[b].occupied_bytes
                self._died[b] = self._rank
                self._free += size
                if b in self._owned:
                    self._held[self._group_of[op]] -= size
                if self.allocator is not None:
                    self.allocator.release(b)

    def lifetimes(self) -> list[tuple[int, int]]:
        """Lifetimes in ranks of events; a resident buffer lives all the time, an unused one never."""
        return [
            (-1, self._rank + 1) if buffer.resident else (self._born.get(b, 0), self._died.get(b, 0))
            for b, buffer in enumerate(self._problem.buffers)
        ]

    def _place(self, new: list[int]) -> bool:
        assert self.allocator is not None
        placed: list[int] = []
        for b in sorted(new, key=lambda b: -self._problem.buffers[b].occupied_bytes):
            if not self.allocator.place(b):
                for p in placed:
                    self.allocator.release(p)
                return False
            placed.append(b)
        return True

    def _too_deep(self, group: int, own: int) -> bool:
        if self._depth is None or own == 0 or self._held.get(group):
            return False
        task = self._task_of[group]
        return sum(1 for g, has in self._held.items() if has > 0 and self._task_of[g] == task) >= self._depth

    def _safe(self, op: int, own: int, need: int) -> bool:
        """Whether all groups that hold bytes can end, once that of ``op`` has taken ``own`` of the ``need`` bytes."""
        group = self._group_of[op]
        held = {**self._held, group: self._held.get(group, 0) + own}
        wishes = []
        for g, has in held.items():
            if has > 0:
                ahead = self._begun[g] + (1 if g == group else 0)
                peak = self._peaks[g][min(ahead, len(self._peaks[g]) - 1)]
                wishes.append((max(0, peak - has), has))
        active = (self._shared[g] for g, has in held.items() if has > 0)
        promised = set().union(*active) - self._born.keys() - set(self._problem.op_buffers[op])
        free = self._free - need - sum(self._problem.buffers[b].occupied_bytes for b in promised)
        if free < 0:
            return False
        for wish, has in sorted(wishes):
            if wish > free:
                return False
            free += has
        return True


def _groups(problem: Problem) -> tuple[list[int], list[list[int]], set[int]]:
    """Return the group of every op, per group the most bytes it needs from its k-th op on, and the owned buffers."""
    n = len(problem.ops)
    root = list(range(n))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    owned: set[int] = set()
    for b, buffer in enumerate(problem.buffers):
        users = [problem.op_index[name] for name in buffer.ops]
        if not buffer.resident and len({(problem.ops[i].task, problem.ops[i].tile) for i in users}) == 1:
            owned.add(b)
            for user in users[1:]:
                root[find(user)] = find(users[0])
    number: dict[int, int] = {}
    group_of = [number.setdefault(find(i), len(number)) for i in range(n)]
    members: list[list[int]] = [[] for _ in number]
    for i in problem.topological_order:
        members[group_of[i]].append(i)
    left = [len(set(b.ops)) for b in problem.buffers]
    born: set[int] = set()
    peaks: list[list[int]] = []
    for group in members:
        live, profile = 0, []
        for i in group:
            mine = [b for b in problem.op_buffers[i] if b in owned]
            live += sum(problem.buffers[b].occupied_bytes for b in mine if b not in born)
            born.update(mine)
            profile.append(live)
            for b in mine:
                left[b] -= 1
                if left[b] == 0:
                    live -= problem.buffers[b].occupied_bytes
        for k in range(len(profile) - 2, -1, -1):
            profile[k] = max(profile[k], profile[k + 1])
        peaks.append([*profile, 0])
    return group_of, peaks, owned
