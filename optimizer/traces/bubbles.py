"""Why hardware threads idle: every gap in a queue, split so that gaps and work add up to the makespan exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.formulations.problem import Mode, Problem
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.plan import Plan, Queue
    from hexloom.optimizer.simulate import OpTimes

Reason = Literal[
    "entry", "dependency", "reuse", "order", "contention", "late_observation", "units", "dispatch", "transfer", "tail"
]
"""``entry``: the plan has not begun. ``dependency``: for data. ``reuse``: for an address that another buffer had.
``order``: for a unit, a share or a guard. ``contention``: for an op that was slower than alone. ``late_observation``:
for a transfer that was done and not yet seen. ``units``: for other units of the same op. ``dispatch``: ready, and it
did not begin. ``transfer``: blocked in a wait for a transfer. ``tail``: nothing left to do."""

REASONS: tuple[Reason, ...] = get_args(Reason)


class Split:
    """Ticks of the units of one engine: work, and idle by reason."""

    def __init__(self) -> None:
        self.work: Moment = 0
        self.idle: dict[Reason, Moment] = dict.fromkeys(REASONS, 0)


class Bubbles:
    """Splits the idle time of all queues of one run.

    Parameters
    ----------
    problem, plan, modes
        What ran.
    times
        Of every op that was seen; entries of others are passed over.
    slower
        By how many ticks each op was slower than alone.
    """

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        modes: Mapping[str, Mode],
        times: Mapping[str, OpTimes[Moment]],
        slower: Mapping[str, Moment],
    ) -> None:
        self.problem, self.plan, self.modes, self.times, self.slower = problem, plan, modes, times, slower
        self.data: set[tuple[str, str]] = {(edge.before, edge.after) for edge in problem.precedences}
        self.before: dict[str, list[str]] = {}
        for before, after in sorted(self.data | {(wait.before, wait.after) for wait in plan.waits}):
            self.before.setdefault(after, []).append(before)
        self.reuse = _reuse(problem, plan)
        self.free_at = self._previous()

    def by_engine(self, makespan: Moment) -> dict[str, Split]:
        """Return work and idle time per engine; for each they add up to its queues times ``makespan``."""
        found: dict[str, Split] = {}
        for queue in self.plan.queues:
            self._walk(queue, makespan, found.setdefault(queue.engine, Split()))
        return found

    def _steps(self, queue: Queue) -> list[tuple[str, str, Moment, Moment]]:
        """Return (op, action, start, end) of the entries that were seen, none before the one before it ends."""
        found: list[tuple[str, str, Moment, Moment]] = []
        at: Moment = 0
        for entry in queue.entries:
            times = self.times.get(entry.op)
            if times is None:
                continue
            if entry.action == "wait":
                start, end = times.wait_start, times.observed
            else:
                start, end = times.start, self._released(entry.op, queue.engine, times)
            start = max(at, start)
            at = max(start, end)
            found.append((entry.op, entry.action, start, at))
        return found

    def _released(self, op: str, engine: str, times: OpTimes[Moment]) -> Moment:
        """Return when an op gave back its unit of ``engine``."""
        mode = self.modes[op]
        if mode.dma is not None:
            return times.end
        held = {use.engine: use.ticks for use in mode.uses if use.engine not in self.problem.shares}
        longest = max(held.values(), default=0)
        if held.get(engine, longest) == longest:
            return times.end
        part = mode.overhead_ticks + held[engine]
        return times.start + (times.end - times.start) * part // max(1, mode.overhead_ticks + longest)

    def _previous(self) -> dict[str, Moment]:
        """Return for every op when the last of its queues was free for it."""
        free: dict[str, Moment] = {}
        for queue in self.plan.queues:
            at: Moment = 0
            for op, action, _, end in self._steps(queue):
                if action != "wait":
                    free[op] = max(free.get(op, 0), at)
                at = end
        return free

    def _walk(self, queue: Queue, makespan: Moment, split: Split) -> None:
        at: Moment = 0
        for op, action, start, end in self._steps(queue):
            if start > at:
                self._gap(op, action, at, start, split)
            if action == "wait":
                moving = min(end, max(start, self.times[op].done))
                split.idle["transfer"] += moving - start
                split.work += end - moving
            else:
                split.work += end - start
            at = end
        split.idle["tail"] += max(0, makespan - at)

    def _gap(self, op: str, action: str, at: Moment, until: Moment, split: Split) -> None:
        """Split the gap ``[at, until)`` before ``op`` begins."""
        entry = min(until, max(at, self.problem.entry_ticks))
        split.idle["entry"] += entry - at
        at = entry
        if action != "wait":
            at = self._waited(op, at, until, split)
            others = min(until, max(at, self.free_at.get(op, 0)))
            split.idle["units"] += others - at
            at = others
        split.idle["dispatch"] += until - at

    def _waited(self, op: str, at: Moment, until: Moment, split: Split) -> Moment:
        """Give the part of a gap until the last predecessor was seen to what that one took so long for."""
        seen = [(self.times[p].observed, p) for p in self.before.get(op, ()) if p in self.times]
        ready, last = max(seen, default=(at, ""))
        ready = min(until, max(at, ready))
        if ready <= at:
            return at
        times = self.times[last]
        dma = self.modes[last].dma
        late: Moment = 0
        if dma is not None:
            # Polling takes what it takes; what comes before it, with the transfer done, is the owner being elsewhere.
            late = max(0, min(ready, times.observed - dma.poll_ticks) - max(at, times.done))
        split.idle["late_observation"] += late
        rest = ready - at - late
        slow = min(rest, max(0, self.slower.get(last, 0)))
        split.idle["contention"] += slow
        split.idle[self._why(last, op)] += rest - slow
        return ready

    def _why(self, before: str, after: str) -> Reason:
        if (before, after) in self.data:
            return "dependency"
        return "reuse" if (before, after) in self.reuse else "order"


def _reuse(problem: Problem, plan: Plan) -> set[tuple[str, str]]:
    """Return the waits between users of two buffers that share addresses, or of two slots of one ring."""
    users: dict[str, list[tuple[int, int, str | None, str]]] = {}
    for buffer in problem.buffers:
        at = plan.addresses.get(buffer.name)
        if at is not None:
            for op in buffer.ops:
                users.setdefault(op, []).append((at, at + buffer.occupied_bytes, buffer.pool, buffer.name))
    found = set()
    for wait in plan.waits:
        if any(_share(a, b) for a in users.get(wait.before, ()) for b in users.get(wait.after, ())):
            found.add((wait.before, wait.after))
    return found


def _share(a: Sequence[object], b: Sequence[object]) -> bool:
    (a0, a1, a_pool, a_name), (b0, b1, b_pool, b_name) = a, b
    assert isinstance(a0, int) and isinstance(a1, int) and isinstance(b0, int) and isinstance(b1, int)
    return a_name != b_name and a_pool == b_pool and a0 < b1 and b0 < a1
