"""The other side of the guard: a process that solves what it is sent, until the guard hangs up."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import hexloom.formulations.flat.solver_alone  # noqa: F401 - before whoever imports CP-SAT
from hexloom.formulations.flat.guard import Found, Job, Spent
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.slowed_model import SlowedModel
from hexloom.formulations.flat.window_model import WindowModel

if TYPE_CHECKING:
    from hexloom.formulations.flat.guard import Errand


def model_of(job: Job) -> FlatModel:
    """Build the model of a job."""
    if job.slowing is not None:
        return SlowedModel(job.problem, job.options, job.slowing)
    if job.window is not None:
        window_model = WindowModel(job.problem, job.heads_tails, job.options, job.window)
        window_model.hint()
        return window_model
    return FlatModel(job.problem, job.heads_tails, job.options)


def main() -> None:
    """Serve the connection whose file descriptor is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the guard; it hangs up
    connection = Connection(int(sys.argv[1]))
    try:
        connection.send(os.getpid())
        while True:
            job: Job | Errand = connection.recv()
            if not isinstance(job, Job):
                connection.send(job.work(lambda solution: connection.send(Found(solution))))
                continue
            flat = model_of(job)
            if job.incumbent is not None:
                flat.hint(*job.incumbent)
            said = flat.solve(connection.send)
            connection.send(Spent(flat.spent))
            connection.send(said)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    main()
