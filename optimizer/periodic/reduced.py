"""Few runs of every phase, until each repeats itself exactly: by them all of its runs are known."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING

from hexloom.formulations.ticks import whole
from hexloom.optimizer.periodic.repeat import Repeat
from hexloom.optimizer.periodic.roll import FINER, NotALoopError
from hexloom.optimizer.periodic.schedule import Stretch
from hexloom.optimizer.periodic.trial import run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.decision import Decision
    from hexloom.optimizer.periodic.phases import Phase
    from hexloom.optimizer.periodic.trial import Ran, Source

FEW = 16
"""Iterations from which bodies are rolled."""

FIRST_RUNS, MOST_RUNS = FEW, 96
"""Runs of a phase in which its repeat is looked for: at first, and at most."""

FEWEST_RUNS, FIRST_OPS = 6, 1000
"""Runs at first where bodies are large or many, and of how many ops in all."""


class Reduced:
    """Few runs of every phase by which all are known: ``ran``, ``left_out`` runs of each phase, and their repeats.

    Raises
    ------
    NotALoopError
        A phase does not repeat itself exactly.
    """

    def __init__(self, source: Source, phases: Sequence[Phase]) -> None:
        self.source, self.phases = source, phases
        together = sum(len(phase.body.loop.ops) for phase in phases)
        runs, periods = max(FEWEST_RUNS, min(FIRST_RUNS, FIRST_OPS // together)), [1] * len(phases)
        while True:
            keep = [_few(phase, runs, period) for phase, period in zip(phases, periods, strict=True)]
            self.ran = self.run(keep)
            rest = [phase.whole_runs - k for phase, k in zip(phases, keep, strict=True)]
            known = [repeat.period if repeat else None for repeat in self.ran.repeats]
            open_ = next((p for p, period in enumerate(known) if period is None and rest[p]), None)
            if open_ is None:
                if all(left % (period or 1) == 0 for left, period in zip(rest, known, strict=True)):
                    break
                periods = [lcm(old, period or 1) for old, period in zip(periods, known, strict=True)]
            elif runs < MOST_RUNS:
                runs = min(runs * 3 // 2, MOST_RUNS)
            else:
                words = " and ".join(f"{n} x {task}" for task, n in phases[open_].times.items())
                raise NotALoopError(f"a body of {words} does not repeat itself within {runs} runs")
        self.keep = keep

    def run(self, keep: Sequence[int]) -> Ran:
        """Return the plan with so many whole runs of every phase."""
        return self._ran(
            tuple(phase.shortened(phase.whole_runs - k) for phase, k in zip(self.phases, keep, strict=True))
        )

    def _ran(self, phases: Sequence[Phase]) -> Ran:
        ran = self.source.run(phases)
        if ran is None:
            raise NotALoopError("where phases meet, bytes are taken before they are free")
        return ran

    def whole(self) -> Decision | None:
        """Return the decision that the phases are for all iterations, None where hand-overs fail."""
        begun = [
            replace(phase, later_parts=moved.later_parts)
            for phase, moved in zip(self.phases, self.ran.phases, strict=True)
        ]
        full = run(self.source.small(self.source.trips), begun, moved=True)
        return None if full is None else full.decision

    def stretches(self) -> tuple[Stretch, ...]:
        """Return the phases with what they leave out."""
        found = []
        for phase, keep, repeat in zip(self.phases, self.keep, self.ran.repeats, strict=True):
            known = Repeat(0, 1, 0) if repeat is None else repeat
            found.append(
                Stretch(
                    times=phase.times,
                    count={task: n for task, n in zip(phase.tasks, phase.count, strict=True) if n},
                    runs=phase.runs,
                    interval_ticks=whole(Fraction(phase.body.schedule.ii_ticks, FINER)),
                    first=known.first,
                    period=known.period,
                    period_ticks=known.ticks,
                    left_out=phase.whole_runs - keep,
                )
            )
        return tuple(found)

    def grown(self) -> list[Ran | None]:
        """Return, for every phase that leaves runs out, the plan with one period more of it."""
        found: list[Ran | None] = []
        for p, (keep, repeat) in enumerate(zip(self.keep, self.ran.repeats, strict=True)):
            if repeat is None or keep == self.phases[p].whole_runs:
                found.append(None)
            else:
                more = list(self.keep)
                more[p] += repeat.period
                found.append(self.run(more))
        return found


def _few(phase: Phase, runs: int, period: int) -> int:
    """Return how many whole runs to keep: at least ``runs``; what is left out are whole periods, and whole rings."""
    unit = lcm(period, phase.body.schedule.unroll)
    return phase.whole_runs - max(0, phase.whole_runs - runs) // unit * unit
