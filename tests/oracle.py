"""The exact best plan of a small problem by a plain search over events.

Nothing here is shared with the product but the data of `Problem`. The class searched is that of the plan language:

* A ``run`` or a ``start`` happens at entry, when an op is observed to end, or when one of its own threads is released:
  nothing else can hold it back. The ``wait`` for a transfer happens when its owner is released, and blocks the owner
  until the transfer is done.
* Units of an engine without threads change hands when the result of their user exists, because only that is
  observable.
* Ops between their start and their known end never hold more of a share than there is, nor, where channels are rigid,
  demand more of a channel than its capacity. What is given back is observed as an end.
* A buffer has its address from the start of its first op to the observed end of its last; one that is resident, before
  the first op, after the last op, or both. One that is never alive needs an address inside the scratchpad all the same.
* A buffer lies in the scratchpad or in one pool; those of different places have no bytes in common.
* No op is known to end after its deadline.
* Transfers take their pipes in order of issue; one that finds its pipes taken lets later ones pass. All that happens
  at one instant happens before the next transfer is chosen.

States are equal when all remaining ticks are equal; of equal states the earliest counts. No other dominance is used,
because none is true: a shorter op can make a plan end later.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import combinations, count, product
from typing import TYPE_CHECKING, Any, NamedTuple

from plan_rules import demands, room_of, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hexloom.formulations.problem import Mode, Problem

STATE_LIMIT = 20_000

(FRESH, RUNNING, ISSUING, QUEUED, FLYING, ARRIVED, POLLING, OVER) = range(8)
"""Life of an op; a transfer goes through issuing, queued, flying, arrived and polling."""

ENTRY = -(1 << 30)
"""The action of the step that leads to the first state."""

TIMED = (RUNNING, ISSUING, FLYING, POLLING)


class OracleLimit(Exception):
    """Too many states; nothing is known."""


@dataclass(frozen=True)
class Witness:
    """A best plan, in the words of a decision, with the time of every action."""

    ticks: int
    modes: tuple[int, ...]
    units: tuple[tuple[tuple[int, ...], ...], ...]
    actions: tuple[int, ...]
    times: tuple[int, ...]
    offsets: tuple[int, ...]
    guards: tuple[tuple[int, int], ...]
    flows: tuple[tuple[int, int], ...] = ()


class State(NamedTuple):
    """All that the future depends on, relative to now.

    ``ops``: phase, mode and remaining ticks. ``lanes``: remaining ticks of each thread or unit, ``-1 - i`` while it
    waits for transfer i. ``pipes``: remaining ticks of each unit in use. ``pending``: transfers that wait for pipes,
    as (issued now, op). ``places``: the address of each live buffer, or -1. ``entry``, ``seen``, ``released``: what
    happened in this round of this instant and can let an op start.
    """

    ops: tuple[tuple[int, int, int], ...]
    lanes: tuple[int, ...]
    pipes: tuple[tuple[int, ...], ...]
    pending: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    entry: bool
    seen: tuple[int, ...]
    released: frozenset[int]


class Step(NamedTuple):
    """One action on the way to a state, newest first."""

    action: int
    time: int
    mode: int
    units: tuple[tuple[int, ...], ...]
    placed: tuple[tuple[int, int], ...]
    guards: tuple[tuple[int, int], ...]
    flows: tuple[tuple[int, int], ...]
    before: Step | None


def optimum(problem: Problem, state_limit: int = STATE_LIMIT, *, rigid: bool = False) -> Witness | None:
    """Return a best plan of ``problem``, or None when nothing fits; with ``rigid`` its channels have a capacity.

    Raises
    ------
    OracleLimit
        After ``state_limit`` states.
    """
    found = [_Search(placed, state_limit, rigid).run() for placed in ranges_pinned(problem)]
    return min((witness for witness in found if witness is not None), key=lambda witness: witness.ticks, default=None)


def ranges_pinned(problem: Problem) -> Iterator[Problem]:
    """Yield the problem with every range in parts at each address that it can have, all parts pinned there."""
    names = sorted({b.part_of for b in problem.buffers if b.part_of is not None})
    choices = []
    for name in names:
        parts = [b for b in problem.buffers if b.part_of == name]
        last = room_of(problem, parts[0]) - sum(size(b) for b in parts)
        begins = range(0, last + 1, parts[0].align_bytes)
        choices.append([at for at in begins if parts[0].address in (None, at)])
    for chosen in product(*choices):
        ends = dict(zip(names, chosen, strict=True))
        buffers = []
        for b in problem.buffers:
            if b.part_of is None:
                buffers.append(b)
            else:
                buffers.append(b.model_copy(update={"part_of": None, "address": ends[b.part_of]}))
                ends[b.part_of] += size(b)
        yield problem.changed(buffers=tuple(buffers))


class _Search:
    def __init__(self, problem: Problem, state_limit: int, rigid: bool) -> None:
        self.problem = problem
        self.demands = demands(problem, rigid)
        self.state_limit = state_limit
        self.names = [op.name for op in problem.ops]
        at = {name: i for i, name in enumerate(self.names)}
        n = len(self.names)
        self.before: list[set[int]] = [set() for _ in range(n)]
        for edge in problem.precedences:
            self.before[at[edge.after]].add(at[edge.before])
        self.lane_of: dict[tuple[str, int], int] = {}
        self.is_worker: list[bool] = []
        self.group: list[str] = []
        self.pipe_of: dict[str, int] = {}
        self.pipe_units: list[int] = []
        for engine in problem.engines:
            if engine.kind == "share":
                continue
            if engine.kind == "pipe":
                self.pipe_of[engine.name] = len(self.pipe_units)
                self.pipe_units.append(engine.units)
                continue
            for unit in range(engine.units):
                self.lane_of[engine.name, unit] = len(self.is_worker)
                self.is_worker.append(engine.kind == "worker")
                self.group.append(engine.name)
        self.units = {engine.name: engine.units for engine in problem.engines if engine.kind != "share"}
        self.special: set[int] = set()
        for op in problem.ops:
            for mode in op.modes:
                if mode.dma is not None:
                    self.special.add(self.lane_of[mode.dma.owner_engine, mode.dma.owner_unit])
                for use in mode.uses:
                    if use.unit_ids is not None and use.engine not in self.pipe_of:
                        self.special |= {self.lane_of[use.engine, u] for u in use.unit_ids}
        self.room = [room_of(problem, b) for b in problem.buffers]
        self.size = [size(b) for b in problem.buffers]
        self.users = [sorted({at[name] for name in b.ops}) for b in problem.buffers]
        names = [b.name for b in problem.buffers]
        self.over = {k: names.index(b.overwrites) for k, b in enumerate(problem.buffers) if b.overwrites is not None}
        self.early = [b.resident in (True, "from_start") for b in problem.buffers]
        self.late = [b.resident in (True, "to_end") for b in problem.buffers]
        self.buffers_of = [[b for b, users in enumerate(self.users) if i in users] for i in range(n)]
        self.tail = [0] * n
        self.shortest = [min(_duration(m) for m in op.modes) for op in problem.ops]
        changed = True
        while changed:
            changed = False
            for i in range(n):
                for b in self.before[i]:
                    value = self.shortest[i] + self.tail[i]
                    if value > self.tail[b]:
                        self.tail[b], changed = value, True
        self.energy = [
            {e: min(_energy(m, e) for m in op.modes) for e in self.units if self.units[e]} for op in problem.ops
        ]

    def run(self) -> Witness | None:
        """Search states in order of their earliest possible end."""
        serial = count()
        queue: list[tuple[int, int, int, int, State, Step | None]] = []
        reached: dict[Any, int] = {}
        for state in self._entries():
            start = self._settle(state)
            # What is alive from the start may be gone at the end: where it lay is told by the first step.
            early = tuple((b, place) for b, place in enumerate(state.places) if place >= 0)
            root = Step(ENTRY, 0, 0, (), early, (), (), None)
            heapq.heappush(
                queue,
                (self.problem.entry_ticks + self._bound(start), 0, next(serial), self.problem.entry_ticks, start, root),
            )
        while queue:
            _, _, _, now, state, path = heapq.heappop(queue)
            if all(op[0] == OVER for op in state.ops):
                return self._witness(now, state, path)
            if reached.get(self._key(state), now) < now:
                continue
            for after, steps in self._round(state, now, path):
                later = self._close(after, now)
                if later is None:
                    continue
                then, following = later
                if self._late(state, after, now) or self._late(after, following, then):
                    continue
                name = self._key(following)
                if name in reached and reached[name] <= then:
                    continue
                reached[name] = then
                if len(reached) > self.state_limit:
                    raise OracleLimit
                over = sum(op[0] == OVER for op in following.ops)
                estimate = then + self._bound(following)
                heapq.heappush(queue, (estimate, -over, next(serial), then, following, steps))
        return None

    def _late(self, before: State, after: State, now: int) -> bool:
        """Whether an op has ended between two states, the later of them at ``now``, and missed its deadline."""
        return any(
            new[0] == OVER != old[0] and op.deadline_ticks is not None and now > op.deadline_ticks
            for old, new, op in zip(before.ops, after.ops, self.problem.ops, strict=True)
        )

    def _entries(self) -> Iterator[State]:
        """Every placement of what is resident, or one for all buffers when all fit side by side."""
        problem = self.problem
        n = len(problem.ops)
        self.static = self._side_by_side()
        base = State(
            ops=((FRESH, 0, 0),) * n,
            lanes=(0,) * len(self.is_worker),
            pipes=((),) * len(self.pipe_units),
            pending=(),
            places=(-1,) * len(problem.buffers),
            entry=True,
            seen=(),
            released=frozenset(),
        )
        if self.static is not None:
            yield base
            return
        # What is never alive needs a legal address all the same.
        if not all(any(True for _ in self._addresses(b, base.places)) for b in range(len(base.places))):
            return
        early = [b for b, there in enumerate(self.early) if there]
        yield from (base._replace(places=places) for places in self._placements(base.places, early))

    def _side_by_side(self) -> tuple[int, ...] | None:
        """Addresses at which every buffer could live all the time, if a plain attempt finds them."""
        problem = self.problem
        places = [-1] * len(problem.buffers)
        pinned_first = sorted(range(len(places)), key=lambda b: (problem.buffers[b].address is None, -self.size[b]))
        for b in pinned_first:
            found = next(self._addresses(b, tuple(places)), None)
            if found is None:
                return None
            places[b] = found
        return tuple(places)

    def _addresses(self, b: int, places: tuple[int, ...]) -> Iterator[int]:
        """Every address that buffer ``b`` can have beside the live ones."""
        buffer, size = self.problem.buffers[b], self.size[b]
        if size == 0:
            if (buffer.address or 0) <= self.room[b]:
                yield buffer.address or 0
            return
        tried = range(0, self.room[b] - size + 1, buffer.align_bytes) if buffer.address is None else (buffer.address,)
        for address in tried:
            if address + size <= self.room[b] and not any(
                place >= 0
                and self.problem.buffers[other].pool == buffer.pool
                and self.size[other]
                and address < place + self.size[other]
                and place < address + size
                for other, place in enumerate(places)
            ):
                yield address

    def _placements(self, places: tuple[int, ...], wanted: list[int]) -> Iterator[tuple[int, ...]]:
        if not wanted:
            yield places
            return
        b = wanted[0]
        for address in self._addresses(b, places):
            yield from self._placements((*places[:b], address, *places[b + 1 :]), wanted[1:])

    def _key(self, state: State) -> tuple[Any, ...]:
        """Equal for states that differ by a renaming of alike units only."""
        plain = sorted(
            (self.group[k], left, k in state.released) for k, left in enumerate(state.lanes) if k not in self.special
        )
        named = tuple((state.lanes[k], k in state.released) for k in sorted(self.special))
        first = RUNNING if self.demands else ISSUING  # what a running op gives back depends on its mode
        ops = tuple((phase, mode if first <= phase <= POLLING else 0, left) for phase, mode, left in state.ops)
        return ops, tuple(plain), named, state.pipes, state.pending, state.places, state.entry, bool(state.seen)

    def _bound(self, state: State) -> int:
        """Ticks that any continuation takes: the longest path, and the work left for each engine."""
        best = 0
        work = dict.fromkeys(self.units, 0)
        for k, left in enumerate(state.lanes):
            work[self.group[k]] += max(0, left)
        for i, (phase, m, left) in enumerate(state.ops):
            if phase == OVER:
                continue
            if phase == FRESH:
                rest = self.shortest[i]
                for e, energy in self.energy[i].items():
                    work[e] += energy
            else:
                mode = self.problem.ops[i].modes[m]
                poll = mode.dma.poll_ticks if mode.dma is not None else 0
                rest = {
                    RUNNING: left,
                    ISSUING: left + mode.latency_ticks + poll,
                    QUEUED: mode.latency_ticks + poll,
                    FLYING: left + poll,
                    ARRIVED: poll,
                    POLLING: left,
                }[phase]
            best = max(best, rest + self.tail[i])
        return max([best] + [-(-total // self.units[e]) for e, total in work.items()])

    def _round(self, state: State, now: int, path: Step | None) -> Iterator[tuple[State, Step | None]]:
        """Every state that some of the actions possible now lead to, none included."""
        known = {self._key(state)}
        stack: list[tuple[State, Step | None]] = [(state, path)]
        while stack:
            at, way = stack.pop()
            yield at, way
            for after, step in self._actions(at, now, way):
                settled = self._settle(after)
                key = self._key(settled)
                if key not in known:
                    known.add(key)
                    stack.append((settled, step))

    def _actions(self, state: State, now: int, path: Step | None) -> Iterator[tuple[State, Step]]:
        for i, (phase, m, _) in enumerate(state.ops):
            if phase == FRESH:
                if all(state.ops[b][0] == OVER for b in self.before[i]) and not self._too_early(state, i):
                    yield from self._starts(state, i, now, path)
            elif phase in (QUEUED, FLYING, ARRIVED):
                lane = self._owner(self.problem.ops[i].modes[m])
                if state.lanes[lane] == 0 and lane in state.released:
                    lanes = _with(state.lanes, {lane: -1 - i})
                    blocked = state._replace(lanes=lanes, released=state.released - {lane})
                    yield blocked, Step(~i, now, m, (), (), (), (), path)

    def _too_early(self, state: State, i: int) -> bool:
        """Whether op ``i`` needs a buffer that is being written over another, which is still read."""
        return any(
            i in self.users[b] and self.size[b] and state.places[a] >= 0 and state.places[a] == state.places[b]
            for b, a in self.over.items()
        )

    def _owner(self, mode: Mode) -> int:
        assert mode.dma is not None
        return self.lane_of[mode.dma.owner_engine, mode.dma.owner_unit]

    def _starts(self, state: State, i: int, now: int, path: Step | None) -> Iterator[tuple[State, Step]]:
        for m, mode in enumerate(self.problem.ops[i].modes):
            if not self._has_share(state, i, m):
                continue
            flows = self._flows(state, i, m)
            for units in self._unit_choices(state, mode):
                if mode.dma is not None:
                    mine = [self._owner(mode)]
                else:
                    mine = [self.lane_of[use.engine, u] for use, ids in zip(mode.uses, units, strict=True) for u in ids]
                if any(state.lanes[lane] != 0 for lane in mine):
                    continue
                if not (state.entry or state.seen or any(lane in state.released for lane in mine)):
                    continue
                guards = () if state.entry else tuple((x, i) for x in state.seen)
                for places in self._births(state, i):
                    placed = tuple((b, places[b]) for b in range(len(places)) if places[b] != state.places[b])
                    after = self._begun(state, i, m, mode, units, mine)._replace(places=places)
                    yield after, Step(i, now, m, units, placed, guards, flows, path)

    def _has_share(self, state: State, i: int, m: int) -> bool:
        """Whether op ``i`` in mode ``m`` fits beside all that started and is not known to have ended."""
        for _, amount, rows in self.demands:
            held = sum(rows[j][n] for j, (phase, n, _) in enumerate(state.ops) if phase not in (FRESH, OVER))
            if rows[i][m] and held + rows[i][m] > amount:
                return False
        return True

    def _flows(self, state: State, i: int, m: int) -> tuple[tuple[int, int], ...]:
        """Every op that has ended and demanded of what op ``i`` demands comes before it."""
        over = [(j, n) for j, (phase, n, _) in enumerate(state.ops) if phase == OVER]
        return tuple((j, i) for j, n in over if any(rows[j][n] and rows[i][m] for _, _, rows in self.demands))

    def _births(self, state: State, i: int) -> Iterator[tuple[int, ...]]:
        if self.static is not None:
            yield state.places
            return
        born = [
            b for b in self.buffers_of[i] if not self.early[b] and all(state.ops[u][0] == FRESH for u in self.users[b])
        ]
        yield from self._placements(state.places, born)
        # What may overwrite a buffer whose other users are all over can also lie there.
        olds = {b: a for b in born if (a := self.over.get(b)) is not None and self.size[b]}
        olds = {b: a for b, a in olds.items() if state.places[a] >= 0 or a in born}
        free = {b: a for b, a in olds.items() if all(state.ops[u][0] == OVER for u in self.users[a] if u != i)}
        buffers = self.problem.buffers
        for chosen in (some for n in range(1, len(free) + 1) for some in combinations(free, n)):
            if len({free[b] for b in chosen} - set(chosen)) < len(chosen):
                continue
            for places in self._placements(state.places, [b for b in born if b not in chosen]):
                at = {b: places[free[b]] for b in chosen}
                if all(buffers[b].address in (None, k) and k % buffers[b].align_bytes == 0 for b, k in at.items()):
                    yield _with(places, at)

    def _unit_choices(self, state: State, mode: Mode) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Ids per use; of alike units only one choice."""
        if mode.dma is not None:
            yield ((),) * len(mode.uses)
            return
        options: list[list[tuple[int, ...]]] = []
        for use in mode.uses:
            if use.ticks == 0 or use.engine not in self.units:
                options.append([()])
            elif use.unit_ids is not None:
                options.append([use.unit_ids])
            else:
                found: dict[Any, tuple[int, ...]] = {}
                idle = [u for u in range(self.units[use.engine]) if state.lanes[self.lane_of[use.engine, u]] == 0]
                for ids in combinations(idle, use.units):
                    lanes = [self.lane_of[use.engine, u] for u in ids]
                    like = sorted((k if k in self.special else -1, k in state.released) for k in lanes)
                    found.setdefault(tuple(like), ids)
                options.append(list(found.values()))
        yield from product(*options)

    def _begun(
        self, state: State, i: int, m: int, mode: Mode, units: tuple[tuple[int, ...], ...], mine: list[int]
    ) -> State:
        released = state.released - set(mine)
        if mode.dma is not None:
            issue = mode.dma.issue_ticks
            ops = _with(state.ops, {i: (ISSUING, m, issue)})
            if issue == 0:
                released |= set(mine)
            return state._replace(ops=ops, lanes=_with(state.lanes, {mine[0]: issue}), released=released)
        held: dict[int, int] = {}
        for use, ids in zip(mode.uses, units, strict=True):
            for u in ids:
                lane = self.lane_of[use.engine, u]
                ticks = use.ticks if self.is_worker[lane] else mode.latency_ticks
                held[lane] = mode.overhead_ticks + ticks
        ops = _with(state.ops, {i: (RUNNING, m, mode.overhead_ticks + mode.latency_ticks)})
        return state._replace(ops=ops, lanes=_with(state.lanes, held), released=released)

    def _settle(self, state: State) -> State:
        """Let everything happen that is due at this very instant."""
        ops, lanes, places = list(state.ops), list(state.lanes), list(state.places)
        pending, seen, released = list(state.pending), list(state.seen), set(state.released)
        moved = True
        while moved:
            moved = False
            for i, (phase, m, left) in enumerate(ops):
                if phase in TIMED and left > 0:
                    continue
                if phase == RUNNING:
                    ops[i] = (OVER, m, 0)
                elif phase == ISSUING:
                    ops[i] = (QUEUED, m, 0)
                    pending.append((1, i))
                elif phase == FLYING:
                    ops[i] = (ARRIVED, m, 0)
                elif phase == ARRIVED and -1 - i in lanes:
                    dma = self.problem.ops[i].modes[m].dma
                    assert dma is not None
                    lanes[lanes.index(-1 - i)] = dma.poll_ticks
                    ops[i] = (POLLING, m, dma.poll_ticks)
                elif phase == POLLING:
                    ops[i] = (OVER, m, 0)
                    released.add(self._owner(self.problem.ops[i].modes[m]))
                else:
                    continue
                moved = True
                if ops[i][0] == OVER:
                    seen.append(i)
                    for b in self.buffers_of[i]:
                        if not self.late[b] and all(ops[u][0] == OVER for u in self.users[b]):
                            places[b] = -1
        return State(
            tuple(ops),
            tuple(lanes),
            state.pipes,
            tuple(sorted(pending, key=lambda item: item if item[0] else (0, 0))),
            tuple(places),
            state.entry,
            tuple(seen),
            frozenset(released),
        )

    def _close(self, state: State, now: int) -> tuple[int, State] | None:
        """End the round: transfers take pipes; then the next round of this instant, or the next instant."""
        ops, pipes = list(state.ops), [list(p) for p in state.pipes]
        left: list[tuple[int, int]] = []
        again = False
        for fresh, i in state.pending:
            m = ops[i][1]
            mode = self.problem.ops[i].modes[m]
            uses = [
                (self.pipe_of[u.engine], u.units, u.ticks)
                for u in mode.uses
                if u.ticks > 0 and u.engine in self.pipe_of
            ]
            if any(len(pipes[p]) + units > self.pipe_units[p] for p, units, _ in uses):
                left.append((fresh, i))
                continue
            for p, units, ticks in uses:
                pipes[p] += [ticks] * units
            ops[i] = (FLYING, m, mode.latency_ticks)
            again = again or mode.latency_ticks == 0
        waiting = [k for phase, _, k in ops if phase in TIMED]
        step = 0
        if not again:
            running = waiting + [k for k in state.lanes if k > 0] + [k for p in pipes for k in p]
            if not running:
                return (now, state) if all(phase == OVER for phase, _, _ in ops) else None
            step = min(running)
        lanes = tuple(k - step if k > 0 else k for k in state.lanes)
        following = State(
            ops=tuple((phase, m, k - step if phase in TIMED else 0) for phase, m, k in ops),
            lanes=lanes,
            pipes=tuple(tuple(sorted(k - step for k in p if k > step or not step)) for p in pipes),
            pending=tuple((fresh if again else 0, i) for fresh, i in left),
            places=state.places,
            entry=False,
            seen=(),
            released=frozenset(k for k, old in enumerate(state.lanes) if old > 0 and lanes[k] == 0),
        )
        return now + step, self._settle(following)

    def _witness(self, ticks: int, last: State, path: Step | None) -> Witness:
        steps: list[Step] = []
        while path is not None:
            steps.append(path)
            path = path.before
        steps.reverse()
        n = len(self.names)
        modes, units = [0] * n, [()] * n  # type: list[int], list[tuple[tuple[int, ...], ...]]
        offsets = [
            last.places[b] if last.places[b] >= 0 else buffer.address or 0
            for b, buffer in enumerate(self.problem.buffers)
        ]
        if self.static is not None:
            offsets = list(self.static)
        guards: list[tuple[int, int]] = []
        flows: list[tuple[int, int]] = []
        for step in steps:
            if step.action >= 0:
                modes[step.action], units[step.action] = step.mode, step.units
            for b, address in step.placed:
                offsets[b] = address
            guards += step.guards
            flows += step.flows
        steps = [step for step in steps if step.action != ENTRY]
        return Witness(
            ticks=ticks,
            modes=tuple(modes),
            units=tuple(units),
            actions=tuple(step.action for step in steps),
            times=tuple(step.time for step in steps),
            offsets=tuple(offsets),
            guards=tuple(guards),
            flows=tuple(flows),
        )


def _with(values: tuple[Any, ...], changes: Mapping[int, Any]) -> tuple[Any, ...]:
    return tuple(changes.get(k, value) for k, value in enumerate(values))


def _duration(mode: Mode) -> int:
    if mode.dma is None:
        return mode.overhead_ticks + mode.latency_ticks
    return mode.dma.issue_ticks + mode.latency_ticks + mode.dma.poll_ticks


def _energy(mode: Mode, engine: str) -> int:
    if mode.dma is not None:
        return mode.dma.issue_ticks + mode.dma.poll_ticks if mode.dma.owner_engine == engine else 0
    return sum(use.units * (mode.overhead_ticks + use.ticks) for use in mode.uses if use.engine == engine and use.ticks)
