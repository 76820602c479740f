"""Tables with something taken out or changed, and everything else made to fit again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables


def without_wait(tables: Tables, number: int) -> Tables:
    """Take one wait out and make ranges and counts fit again."""
    event = tables.waits[number].event
    tasks = []
    for task in tables.tasks:
        inside = task.first_wait <= number < task.first_wait + task.wait_count
        first = task.first_wait - (task.first_wait > number)
        tasks.append(replace(task, first_wait=first, wait_count=task.wait_count - inside))
    events = [replace(e, waiters=e.waiters - (k == event)) for k, e in enumerate(tables.events)]
    waits = tables.waits[:number] + tables.waits[number + 1 :]
    tables = replace(tables, tasks=tuple(tasks), events=tuple(events), waits=waits)
    counts = {f"{record.name}_count": len(rows) for _, record, rows in tables.parts}
    return replace(tables, header=replace(tables.header, **counts))
