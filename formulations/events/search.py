"""Branch and bound over events: the exact best plan of about ten ops, more where they share channels.

The class is that of the plan language: every action begins at the entry, when something observable happens, or not
before a later such event. A state is left out when it was reached before at the same or an earlier time; times count
from now, so the same continuation then ends no later. Nothing else is left out: of two states with different remaining
work neither is better, because a transfer that is issued earlier can take the pipe from one that is needed more.

Where no two transfers can want one pipe unit (`Tables.monotone`), all times are longest paths over the orders of the
decision, so an action may be told to begin only when one of its own reasons comes true: an input is known, one of its
lanes is released, a buffer has died, a share has been given back. Of a decision without guards the simulator gives
exactly such a run, and guards can only delay it. With a contended pipe this does not hold, nor where ops that share
channels slow each other (`hexloom.formulations.events.working`), and every action may be held back to every event.
What is proven is then of the event-driven class, and of any start times only where it meets a lower bound.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import TYPE_CHECKING

from hexloom.formulations.decision import Decision
from hexloom.formulations.events.moves import Unslowed
from hexloom.formulations.events.places import candidates, never_fits, packed, placements, side_by_side
from hexloom.formulations.events.state import (
    ARRIVED,
    FLYING,
    IDLE,
    ISSUING,
    QUEUED,
    Step,
)
from hexloom.formulations.events.tables import Tables
from hexloom.formulations.events.working import Working
from hexloom.formulations.flows import share_flows
from hexloom.formulations.speeds import NOT_SHARING, Speeds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hexloom.formulations.decision import Evaluate, Simulated
    from hexloom.formulations.events.moves import Moves
    from hexloom.formulations.events.state import State
    from hexloom.formulations.events.tables import Ask, Way
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem, Rule

STATES_PER_SECOND = 5_000
"""Counted work for a deterministic limit: states that a slow machine visits in a second."""

LOOK_EVERY = 256

FAR = 2**62

Best = tuple[Decision, "Simulated"]

Choice = tuple[tuple[int, ...], tuple[int, ...]]
"""A kind of choice, equal for alike lanes, and the lanes."""

NO_LANES: Choice = ((), ())

Name = tuple[int, int, tuple[tuple[int, ...], ...], tuple[tuple[int, int], ...]]
"""An action, its mode, the kind of its lanes, and the places of the buffers that it brings to life."""

Taken = frozenset[Name]


@dataclass
class SearchLimits:
    """When to stop: after so many states, which take about 3 KB each, or ``seconds`` of wall time (None: never)."""

    states: int = 200_000
    seconds: float | None = None
    spent: int = 0
    stopped: bool = False
    _started: float = field(default_factory=time.monotonic)

    def spend(self) -> None:
        """Count one state."""
        self.spent += 1
        if self.spent >= self.states:
            self.stopped = True
        elif self.seconds is not None and self.spent % LOOK_EVERY == 0:
            self.stopped = time.monotonic() - self._started >= self.seconds


@dataclass(frozen=True, slots=True)
class EventFound:
    """The best decision, and what is proven.

    ``proven``: no event-driven plan is shorter; where ``free_start``, none with any other start times either.
    ``infeasible``: there is no plan at all. ``states`` were visited. ``interrupted``: the best is the best so far.
    """

    best: Best | None
    proven: bool
    infeasible: bool
    free_start: bool
    states: int
    interrupted: bool = False


def search_events(
    problem: Problem,
    heads_tails: HeadsTails,
    evaluate: Evaluate,
    incumbent: Best | None,
    lower: float,
    limit: SearchLimits,
    rule: Rule = "none",
) -> EventFound:
    """Find the best event-driven plan that is shorter than ``incumbent``, or prove that there is none.

    ``evaluate`` simulates under the same ``rule``. ``rigid`` and ``none`` are one here: nothing slows an op. Where a
    buffer may overwrite another one nothing is searched: a state does not know who lies on whom. Of ranges in parts
    it counts the bytes; where their addresses are needed beyond packing what it finds, nothing is proven.
    """
    if problem.takeovers:
        return EventFound(incumbent, False, False, False, 0)
    tables = Tables(problem, heads_tails)
    speeds = Speeds(problem, rule)
    sharing = any(speeds.load_of(mode) != NOT_SHARING for op in problem.ops for mode in op.modes)
    moves: Moves = Working(tables, speeds) if sharing else Unslowed(tables)
    if incumbent is not None and incumbent[1].late:
        incumbent = None
    if problem.pools:
        # Its states count the bytes of one pool.
        return EventFound(incumbent, False, False, tables.monotone, 0)
    if never_fits(tables):
        return EventFound(incumbent, False, incumbent is None, tables.monotone, 0)
    run = _Search(tables, moves, evaluate, incumbent, lower, limit)
    interrupted = False
    try:
        run.bytes_then_addresses()
    except KeyboardInterrupt:
        limit.stopped = interrupted = True
    proven = (not limit.stopped and run.unpacked >= run.upper and not run.doubtful) or run.upper <= run.lower
    infeasible = proven and run.best is None
    free_start = tables.monotone or (sharing and run.upper <= run.lower)
    return EventFound(run.best, proven and not infeasible, infeasible, free_start, limit.spent, interrupted)


class _Search:
    def __init__(
        self,
        tables: Tables,
        moves: Moves,
        evaluate: Evaluate,
        incumbent: Best | None,
        lower: float,
        limit: SearchLimits,
    ) -> None:
        self.tables = tables
        self.moves = moves
        self.evaluate = evaluate
        self.best = incumbent
        self.upper: float = FAR if incumbent is None else incumbent[1].makespan
        self.lower = lower + moves.grain
        self.limit = limit
        self.reached: dict[object, float] = {}
        self.offsets: tuple[int, ...] | None = None
        self.count_bytes = False
        self.options: list[list[int]] | None = None
        self.first_places: tuple[tuple[int, int], ...] = ()
        self.unpacked: float = FAR
        """The shortest run that was dropped because its buffers found no addresses."""
        self.doubtful = False
        """Whether the simulator saw a run of the search end at another time, which proves nothing any more."""

    def bytes_then_addresses(self) -> None:
        """Search with the bytes in use as part of the state, then, where that is not enough, with addresses."""
        self.offsets = side_by_side(self.tables)
        self.count_bytes = self.offsets is None
        self._run()
        if self.unpacked < self.upper and not self.limit.stopped:
            self.options = None if self.tables.problem.wholes else candidates(self.tables)
            if self.options is not None:
                self.reached.clear()
                self.unpacked = FAR
                self._run()

    def _run(self) -> None:
        """Search depth first, the most promising state first."""
        tables = self.tables
        used = sum(tables.size[b] for b in tables.from_start)
        if self.count_bytes and used > tables.capacity:
            return
        roots: Iterable[tuple[tuple[int, int], ...]] = ((),)
        if self.options is not None:
            roots = placements(tables, self.options, {}, tables.from_start)
        stack: list[tuple[float, State]] = []
        for placed in roots:
            state = self.moves.first(used)
            state.places = dict(placed)
            self.first_places = placed
            stack.append((self.moves.least_end(state), state))
            self._drain(stack)

    def _drain(self, stack: list[tuple[float, State]]) -> None:
        moves, grain = self.moves, self.moves.grain
        while stack and not self.limit.stopped and self.upper > self.lower:
            bound, state = stack.pop()
            if bound >= self.upper - grain or moves.sharpened(state) >= self.upper - grain:
                continue
            found: list[tuple[float, int, int, State]] = []
            for serial, after in enumerate(self._rounds(state)):
                if after.late:
                    continue
                if after.over == self.tables.full:
                    self._finish(after)
                    continue
                if self._stuck(after) or not moves.next_round(after) or after.late:
                    continue
                if after.over == self.tables.full:
                    self._finish(after)
                    continue
                key = moves.key(after)
                if self.reached.get(key, FAR) <= after.now + grain:
                    continue
                self.reached[key] = after.now
                estimate = moves.least_end(after)
                if estimate < self.upper - grain:
                    found.append((-estimate, after.over.bit_count(), -serial, after))
            found.sort(key=lambda item: item[:3])
            stack += [(-estimate, after) for estimate, _, _, after in found]

    def _stuck(self, state: State) -> bool:
        """Whether an owner was left idle that must wait for a transfer, and nothing can start on it any more."""
        for i, phase in enumerate(state.phase):
            if phase in (QUEUED, FLYING, ARRIVED):
                way = self.tables.ways[i][state.mode[i]]
                assert way is not None
                if state.lanes[way.owner] == IDLE and not self.tables.lane_users[way.owner] & state.fresh:
                    return True
        return False

    def _rounds(self, state: State) -> Iterator[State]:
        """Yield the state after every choice of actions in this round; each is the caller's to change.

        In whatever order the same actions begin at one instant, the same comes of it.
        """
        nothing: Taken = frozenset()
        known = {nothing}
        stack = [(state, nothing)]
        while stack:
            at, taken = stack.pop()
            self.limit.spend()
            if self.limit.stopped:
                return
            forced = self._forced(at) if self.tables.monotone else -1
            for name, after in self._starts(at, forced) if forced >= 0 else self._actions(at):
                more = taken | {name}
                if more not in known:
                    known.add(more)
                    stack.append((after, more))
            if forced < 0:
                yield at

    def _forced(self, state: State) -> int:
        """Return an op that may as well begin now, or -1: nothing else but what follows it can use its lanes.

        Only where no transfers contend: there an op that begins earlier delays nothing but who needs its lanes or
        its bytes.
        """
        tables = self.tables
        for i, lanes in tables.alone:
            if not state.fresh >> i & 1 or tables.before[i] & ~state.over:
                continue
            others = state.fresh & ~tables.below[i]
            if any(tables.lane_users[lane] & others or state.lanes[lane] != IDLE for lane in lanes):
                continue
            if lanes and any(phase in (ISSUING, QUEUED, FLYING, ARRIVED) for phase in state.phase):
                continue
            if not lanes or state.entry or tables.before[i] & state.seen or any(state.released >> u & 1 for u in lanes):
                return i
        return -1

    def _actions(self, state: State) -> Iterator[tuple[Name, State]]:
        tables = self.tables
        for i, phase in enumerate(state.phase):
            if state.fresh >> i & 1:
                if tables.before[i] & ~state.over == 0 and self._fits(state, i):
                    yield from self._starts(state, i)
            elif phase in (QUEUED, FLYING, ARRIVED):
                way = tables.ways[i][state.mode[i]]
                assert way is not None
                if state.released >> way.owner & 1:
                    after = state.copy()
                    self.moves.wait(after, i, way)
                    after.path = Step(~i, state.mode[i], (), -1, (), 0, state.path)
                    yield (~i, 0, (), ()), after

    def _fits(self, state: State, i: int) -> bool:
        if not self.count_bytes:
            return True
        tables = self.tables
        new = sum(tables.size[b] for b in tables.buffers_of[i] if not state.alive >> b & 1)
        return state.used + new <= tables.capacity

    def _starts(self, state: State, i: int) -> Iterator[tuple[Name, State]]:
        tables = self.tables
        anyway = (
            state.entry
            or bool(tables.before[i] & state.seen)
            or (state.freed and bool(tables.buffers_of[i]) and tables.monotone)
            or (state.seen != 0 and not tables.monotone)
        )
        natural = state.entry or bool(tables.before[i] & state.seen)
        for m, way in enumerate(tables.ways[i]):
            if way is None or any(amount > state.shares[share] for share, amount in way.shares):
                continue
            returned = any(state.returned >> share & 1 for share, _ in way.shares)
            for chosen in self._lane_choices(state, way):
                alike, lanes = tuple(a for a, _ in chosen), tuple(mine for _, mine in chosen)
                own = any(state.released >> lane & 1 for mine in lanes for lane in mine)
                if way.owner >= 0:
                    own = bool(state.released >> way.owner & 1)
                if not (anyway or own or returned):
                    continue
                guard = -1 if natural or own else (state.seen & -state.seen).bit_length() - 1
                for placed in self._births(state, i):
                    after = state.copy()
                    after.places.update(placed)
                    self.moves.start(after, i, m, way, lanes)
                    after.path = Step(i, m, lanes, guard, placed, state.over, state.path)
                    yield (i, m, alike, placed), after

    def _births(self, state: State, i: int) -> Iterator[tuple[tuple[int, int], ...]]:
        if self.options is None:
            yield ()
            return
        born = [b for b in self.tables.buffers_of[i] if not state.alive >> b & 1]
        yield from placements(self.tables, self.options, state.places, born)

    def _lane_choices(self, state: State, way: Way) -> Iterator[tuple[Choice, ...]]:
        if way.owner >= 0:
            if state.lanes[way.owner] == IDLE:
                yield (NO_LANES,) * len(way.asks)
            return
        yield from product(*[[NO_LANES] if ask is None else self._lanes_for(state, ask) for ask in way.asks])

    def _lanes_for(self, state: State, ask: Ask) -> list[Choice]:
        """Return the choices of free lanes that differ, the lowest of each kind: lanes that no mode names are alike."""
        if ask.ids is not None:
            named = tuple([ask.first + u for u in ask.ids])
            return [(named, named)] if all(state.lanes[lane] == IDLE for lane in named) else []
        special, released = self.tables.special, state.released
        free = [lane for lane in range(ask.first, ask.first + ask.among) if state.lanes[lane] == IDLE]
        named_lanes = [lane for lane in free if special >> lane & 1]
        fresh = [lane for lane in free if not special >> lane & 1 and not released >> lane & 1]
        back = [lane for lane in free if not special >> lane & 1 and released >> lane & 1]
        found: list[Choice] = []
        for k in range(min(len(named_lanes), ask.units) + 1):
            for some in combinations(named_lanes, k):
                for old in range(max(0, ask.units - k - len(fresh)), min(len(back), ask.units - k) + 1):
                    new = ask.units - k - old
                    alike = (*[-2] * old, *[-1] * new, *some)
                    found.append((alike, tuple(sorted((*some, *back[:old], *fresh[:new])))))
        return sorted(found, key=lambda choice: choice[1])

    def _finish(self, state: State) -> None:
        """All ops are over: keep the run when it is shorter than the best and its buffers have addresses."""
        grain = self.moves.grain
        if state.now >= self.upper - grain:
            return
        offsets = self._offsets(state)
        if offsets is None:
            self.unpacked = min(self.unpacked, state.now)
            return
        decision = self._decision(state, offsets)
        simulated = self.evaluate(self.tables.problem, decision)
        if abs(simulated.makespan - state.now) > grain or simulated.late:
            assert grain > 0, "the simulator and the search disagree"
            self.doubtful = True
        if simulated.makespan < self.upper and not simulated.late:
            self.best, self.upper = (decision, simulated), simulated.makespan

    def _offsets(self, state: State) -> tuple[int, ...] | None:
        if self.options is None:
            return self.offsets if self.offsets is not None else packed(self.tables, state)
        places = dict(self.first_places)
        step = state.path
        while step is not None:
            places.update(step.places)
            step = step.before
        return tuple(places.get(b, buffer.address or 0) for b, buffer in enumerate(self.tables.problem.buffers))

    def _decision(self, state: State, offsets: tuple[int, ...]) -> Decision:
        tables = self.tables
        n = tables.n
        actions: list[int] = []
        guards: list[tuple[int, int]] = []
        units: list[tuple[tuple[int, ...], ...]] = [()] * n
        backwards: list[int] = []
        over = tables.full
        step = state.path
        while step is not None:
            actions.append(step.action)
            if step.action >= 0:
                way = tables.ways[step.action][step.mode]
                assert way is not None
                units[step.action] = tuple(
                    () if ask is None else tuple(lane - ask.first for lane in lanes)
                    for ask, lanes in zip(way.asks, step.lanes, strict=True)
                )
                if step.guard >= 0:
                    guards.append((step.guard, step.action))
                backwards += [~i for i in range(n) if (over & ~step.over) >> i & 1]
                backwards.append(step.action)
                over = step.over
            step = step.before
        flows = share_flows(tables.problem, state.mode, units, reversed(backwards))
        order = tuple(reversed(actions))
        return Decision(tuple(state.mode), tuple(units), order, offsets, tuple(sorted(guards)), flows)
