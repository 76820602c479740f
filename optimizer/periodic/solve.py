"""Thousands of equal tiles: a mix of bodies, its phases, and how long they take, exactly, whatever the trip counts.

What is simulated are the first runs of every phase, until each repeats itself exactly, and all that comes after: the
runs left out are whole periods of a repeat, each of which takes the same. That is verified, too: with one period more
of every phase the makespan grows by what these periods take.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.periodic.corun import Body, Mix, best_mix
from hexloom.formulations.ticks import whole
from hexloom.optimizer.errors import CheckFailedError
from hexloom.optimizer.periodic.phases import Phase, phases_of, run_of
from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.periodic.trial import Ran, Small, iterations_of, run, small

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.workload import Workload

FEW = 16
"""Iterations from which bodies are rolled."""

MEASURED, SETTLED = 16, 5
"""Runs of a body by which it is compared with others, and how many of the last of them do not count."""

FIRST_RUNS, MOST_RUNS = 24, 200
"""Runs of a phase in which its repeat is looked for: at first, and at most."""

MIX_SHARE = 0.7
"""Part of the time for the mix of bodies."""


@dataclass(frozen=True)
class Stretch:
    """A phase of the whole: its runs, and what every ``period`` of them takes once it repeats itself."""

    times: dict[str, int]
    count: dict[str, int]
    runs: int
    ii_ticks: int
    first: int
    period: int
    period_ticks: Moment
    left_out: int


@dataclass(frozen=True)
class Periodic:
    """A plan of phases for all iterations: ``ran`` has the first and the last of them, the rest is repeats."""

    trips: dict[str, int]
    ran: Ran
    stretches: tuple[Stretch, ...]
    makespan: Moment
    mix: Mix


def solve_loops(
    workload: Workload, machine: Machine, rule: Rule, seconds: float, *, seed: int | None = None
) -> Periodic:
    """Return the plan of phases of ``workload``.

    Raises
    ------
    NotALoopError
        Why it cannot be scheduled as loops.
    """
    started = time.monotonic()
    trips = iterations_of(workload, machine)
    few = next((task for task, count in trips.items() if count < 2 * FEW), None)
    if few is not None:
        raise NotALoopError(f"task {few!r} has {trips[few]} iterations, below {2 * FEW}")
    base = small(workload, machine, rule, dict.fromkeys(trips, FEW))
    loops = []
    for task in trips:
        loop = base.rolled.loops[task]
        pad = loop.scratchpad
        loops.append(loop.changed(scratchpad=pad.model_copy(update={"reserved_bytes": pad.total_bytes - base.room})))
    measure = _Measure(workload, machine, rule, tuple(trips))
    left = seconds - (time.monotonic() - started) if seed is None else seconds
    mix = best_mix(loops, list(trips.values()), measure, left * MIX_SHARE, seed=seed)
    if mix is None:
        raise NotALoopError("no body of these loops was found to have a plan")
    phases = phases_of(mix, tuple(trips), list(trips.values()))
    return _Reduced(workload, machine, rule, trips, mix).of(phases)


class _Measure:
    """Says what one run of a body takes in the long run, by simulating some of them."""

    def __init__(self, workload: Workload, machine: Machine, rule: Rule, tasks: tuple[str, ...]) -> None:
        self.workload, self.machine, self.rule, self.tasks = workload, machine, rule, tasks
        self.known: dict[tuple[int, ...], Small] = {}

    def __call__(self, body: Body) -> int | None:
        count = tuple(times * MEASURED for times in body.times)
        mine = {task: n for task, n in zip(self.tasks, count, strict=True) if n}
        few = small(self.workload, self.machine, self.rule, mine)
        # Where a task is alone its ops have no prefix, but the loops know them by their task and stage.
        phase = Phase(body, self.tasks, count)
        ran = run(few, (phase,), exact=False)
        if ran is None:
            return None
        last: dict[int, Fraction] = {}
        for i, (_, _, k) in run_of(few.rolled, ran.phases, 0).items():
            done = Fraction(ran.timeline.times[few.problem.ops[i].name].done)
            last[k] = max(last.get(k, Fraction(0)), done)
        begin, end = MEASURED // 2, MEASURED - SETTLED
        return max(1, round((last[end] - last[begin]) / (end - begin)))


class _Reduced:
    """Looks for few runs of every phase by which the whole is known."""

    def __init__(self, workload: Workload, machine: Machine, rule: Rule, trips: dict[str, int], mix: Mix) -> None:
        self.workload, self.machine, self.rule, self.trips, self.mix = workload, machine, rule, trips, mix

    def of(self, phases: Sequence[Phase]) -> Periodic:
        runs = FIRST_RUNS
        while True:
            whole_ = [phase.whole_runs for phase in phases]
            keep = [self._few(phase, runs, 1) for phase in phases]
            ran = self._run(phases, keep)
            open_ = [
                p for p, repeat in enumerate(ran.repeats) if repeat is None and keep[p] < whole_[p]
            ]
            if not open_:
                break
            if runs >= MOST_RUNS:
                raise NotALoopError(
                    f"a body of {self._words(phases[open_[0]])} does not repeat itself within {runs} runs"
                )
            runs = min(2 * runs, MOST_RUNS)
        periods = [1 if repeat is None else repeat.period for repeat in ran.repeats]
        keep = [self._few(phase, runs, period) for phase, period in zip(phases, periods, strict=True)]
        ran = self._run(phases, keep)
        makespan: Moment = ran.timeline.makespan
        stretches = []
        for phase, few, repeat in zip(phases, keep, ran.repeats, strict=True):
            out = phase.whole_runs - few
            if out and (repeat is None or out % repeat.period):
                raise NotALoopError(f"a body of {self._words(phase)} has no steady repeat")
            if repeat is not None:
                makespan += out // repeat.period * repeat.ticks
            stretches.append(_stretch(phase, out, repeat))
        self._verify(phases, keep, ran)
        return Periodic(self.trips, ran, tuple(stretches), whole(Fraction(makespan)), self.mix)

    def _few(self, phase: Phase, runs: int, period: int) -> int:
        """Return how many whole runs to keep: about ``runs``, so that what is left out are whole periods and rings."""
        unit = period * phase.body.schedule.unroll
        out = max(0, phase.whole_runs - runs) // unit * unit
        return phase.whole_runs - out

    def _run(self, phases: Sequence[Phase], keep: Sequence[int]) -> Ran:
        fewer = tuple(phase.shortened(phase.whole_runs - k) for phase, k in zip(phases, keep, strict=True))
        counts = {
            task: sum(phase.count[t] for phase in fewer) for t, task in enumerate(self.trips)
        }
        ran = run(small(self.workload, self.machine, self.rule, counts), fewer)
        if ran is None:
            raise NotALoopError("where phases meet, bytes are taken before they are free")
        return ran

    def _verify(self, phases: Sequence[Phase], keep: Sequence[int], ran: Ran) -> None:
        """One period more of every phase that repeats itself takes as much longer as its repeats say."""
        more, expected = list(keep), Fraction(ran.timeline.makespan)
        for p, (phase, repeat) in enumerate(zip(phases, ran.repeats, strict=True)):
            if repeat is not None and keep[p] + repeat.period <= phase.whole_runs:
                more[p] += repeat.period
                expected += repeat.ticks
        if more != list(keep) and self._run(phases, more).timeline.makespan != expected:
            raise CheckFailedError("a phase does not repeat itself as it did")

    def _words(self, phase: Phase) -> str:
        return " and ".join(f"{n} x {task}" for task, n in phase.times.items())


def _stretch(phase: Phase, out: int, repeat: object) -> Stretch:
    from hexloom.optimizer.periodic.repeat import Repeat

    known = repeat if isinstance(repeat, Repeat) else Repeat(0, 1, 0)
    return Stretch(
        phase.times, dict(zip(phase.tasks, phase.count, strict=True)), phase.runs, phase.body.schedule.ii_ticks,
        known.first, known.period, known.ticks, out,
    )  # fmt: skip
