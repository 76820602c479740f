"""What runs say about a machine: the phases of every op that were measured, beside what a machine file says they take.

A phase is the work of an op (with the overhead before it), the flight of a transfer, its issue, or its poll. Ops slow
each other, so the work that an op had done when it ended follows from who else worked at the same time; that is what a
machine file has to explain, whatever the file said about the order of things.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hexloom.optimizer.sharing import UNTOUCHED, Sharing
from hexloom.optimizer.simulate import OpTimes
from hexloom.optimizer.traces.match import match
from hexloom.optimizer.traces.pairs import Shared, together_us
from hexloom.optimizer.traces.predict import on_machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from hexloom.formulations.problem import Mode, Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.trace import Trace
    from hexloom.optimizer.workload import Workload

SHORTEST_US = 0.02
"""Phases shorter than this are not looked at: recording them takes as long."""


class Seen(NamedTuple):
    """One run in microseconds: times by op, and the transfers whose end is known."""

    times: dict[str, OpTimes[float]]
    exact: frozenset[str]


class Phase(NamedTuple):
    """One phase of one op of one run; ``kind`` is work, flight, issue or poll."""

    run: int
    op: str
    kind: str
    us: float


class Observations:
    """All phases of all runs of one schedule.

    Parameters
    ----------
    workload, schedule
        What ran, and its plan: the modes that were chosen.
    traces
        Its runs; the first run of a trace with several is left out.
    """

    def __init__(self, workload: Workload, schedule: Schedule, traces: Sequence[Trace], khz: int | None = None) -> None:
        self.workload, self.schedule = workload, schedule
        self.runs: list[Seen] = []
        for trace in traces:
            found = match(schedule, trace, khz).runs
            self.runs += [_in_us(schedule, run.times, run.exact) for run in (found[1:] if len(found) > 1 else found)]
        self.chosen = {a.op: a.mode for a in schedule.plan.assignments}
        self.dma = {op.name: op.modes[self.chosen[op.name]].dma is not None for op in schedule.problem.ops}
        self.stages = {op.name: f"{op.task}/{op.stage}" for op in schedule.problem.ops}
        self.phases = [phase for k, run in enumerate(self.runs) for phase in self._phases(k, run)]
        self.measured = np.array([phase.us for phase in self.phases])

    def _phases(self, k: int, run: Seen) -> list[Phase]:
        found = []
        for name, t in run.times.items():
            if not self.dma[name]:
                found.append(Phase(k, name, "work", t.done - t.start))
                continue
            if name in run.exact:
                found.append(Phase(k, name, "flight", t.done - t.transfer_start))
            found.append(Phase(k, name, "issue", t.end - t.start))
            found.append(Phase(k, name, "poll", t.observed - max(t.done, t.wait_start)))
        return [phase for phase in found if phase.us >= SHORTEST_US]

    def beside(self, machine: Machine) -> dict[tuple[str, str], list[Shared]]:
        """Return for pairs of classes (victim, cause) what ops of the first say of the second, on ``machine``."""
        problem = on_machine(self.workload, self.schedule, machine, "none")
        modes = {op.name: op.modes[0] for op in problem.ops}
        tick = float(problem.tick or 1)
        classes = {name: mode.op_class for name, mode in modes.items()}
        found: dict[tuple[str, str], list[Shared]] = {}
        for run in self.runs:
            spans = {name: (_begun(modes[name], t, tick), t.done) for name, t in run.times.items()}
            for (name, cause), (shared, of_other) in together_us(spans, classes).items():
                if not classes[name]:
                    continue
                alone, took = modes[name].latency_ticks * tick, spans[name][1] - spans[name][0]
                found.setdefault((classes[name], cause), []).append(Shared(alone, took, shared, of_other))
        return found

    def alone(self, machine: Machine) -> dict[str, list[float]]:
        """Return by class how much longer ops took that nobody worked beside than they do on ``machine``."""
        problem = on_machine(self.workload, self.schedule, machine, "none")
        modes = {op.name: op.modes[0] for op in problem.ops}
        tick = float(problem.tick or 1)
        found: dict[str, list[float]] = {}
        for run in self.runs:
            spans = {name: (_begun(modes[name], t, tick), t.done) for name, t in run.times.items()}
            for name, (start, end) in spans.items():
                by_itself = all(e <= start or end <= s for other, (s, e) in spans.items() if other != name)
                told = modes[name].latency_ticks * tick
                if by_itself and told and modes[name].op_class:
                    found.setdefault(modes[name].op_class, []).append((end - start) / told)
        return found

    def expected(self, machine: Machine) -> NDArray[np.float64]:
        """Return what each phase should have taken on ``machine``, given who else worked when, in microseconds.

        Raises
        ------
        InvalidInputError
            If the workload does not expand to the ops of the schedule.
        """
        problem = on_machine(self.workload, self.schedule, machine, self.schedule.contention)
        modes = {op.name: op.modes[0] for op in problem.ops}
        tick = float(problem.tick or 1)
        done = [_work_done(problem, self.schedule.contention, modes, run.times, tick) for run in self.runs]
        return np.array([_expected(modes[p.op], p, self.runs[p.run], done[p.run].get(p.op), tick) for p in self.phases])


def _in_us(schedule: Schedule, times: Mapping[str, OpTimes[int | Fraction]], exact: frozenset[str]) -> Seen:
    tick = float(schedule.us(1))
    found = {name: OpTimes(*(float(time) * tick for time in t)) for name, t in times.items()}
    return Seen(found, exact)


def _begun(mode: Mode, times: OpTimes[float], tick: float) -> float:
    return times.start + mode.overhead_ticks * tick if mode.dma is None else times.transfer_start


def _work_done(
    problem: Problem, rule: Rule, modes: Mapping[str, Mode], times: Mapping[str, OpTimes[float]], tick: float
) -> dict[str, float]:
    """Return the microseconds of work at full speed that each op did in its time; nothing of ops that none can slow."""
    sharing = Sharing(problem, rule, exact=False)
    index = problem.op_index
    loads = {name: sharing.load_of(modes[name]) for name in times}
    changes: dict[float, list[tuple[str, bool]]] = {}
    done: dict[str, float] = {}
    for name, t in times.items():
        begun = _begun(modes[name], t, tick)
        if loads[name] != UNTOUCHED and t.done > begun:
            done[name] = 0.0
            changes.setdefault(begun, []).append((name, True))
            changes.setdefault(t.done, []).append((name, False))
    working: list[str] = []
    moments = sorted(changes)
    for now, then in pairwise([*moments, 0.0]):
        for name, begins in changes[now]:
            (working.append if begins else working.remove)(name)
        working.sort(key=index.__getitem__)
        speeds = sharing.speeds(tuple(loads[name] for name in working))
        for name, speed in zip(working, speeds, strict=True):
            done[name] += float(speed) * (then - now)
    return done


def _expected(mode: Mode, phase: Phase, run: Seen, done: float | None, tick: float) -> float:
    times = run.times[phase.op]
    if phase.kind == "issue":
        return mode.dma.issue_ticks * tick if mode.dma is not None else 0.0
    if phase.kind == "poll":
        return mode.dma.poll_ticks * tick if mode.dma is not None else 0.0
    before = mode.overhead_ticks * tick if mode.dma is None else 0.0
    work = mode.latency_ticks * tick
    took = times.done - _begun(mode, times, tick)
    if done is None or done <= 0 or took <= 0:
        return before + work
    return before + work * took / done
