"""Runs the solver in a process of its own, which is ended when it overruns its time or crashes: CP-SAT can do both."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Pipe
from typing import TYPE_CHECKING, Any, Protocol, Self

from hexloom.formulations.flat.process import SolverProcess, keep, started
from hexloom.formulations.flat.solution import FlatOptions, FlatSolution

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.flat.slowing import Slowing
    from hexloom.formulations.flat.solution import Window
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem

GRACE_S = 2.0
"""What the solver may overrun before it is ended."""

SLOWEST = 60
"""Seconds that one of the solver's own takes at most on a busy machine."""

LEAST_S = 0.01
"""What a solver has that loaded too long."""


@dataclass(frozen=True, slots=True)
class Job:
    """One model to solve, from an incumbent when there is one.

    With ``slowing`` limits are in its parts of a tick. With a ``window`` only that is solved, from what it was before.
    """

    problem: Problem
    heads_tails: HeadsTails
    options: FlatOptions
    incumbent: tuple[Decision, Simulated] | None
    slowing: Slowing | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: the solver's word, its bound in ticks (0 when there is none), and the last solution.

    ``OVERRUN`` and ``DIED`` mean that the process was ended from outside, or ended itself.
    """

    status: str
    bound: int
    solution: FlatSolution | None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a job has cost in the solver's own seconds, which are the same each time; how large its process became."""

    seconds: float
    peak_mb: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """A solution that comes back of an errand."""

    solution: Any


class Errand(Protocol):
    """Something else to solve in the child: it says itself how."""

    @property
    def seconds(self) -> float:
        """How long it may take."""

    @property
    def deterministic(self) -> bool:
        """Whether these are seconds of the solver's own."""

    @property
    def label(self) -> str:
        """What it is, for people."""

    def work(self, found: Callable[[Any], None]) -> tuple[str, int]:
        """Give every solution to ``found``; return the solver's word and its bound."""


class Guard:
    """A process that solves flat models and runs errands; it loads while others search, is replaced when lost.

    ``spent`` are the seconds of the solver's own that jobs have taken which came to an end. A process whose jobs came
    to an end, or were stopped, is kept for the next guard: a solver takes longer to load than to solve most problems.
    """

    def __init__(self, *, lazy: bool = False) -> None:
        self._lazy = lazy
        self._stopped = False
        self._process: SolverProcess | None = None
        self._woken, self._wake = Pipe(duplex=False)
        self.spent = 0.0

    def __enter__(self) -> Self:
        """Start the process at once, so that it has loaded when the first job comes; a lazy one starts with the job."""
        if not self._lazy:
            self.prepare()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the process to the next one; its last job is over."""
        if self._process is not None:
            keep(self._process)
            self._process = None
        self._woken.close()
        self._wake.close()

    def prepare(self) -> None:
        """Start the process of a lazy guard before its first job, which comes soon."""
        if self._process is None and not self._stopped:
            self._process = started()

    def solve(self, job: Job, on_solution: Callable[[FlatSolution], None] | None = None) -> Outcome:
        """Solve ``job``; its limit holds whatever the solver does.

        ``GRACE_S`` after the limit the process is killed, and what it had found by then counts. A deterministic search
        has many times its limit, so that only a hang is cut. Where the lower end of the makespan is above the upper
        one, there is nothing to search.
        """
        if job.options.lower > job.options.upper:
            return Outcome("INFEASIBLE", job.options.upper + 1, None)
        best: FlatSolution | None = None

        def take(solution: FlatSolution) -> None:
            nonlocal best
            best = solution
            if on_solution is not None:
                on_solution(solution)

        status, bound = self._ask(job, job.options.seconds, job.options.deterministic, job.problem.name, take)
        return Outcome(status, bound, best)

    def run(self, errand: Errand) -> tuple[str, int, Any]:
        """Run ``errand`` under the same limits; return the solver's word, its bound, and the last solution or None."""
        found: list[Found] = []
        status, bound = self._ask(errand, errand.seconds, errand.deterministic, errand.label, found.append)
        return status, bound, found[-1].solution if found else None

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called; nothing is solved any more."""
        return self._stopped

    def stop(self) -> None:
        """End the search from another thread than the one that waits for it: that one is told that it died."""
        if not self._stopped:
            self._stopped = True
            self._wake.send_bytes(b"stop")

    def _ask(
        self,
        job: Job | Errand,
        seconds: float,
        deterministic: bool,
        name: str,
        take: Callable[[Any], None],
    ) -> tuple[str, int]:
        usable, asked = False, time.monotonic()
        overtaken: Any = None
        try:
            if self._stopped:
                return "DIED", 0
            self.prepare()
            assert self._process is not None
            process = self._process
            loaded = process.loads(self._woken)
            usable = loaded or self._stopped
            if not loaded or self._stopped:
                return "DIED" if self._stopped else "OVERRUN", 0
            if isinstance(job, Job) and not deterministic:
                # A process that was still loading has spent of the limit.
                seconds = max(LEAST_S, seconds - (time.monotonic() - asked))
                job = replace(job, options=replace(job.options, seconds=seconds))
            usable = False
            # Where bytes do not matter only a shorter solution counts: those that are overtaken are not looked at.
            latest_only = isinstance(job, Job) and job.problem.fits_side_by_side and not deterministic
            process.send(job)
            deadline = time.monotonic() + seconds * (SLOWEST if deterministic else 1) + GRACE_S
            while True:
                if not process.comes(deadline - time.monotonic(), self._woken):
                    if not self._stopped:
                        return "OVERRUN", 0
                    if isinstance(job, Job):
                        process.stop_job()
                        usable = True
                    return "DIED", 0
                message = process.receive()
                if isinstance(message, Spent):
                    self.spent += message.seconds
                    process.peak_mb = message.peak_mb
                    continue
                if isinstance(message, FlatSolution | Found):
                    overtaken = message if latest_only and process.comes(0.0) else None
                    if overtaken is None:
                        take(message)
                    continue
                usable = True
                status, bound = message
                if status == "MODEL_INVALID":
                    raise AssertionError(f"{name}: CP-SAT refuses the model")
                if overtaken is not None:
                    take(overtaken)
                return status, bound
        except (EOFError, ConnectionResetError, BrokenPipeError):
            if overtaken is not None:
                take(overtaken)
            return "DIED", 0
        finally:
            if not usable and self._process is not None:
                self._process.end()
                self._process = None
