"""The dispatcher of list scheduling: a clock, and at every instant the most urgent of what can start.

It keeps a clock of its own, because it has to decide while time runs; what it returns is a `Decision`, and the
predicted times of that come from the simulator alone.
"""

from __future__ import annotations

import heapq
from bisect import insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hexloom.formulations.at_work import AtWork, SlowedUnits
from hexloom.formulations.caps import Caps
from hexloom.formulations.decision import Decision
from hexloom.formulations.flows import share_flows
from hexloom.formulations.foresight import Foresight
from hexloom.formulations.gates import Gates
from hexloom.formulations.pipes import Pipes
from hexloom.formulations.policy import ANY, Policy
from hexloom.formulations.scratch_state import SHORT, TAKEN
from hexloom.formulations.share_state import ShareState
from hexloom.formulations.units import available_at, free_units, idle_units, wish_for

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from hexloom.formulations.at_work import Step
    from hexloom.formulations.problem import Mode, Problem
    from hexloom.formulations.scratch_state import PooledState, ScratchState
    from hexloom.formulations.speeds import Speeds

BACKFILL = 8
"""How many ops that need the same units are tried for a gap in front of a job that waits for them."""

Ready = tuple[bool, float, int, int]
"""Sort key of an action that could start: what holds no thread goes first, then by priority; the action is last."""

RELEASE, DONE, REQUEST, PIPE_FREE, OBSERVED, WORK = range(6)


