"""The state of a run under rule ``none``: what the simulator knows at an event, and how it gets to the next one.

A round is what happens at one instant before the next transfer is chosen. In a round, an action begins only if
something observable happened in it: the entry, an op known to have ended, a lane released. A wait begins when its
owner is released, and at no other time. Transfers take their pipes in order of issue, those of one instant in order
of the problem; one that finds too few units lets later ones pass.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hexloom.formulations.events.tables import Tables, Way

FRESH, RUNNING, ISSUING, QUEUED, FLYING, ARRIVED, POLLING, OVER = range(8)

TIMED = (False, True, True, False, True, False, True, False)

IDLE = -1
"""Value of a free lane; a busy one has the time of its release, one that waits for transfer i has ``-2 - i``."""


class Step(NamedTuple):
    """One action on the way to a state, the newest first; ``over`` are the ops that had ended when it began."""

    action: int
    mode: int
    lanes: tuple[tuple[int, ...], ...]
    guard: int
    places: tuple[tuple[int, int], ...]
    over: int
    before: Step | None


class State:
    """All that the future depends on, and how it came about; times are absolute.

    ``shares`` are the amounts left; ``returned`` has a bit for each of which something came back in this round.
    """

    __slots__ = (
        "alive",
        "born",
        "died",
        "entry",
        "freed",
        "fresh",
        "lanes",
        "late",
        "mode",
        "now",
        "over",
        "path",
        "pending",
        "phase",
        "pipes",
        "places",
        "rank",
        "released",
        "returned",
        "seen",
        "shares",
        "used",
        "when",
    )

    phase: list[int]
    when: list[float]
    mode: list[int]
    lanes: list[float]
    pipes: list[list[tuple[float, int]]]
    pending: list[tuple[float, int]]
    places: dict[int, int]
    shares: list[int]
    now: float
    over: int
    fresh: int
    alive: int
    used: int
    rank: int
    seen: int
    released: int
    returned: int
    freed: bool
    entry: bool
    late: bool
    born: list[int]
    died: list[int]
    path: Step | None

    def copy(self) -> State:
        """Return an independent copy."""
        new = type(self).__new__(type(self))
        new.phase = self.phase[:]
        new.when = self.when[:]
        new.mode = self.mode[:]
        new.lanes = self.lanes[:]
        new.pipes = [pipe[:] for pipe in self.pipes]
        new.pending = self.pending[:]
        new.places = self.places.copy() if self.places else {}
        new.shares = self.shares[:]
        new.born = self.born[:]
        new.died = self.died[:]
        new.path = self.path
        new.alive, new.used, new.rank = self.alive, self.used, self.rank
        new.now, new.over, new.fresh = self.now, self.over, self.fresh
        new.seen, new.released, new.returned = self.seen, self.released, self.returned
        new.freed, new.entry, new.late = self.freed, self.entry, self.late
        return new


def first_state(tables: Tables, used: int) -> State:
    """Return the state in which the plan is entered, ``used`` bytes being held from the start."""
    state = State.__new__(State)
    n = tables.n
    state.phase, state.when, state.mode = [FRESH] * n, [0] * n, [0] * n
    state.lanes = [IDLE] * tables.lane_count
    state.pipes = [[] for _ in tables.pipe_units]
    state.pending, state.places = [], {}
    state.shares = tables.share_units[:]
    buffers = len(tables.size)
    state.born, state.died = [0] * buffers, [0] * buffers
    state.path = None
    state.alive, state.used, state.rank = sum(1 << b for b in tables.from_start), used, 1
    state.now, state.over, state.fresh = tables.problem.entry_ticks, 0, tables.full
    state.seen = state.released = state.returned = 0
    state.freed, state.entry, state.late = False, True, False
    return state


def key_of(tables: Tables, state: State) -> tuple[object, ...]:
    """Return what the future depends on, relative to now: equal for states that differ by alike lanes only."""
    now = state.now
    ops: list[float] = []
    modes_count = bool(state.shares)  # what an op gives back depends on its mode
    for phase, when, mode in zip(state.phase, state.when, state.mode, strict=True):
        if phase in (FRESH, OVER):
            ops.append(-phase)
        elif phase == RUNNING and not modes_count:
            ops.append((when - now) * 8 + RUNNING)
        else:
            ops.append((((when - now) if TIMED[phase] else 0) * 65536 + mode) * 8 + phase)
    released, special = state.released, tables.special
    lanes: list[float] = []
    for first, count in tables.groups:
        alike: list[float] = []
        for lane in range(first, first + count):
            until = state.lanes[lane]
            value = until if until < IDLE else until - now + 1 if until >= 0 else released >> lane & 1
            if special >> lane & 1:
                lanes.append(value)
            else:
                alike.append(value)
        alike.sort()
        lanes += alike
    if state.entry:
        flags = -1
    elif tables.monotone:
        flags = int(state.freed)
        if state.seen:
            for i, before in enumerate(tables.before):
                if before & state.seen and state.fresh >> i & 1:
                    flags |= 2 << i
            flags |= state.returned << tables.n + 1
    else:
        flags = int(state.seen != 0)
    pipes = tuple([tuple([(until - now, units) for until, units in pipe]) for pipe in state.pipes])
    pending = tuple([(issued == now, i) for issued, i in state.pending])
    places = tuple(sorted(state.places.items())) if state.places else ()
    return tuple(ops), tuple(lanes), flags, pipes, pending, places


def begin(tables: Tables, state: State, i: int, m: int, way: Way) -> None:
    """Note that op ``i`` begins in mode ``m``, with its shares and the buffers that nobody used before."""
    state.fresh &= ~(1 << i)
    state.mode[i] = m
    state.rank += 1
    for b in tables.buffers_of[i]:
        if not state.alive >> b & 1:
            state.alive |= 1 << b
            state.used += tables.size[b]
            state.born[b] = state.rank
    for share, amount in way.shares:
        state.shares[share] -= amount


def start(tables: Tables, state: State, i: int, m: int, way: Way, lanes: tuple[tuple[int, ...], ...]) -> None:
    """Let op ``i`` begin in mode ``m`` on ``lanes``, per ask of the mode."""
    begin(tables, state, i, m, way)
    now = state.now
    if way.owner >= 0:
        if way.issue == 0:
            state.phase[i] = QUEUED
            insort(state.pending, (now, i))
            state.released |= 1 << way.owner
        else:
            state.phase[i] = ISSUING
            state.when[i] = state.lanes[way.owner] = now + way.issue
            state.released &= ~(1 << way.owner)
        return
    for ask, mine in zip(way.asks, lanes, strict=True):
        if ask is not None:
            for lane in mine:
                state.lanes[lane] = now + ask.ticks
                state.released &= ~(1 << lane)
    if way.duration == 0:
        known(tables, state, i)
    else:
        state.phase[i] = RUNNING
        state.when[i] = now + way.duration


def wait(tables: Tables, state: State, i: int, way: Way) -> None:
    """Let the owner of transfer ``i`` wait for it."""
    state.rank += 1
    state.released &= ~(1 << way.owner)
    if state.phase[i] == ARRIVED:
        _poll(tables, state, i, way)
    else:
        state.lanes[way.owner] = -2 - i


def _poll(tables: Tables, state: State, i: int, way: Way) -> None:
    if way.poll == 0:
        state.lanes[way.owner] = IDLE
        state.released |= 1 << way.owner
        known(tables, state, i)
    else:
        state.phase[i] = POLLING
        state.when[i] = state.lanes[way.owner] = state.now + way.poll


def known(tables: Tables, state: State, i: int) -> None:
    """Note that the end of op ``i`` is known."""
    state.phase[i] = OVER
    state.over |= 1 << i
    state.seen |= 1 << i
    state.rank += 1
    if state.shares:
        way = tables.ways[i][state.mode[i]]
        assert way is not None
        for share, amount in way.shares:
            state.shares[share] += amount
            state.returned |= 1 << share
    deadline = tables.deadline[i]
    if deadline is not None and state.now > deadline:
        state.late = True
    for b in tables.buffers_of[i]:
        if tables.users[b] & ~state.over == 0:
            state.alive &= ~(1 << b)
            state.used -= tables.size[b]
            state.died[b] = state.rank
            state.places.pop(b, None)
            state.freed = True


def next_round(tables: Tables, state: State) -> bool:
    """Go to the next round in which something observable happens; False when nothing is under way."""
    while True:
        if state.pending:
            _choose_transfers(tables, state)
        then: float = -1
        for phase, when in zip(state.phase, state.when, strict=True):
            if TIMED[phase] and (then < 0 or when < then):
                then = when
        for until in state.lanes:
            if until >= 0 and (then < 0 or until < then):
                then = until
        for pipe in state.pipes:
            if pipe and (then < 0 or pipe[0][0] < then):
                then = pipe[0][0]
        if then < 0:
            return False
        state.now = then
        state.seen = state.released = state.returned = 0
        state.freed = state.entry = False
        _happen(tables, state)
        if state.seen or state.released:
            return True


def _happen(tables: Tables, state: State) -> None:
    now = state.now
    for pipe in state.pipes:
        while pipe and pipe[0][0] == now:
            del pipe[0]
    for i, phase in enumerate(state.phase):
        if not TIMED[phase] or state.when[i] != now:
            continue
        if phase in (RUNNING, POLLING):
            known(tables, state, i)
        elif phase == ISSUING:
            state.phase[i] = QUEUED
            insort(state.pending, (now, i))
        else:
            state.phase[i] = ARRIVED
            way = tables.ways[i][state.mode[i]]
            assert way is not None
            if state.lanes[way.owner] == -2 - i:
                _poll(tables, state, i, way)
    for lane, until in enumerate(state.lanes):
        if until == now:
            state.lanes[lane] = IDLE
            state.released |= 1 << lane


def _choose_transfers(tables: Tables, state: State) -> None:
    free = [units - sum(u for _, u in pipe) for units, pipe in zip(tables.pipe_units, state.pipes, strict=True)]
    left: list[tuple[float, int]] = []
    for item in state.pending:
        i = item[1]
        way = tables.ways[i][state.mode[i]]
        assert way is not None
        if any(free[pipe] < units for pipe, units, _ in way.pipes):
            left.append(item)
            continue
        for pipe, units, ticks in way.pipes:
            free[pipe] -= units
            insort(state.pipes[pipe], (state.now + ticks, units))
        state.phase[i] = FLYING
        state.when[i] = state.now + way.latency
    state.pending = left
