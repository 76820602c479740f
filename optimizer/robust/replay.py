"""The simulator again and again on one plan: all that a plan fixes is prepared once, only durations change.

It is the run of the simulator, event by event, with the ticks of each op scaled by a factor; overheads, issues and
polls stay. Beside the makespan it tells why it is so long: the chain of ops each of which began when the one before it
let it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from hexloom.optimizer.sharing import Sharing
from hexloom.optimizer.simulate import ENTRY_OVER, OBSERVED, PIPE_FREE, Run
from hexloom.optimizer.work import WorkInProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Mode, Problem, Rule, Use
    from hexloom.optimizer.plan import Plan

NOBODY = (-1, False)


class _Held:
    """A use whose ticks change."""

    __slots__ = ("base", "engine", "ticks", "units")

    def __init__(self, use: Use) -> None:
        self.engine, self.units, self.base, self.ticks = use.engine, use.units, use.ticks, float(use.ticks)


class _Scaled:
    """A mode whose work changes: what the simulator asks of a mode, and nothing else."""

    __slots__ = ("base", "dma", "duration_ticks", "latency_ticks", "overhead_ticks", "uses")

    def __init__(self, mode: Mode) -> None:
        self.dma, self.overhead_ticks, self.base = mode.dma, mode.overhead_ticks, mode.latency_ticks
        self.uses = [_Held(use) for use in mode.uses]
        self.scale(1.0)

    def scale(self, factor: float) -> None:
        self.latency_ticks = self.base * factor
        self.duration_ticks = self.overhead_ticks + self.latency_ticks
        for use in self.uses:
            use.ticks = use.base * factor


class Replay(Run):
    """Runs one plan with many durations; ``critical`` tells of the last run which ops made it as long as it was."""

    def __init__(self, problem: Problem, plan: Plan, rule: Rule) -> None:
        sharing = Sharing(problem, rule, exact=False)
        super().__init__(problem, plan, sharing)
        self._sharing = sharing
        self._entry = float(problem.entry_ticks)
        self._missing, self._pipes = tuple(self.missing), dict(self.pipe_units)
        scaled = [_Scaled(mode) for mode in self.modes]
        self._scaled = scaled
        self.modes = cast("list[Mode]", scaled)
        self.pipe_uses = cast(
            "list[dict[str, Use]]",
            [
                {u.engine: u for u in mode.uses if u.base > 0 and u.engine in self._pipes} if uses else {}
                for mode, uses in zip(scaled, self.pipe_uses, strict=True)
            ],
        )
        self._work_of_release: list[list[tuple[int, int, int]]] = [
            [(q, mode.overhead_ticks, ticks - mode.overhead_ticks) for q, ticks in of.items()]
            for of, mode in zip(self.release_ticks, scaled, strict=True)
        ]
        self._releases = cast("list[dict[int, float]]", self.release_ticks)
        self._factors: list[float] = [1.0] * len(scaled)

    def makespan(self, factors: Sequence[float]) -> float:
        """Return the makespan in ticks where the work of op i takes ``factors[i]`` times as long as its mode says."""
        self._restart(factors)
        self.go()
        ends = [t for of in (self.observed, self.released) for t in of if t is not None]
        return float(max([self._entry, *ends]))

    def critical(self) -> list[int]:
        """Return the ops of the last run that its makespan hangs on, the last one first."""
        seen = [-1.0 if t is None else float(t) for t in self.observed]
        at, by_end = max(range(len(seen)), key=seen.__getitem__), True
        found: list[int] = []
        for _ in range(3 * len(seen)):
            if at < 0:
                break
            if by_end and self.modes[at].dma is not None and self._polled[at][0] != at:
                at, by_end = self._polled[at]  # it was done; who should have seen it was elsewhere
                continue
            found.append(at)
            freed = self._given[at]
            at, by_end = (freed, False) if freed >= 0 else self._began[at]
        return list(dict.fromkeys(found))

    def _restart(self, factors: Sequence[float]) -> None:
        for i, factor in enumerate(factors):
            if factor != self._factors[i]:
                self._factors[i] = factor
                self._scaled[i].scale(factor)
                self._releases[i] |= {q: overhead + work * factor for q, overhead, work in self._work_of_release[i]}
        n, queues = len(self._scaled), len(self.queues)
        self.position, self.arrived = [0] * queues, [0] * n
        self.missing, self.pipe_units = list(self._missing), dict(self._pipes)
        self.reached = [None] * n
        self.pending, self.events, self.pipes_changed = [], [], False
        self.work = WorkInProgress(self._sharing)
        self.start, self.transfer_start = [None] * n, [None] * n
        self.released, self.done = [None] * n, [None] * n
        self.wait_start, self.observed = [None] * n, [None] * n
        self.now = self._entry
        self._by = self._freed = NOBODY
        self._began, self._polled, self._given = [NOBODY] * n, [NOBODY] * n, [-1] * n

    # --- why

    def _happen(self, kind: int, i: int, q: int, pipe: str) -> None:
        if kind == PIPE_FREE:
            self._freed = i, False
        elif not (kind == ENTRY_OVER and self._by == (i, True)):  # the owner goes on from what it has just seen
            self._by = i, kind == OBSERVED
        super()._happen(kind, i, q, pipe)

    def _start_op(self, i: int) -> None:
        self._began[i] = self._by
        super()._start_op(i)

    def _poll(self, i: int) -> None:
        self._polled[i] = self._by
        super()._poll(i)

    def _start_transfers(self) -> None:
        waiting = [i for since, i in self.pending if since < self.now] if self.pipes_changed else []
        super()._start_transfers()
        for i in waiting:
            if self.transfer_start[i] is not None:
                self._given[i] = self._freed[0]
