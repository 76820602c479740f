"""A schedule that grows op by op: when each lane is free, which bytes are taken when, which transfers are under way.

An op starts once its lanes, what it waits for and its bytes are there, all known beforehand: bytes of buffers whose
last user is not placed yet are taken for good. So nobody placed later ever delays who is placed already.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from hexloom.formulations.line.bytes_taken import Bytes

if TYPE_CHECKING:
    from hexloom.formulations.line.tables import Tables

LOOK_BACK = 14
"""How many instants at which its owner begins or ends something a transfer that costs nothing is tried at."""

KEPT = 64
"""So many transfers of a pipe are remembered."""

RECENT = 4
"""Of what is over so many instants of each lane, and transfers of each pipe, are looked at to find all as it was."""

NEVER = 2**62

Served = tuple[int, int, int, int]
"""When a transfer asked for a pipe, which one, when it begins and when it leaves the pipe."""


class State:
    """What is placed so far; times in ticks by position of the op, -1 where it is not placed."""

    __slots__ = (
        "born",
        "bytes",
        "done",
        "edges",
        "end",
        "front",
        "known",
        "left",
        "moved",
        "pending",
        "served",
        "start",
        "tables",
        "units",
        "unsent",
        "waiting",
    )

    def __init__(self, tables: Tables) -> None:
        problem, n = tables.problem, len(tables.duration)
        entry = problem.entry_ticks
        self.tables = tables
        self.start, self.moved, self.known = [-1] * n, [-1] * n, [-1] * n
        self.done = bytearray(n)
        self.front = [entry] * tables.lanes
        self.edges = [[entry] if lane in tables.owners else [] for lane in range(tables.lanes)]
        self.pending: list[list[tuple[int, int]]] = [[] for _ in range(tables.lanes)]
        self.unsent: list[tuple[int, int]] = []
        self.served: list[list[Served]] = [[] for _ in range(tables.pipes)]
        self.waiting: list[int] = []
        self.units: dict[tuple[int, int], tuple[int, ...]] = {}
        self.left = [len(of) + buffer.to_end for of, buffer in zip(tables.users, problem.buffers, strict=True)]
        self.born = bytearray(buffer.from_start for buffer in problem.buffers)
        held = sum(b.occupied_bytes for b in problem.buffers if b.from_start)
        self.bytes = Bytes(tables.room, held)
        self.end = entry

    def copy(self) -> State:
        """Return a state that grows on its own."""
        twin = State.__new__(State)
        twin.tables = self.tables
        twin.start, twin.moved, twin.known = self.start[:], self.moved[:], self.known[:]
        twin.done, twin.born, twin.left = self.done[:], self.born[:], self.left[:]
        twin.front, twin.unsent, twin.waiting = self.front[:], self.unsent[:], self.waiting[:]
        twin.edges = [of[:] for of in self.edges]
        twin.pending = [of[:] for of in self.pending]
        twin.served = [of[:] for of in self.served]
        twin.units = dict(self.units)
        twin.bytes, twin.end = self.bytes.copy(), self.end
        return twin

    def shift(self, by: int) -> None:
        """Move all times, also those long past: nobody looks at these again."""
        for times in (self.start, self.moved, self.known):
            times[:] = [max(0, at + by) if at >= 0 else at for at in times]
        self.front = [at + by for at in self.front]
        self.bytes.shift(by)
        self.edges = [[at + by for at in of] for of in self.edges]
        self.pending = [[(at + by, i) for at, i in of] for of in self.pending]
        self.unsent = [(at + by, i) for at, i in self.unsent]
        self.served = [[(a + by, i, b + by, c + by) for a, i, b, c in of] for of in self.served]
        self.end += by

    def put(self, i: int) -> bool:
        """Place op ``i``; False where something that it waits for is not placed, or its bytes are taken for good."""
        tables, front, known, pending = self.tables, self.front, self.known, self.pending
        waits, done = tables.waits[i], self.done
        for p in waits:
            if not done[p]:
                return False
        lanes = tables.lanes_of[i] or self._choose(i)
        if self.unsent:
            self._send(self._free(lanes))
        for lane in lanes:
            if pending[lane]:
                self._observe(lane, front[lane])
        at = self._free(lanes)
        for p in waits:
            if known[p] < 0:
                self._await(p)
                at = max(at, self._free(lanes))
            if known[p] > at:
                at = known[p]
        for p in tables.fetches[i]:
            if not done[p]:
                if not self._fetch(p, at):
                    return False
                at = max(at, self._free(lanes))
            if known[p] > at:
                at = known[p]
        for lane in lanes:
            if pending[lane]:
                self._observe(lane, at)
                at = max(at, front[lane])
        begin = self._bring(i, at, lanes)
        if begin is None:
            return False
        if tables.owner[i] >= 0:
            self._issue(i, begin)
        else:
            self._work(i, begin)
        self._call_hot(i)
        return True

    def _free(self, lanes: tuple[int, ...]) -> int:
        at = self.tables.entry
        for lane in lanes:
            if self.front[lane] > at:
                at = self.front[lane]
        return at

    def _call_hot(self, i: int) -> None:
        """Let ops of the busiest engine wait for their turn once all that they need is placed."""
        waits = self.tables.waits
        for s in self.tables.calls[i]:
            if all(map(self.done.__getitem__, waits[s])):
                self.waiting.append(s)

    def finish(self) -> None:
        """See all transfers through, and say of each when its owner notices: not in the middle of a job."""
        tables = self.tables
        self._send(NEVER)
        for lane, of in enumerate(self.pending):
            while of:
                self._observe(lane, of[0][0] + tables.poll[of[0][1]])
        busy: list[list[tuple[int, int]]] = [[] for _ in self.front]
        for i, holds in enumerate(tables.holds):
            for hold in holds:
                for lane in self.units.get((i, hold.use), hold.lanes):
                    busy[lane].append((self.start[i], self.start[i] + hold.ticks))
        for of in busy:
            of.sort()
        for i, lane in enumerate(tables.owner):
            if lane >= 0 and tables.poll[i] == 0 and (k := bisect_left(busy[lane], (self.known[i], -1))):
                self.known[i] = max(self.known[i], busy[lane][k - 1][1])
        self.end = max(self.known)

    def moved_from(self, other: State) -> int | None:
        """Return by how much later than in ``other`` all is that who comes next can meet; None where more differs."""
        front, there = self.front, other.front
        shift = front[0] - there[0]
        for mine, its in zip(front, there, strict=True):
            if mine - its != shift:
                return None
        if self.waiting != other.waiting:
            return None
        for one, two in ((self.unsent, other.unsent), *zip(self.pending, other.pending, strict=True)):
            if [(at - shift, i) for at, i in one] != two:
                return None
        for edges, before in zip(self.edges, other.edges, strict=True):
            if [at - shift for at in edges[-RECENT:]] != before[-RECENT:]:
                return None
        for now, past in zip(self.served, other.served, strict=True):
            if [(at - shift, i, begin - shift) for at, i, begin, _ in now[-RECENT:]] != [
                of[:3] for of in past[-RECENT:]
            ]:
                return None
        floor = min(front)
        for end, was in zip(self.known, other.known, strict=True):
            if end != was + shift and (end > floor or was > floor - shift):
                return None
        return shift if self.bytes.like(other.bytes, floor, shift) else None

    def _choose(self, i: int) -> tuple[int, ...]:
        """Return the lanes of an op that may choose: those that are free first."""
        found: tuple[int, ...] = ()
        for hold in self.tables.holds[i]:
            lanes = hold.lanes
            if hold.count < len(lanes):
                lanes = tuple(sorted(sorted(lanes, key=self.front.__getitem__)[: hold.count]))
                self.units[i, hold.use] = lanes
            found += lanes
        return found

    def _work(self, i: int, at: int) -> None:
        tables = self.tables
        end = at + tables.duration[i]
        self.start[i] = self.moved[i] = at
        chosen = not tables.lanes_of[i]
        for hold in tables.holds[i]:
            for lane in self.units.get((i, hold.use), hold.lanes) if chosen else hold.lanes:
                self._step(lane, at, at + hold.ticks)
        self.known[i] = end
        self.done[i] = 1
        if end > self.end:
            self.end = end
        self._release(i)
        for s in tables.sends[i]:
            if all(map(self.done.__getitem__, tables.waits[s])):
                heappush(self.unsent, (max(self.known[p] for p in tables.waits[s]), s))

    def _step(self, lane: int, begin: int, end: int) -> None:
        """Hold a lane from ``begin`` to ``end``."""
        edges = self.edges[lane]
        if lane in self.tables.owners:
            if begin > self.front[lane]:
                edges.append(begin)
            edges.append(end)
            if len(edges) > 2 * LOOK_BACK:
                del edges[:LOOK_BACK]
        self.front[lane] = end

    def _issue(self, i: int, at: int) -> None:
        """Start a transfer that its owner does not get for nothing, behind all that asked for its pipes before."""
        issue = self.tables.issue[i]
        begins, harmless = self._asked(i, at + issue)
        if not harmless:
            at = max(at, self._last(i) - issue)
            begins, _ = self._asked(i, at + issue)
        self._step(self.tables.owner[i], at, at + issue)
        self._move(i, at, at + issue, begins)
        insort(self.pending[self.tables.owner[i]], (self.moved[i] + self.tables.duration[i], i))

    def _asked(self, i: int, at: int) -> tuple[int, bool]:
        """Return when transfer ``i`` begins if it asks for its pipes ``at``, and whether that delays nobody later."""
        begins, behind = at, []
        for pipe, ticks in self.tables.takes[i]:
            served = self.served[pipe]
            k = bisect_right(served, (at, i))
            if k and served[k - 1][3] > begins:
                begins = served[k - 1][3]
            if k < len(served):
                behind.append((served, k, ticks))
        for served, k, ticks in behind:
            # What came before those that are remembered may still be under way.
            if begins + ticks > served[k][2] or (k == 0 and len(served) >= KEPT // 2):
                return begins, False
        return begins, True

    def _last(self, i: int) -> int:
        """Return the first moment at which transfer ``i`` asks behind all others."""
        last = (self.served[pipe][-1] for pipe, _ in self.tables.takes[i] if self.served[pipe])
        return max((asked + (other > i) for asked, other, *_ in last), default=0)

    def _move(self, i: int, at: int, asked: int, begins: int) -> None:
        self.start[i], self.moved[i] = at, begins
        self.done[i] = 1
        self.end = max(self.end, begins + self.tables.duration[i])
        for pipe, ticks in self.tables.takes[i]:
            served = self.served[pipe]
            insort(served, (asked, i, begins, begins + ticks))
            if len(served) > KEPT:
                del served[: KEPT // 2]

    def _send(self, until: int) -> None:
        """Issue transfers that nobody waits for, in the order in which what they move is there."""
        while self.unsent and self.unsent[0][0] <= until:
            at, i = heappop(self.unsent)
            lane = self.tables.owner[i]
            edges = self.edges[lane]
            k = bisect_left(edges, at)
            at = edges[k] if at < self.front[lane] and k < len(edges) else max(at, self.front[lane])
            begins, harmless = self._asked(i, at)
            while not harmless:
                k = bisect_right(edges, at)
                behind = k == len(edges)
                at = max(at, self._last(i)) if behind else edges[k]
                begins, harmless = self._asked(i, at)
                if behind:
                    break
            self._move(i, at, at, begins)
            if at > self.front[lane]:
                self._step(lane, at, at)
            insort(self.pending[lane], (self.moved[i] + self.tables.duration[i], i))

    def _fetch(self, i: int, wanted: int) -> bool:
        """Issue the transfer of what is ``wanted`` at a time: as late as it is there then, else as early as it can."""
        tables, lane = self.tables, self.tables.owner[i]
        earliest = self.bytes.fits(max((self.known[p] for p in tables.waits[i]), default=0), self._needs(i))
        if earliest is None:
            return False
        best: tuple[int, int, int] | None = None
        if earliest <= self.front[lane]:
            for at in reversed(self.edges[lane][-LOOK_BACK:]):
                if at < earliest:
                    break
                begins, harmless = self._asked(i, at)
                if harmless:
                    if best is None or begins < best[0]:
                        best = begins, at, at
                    if begins + tables.duration[i] <= wanted:
                        break
        if best is None:
            at = max(earliest, self.front[lane])
            begins, harmless = self._asked(i, at)
            if not harmless:
                at = max(at, self._last(i))
                begins, _ = self._asked(i, at)
            best = begins, at, at
        begins, at, _ = best
        self._move(i, at, at, begins)
        if at > self.front[lane]:
            self._step(lane, at, at)
        self._take(i, at)
        self.known[i] = begins + tables.duration[i]
        self._release(i)
        return True

    def _await(self, i: int) -> None:
        """Let the owner of a transfer notice its end, and of all that ended before."""
        lane = self.tables.owner[i]
        while self.known[i] < 0:
            self._observe(lane, self.pending[lane][0][0] + self.tables.poll[self.pending[lane][0][1]])

    def _observe(self, lane: int, until: int) -> None:
        """Let an owner notice the transfers that have ended, as far as that ends ``until`` some time, or is overdue."""
        pending, poll = self.pending[lane], self.tables.poll
        while pending and (pending[0][0] + poll[pending[0][1]] <= until or pending[0][0] <= self.front[lane]):
            at, i = pending.pop(0)
            self.known[i] = max(at, self.front[lane]) + poll[i]
            if poll[i]:
                self._step(lane, self.known[i] - poll[i], self.known[i])
            self.end = max(self.end, self.known[i])
            self._release(i)

    def _needs(self, i: int) -> int:
        need = 0
        for b in self.tables.buffers[i]:
            if not self.born[b]:
                need += self.tables.size[b]
        return need

    def _bring(self, i: int, at: int, lanes: tuple[int, ...]) -> int | None:
        """Take the bytes that op ``i`` brings to life, at ``at`` or later; return when, or None."""
        need = self._needs(i)
        if need == 0:
            return at
        left, of = self.left, self.tables.buffers[i]
        dies = sum(self.tables.size[b] for b in of if left[b] == 1)
        while True:
            if self.unsent:
                self._send(at)
            found = self.bytes.fits_while(at, self.tables.duration[i], need, need - dies)
            ending = self._next_end()
            if found is None and ending is None and self.unsent:
                self._send(self.unsent[0][0])
                continue
            if ending is None or (found is not None and ending[0] >= found):
                break
            # Somebody else's transfer ends before: what it frees may be enough.
            self._observe(ending[1], max(ending[0], self.front[ending[1]]))
            if ending[1] in lanes:
                at = max(at, self.front[ending[1]])
        if found is not None:
            self._take(i, found)
        return found

    def _next_end(self) -> tuple[int, int] | None:
        """Return when the next transfer can be noticed, and on which lane."""
        poll = self.tables.poll
        return min(((of[0][0] + poll[of[0][1]], lane) for lane, of in enumerate(self.pending) if of), default=None)

    def _take(self, i: int, at: int) -> None:
        for b in self.tables.buffers[i]:
            if not self.born[b]:
                self.born[b] = 1
                self._add(at, self.tables.size[b])

    def _release(self, i: int) -> None:
        left = self.left
        for b in self.tables.buffers[i]:
            left[b] -= 1
            if left[b] == 0:
                end = 0
                for u in self.tables.users[b]:
                    if self.known[u] > end:
                        end = self.known[u]
                self._add(end, -self.tables.size[b])

    def _add(self, at: int, size: int) -> None:
        """Change the bytes taken from ``at`` on; what nobody can ask for any more is forgotten."""
        if self.bytes.add(at, size):
            self.bytes.forget(min(self.front + [of[0] for of in self.edges if of]))
