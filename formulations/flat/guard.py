"""Runs the solver in a process of its own, which is ended when it overruns its time: CP-SAT can, by a lot."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.flat.model import FlatModel, FlatOptions, FlatSolution

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from hexloom.formulations.decision import Decision, Simulated
    from hexloom.formulations.heads_tails import HeadsTails
    from hexloom.formulations.problem import Problem

GRACE_S = 2.0
"""What the solver may overrun before it is ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back: the solver's word, its bound in ticks (0 when it was ended), and the last solution.

    ``OVERRUN`` means that the process was ended from outside.
    """

    status: str
    bound: int
    solution: FlatSolution | None


def solve_guarded(
    problem: Problem,
    ht: HeadsTails,
    options: FlatOptions,
    incumbent: tuple[Decision, Simulated] | None,
    on_solution: Callable[[FlatSolution], None] | None = None,
) -> Outcome:
    """Build and solve the flat model in a child process.

    The limit of ``options`` holds whatever the solver does: ``GRACE_S`` after it the child is killed, and what it had
    found by then counts. A deterministic search has ten times its limit, so that only a hang is cut.
    """
    context = multiprocessing.get_context("fork") if sys.platform == "linux" else multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(sender, problem, ht, options, incumbent), daemon=True)
    child.start()
    sender.close()
    deadline = time.monotonic() + options.seconds * (10 if options.deterministic else 1) + GRACE_S
    best: FlatSolution | None = None
    try:
        while True:
            if not receiver.poll(max(0.0, deadline - time.monotonic())):
                return Outcome("OVERRUN", 0, best)
            try:
                message = receiver.recv()
            except EOFError:
                return Outcome("DIED", 0, best)
            if isinstance(message, FlatSolution):
                best = message
                if on_solution is not None:
                    on_solution(message)
            else:
                status, bound = message
                if status == "MODEL_INVALID":
                    raise AssertionError(f"{problem.name}: CP-SAT refuses the flat model")
                return Outcome(status, bound, best)
    finally:
        child.kill()
        child.join()
        receiver.close()


def _run(
    sender: Connection,
    problem: Problem,
    ht: HeadsTails,
    options: FlatOptions,
    incumbent: tuple[Decision, Simulated] | None,
) -> None:
    # Ctrl-C reaches the whole group; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    flat = FlatModel(problem, ht, options)
    if incumbent is not None:
        flat.hint(*incumbent)
    sender.send(flat.solve(sender.send))
