"""The other side of the guard: a process that solves what it is sent, until the guard hangs up or nothing comes."""

from __future__ import annotations

import os
import queue
import resource
import signal
import sys
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import hexloom.formulations.flat.solver_alone  # noqa: F401 - before whoever imports CP-SAT
from hexloom.formulations.flat.guard import Found, Job, Spent
from hexloom.formulations.flat.model import FlatModel
from hexloom.formulations.flat.process import Ask, Stop
from hexloom.formulations.flat.slowed_model import SlowedModel
from hexloom.formulations.flat.window_model import WindowModel

if TYPE_CHECKING:
    from hexloom.formulations.flat.guard import Errand

IDLE_S = 60.0
"""So long a process waits for the next job."""


def model_of(job: Job) -> FlatModel:
    """Build the model of a job."""
    if job.slowing is not None:
        return SlowedModel(job.problem, job.options, job.slowing)
    if job.window is not None:
        window_model = WindowModel(job.problem, job.heads_tails, job.options, job.window)
        window_model.hint()
        return window_model
    return FlatModel(job.problem, job.heads_tails, job.options)


class Desk:
    """Where jobs come in, in a thread of its own, so that the one at work can be stopped."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopped = 0
        self._number = 0
        self._model: FlatModel | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def serve(self) -> None:
        """Work on what comes in, one after the other."""
        while True:
            try:
                job: Job | Errand | Ask = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                return
            if isinstance(job, Ask):
                self._connection.send(job)
                continue
            self._number += 1
            if isinstance(job, Job):
                said, spent = self._solve(job)
            else:
                said, spent = job.work(lambda solution: self._connection.send(Found(solution))), 0.0
            peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self._connection.send(Spent(spent, peak_kb // 1024))
            self._connection.send(said)

    def _solve(self, job: Job) -> tuple[tuple[str, int], float]:
        flat = model_of(job)
        if job.incumbent is not None:
            flat.hint(*job.incumbent)
        with self._lock:
            self._model = flat
            if self._stopped == self._number:
                flat.stop()
        said = flat.solve(self._connection.send)
        with self._lock:
            self._model = None
        return said, flat.spent

    def _listen(self) -> None:
        try:
            while True:
                message = self._connection.recv()
                if not isinstance(message, Stop):
                    self._jobs.put(message)
                    continue
                with self._lock:
                    self._stopped = message.number
                    if self._model is not None and self._number == message.number:
                        self._model.stop()
        except (EOFError, OSError):
            os._exit(0)  # the guard has hung up: whatever is at work is for nobody


def main() -> None:
    """Serve the connection whose file descriptor is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the guard; it hangs up
    connection = Connection(int(sys.argv[1]))
    try:
        connection.send(os.getpid())
        Desk(connection).serve()
    except (BrokenPipeError, ConnectionResetError):
        return


if __name__ == "__main__":
    main()
