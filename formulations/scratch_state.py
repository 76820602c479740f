"""Who holds which scratchpad bytes while ops are dispatched, and whether everyone who has begun can still end.

Ops of one tile that share buffers, directly or through others, form a group. Taking bytes is safe when the groups that
hold some can be finished one after the other with what is free then: the banker's rule. Without it, loads that run
ahead take what their consumers need to go on. Buffers that several tiles share belong to no group; room for those that
a group will need, and that nobody has brought to life yet, is set aside when the group begins. Parts of a range come to
life together, and end one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.memory import Takeover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.packing.allocator import Allocator
    from hexloom.formulations.problem import Problem


TAKEN, SHORT, HELD = range(3)
"""What came of a wish for bytes: they are taken; they are not there; they are, but not for this op now."""


class ScratchState:
    """Bytes (and with an ``allocator`` addresses) of the buffers alive, and their lifetimes in ranks of events.

    At most ``depth`` groups of a task hold bytes at a time: loads that run far ahead are safe, but keep the next stage
    from its room. Buffers in ``turns`` live one after the other; a group that uses one begins once all groups of
    earlier turns have begun, so that what is loaded ahead never keeps these from their end.
    """

    def __init__(
        self,
        problem: Problem,
        allocator: Allocator | None,
        spare_bytes: int = 0,
        *,
        careful: bool = True,
        depth: int | None = None,
        turns: tuple[int, ...] = (),
        reserve: bool = False,
    ) -> None:
        self._careful = careful
        self._depth = depth
        self.allocator = allocator
        self._problem = problem
        self._rank = 0
        self._born: dict[int, int] = {}
        self._died: dict[int, int] = {}
        self._size = [b.occupied_bytes for b in problem.buffers]
        self._users_left = [len(set(b.ops)) for b in problem.buffers]
        held = sum(b.occupied_bytes for b in problem.buffers if b.from_start)
        self._free = problem.scratchpad.available_bytes - held - spare_bytes
        self._group_of, self._peaks, self._owned = _groups(problem)
        self.taken: list[Takeover] = []
        """Buffers that were given the address of one that their first op overwrites."""
        self._being_overwritten: set[int] = set()
        """New buffers whose op is under way: no other may use them before it has read what lies there."""
        self._over: dict[int, list[Takeover]] = {}
        for one in problem.takeovers:
            self._over.setdefault(one.op, []).append(one)
        self._wanted = [[b for b in of if not problem.buffers[b].from_start] for of in _brought(problem)]
        self._begun = [0] * len(self._peaks)
        self._task_of = {group: problem.ops[i].task for i, group in enumerate(self._group_of)}
        self._shared: list[set[int]] = [set() for _ in self._peaks]
        for wanted, group in zip(self._wanted, self._group_of, strict=True):
            self._shared[group].update(b for b in wanted if b not in self._owned)
        self._held: dict[int, int] = {}
        self._holders: dict[str, int] = {}
        self._turns = turns
        place = {b: k for k, b in enumerate(turns)}
        self._turn_of = [max((place[b] for b in shared if b in place), default=-1) for shared in self._shared]
        self._waiting = [self._turn_of.count(k) for k in range(len(turns))]
        self._now = 0
        largest = [
            max((self._peaks[g][0] for g, of in enumerate(self._turn_of) if of == k), default=0)
            for k in range(len(turns))
        ]
        self._reserve = largest if reserve else [0] * len(turns)
        self._tops = [0 if allocator is None else allocator.top_of(b) for b in turns]

    def begins(self, op: int) -> bool:
        """Whether ``op`` would bring its group to the first bytes."""
        return bool(self._wanted[op]) and not self._held.get(self._group_of[op])

    def take(self, op: int, *, hungry: bool) -> int:
        """Start ``op``: take the bytes of the buffers it is the first to use, or say that they are `SHORT` or `HELD`.

        ``hungry`` says that someone more urgent is short of bytes: then what would begin a group waits, or, where
        the state is not careful, everyone who needs new bytes.
        """
        answer = self.ask(op, hungry=hungry)
        if answer == TAKEN:
            self.begin(op)
        return answer

    def ask(self, op: int, *, hungry: bool) -> int:
        """Say what `take` would; where it is `TAKEN` addresses are held already, for `begin` or `give_back`."""
        if not self._being_overwritten.isdisjoint(self._wanted[op]):
            return HELD
        group = self._group_of[op]
        new = [b for b in self._wanted[op] if b not in self._born]
        over = self._overwritten(op, new) if op in self._over and new else []
        if new:
            for one in over:
                new.remove(one.new)
            need = sum(self._size[b] for b in new)
            own = sum(self._size[b] for b in new if b in self._owned)
            if self._must_wait(group, own, new):
                return HELD
            yields = hungry and not (self._careful and self._held.get(group))
            if need > self._free or yields or (self._careful and not self._safe(op, own, need)):
                return SHORT
            if self.allocator is not None and not self._place(group, new):
                return HELD if self.allocator.has_slots else SHORT
        return TAKEN

    def give_back(self, op: int) -> None:
        """Let go of the addresses that `ask` has found for ``op``."""
        for b in self._wanted[op]:
            if b not in self._born and self.allocator is not None:
                self.allocator.release(b)

    def begin(self, op: int) -> None:
        """Start ``op`` with the bytes that `ask` has found."""
        group = self._group_of[op]
        new = [b for b in self._wanted[op] if b not in self._born]
        if new:
            over = self._overwritten(op, new) if op in self._over else []
            bring = [b for b in new if all(one.new != b for one in over)]
            self._free -= sum(self._size[b] for b in bring)
            self._hold(group, sum(self._size[b] for b in bring if b in self._owned))
            for b in new:
                self._born[b] = self._rank
            self.taken += over
            self._being_overwritten.update(one.new for one in over)
        self._rank += 1
        if self._begun[group] == 0 and self._turn_of[group] >= 0:
            self._waiting[self._turn_of[group]] -= 1
        self._begun[group] += 1

    def finish(self, op: int) -> None:
        """End ``op``: free the buffers it is the last to use."""
        self._rank += 1
        over = [one for one in self.taken if one.op == op] if op in self._over else []
        for b in self._problem.op_buffers[op]:
            self._users_left[b] -= 1
            if any(one.new == b for one in over):
                continue
            if self._users_left[b] == 0 and not self._problem.buffers[b].to_end:
                self._died[b] = self._rank
                self._free += self._size[b]
                if b in self._owned:
                    self._hold(self._group_of[op], -self._size[b])
                if self.allocator is not None:
                    self.allocator.release(b)
                while self._now < len(self._turns) and self._turns[self._now] in self._died:
                    self._now += 1
                    if self.allocator is not None:
                        self.allocator.turn = self._now

        for new, old, _ in over:
            self._being_overwritten.discard(new)
            self._born[new] = self._rank
            if self._users_left[new] == 0 and not self._problem.buffers[new].to_end:
                self._died[new] = self._rank
                if self.allocator is not None:
                    self.allocator.offsets[new] = self.allocator.offsets[old]
                continue
            self._free -= self._size[new]
            if new in self._owned:
                self._hold(self._group_of[op], self._size[new])
            if self.allocator is not None:
                self.allocator.put(new, self.allocator.offsets[old])

    def _overwritten(self, op: int, new: list[int]) -> list[Takeover]:
        """Return which of the ``new`` buffers can lie where the last user of another one is ``op``."""
        found: dict[int, Takeover] = {}
        for one in self._over[op]:
            old, b = self._problem.buffers[one.old], self._problem.buffers[one.new]
            at = old.address if self.allocator is None else self.allocator.offsets.get(one.old)
            if one.new not in new or one.old in found or one.old in new or self._users_left[one.old] != 1:
                continue
            if at is None:
                # Not placed yet: both may still get an address that suits both.
                fits = self.allocator is None and (b.address is None or b.address % old.align_bytes == 0)
            else:
                fits = at % b.align_bytes == 0 and b.address in (None, at)
            if fits:
                found[one.old] = one
        return list(found.values())

    def lifetimes(self) -> list[tuple[int, int]]:
        """Lifetimes in ranks of events; a resident buffer lives beyond them, an unused one never."""
        return [
            (
                -1 if buffer.from_start else self._born.get(b, 0),
                self._rank + 1 if buffer.to_end else self._died.get(b, 0),
            )
            for b, buffer in enumerate(self._problem.buffers)
        ]

    def _hold(self, group: int, size: int) -> None:
        before = self._held.get(group, 0)
        after = before + size
        task = self._task_of[group]
        self._holders[task] = self._holders.get(task, 0) + (after > 0) - (before > 0)
        if after > 0:
            self._held[group] = after
        else:
            self._held.pop(group, None)

    def _must_wait(self, group: int, own: int, new: list[int]) -> bool:
        """Whether it is not the turn of the group or of a buffer, or too many groups of its task hold bytes."""
        if self._turns:
            if any(b in self._turns[self._now + 1 :] for b in new):
                return True
            if self._turn_of[group] < 0 and not self._held.get(group) and self._now < len(self._turns):
                later = 0 if self._turns[self._now] in self._born else self._size[self._turns[self._now]]
                if sum(self._size[b] for b in new) + self._reserve[self._now] + later > self._free:
                    return True
            if self._begun[group] == 0 and any(self._waiting[: max(0, self._turn_of[group])]):
                return True
        if self._depth is None or own == 0 or self._held.get(group):
            return False
        return self._holders.get(self._task_of[group], 0) >= self._depth

    def _place(self, group: int, new: list[int]) -> bool:
        """Find addresses: what takes turns lies at the bottom, all else above what comes there while it is alive."""
        assert self.allocator is not None
        turn = self._turn_of[group]
        floor = max(self._tops[self._now : max(turn, self._now + 1) + 1], default=0)
        for b in sorted(new, key=lambda b: -self._size[b]):
            if not self.allocator.place(b, 0 if b in self._turns else floor):
                for p in new:
                    self.allocator.release(p)
                return False
        return True

    def _safe(self, op: int, own: int, need: int) -> bool:
        """Whether all groups that hold bytes can end, once that of ``op`` has taken ``own`` of the ``need`` bytes.

        Turn by turn: when the groups of one have ended, its buffer makes room for the next.
        """
        group = self._group_of[op]
        held = {**self._held, group: self._held.get(group, 0) + own}
        stages: dict[int, list[int]] = {}
        for g, has in held.items():
            if has > 0:
                stages.setdefault(max(self._turn_of[g], self._now), []).append(g)
        free = self._free - need
        mine = set(self._wanted[op])
        alive = self._now
        for turn in sorted(stages):
            # All earlier turns are over by then: what is alive of them, or was promised to them, is free again.
            free += sum(self._size[b] for b in self._turns[alive:turn] if b in self._born or b in mine)
            promised = set().union(*(self._shared[g] for g in stages[turn])) - self._born.keys() - mine
            free -= sum(self._size[b] for b in promised)
            if free < 0:
                return False
            wishes = []
            for g in stages[turn]:
                ahead = self._begun[g] + (1 if g == group else 0)
                peak = self._peaks[g][min(ahead, len(self._peaks[g]) - 1)]
                wishes.append((max(0, peak - held[g]), held[g]))
            for wish, has in sorted(wishes):
                if wish > free:
                    return False
                free += has
            mine |= promised
            alive = turn
        return True


class PooledState:
    """The bytes of several pools: an op starts when all of them have what it needs.

    Each pool looks only at its own bytes when it says that everyone can still end; groups that hold bytes of one and
    wait for those of another can lead a list schedule into a dead end, as fragmentation can.
    """

    def __init__(self, problem: Problem, states: Sequence[ScratchState]) -> None:
        self._positions = [mine for mine, _ in problem.per_pool]
        self._states = states
        self._count = len(problem.buffers)

    def begins(self, op: int) -> bool:
        """Whether ``op`` would bring its group to the first bytes of a pool."""
        return any(state.begins(op) for state in self._states)

    def take(self, op: int, *, hungry: bool) -> int:
        """Start ``op``, or say that bytes of some pool are `SHORT` or `HELD`."""
        for k, state in enumerate(self._states):
            answer = state.ask(op, hungry=hungry)
            if answer != TAKEN:
                for earlier in self._states[:k]:
                    earlier.give_back(op)
                return answer
        for state in self._states:
            state.begin(op)
        return TAKEN

    def finish(self, op: int) -> None:
        """End ``op``: free the buffers it is the last to use."""
        for state in self._states:
            state.finish(op)

    @property
    def taken(self) -> list[Takeover]:
        """Which buffer has taken the address of which, in each pool in the order of the ops."""
        pairs = zip(self._positions, self._states, strict=True)
        return [Takeover(mine[new], mine[old], op) for mine, state in pairs for new, old, op in state.taken]

    def lifetimes(self) -> list[tuple[int, int]]:
        """Lifetimes of all buffers in ranks of events."""
        found = [(0, 0)] * self._count
        for mine, state in zip(self._positions, self._states, strict=True):
            for b, life in zip(mine, state.lifetimes(), strict=True):
                found[b] = life
        return found


def _brought(problem: Problem) -> list[list[int]]:
    """Return for every op the buffers it uses, and with a part of a range all others that are ever used."""
    if not problem.wholes:
        return [list(of) for of in problem.op_buffers]
    used = [{b, *problem.wholes[b].parts} if b in problem.wholes else {b} for b in range(len(problem.buffers))]
    return [
        sorted(b for b in set().union(*(used[b] for b in of)) if problem.buffers[b].ops) for of in problem.op_buffers
    ]


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
        whole = problem.wholes.get(b)
        parts = (b,) if whole is None else whole.parts
        users = [problem.op_index[name] for part in parts for name in problem.buffers[part].ops]
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
    brought = _brought(problem)
    born: set[int] = set()
    peaks: list[list[int]] = []
    over = {one.new: one for one in problem.takeovers}
    for group in members:
        live, profile = 0, []
        for i in group:
            mine = [b for b in problem.op_buffers[i] if b in owned]
            fresh = [b for b in brought[i] if b in owned and b not in born]
            live += sum(problem.buffers[b].occupied_bytes for b in fresh)
            born.update(fresh)
            saved = {over[b].old: b for b in fresh if b in over and over[b].op == i and left[over[b].old] == 1}
            profile.append(live - sum(problem.buffers[b].occupied_bytes for old, b in saved.items() if old in owned))
            for b in mine:
                left[b] -= 1
                if left[b] == 0:
                    live -= problem.buffers[b].occupied_bytes
        for k in range(len(profile) - 2, -1, -1):
            profile[k] = max(profile[k], profile[k + 1])
        peaks.append([*profile, 0])
    return group_of, peaks, owned
