"""Executes tables the way a device would, every step taking a random time; knows nothing of plans and waits."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hexloom.emit import records

if TYPE_CHECKING:
    import random

    from hexloom.emit.rows import Tables


@dataclass
class Run:
    """When each task began and was over; a transfer is over when its owner has observed it."""

    begun: dict[int, float] = field(default_factory=dict)
    over: dict[int, float] = field(default_factory=dict)


def execute(tables: Tables, rng: random.Random) -> Run:
    """Return one run; some times are zero. A run that stops before the end misses tasks in ``over``."""
    run = Run()
    at = [0] * len(tables.queues)
    free = [True] * len(tables.queues)
    counters = [0] * len(tables.events)
    left = [task.slice_count for task in tables.tasks]
    arrival: dict[int, float] = {}
    coming: list[tuple[float, int, str, int, int]] = []
    now, serial = 0.0, 0

    def duration() -> float:
        return rng.choice((0.0, rng.random(), 10 * rng.random()))

    def later(delay: float, what: str, task: int, queue: int) -> None:
        nonlocal serial
        serial += 1
        heapq.heappush(coming, (now + delay, serial, what, task, queue))

    def trigger(task: int) -> None:
        left[task] -= 1
        if left[task] == 0:
            run.over[task] = now
        event = tables.tasks[task].trigger_event
        if event != records.NONE:
            counters[event] += 1

    def begin(queue: int) -> bool:
        """Let a free queue begin its next entry if it may."""
        row = tables.queues[queue]
        if not free[queue] or at[queue] == row.entry_count:
            return False
        entry = tables.entries[row.first_entry + at[queue]]
        if any(counters[wait.event] < wait.threshold for wait in tables.waits[row.first_entry + at[queue]]):
            return False
        if entry.action == records.AFTER:
            at[queue] += 1
            return True
        task = tables.tasks[entry.task]
        if entry.action == records.WAIT:
            free[queue] = False
            later(max(0.0, arrival[entry.task] - now), "observed", entry.task, queue)
            return True
        run.begun.setdefault(entry.task, now)
        free[queue] = False
        if entry.action == records.START:
            arrival[entry.task] = now + duration()
            later(duration() / 10, "left", entry.task, queue)
        elif task.flags & records.TASK_ASYNC:
            later(duration(), "left", entry.task, queue)
            later(duration(), "result", entry.task, queue)
        else:
            later(duration(), "observed", entry.task, queue)
        return True

    while True:
        while any(begin(queue) for queue in rng.sample(range(len(at)), len(at))):
            pass
        if not coming:
            return run
        now, _, what, task, queue = heapq.heappop(coming)
        if what != "left":
            trigger(task)
        if what != "result":
            free[queue] = True
            at[queue] += 1
