"""The simulator: when everything in a plan happens, if every op takes the time its mode says.

It reads the problem and the plan and nothing else, so that it can prove a formulation wrong. Under rules ``none`` and
``rigid`` all times are whole ticks; where channels are shared, `hexloom.optimizer.work` keeps account of what each op
has done, and times are fractions. A queue reaches its next entry when the previous one released the thread; an op
starts when all its queues have reached it and all its waits are over. Transfers that wait for a pipe are served in
order of issue. All events of one instant happen before the next transfer is chosen. Shares do not act: the waits of
the plan keep their users apart.
"""

from __future__ import annotations

import heapq
from bisect import insort
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from hexloom.formulations.problem import slows
from hexloom.formulations.ticks import whole
from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.sharing import UNTOUCHED, Sharing
from hexloom.optimizer.work import Event, WorkInProgress

if TYPE_CHECKING:
    from hexloom.formulations.problem import Mode, Problem, Rule
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.sharing import Number

ENTRY_OVER, DONE, REQUEST, PIPE_FREE, OBSERVED, WORK, RELEASED = range(7)

Time = TypeVar("Time", int | Fraction, float)
"""Times in ticks: exact, or in floats, which are faster."""


class OpTimes(NamedTuple, Generic[Time]):
    """Times of one op in ticks.

    ``start``: the op (the issue of a transfer) begins. ``end``: its last unit is released (the owner, after the
    issue; pipes are held from ``transfer_start``). ``done``: the result exists. ``wait_start`` and ``observed``:
    the owner of a transfer begins to wait for it, and knows that it is done; for other ops both equal ``done``.
    """

    start: Time
    end: Time
    transfer_start: Time
    done: Time
    wait_start: Time
    observed: Time


@dataclass(frozen=True, slots=True)
class Timeline(Generic[Time]):
    """The times of all ops by name, and the makespan: the last end that anyone observes."""

    times: dict[str, OpTimes[Time]]
    makespan: Time


ExactTimeline = Timeline[int | Fraction]


def simulate(problem: Problem, plan: Plan, rule: Rule = "none", *, exact: bool = True) -> ExactTimeline:
    """Return the timeline of ``plan`` when channels are shared by ``rule``; if not ``exact``, close to it and faster.

    Raises
    ------
    PlanError
        When the plan never ends: queues and waits block each other. The message names the blocked ops.
    """
    if exact or not slows(rule):
        return cast("ExactTimeline", Run(problem, plan, Sharing(problem, rule)).run())
    close = simulate_fast(problem, plan, Sharing(problem, rule, exact=False))
    times = {name: OpTimes(*(whole(Fraction(time)) for time in t)) for name, t in close.times.items()}
    return Timeline(times, whole(Fraction(close.makespan)))


def simulate_fast(problem: Problem, plan: Plan, sharing: Sharing) -> Timeline[float]:
    """Return the timeline in the numbers of ``sharing``: what a search that asks a thousand times can afford."""
    return cast("Timeline[float]", Run(problem, plan, sharing).run())


