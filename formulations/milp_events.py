"""How short a schedule can be under any rule that shares channels: one mixed-integer program over events.

Between two events the same ops are active, and each of them may go at any speed up to its full one, as long as the
channels can serve all of them: whatever a rule gives is one of these choices, and interference only slows. So the
optimum is a lower bound for every rule and any start times. Binary variables say who is active between which events;
the product of activity, speed and time is the work done, which is what the program counts.

It is a second opinion on small problems; buffers, deadlines and named units are left out, which makes it no larger.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pulp

from hexloom.formulations.mip_solver import run

if TYPE_CHECKING:
    from hexloom.formulations.mip_solver import SolverName
    from hexloom.formulations.problem import Mode, Problem

MOST_OPS = 6
"""Above so many ops the program is not built: its binaries grow with their square."""


@dataclass(frozen=True, slots=True)
class FreeRates:
    """No schedule is shorter than ``bound``, in floating point; ``value`` is what the solver found, if anything.

    ``proven``: the two meet.
    """

    bound: float
    value: float | None
    proven: bool
    solver: str


def takes(problem: Problem) -> str | None:
    """Return why `free_rates` doesn't take ``problem``, or None when it does.

    It takes ops that keep what they hold to the end of their work: only then is one activity per op enough.
    """
    if len(problem.ops) > MOST_OPS:
        return f"{len(problem.ops)} ops, above the limit {MOST_OPS}"
    for op in problem.ops:
        for mode in op.modes:
            if mode.dma is not None:
                return f"op {op.name!r}, mode {mode.name!r} is a transfer"
            if any(0 < use.ticks < mode.latency_ticks for use in mode.uses):
                return f"op {op.name!r}, mode {mode.name!r} releases an engine before its result exists"
    return None


def free_rates(problem: Problem, seconds: float = 30.0, solver: SolverName | None = None) -> FreeRates:
    """Return the least makespan when ops may share channels in any way.

    Raises
    ------
    ValueError
        `takes` names a reason.
    """
    reason = takes(problem)
    if reason is not None:
        raise ValueError(f"the program with free rates does not take this problem: {reason}")
    with warnings.catch_warnings():
        # PuLP 3 warns that PuLP 4 makes variables and rows in another way.
        warnings.simplefilter("ignore", DeprecationWarning)
        model = _Program(problem)
        answer = run(model.program, seconds, solver)
        value = sum(length.value() or 0.0 for length in model.length) if answer.solution else None
    entry = problem.entry_ticks
    bound = max(0.0, answer.bound or 0.0) + entry
    proven = answer.optimal and answer.bound is not None
    return FreeRates(bound, None if value is None else value + entry, proven, answer.solver)


class _Way:
    """The variables of one op in one mode: whether it is chosen, active, and what it does, per interval."""

    def __init__(self, mode: Mode, name: str, intervals: range, chosen: Any) -> None:
        self.mode = mode
        self.chosen = chosen
        self.long = mode.duration_ticks > 0
        here = intervals if self.long else ()
        self.active = [pulp.LpVariable(f"a_{name}_{k}", cat=pulp.LpBinary) for k in here]
        self.begins = [pulp.LpVariable(f"b_{name}_{k}", 0, 1) for k in here]
        self.work = [pulp.LpVariable(f"w_{name}_{k}", 0) for k in here]
        self.overhead = [pulp.LpVariable(f"v_{name}_{k}", 0) for k in here]


class _Program:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        # 2 n begins and ends, and what is between them.
        self.intervals = range(2 * len(problem.ops) - 1)
        self.program = pulp.LpProblem("free_rates", pulp.LpMinimize)
        self.length = [pulp.LpVariable(f"length_{k}", 0) for k in self.intervals]
        self.program += pulp.lpSum(self.length)
        self.ways = [
            [
                _Way(mode, f"{i}_{m}", self.intervals, pulp.LpVariable(f"y_{i}_{m}", cat=pulp.LpBinary))
                for m, mode in enumerate(op.modes)
            ]
            for i, op in enumerate(problem.ops)
        ]
        for ways in self.ways:
            self.program += pulp.lpSum(way.chosen for way in ways) == 1
            for way in ways:
                if way.long:
                    self._own(way)
        self._order()
        self._engines()
        self._channels()

    def _own(self, way: _Way) -> None:
        """Be active once, without a gap, for all the work and the overhead."""
        program, work, overhead = self.program, way.mode.latency_ticks, way.mode.overhead_ticks
        for k in self.intervals:
            before = way.active[k - 1] if k else 0
            program += way.begins[k] >= way.active[k] - before
            program += way.work[k] <= work * way.active[k]
            program += way.overhead[k] <= overhead * way.active[k]
            program += way.work[k] + way.overhead[k] <= self.length[k]
        program += pulp.lpSum(way.begins) <= way.chosen
        program += pulp.lpSum(way.work) == work * way.chosen
        program += pulp.lpSum(way.overhead) == overhead * way.chosen

    def _order(self) -> None:
        """Let an op be active only before those that follow it begin; what takes no time hands this on."""
        before: list[set[int]] = [set() for _ in self.problem.ops]
        for i in self.problem.topological_order:
            for p in self.problem.predecessors[i]:
                before[i] |= before[p] | {p}
        for after, befores in enumerate(before):
            for k in self.intervals:
                begun = pulp.lpSum(way.begins[: k + 1] for way in self.ways[after])
                for p in befores:
                    active = pulp.lpSum(way.active[k] for way in self.ways[p] if way.long)
                    self.program += active + begun <= 1

    def _engines(self) -> None:
        for engine in self.problem.engines:
            users = [
                (way, use.units)
                for ways in self.ways
                for way in ways
                for use in way.mode.uses
                if way.long and use.engine == engine.name and use.ticks
            ]
            for k in self.intervals if users else ():
                self.program += pulp.lpSum(units * way.active[k] for way, units in users) <= engine.units
                done = pulp.lpSum(units * (way.work[k] + way.overhead[k]) for way, units in users)
                self.program += done <= engine.units * self.length[k]

    def _channels(self) -> None:
        for channel in self.problem.channels:
            users = [
                (way, pull.rate)
                for ways in self.ways
                for way in ways
                for pull in way.mode.pulls
                if way.long and pull.channel == channel.name and pull.rate
            ]
            for k in self.intervals if users else ():
                moved = pulp.lpSum(rate * way.work[k] for way, rate in users)
                self.program += moved <= channel.capacity * self.length[k]
