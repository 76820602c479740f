"""Tables with something taken out or changed, and everything else made to fit again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit import records

if TYPE_CHECKING:
    from hexloom.emit.rows import Body, Queue, Tables


class Waiting(NamedTuple):
    """A wait in the tables: that of a task itself, or of an entry."""

    event: int
    task: int
    entry: int | None


def waits_of(tables: Tables) -> list[Waiting]:
    """Return all waits of tables, and of which task each of them is."""
    own = [Waiting(task.wait_event, t, None) for t, task in enumerate(tables.tasks) if task.wait_event != records.NONE]
    task, others = 0, []
    for e in range(len(tables.entries) - 1, -1, -1):
        entry = tables.entries[e]
        if entry.action == records.AFTER:
            others.append(Waiting(entry.wait.event, task, e))
        else:
            task = entry.task
    return own + others


def without_wait(tables: Tables, number: int) -> Tables:
    """Take one wait out and make ranges and counts fit again."""
    wait = waits_of(tables)[number]
    events = [replace(e, waiters=e.waiters - (k == wait.event)) for k, e in enumerate(tables.events)]
    tables = replace(tables, events=tuple(events))
    if wait.entry is None:
        old = tables.tasks[wait.task]
        task = replace(old, wait_event=records.NONE, wait_threshold=0)
        return replace(tables, tasks=(*tables.tasks[: wait.task], task, *tables.tasks[wait.task + 1 :]))
    gone = wait.entry

    def closed(row: Queue | Body) -> dict[str, int]:
        """Return a range of entries without the one that is gone."""
        inside = row.first_entry <= gone < row.first_entry + row.entry_count
        return {"first_entry": row.first_entry - (row.first_entry > gone), "entry_count": row.entry_count - inside}

    tables = replace(
        tables,
        entries=tables.entries[:gone] + tables.entries[gone + 1 :],
        queues=tuple(replace(queue, **closed(queue)) for queue in tables.queues),
        bodies=tuple(replace(body, **closed(body)) for body in tables.bodies),
    )
    counts = {f"{record.name}_count": len(rows) for _, record, rows in tables.parts}
    return replace(tables, header=replace(tables.header, **counts))