class Run:
    """One run of a plan, event by event: what everybody does next, and when."""

    def __init__(self, problem: Problem, plan: Plan, sharing: Sharing) -> None:
        self.problem = problem
        index = problem.op_index
        n = len(problem.ops)
        self.modes: list[Mode] = [problem.ops[index[a.op]].modes[a.mode] for a in plan.assignments]
        if [a.op for a in plan.assignments] != [op.name for op in problem.ops]:
            raise PlanError("the plan does not assign every op of the problem once, in its order")
        self.queues = [[(index[e.op], e.action) for e in queue.entries] for queue in plan.queues]
        self.position = [0] * len(self.queues)
        self.queues_of: list[list[int]] = [[] for _ in range(n)]
        self.owner_queue = [-1] * n
        self.release_ticks: list[dict[int, int]] = [{} for _ in range(n)]
        for q, (queue, entries) in enumerate(zip(plan.queues, self.queues, strict=True)):
            for i, action in entries:
                if action == "run":
                    self.queues_of[i].append(q)
                    mode = self.modes[i]
                    ticks = next((u.ticks for u in mode.uses if u.engine == queue.engine), 0)
                    self.release_ticks[i][q] = mode.overhead_ticks + ticks
                elif action == "wait":
                    self.owner_queue[i] = q
        self.followers: list[list[int]] = [[] for _ in range(n)]
        self.missing = [0] * n
        for wait in plan.waits:
            self.followers[index[wait.before]].append(index[wait.after])
            self.missing[index[wait.after]] += 1
        self.arrived = [0] * n
        self.reached: list[str | None] = [None] * n
        self.pipe_units = {e.name: e.units for e in problem.engines if e.kind == "pipe"}
        through = {
            id(m): {u.engine: u for u in m.uses if u.ticks > 0 and u.engine in self.pipe_units} for m in self.modes
        }
        self.pipe_uses = [through[id(mode)] for mode in self.modes]
        needed = [set(uses) for uses, mode in zip(self.pipe_uses, self.modes, strict=True) if mode.dma is not None]
        self.shared_pipes: set[str] = set.intersection(*needed) if needed else set()
        self.pipes_changed = False
        self.pending: list[tuple[Number, int]] = []
        self.events: list[Event] = []
        self.loads = [sharing.load_of(mode) for mode in self.modes]
        self.work = WorkInProgress(sharing)
        self.start: list[Number | None] = [None] * n
        self.transfer_start: list[Number | None] = [None] * n
        self.released: list[Number | None] = [None] * n
        self.done: list[Number | None] = [None] * n
        self.wait_start: list[Number | None] = [None] * n
        self.observed: list[Number | None] = [None] * n
        self.now: Number = problem.entry_ticks

    def run(self) -> Timeline[Any]:
        """Return the times of all ops.

        Raises
        ------
        PlanError
            When the plan never ends.
        """
        self.go()
        return self._timeline()

    def go(self) -> None:
        """Let everything happen that the plan lets happen."""
        for q in range(len(self.queues)):
            self._reach(q)
        for i, mode in enumerate(self.modes):
            if not self.queues_of[i] and mode.dma is None and self.missing[i] == 0:
                self._start_op(i)
        self._start_transfers()
        while self.events or self.work:
            if self.work:
                self.now = self.work.advance(self.now, self.events)
            else:
                self.now = self.events[0][0]
            until = self.now + self.work.blur
            while self.events and self.events[0][0] <= until:
                _, kind, i, q, pipe = heapq.heappop(self.events)
                self._happen(kind, i, q, pipe)
            self._start_transfers()

    def _push(self, delay: Number, kind: int, i: int, q: int = -1, pipe: str = "") -> None:
        heapq.heappush(self.events, (self.now + delay, kind, i, q, pipe))

    def _happen(self, kind: int, i: int, q: int, pipe: str) -> None:
        if kind == ENTRY_OVER:
            self.position[q] += 1
            self._reach(q)
        elif kind == PIPE_FREE:
            self.pipe_units[pipe] += 1
            self.pipes_changed = True
        elif kind == REQUEST:
            self.pipes_changed = True
            insort(self.pending, (self.now, i))
        elif kind == OBSERVED:
            self._complete(i)
            self._happen(ENTRY_OVER, i, q, "")
        elif kind == WORK:
            self._begin_work(i)
        elif kind == RELEASED:
            self.released[i] = self.now
        elif self.modes[i].dma is None:
            self.done[i] = self.wait_start[i] = self.now
            self._complete(i)
        else:
            self.done[i] = self.now
            if self.reached[i] == "wait":
                self._poll(i)

    def _reach(self, q: int) -> None:
        """Queue ``q`` looks at its next entry."""
        if self.position[q] == len(self.queues[q]):
            return
        i, action = self.queues[q][self.position[q]]
        if action == "run":
            self.arrived[i] += 1
            if self.arrived[i] == len(self.queues_of[i]) and self.missing[i] == 0:
                self._start_op(i)
        elif action == "start":
            self.reached[i] = "start"
            self.owner_queue[i] = q
            if self.missing[i] == 0:
                self._start_op(i)
        else:
            self.reached[i] = "wait"
            self.wait_start[i] = self.now
            if self.done[i] is not None:
                self._poll(i)

    def _poll(self, i: int) -> None:
        dma = self.modes[i].dma
        assert dma is not None
        self.reached[i] = None
        self._push(dma.poll_ticks, OBSERVED, i, self.owner_queue[i])

    def _start_op(self, i: int) -> None:
        mode = self.modes[i]
        self.start[i] = self.now
        if mode.dma is not None:
            self.reached[i] = None
            self._push(mode.dma.issue_ticks, REQUEST, i)
            self._push(mode.dma.issue_ticks, ENTRY_OVER, i, self.owner_queue[i])
            return
        self.transfer_start[i] = self.now
        if self.loads[i] != UNTOUCHED:
            self._push(mode.overhead_ticks, WORK, i)
            return
        for q in self.queues_of[i]:
            self._push(self.release_ticks[i][q], ENTRY_OVER, i, q)
        self._push(mode.duration_ticks, DONE, i)

    def _begin_work(self, i: int) -> None:
        """Op ``i`` works from now on at the speed that others leave it."""
        mode = self.modes[i]
        steps = [(mode.latency_ticks, DONE, -1, "")]
        if mode.dma is None:
            steps += [(self.release_ticks[i][q] - mode.overhead_ticks, ENTRY_OVER, q, "") for q in self.queues_of[i]]
            steps.append((max((use.ticks for use in mode.uses), default=0), RELEASED, -1, ""))
        for pipe, use in self.pipe_uses[i].items():
            steps += [(use.ticks, PIPE_FREE, -1, pipe)] * use.units
        self.work.begin(i, self.loads[i], sorted(steps))

    def _start_transfers(self) -> None:
        """Give free pipes to the transfers that were issued first."""
        if not self.pipes_changed:
            return
        self.pipes_changed = False
        left: list[tuple[Number, int]] = []
        full = {name for name, free in self.pipe_units.items() if free == 0}
        for position, item in enumerate(self.pending):
            i = item[1]
            uses = self.pipe_uses[i]
            if not full.isdisjoint(self.shared_pipes):
                left += self.pending[position:]
                break
            if not full.isdisjoint(uses) or any(self.pipe_units[pipe] < use.units for pipe, use in uses.items()):
                left.append(item)
                continue
            self.transfer_start[i] = self.now
            touched = self.loads[i] != UNTOUCHED
            for pipe, use in uses.items():
                self.pipe_units[pipe] -= use.units
                if self.pipe_units[pipe] == 0:
                    full.add(pipe)
                for _ in range(0 if touched else use.units):
                    self._push(use.ticks, PIPE_FREE, i, -1, pipe)
            if touched:
                self._begin_work(i)
            else:
                self._push(self.modes[i].latency_ticks, DONE, i)
        self.pending = left

    def _complete(self, i: int) -> None:
        self.observed[i] = self.now
        for f in self.followers[i]:
            self.missing[f] -= 1
            if self.missing[f] > 0:
                continue
            if self.modes[f].dma is not None:
                if self.reached[f] == "start":
                    self._start_op(f)
            elif self.arrived[f] == len(self.queues_of[f]):
                self._start_op(f)

    def _timeline(self) -> Timeline[Any]:
        blocked = [op.name for op, seen in zip(self.problem.ops, self.observed, strict=True) if seen is None]
        if blocked:
            more = f" and {len(blocked) - 8} more" if len(blocked) > 8 else ""
            raise PlanError(f"the plan never ends; blocked: {', '.join(blocked[:8])}{more}")
        times: dict[str, OpTimes[Any]] = {}
        shares = self.problem.shares
        for i, op in enumerate(self.problem.ops):
            mode = self.modes[i]
            start, moved, done = self.start[i], self.transfer_start[i], self.done[i]
            waited, seen = self.wait_start[i], self.observed[i]
            assert start is not None and moved is not None and done is not None
            assert waited is not None and seen is not None
            released = self.released[i]
            if released is None:
                held = [mode.overhead_ticks + u.ticks for u in mode.uses if u.ticks > 0 and u.engine not in shares]
                released = start + (mode.dma.issue_ticks if mode.dma else max(held, default=0))
            times[op.name] = OpTimes(*map(whole, (start, released, moved, done, waited, seen)))
        last: Any = max(max(t.observed, t.end) for t in times.values())
        return Timeline(times, max(last, self.problem.entry_ticks))
