"""Processes with a solver: started, asked, and kept for whoever needs one next, since to load one takes a while.

A process that waits for a minute without a job ends itself, and every one ends when this program does.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

START_S = 30.0
"""What a new process may take to load the solver on a busy machine."""

ANSWER_S = 0.25
"""What one that was kept may take to answer; else another one is started. It may still be ending its last job."""

MOST_KEPT = 2
"""So many processes are kept at most."""

MOST_MB = 500
"""A process that has grown above this is not kept."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that a process answers with the same number as soon as it does nothing else."""

    number: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The job of this number, or any later one in the wire, is not needed any more."""

    number: int


class SolverProcess:
    """One process, and the wire to it; ``jobs`` counts what it was sent, and it counts too."""

    def __init__(self) -> None:
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
        self.jobs = 0
        self.peak_mb = 0

    def send(self, job: object) -> None:
        """Send a job; what comes of it is received message by message."""
        self._connection.send(job)
        self.jobs += 1

    def stop_job(self) -> None:
        """Say that the last job is not needed: what it still sends is thrown away when this process is used again."""
        self._connection.send(Stop(self.jobs))

    def receive(self) -> Any:
        """Return the next message, which is there or comes soon."""
        return self._connection.recv()

    def comes(self, seconds: float, other: Connection | None = None) -> bool:
        """Wait for a message, or for one on the ``other`` wire; whether one is there on this wire."""
        wires = [self._connection] if other is None else [self._connection, other]
        return self._connection in wait(wires, max(0.0, seconds))

    def loads(self, other: Connection | None = None) -> bool:
        """Wait until the solver is loaded; False if that takes too long, or ``other`` has a message before."""
        if not self._loaded and self.comes(START_S, other):
            self.receive()
            self._loaded = True
        return self._loaded

    def answers(self) -> bool:
        """Whether a process that was kept is there, and done with what it was sent before."""
        if not self._loaded:
            return self._process.poll() is None
        try:
            self._connection.send(Ask(self.jobs))
            ends = time.monotonic() + ANSWER_S
            while self.comes(ends - time.monotonic()):
                message = self.receive()
                if message == Ask(self.jobs):
                    return True
        except (EOFError, OSError):
            return False
        return False

    def end(self) -> None:
        """End the process, whatever it does."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """Leave the process to the program from which this one was forked."""
        self._connection.close()
        self._process.returncode = 0


_kept: list[SolverProcess] = []
_lock = threading.Lock()


def started() -> SolverProcess:
    """Return a process that was kept, else a new one, which may still be loading."""
    while True:
        with _lock:
            process = _kept.pop() if _kept else None
        if process is None:
            return SolverProcess()
        if process.answers():
            return process
        process.end()


def keep(process: SolverProcess) -> None:
    """Keep a process for the next one who needs it; end it where there are enough, or it has grown."""
    with _lock:
        kept = process.peak_mb <= MOST_MB and len(_kept) < MOST_KEPT
        if kept:
            _kept.append(process)
    if not kept:
        process.end()


def end_kept() -> None:
    """End all processes that wait."""
    with _lock:
        processes, _kept[:] = list(_kept), []
    for process in processes:
        process.end()


def _forget_kept() -> None:
    global _lock
    _lock = threading.Lock()
    for process in _kept:
        process.forget()
    _kept.clear()


atexit.register(end_kept)
os.register_at_fork(after_in_child=_forget_kept)
