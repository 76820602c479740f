"""Runs the solver in a process of its own, which is ended when it overruns its time or crashes: CP-SAT can do both."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol, Self

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

START_S = 30.0
"""What a new process may take to load the solver on a busy machine."""


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
    """What a job has cost in the solver's own seconds, which are the same each time."""

    seconds: float


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
    """A child process that solves flat models and runs errands; it loads while others search, is replaced when lost.

    ``spent`` are the seconds of the solver's own that jobs have taken which came to an end.
    """

    def __init__(self, *, lazy: bool = False) -> None:
        self._lazy = lazy
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._loaded = False
        self.spent = 0.0

    def __enter__(self) -> Self:
        """Start the child at once, so that it has loaded when the first job comes; a lazy one starts with the job."""
        if not self._lazy:
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the child, whatever it does."""
        self._end()

    def prepare(self) -> None:
        """Start the child of a lazy guard before its first job, which comes soon."""
        if self._connection is None and not self._stopped:
            self._start()

    def solve(self, job: Job, on_solution: Callable[[FlatSolution], None] | None = None) -> Outcome:
        """Solve ``job``; its limit holds whatever the solver does.

        ``GRACE_S`` after the limit the child is killed, and what it had found by then counts. A deterministic search
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
        """Whether the child was ended by `stop`; it is not started again."""
        return self._stopped

    def stop(self) -> None:
        """End the child from another thread than the one that waits for it: that one is told that it died."""
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()

    def _ask(
        self,
        job: Job | Errand,
        seconds: float,
        deterministic: bool,
        name: str,
        take: Callable[[Any], None],
    ) -> tuple[str, int]:
        finished, asked = False, time.monotonic()
        try:
            if not self._ready():
                return "OVERRUN", 0
            connection = self._connection
            if self._stopped or connection is None:
                return "DIED", 0
            if isinstance(job, Job) and not deterministic:
                # A child that was still loading has spent of the limit.
                seconds = max(LEAST_S, seconds - (time.monotonic() - asked))
                job = replace(job, options=replace(job.options, seconds=seconds))
            connection.send(job)
            deadline = time.monotonic() + seconds * (SLOWEST if deterministic else 1) + GRACE_S
            while True:
                if not connection.poll(max(0.0, deadline - time.monotonic())):
                    return "OVERRUN", 0
                message = connection.recv()
                if isinstance(message, Spent):
                    self.spent += message.seconds
                    continue
                if isinstance(message, FlatSolution | Found):
                    take(message)
                    continue
                finished = True
                status, bound = message
                if status == "MODEL_INVALID":
                    raise AssertionError(f"{name}: CP-SAT refuses the model")
                return status, bound
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return "DIED", 0
        finally:
            if not finished:
                self._end()

    def _ready(self) -> bool:
        """Wait until a child has loaded; start one if there is none. False if it takes too long."""
        if self._connection is None:
            self._start()
        assert self._connection is not None
        if not self._loaded and not self._stopped:
            if not self._connection.poll(START_S):
                return False
            self._connection.recv()
            self._loaded = True
        return True

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hexloom.formulations.flat.child", str(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())
        self._loaded = False

    def _end(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None
