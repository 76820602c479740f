"""Tile counters: what can happen next where the ops of every stage begin in the order of their tiles.

The ops of a stage form a line; a state is how many of each line have begun, and what is at work. Each decision is made
at one moment: some ops begin, and the next decision is due at the next end. Where durations do not depend on others
nothing is gained by beginning in between. Bytes are counted, or buffers get their addresses when they begin to live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hexloom.formulations.tile_bytes import Owned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem
    from hexloom.formulations.tile_bytes import Layout, Taken

MOST_CHOICES = 64
"""Sets of ops that may begin at one moment: more are not looked at."""

Holds = tuple[tuple[int, int], ...]
"""Units of lanes, by the position of the lane."""

Pipes = tuple[tuple[int, ...], ...]
"""For every pipe when each of its units is free, ascending."""


class Running(NamedTuple):
    """Op ``op`` ends at ``end`` (a transfer: is done), and holds so many units of each lane until then.

    With it buffers have begun to live: ``taken``, empty where bytes are only counted.
    """

    end: int
    op: int
    holds: Holds
    taken: Taken = ()


class State(NamedTuple):
    """What is so at ``now``, after all ends and before anything begins.

    ``begun`` ops of every line; what is ``running``, by its ends; units that are ``free`` of every lane; ``room`` in
    bytes; what is ``taken`` of the scratchpad, empty where bytes are only counted; and when ``pipes`` are free.
    """

    now: int
    begun: tuple[int, ...]
    running: tuple[Running, ...]
    free: tuple[int, ...]
    room: int
    taken: Taken
    pipes: Pipes


class Step(NamedTuple):
    """``begins`` at the moment of a state, then the ends that are known by the moment of ``state``."""

    begins: tuple[Running, ...]
    ends: tuple[int, ...]
    state: State


class _Op(NamedTuple):
    """What the clock needs of an op: ``before`` and ``users`` are places in lines, ``wants`` units of lanes."""

    ticks: int
    before: tuple[tuple[int, int, int], ...]
    wants: tuple[tuple[tuple[int, ...], int], ...]
    pipes: tuple[tuple[int, int, int], ...]
    owner: int | None
    buffers: tuple[int, ...]
    work: tuple[tuple[int, int, int], ...]
    tail: int


class TileCounters:
    """The states of ``problem``, each op in its fastest mode.

    A lane is a set of units that are all the same: threads that own transfers, or that an op asks for by number, are
    lanes of their own, and are taken last. The clock leaves out what owners take to issue and to poll.
    """

    def __init__(self, problem: Problem, heads_tails: HeadsTails) -> None:
        lines: dict[tuple[str, str], list[int]] = {}
        for i in problem.topological_order:
            lines.setdefault((problem.ops[i].task, problem.ops[i].stage), []).append(i)
        self.lines = [sorted(line, key=lambda i: (problem.ops[i].tile, i)) for line in lines.values()]
        self._place = {i: (c, k) for c, line in enumerate(self.lines) for k, i in enumerate(line)}
        self._lay_lanes(problem)
        # Beside the engines, bytes over time; they say when all can be over where the scratchpad is what is scarce.
        self._units = [*(engine.units for engine in problem.engines), max(1, problem.scratchpad.available_bytes)]
        users = [tuple(dict.fromkeys(problem.op_index[name] for name in b.ops)) for b in problem.buffers]
        self._users = [tuple((*self._place[i], i) for i in of) for of in users]
        self._bytes = [0 if b.always or b.from_start else b.occupied_bytes for b in problem.buffers]
        self._freed = [0 if b.always or b.to_end else b.occupied_bytes for b in problem.buffers]
        self._ops = [self._op(problem, i, int(heads_tails.tail[i])) for i in range(len(problem.ops))]
        plain = [op.ticks for op in self._ops if op.owner is None]
        self._longest_block = max(plain, default=0)
        self._left = [self._work_left(line) for line in self.lines]
        self._owned = Owned(problem, self._place)
        # A thread issues what it owns at the moment before it begins other work.
        self._transfers_first = sorted(range(len(self.lines)), key=lambda c: self._ops[self.lines[c][0]].owner is None)
        taken = sum(b.occupied_bytes for b in problem.buffers if b.always or b.from_start)
        self.first = State(
            problem.entry_ticks,
            (0,) * len(self.lines),
            (),
            tuple(self._capacity),
            problem.scratchpad.available_bytes - taken,
            (),
            tuple((problem.entry_ticks,) * e.units for e in problem.engines if e.kind == "pipe"),
        )

    def _lay_lanes(self, problem: Problem) -> None:
        special: dict[str, set[int]] = {}
        for op in problem.ops:
            for mode in op.modes:
                if mode.dma is not None:
                    special.setdefault(mode.dma.owner_engine, set()).add(mode.dma.owner_unit)
                for use in mode.uses:
                    special.setdefault(use.engine, set()).update(use.unit_ids or ())
        self.units_of_lane: list[tuple[str, tuple[int, ...]]] = []
        self._capacity: list[int] = []
        self._lanes: dict[str, tuple[int, ...]] = {}
        self._lane: dict[tuple[str, int], int] = {}
        for engine in problem.engines:
            if engine.kind == "pipe":
                continue
            own = sorted(special.get(engine.name, ()), reverse=True)
            first = len(self._capacity)
            self._lanes[engine.name] = tuple(range(first, first + 1 + len(own)))
            self._lane |= {(engine.name, u): first + 1 + k for k, u in enumerate(own)}
            shared = () if engine.kind == "share" else tuple(u for u in range(engine.units) if u not in own)
            self.units_of_lane += [(engine.name, shared), *((engine.name, (u,)) for u in own)]
            self._capacity += [engine.units - len(own), *(1 for _ in own)]

    def _op(self, problem: Problem, i: int, tail: int) -> _Op:
        mode = problem.ops[i].modes[problem.fastest_modes[i]]
        number = {engine.name: k for k, engine in enumerate(problem.engines)}
        pipe = {name: k for k, name in enumerate(e.name for e in problem.engines if e.kind == "pipe")}
        uses = [use for use in mode.uses if use.ticks > 0]
        wants: list[tuple[tuple[int, ...], int]] = []
        for use in uses:
            if use.unit_ids is not None:
                wants += [((self._lane[use.engine, u],), 1) for u in use.unit_ids]
            elif use.engine not in pipe:
                wants.append((self._lanes[use.engine], use.units))
        dma, ticks = mode.dma, mode.latency_ticks if mode.dma is not None else mode.duration_ticks
        work = [(number[use.engine], use.units * use.ticks, use.units) for use in uses]
        held = sum(problem.buffers[b].occupied_bytes for b in problem.op_buffers[i])
        return _Op(
            ticks,
            tuple((*self._place[p], p) for p in problem.predecessors[i]),
            tuple(wants),
            tuple((pipe[use.engine], use.units, use.ticks) for use in uses if use.engine in pipe),
            None if dma is None else self._lane[dma.owner_engine, dma.owner_unit],
            problem.op_buffers[i],
            (*work, (len(number), held * ticks, held)),
            tail,
        )

    def _work_left(self, line: list[int]) -> list[tuple[int, ...]]:
        """Return what the ops from each place of ``line`` on ask of every engine and of the bytes, then their ticks."""
        rows = [(0,) * (len(self._units) + 1)]
        for i in reversed(line):
            row = list(rows[-1])
            for engine, work, _ in self._ops[i].work:
                row[engine] += work
            row[-1] += self._ops[i].ticks
            rows.append(tuple(row))
        return rows[::-1]

    def over(self, state: State) -> bool:
        """Whether all ops have ended."""
        return not state.running and all(n == len(line) for n, line in zip(state.begun, self.lines, strict=True))

    def bound(self, state: State) -> tuple[float, float, float]:
        """Return about when all can be over at the earliest, how long engines have to work yet, and ops have to run.

        The last two are sums. The first is no proof: ops that share a buffer count its bytes each.
        """
        now = state.now
        rows = [row[n] for row, n in zip(self._left, state.begun, strict=True)]
        left = list(map(sum, zip(*rows, strict=True)))
        best: float = now
        for end, i, _, _ in state.running:
            op = self._ops[i]
            if end > now:
                for engine, work, units in op.work:
                    left[engine] += min(work, units * (end - now))
                left[-1] += end - now
            best = max(best, end + op.tail)
        for line, n in zip(self.lines, state.begun, strict=True):
            if n < len(line):
                op = self._ops[line[n]]
                best = max(best, now + op.ticks + op.tail)
        times = [work / units for work, units in zip(left, self._units, strict=False)]
        return max(best, now + max(times)), sum(times[:-1]), left[-1]

    def no_later(self, one: State, other: State) -> bool:
        """Whether from ``one`` all can be done as soon as from ``other``, where as many ops of every line have begun.

        Nothing that ``one`` waits for ends later, seen from the moment of ``other``; addresses are not compared.
        """
        if one.now > other.now:
            return False
        ends = {running.op: running.end for running in other.running}
        busy, unseen = one.now, False
        for end, i, _, _ in one.running:
            if i in ends:
                if end > ends[i]:
                    return False
            elif end > other.now:
                return False
            elif self._ops[i].owner is not None:
                unseen = True
            if self._ops[i].owner is None:
                busy = max(busy, end)
        return not unseen or busy <= other.now

    def steps(self, state: State, layout: Layout | None = None) -> Iterator[Step]:
        """Yield what can begin at this moment, and what follows; nothing begins first.

        ``layout`` says where buffers look for addresses; without it their bytes are counted.
        """
        now, lines, ops = state.now, self.lines, self._ops
        running = {one.op for one in state.running}
        ready = [self._ready(state, c, running) for c in range(len(lines))]
        open_lines = [c for c in self._transfers_first if state.begun[c] < ready[c]]
        begins: tuple[Running, ...] = ()
        stack = [(0, state, begins)]
        looked_at = 0
        while stack and looked_at < MOST_CHOICES:
            at, here, begins = stack.pop()
            begun, free = here.begun, here.free
            looked_at += 1
            if here.running:
                yield self._next_end(here, begins)
            for k in range(at, len(open_lines)):
                c = open_lines[k]
                if begun[c] >= ready[c]:
                    continue
                i = lines[c][begun[c]]
                op = ops[i]
                holds = self._holds(op, free)
                if holds is None:
                    continue
                new = [b for b in op.buffers if self._bytes[b] and self._is_first(b, i, begun)]
                need = sum(self._bytes[b] for b in new)
                more = (*begun[:c], begun[c] + 1, *begun[c + 1 :])
                if need > here.room or (need and not self._owned.can_end(more)):
                    continue
                places: Taken = ()
                taken = here.taken
                if layout is not None and new:
                    placed = layout.place(new, taken)
                    if placed is None:
                        continue
                    places, taken = placed
                end, pipes = now + op.ticks, here.pipes
                if op.owner is not None:
                    moved = max([now, *(pipes[p][units - 1] for p, units, _ in op.pipes)])
                    if moved > now + self._longest_block:  # there will be a moment to issue it before that
                        continue
                    end, pipes = moved + op.ticks, _served(pipes, op, moved)
                left = list(free)
                for lane, units in holds:
                    left[lane] -= units
                one = Running(end, i, holds, places)
                then = State(now, more, (*here.running, one), tuple(left), here.room - need, taken, pipes)
                stack.append((k, then, (*begins, one)))

    def _ready(self, state: State, c: int, running: set[int]) -> int:
        """Return up to which place ops of line ``c`` wait for nobody."""
        line, at, begun = self.lines[c], state.begun[c], state.begun
        while at < len(line) and all(begun[o] > k and p not in running for o, k, p in self._ops[line[at]].before):
            at += 1
        return at

    def _is_first(self, b: int, i: int, begun: tuple[int, ...]) -> bool:
        """Whether no user of buffer ``b`` but op ``i`` has begun."""
        return all(begun[c] <= k for c, k, user in self._users[b] if user != i)

    def _holds(self, op: _Op, free: tuple[int, ...]) -> Holds | None:
        """Return what ``op`` takes of each lane, None where there is too little."""
        if op.owner is not None and not free[op.owner]:
            return None
        found: list[tuple[int, int]] = []
        for lanes, wanted in op.wants:
            for lane in lanes:
                part = min(wanted, free[lane])
                if part:
                    found.append((lane, part))
                    wanted -= part
            if wanted:
                return None
        return tuple(found)

    def _next_end(self, state: State, begins: tuple[Running, ...]) -> Step:
        """Return the state at the next end; that of a transfer is known when its owner has no other work."""
        now = min(one.end for one in state.running if one.end > state.now)
        free, room = list(state.free), state.room
        left, known, transfers = [], [], []
        for one in state.running:
            if one.end > now:
                left.append(one)
            elif self._ops[one.op].owner is not None:
                transfers.append(one)
            else:
                known.append(one)
                for lane, units in one.holds:
                    free[lane] += units
        for one in transfers:
            owner = self._ops[one.op].owner
            if owner is not None and not free[owner]:
                left.append(one)
                continue
            known.append(one)
            for lane, units in one.holds:
                free[lane] += units
        running = {one.op for one in left}
        dead = {
            b
            for b in {b for one in known for b in self._ops[one.op].buffers if self._freed[b]}
            if all(state.begun[c] > k and user not in running for c, k, user in self._users[b])
        }
        room += sum(self._freed[b] for b in dead)
        taken = tuple(one for one in state.taken if one[2] not in dead) if state.taken else ()
        after = State(now, state.begun, tuple(sorted(left)), tuple(free), room, taken, state.pipes)
        return Step(begins, tuple(one.op for one in known), after)


def _served(pipes: Pipes, op: _Op, moved: int) -> Pipes:
    """Return when pipes are free once ``op`` has them from ``moved`` on."""
    found = list(pipes)
    for p, units, ticks in op.pipes:
        found[p] = tuple(sorted((*found[p][units:], *(moved + ticks,) * units)))
    return tuple(found)