@dataclass
class Dispatch:
    """One run over ``problem`` under ``policy``; ``scratch`` says who may take bytes.

    With ``speeds`` the clock knows how ops slow each other; without, they never do.
    """

    problem: Problem
    policy: Policy
    scratch: ScratchState | PooledState
    speeds: Speeds | None = None
    now: float = 0
    actions: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, policy = self.problem, self.policy
        n = len(problem.ops)
        self.now = problem.entry_ticks
        self.chosen = [max(m, 0) for m in policy.modes]
        self.modes = [op.modes[m] for op, m in zip(problem.ops, self.chosen, strict=True)]
        self.successors = [list(s) for s in problem.successors]
        self.missing = [len(p) for p in problem.predecessors]
        for before, after in policy.guards:
            self.successors[before].append(after)
            self.missing[after] += 1
        self.foresight = Foresight(problem, policy.priority, self.missing) if policy.foresight else None
        self.units: list[tuple[tuple[int, ...], ...]] = [() for _ in range(n)]
        self.start: list[float] = [0] * n
        self.moved: list[float] = [0] * n
        self.known: list[float] = [0] * n
        self.busy_until = idle_units(problem, self.now)
        self.shares = ShareState(problem)
        self.pipes = Pipes(problem)
        self.pipe_units = dict(self.pipes.units)
        self.pipe_load = dict.fromkeys(self.pipe_units, 0)
        self.pipes_changed = False
        self.work = AtWork(self.speeds)
        self.caps = Caps(problem, policy.cap)
        self.slowed_units = SlowedUnits(self.work, self.busy_until)
        self.pending: list[tuple[float, int]] = []
        self.events: list[tuple[float, int, int, str]] = []
        self.ready: dict[Hashable, list[Ready]] = {}
        self.gates = Gates(self.busy_until, self.shares, capped=policy.cap is not None)
        choices = [op.modes if m == ANY else (op.modes[m],) for op, m in zip(problem.ops, policy.modes, strict=True)]
        self.wishes = [wish_for(problem, modes) for modes in choices]
        self.deferred: list[int] = []
        self.too_long = False
        self.unfinished = n
        for i in range(n):
            if self.missing[i] == 0:
                self._offer(i, i)

    def run(self) -> bool:
        """Dispatch everything; False in a dead end."""
        while self.unfinished:
            moved = self._start_ready()
            if self._start_transfers() or moved:
                if self.events and self.events[0][0] == self.now:
                    self._pop_events()
                    continue
                if moved:
                    continue
            if not self.events and not self.work:
                return False
            self.now = self.work.advance(self.now, self.events) if self.work else self.events[0][0]
            self._pop_events()
        return True

    def decision(self, offsets: tuple[int, ...]) -> Decision:
        """Return what was decided, with the addresses found for it."""
        flows = share_flows(self.problem, self.chosen, self.units, self.shares.moments)
        guards = tuple(dict.fromkeys((*self.policy.guards, *self.caps.guards)))
        return Decision(tuple(self.chosen), tuple(self.units), tuple(self.actions), offsets, guards, flows)

    def _offer(self, action: int, like: int) -> None:
        if action in self.policy.lazy:
            self.deferred.append(action)
            return
        dma = self.modes[action if action >= 0 else ~action].dma
        free = dma is not None and (dma.issue_ticks if action >= 0 else dma.poll_ticks) == 0
        self._queue(action, (not free, -self.policy.priority[like], like, action))

    def _queue(self, action: int, item: Ready) -> None:
        """Queue an action behind the more urgent ones that need the same units: while these are blocked, it is too."""
        wish = self.wishes[action] if action >= 0 else ("observe", self.modes[~action].dma)
        queue = self.ready.get(wish)
        if queue is None:
            self.ready[wish] = [item]
            if action < 0 or self.policy.modes[action] != ANY or len(self.problem.ops[action].modes) == 1:
                self.gates.set(wish, self.modes[max(action, ~action)], observed=action < 0)
        else:
            insort(queue, item)

    def _pop_events(self) -> None:
        while self.events and self.events[0][0] <= self.now + self.work.blur:
            _, kind, i, name = heapq.heappop(self.events)
            if kind == WORK:
                self._begin_work(i)
            elif kind == RELEASE and name:
                self.slowed_units.give_back(i, name, self.now)
            elif kind == PIPE_FREE:
                self.pipe_units[name] += 1
                self.pipes_changed = True
            elif kind == REQUEST:
                self.pipes_changed = True
                insort(self.pending, (self.now, i))
            elif kind == OBSERVED or (kind == DONE and self.modes[i].dma is None):
                self._finish(i)
            elif kind == DONE:
                urgent = max(self.successors[i], key=lambda s: self.policy.priority[s], default=i)
                self._offer(~i, urgent if self.policy.priority[urgent] > self.policy.priority[i] else i)

    def _start_ready(self) -> bool:
        """Start what can start now, most urgent first; what is blocked on units keeps the less urgent off them."""
        self._offer_deferred(lambda i: not self._can_wait(i))
        self.slowed_units.expect(self.now)
        self.caps.look_again()
        reserved: dict[str, float] = {}
        hungry = False
        moved = False
        shut = self.gates.shut
        heads = [(items[0], 0, wish) for wish, items in self.ready.items() if items and not shut(wish, self.now)]
        heapq.heapify(heads)  # items differ, so wishes are never compared
        refused: set[tuple[str, str]] = set()
        while heads:
            item, place, wish = heapq.heappop(heads)
            action = item[3]
            units = None
            taken = TAKEN
            if action < 0:
                started = self._observe(~action)
            else:
                units = self._choose(action, reserved)
                if units is not None and self.deferred and self._is_gang(action):
                    self._issue_deferred()
                    units = self._choose(action, reserved)
                if units is not None:
                    taken = self.scratch.take(action, hungry=hungry)
                started = units is not None and taken == TAKEN
            if started:
                moved = True
                del self.ready[wish][place]
                if action < 0:
                    break
                assert units is not None
                self._start(action, units)
                if self.modes[action].duration_ticks == 0:
                    break  # something may be ready at this very instant: look again from the most urgent on
            elif units is not None:
                hungry = hungry or taken == SHORT
                if self.scratch.begins(action):
                    refused.add((self.problem.ops[action].task, self.problem.ops[action].stage))
                place += 1
            elif self.too_long and place < BACKFILL:
                place += 1  # the units are free, but only for something shorter
            else:
                continue
            if shut(wish, self.now):
                continue
            queue = self.ready[wish]
            # Tiles begin in order of priority: one that may not keeps those of its task from trying.
            while place < len(queue) and self._is_refused(queue[place][3], refused):
                place += 1
            if place < len(queue):
                heapq.heappush(heads, (queue[place], place, wish))
        if not moved and not self.events and not self.work:
            moved = self._offer_deferred(lambda _: True) or (hungry and self._feed())
        return moved

    def _is_refused(self, action: int, refused: set[tuple[str, str]]) -> bool:
        if action < 0 or not refused:
            return False
        op = self.problem.ops[action]
        return (op.task, op.stage) in refused and self.scratch.begins(action)

    def _can_wait(self, i: int) -> bool:
        """Whether everyone who needs transfer ``i`` waits for something else too."""
        return all(self.missing[s] > 1 for s in self.successors[i])

    def _is_gang(self, i: int) -> bool:
        return any(use.units == len(self.busy_until.get(use.engine, ())) > 1 for use in self.modes[i].uses)

    def _issue_deferred(self) -> None:
        for i in list(self.deferred):
            units = self._choose(i, {}, capped=False)
            if units is not None and self.scratch.take(i, hungry=False) == TAKEN:
                self.deferred.remove(i)
                self._start(i, units)

    def _offer_deferred(self, wanted: Callable[[int], bool]) -> bool:
        offered = [i for i in self.deferred if wanted(i)]
        for i in offered:
            self.deferred.remove(i)
            self._queue(i, (False, -self.policy.priority[i], i, i))
        return bool(offered)

    def _feed(self) -> bool:
        """Nothing runs and the most urgent is short of bytes: let anyone who fits go."""
        for item, wish in sorted((item, wish) for wish, items in self.ready.items() for item in items):
            i = item[3]
            if i >= 0:
                units = self._choose(i, {})
                if units is not None and self.scratch.take(i, hungry=False) == TAKEN:
                    self.ready[wish].remove(item)
                    self._start(i, units)
                    return True
        return False

    def _owner_free(self, i: int) -> bool:
        dma = self.modes[i].dma
        return dma is not None and self.busy_until[dma.owner_engine][dma.owner_unit] <= self.now

    def _observe(self, i: int) -> bool:
        if not self._owner_free(i):
            return False
        self.actions.append(~i)
        dma = self.modes[i].dma
        assert dma is not None
        if dma.poll_ticks == 0:
            self._finish(i)
            return True
        end = self.now + dma.poll_ticks
        self.busy_until[dma.owner_engine][dma.owner_unit] = end
        heapq.heappush(self.events, (end, OBSERVED, i, ""))
        return True

    def _choose(self, i: int, reserved: dict[str, float], *, capped: bool = True) -> tuple[tuple[int, ...], ...] | None:
        """Find units for op ``i``; where its mode is open, choose the mode too."""
        self.too_long = False
        if capped and not self.caps.admit(i, self.modes[i]):
            return None
        if self.policy.modes[i] != ANY:
            return self._find_units(i, reserved)
        modes = self.problem.ops[i].modes

        def cost(m: int) -> tuple[int, int, int]:
            pipes = self.pipes.uses(modes[m]) if modes[m].dma is not None else ()
            load = sum(self.pipe_load[pipe] for pipe in pipes if pipe not in self.pipes.shared)
            return (modes[m].duration_ticks, load, m)

        for m in sorted(range(len(modes)), key=cost):
            self.chosen[i], self.modes[i] = m, modes[m]
            units = self._find_units(i, reserved if len(modes) == 1 else dict(reserved))
            if units is not None:
                return units
        return None

    def _find_units(self, i: int, reserved: dict[str, float]) -> tuple[tuple[int, ...], ...] | None:
        """Return free unit ids per use, or None; then mark until when its units are kept for it."""
        mode = self.modes[i]
        if mode.dma is not None:
            if not self._owner_free(i):
                return None
            limit = reserved.get(mode.dma.owner_engine)
            if limit is not None and self.now + mode.dma.issue_ticks > limit:
                return None
            return ((),) * len(mode.uses) if self._has_shares(mode, reserved) else None
        if not self._has_shares(mode, reserved):
            return None
        found: list[tuple[int, ...]] = []
        blocked = False
        for use in mode.uses:
            if use.ticks == 0 or use.engine in self.shares.left:
                found.append(())
                continue
            busy = self.busy_until[use.engine]
            ids = free_units(use, busy, self.now)
            limit = reserved.get(use.engine)
            if ids is None:
                blocked = True
                until = available_at(use, busy)
                reserved[use.engine] = min(until, limit) if limit is not None else until
            elif (limit is not None and self.now + mode.overhead_ticks + use.ticks > limit) or not (
                self.foresight is None or self.foresight.allows(i, use, self.now + mode.overhead_ticks + use.ticks)
            ):
                self.too_long = True
                return None
            else:
                found.append(ids)
        return None if blocked else tuple(found)

    def _has_shares(self, mode: Mode, reserved: dict[str, float]) -> bool:
        offer = self.shares.offer(mode, self.now, reserved)
        self.too_long = self.too_long or offer is None
        return bool(offer)

    def _start(self, i: int, units: tuple[tuple[int, ...], ...]) -> None:
        mode = self.modes[i]
        self.actions.append(i)
        self.start[i] = self.moved[i] = self.now
        self.shares.start(i, mode, self.now)
        self.caps.start(i, mode)
        self.units[i] = units
        if mode.dma is not None:
            for pipe, use in self.pipes.uses(mode).items():
                self.pipe_load[pipe] += use.ticks
            end = self.now + mode.dma.issue_ticks
            self.busy_until[mode.dma.owner_engine][mode.dma.owner_unit] = end
            heapq.heappush(self.events, (end, REQUEST, i, ""))
            if end > self.now:
                heapq.heappush(self.events, (end, RELEASE, i, ""))
            return
        slowed = mode.duration_ticks > 0 and self.work.shares(mode)
        for use, ids in zip(mode.uses, units, strict=True):
            if ids:
                end = self.now + mode.overhead_ticks + use.ticks
                for u in ids:
                    self.busy_until[use.engine][u] = end
                if not slowed:
                    heapq.heappush(self.events, (end, RELEASE, i, ""))
        done = self.now + mode.duration_ticks
        if self.foresight is not None:
            self.foresight.started(i)
            self.foresight.will_end(self.successors[i], done)
        if slowed:
            self.slowed_units.hold(i, [(use, ids) for use, ids in zip(mode.uses, units, strict=True) if ids])
            heapq.heappush(self.events, (self.now + mode.overhead_ticks, WORK, i, ""))
        elif mode.duration_ticks == 0:
            self._finish(i)
        else:
            heapq.heappush(self.events, (done, DONE, i, ""))

    def _begin_work(self, i: int) -> None:
        """Op ``i`` works from now on at the speed that others leave it."""
        mode = self.modes[i]
        steps: list[Step] = [(mode.latency_ticks, DONE, "")]
        if mode.dma is not None:
            for pipe, use in self.pipes.uses(mode).items():
                steps += [(use.ticks, PIPE_FREE, pipe)] * use.units
        steps += [(use.ticks, RELEASE, use.engine) for use in self.slowed_units.held_by(i)]
        self.work.begin(i, mode, sorted(steps))

    def _start_transfers(self) -> bool:
        """Give free pipes to the transfers that were issued first."""
        if not self.pipes_changed:
            return False
        self.pipes_changed = False
        left: list[tuple[float, int]] = []
        full = {name for name, free in self.pipe_units.items() if free == 0}
        for position, item in enumerate(self.pending):
            i = item[1]
            if not full.isdisjoint(self.pipes.shared):
                left += self.pending[position:]
                break
            uses = self.pipes.uses(self.modes[i])
            if not full.isdisjoint(uses) or any(self.pipe_units[pipe] < use.units for pipe, use in uses.items()):
                left.append(item)
                continue
            self.moved[i] = self.now
            mode = self.modes[i]
            slowed = self.work.shares(mode)
            for pipe, use in uses.items():
                self.pipe_units[pipe] -= use.units
                if self.pipe_units[pipe] == 0:
                    full.add(pipe)
                for _ in range(0 if slowed else use.units):
                    heapq.heappush(self.events, (self.now + use.ticks, PIPE_FREE, i, pipe))
            done = self.now + mode.latency_ticks
            if slowed:
                self._begin_work(i)
            else:
                heapq.heappush(self.events, (done, DONE, i, ""))
            if self.foresight is not None and mode.dma is not None:
                self.foresight.will_end(self.successors[i], done + mode.dma.poll_ticks)
        started = len(left) < len(self.pending)
        self.pending = left
        return started

    def _finish(self, i: int) -> None:
        self.unfinished -= 1
        self.known[i] = self.now
        self.shares.end(i)
        self.caps.end(i)
        self.scratch.finish(i)
        for s in self.successors[i]:
            self.missing[s] -= 1
            if self.missing[s] == 0:
                self._offer(s, s)
