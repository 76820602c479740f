"""What tables order under any timing, by what is surely over when an entry begins; shares nothing with their maker.

Tables are those of a plan written out. A queue knows what it has passed: of a transfer only its wait, of a late task
nothing. A wait for all triggers of an event knows all that trigger it; one for a part of them, where one queue alone
triggers it, the first ones there; and with each of these, what that one knew.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from explorer import Explorer

from hexloom.emit import records

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables
    from hexloom.optimizer.schedule import Schedule


def what_is_over(tables: Tables) -> list[int]:
    """Return for every entry the entries, as bits, that are over when it begins; raises ValueError on a deadlock."""
    before = [0] * len(tables.entries)
    queue_of = [q for q, queue in enumerate(tables.queues) for _ in range(queue.entry_count)]
    triggering: dict[int, list[int]] = {}
    for e, entry in enumerate(tables.entries):
        if entry.action in (records.START, records.AFTER):
            continue
        task = tables.tasks[entry.task]
        if task.trigger_event != records.NONE:
            event = task.trigger_event + entry.slice * (task.flags & records.TASK_APART > 0)
            triggering.setdefault(event, []).append(e)
    at = [queue.first_entry for queue in tables.queues]
    ends = [queue.first_entry + queue.entry_count for queue in tables.queues]
    count: dict[int, int] = {}
    event_of = {e: event for event, entries in triggering.items() for e in entries}
    moved = True
    while moved:
        moved = False
        for q, end in enumerate(ends):
            while at[q] < end:
                e = at[q]
                waits = tables.waits[e]
                if any(count.get(w.event, 0) < w.threshold for w in waits):
                    break
                if e > tables.queues[q].first_entry:
                    last = tables.entries[e - 1]
                    sure = last.action in (records.RUN, records.WAIT)
                    sure = sure and not tables.tasks[last.task].flags & records.TASK_ASYNC
                    before[e] |= before[e - 1] | sure << (e - 1)
                for wait in waits:
                    known = triggering[wait.event]
                    if wait.threshold < len(known):
                        in_order = all(queue_of[a] == queue_of[b] for a, b in pairwise(known))
                        known = known[: wait.threshold] if in_order else []
                    for other in known:
                        before[e] |= before[other] | 1 << other
                if e in event_of:
                    count[event_of[e]] = count.get(event_of[e], 0) + 1
                at[q] += 1
                moved = True
    if at != ends:
        raise ValueError(f"deadlock at entries {at}")
    return before


def unordered(schedule: Schedule, tables: Tables) -> list[str]:
    """Return what the tables leave to the timing of all that the problem and the plan ask for; empty: a proof."""
    asked, problem = Explorer(schedule, tables), schedule.problem
    before = what_is_over(tables)
    begins: list[list[int]] = [[] for _ in tables.tasks]
    over = [0] * len(tables.tasks)
    for e, entry in enumerate(tables.entries):
        if entry.action == records.AFTER:
            continue
        if entry.action != records.WAIT:
            begins[entry.task].append(before[e])
        if entry.action != records.START:
            over[entry.task] |= 1 << e

    def is_before(a: int, b: int) -> bool:
        """Whether all of task ``a`` is over when any slice of ``b`` begins."""
        return all(known & over[a] == over[a] for known in begins[b])

    found = [f"early: {t} before {a}" for t, needed in enumerate(asked.required) for a in needed if not is_before(a, t)]
    users: dict[tuple[str, int], list[int]] = {}
    for t, units in enumerate(asked.units):
        for unit in units:
            users.setdefault(unit, []).append(t)
    for unit, tasks in users.items():
        for k, a in enumerate(tasks):
            found += [
                f"unit {unit}: {a} beside {b}" for b in tasks[k + 1 :] if not (is_before(a, b) or is_before(b, a))
            ]
    for one, other in asked.clashes:
        x, y = problem.buffers[one], problem.buffers[other]
        apart = False
        for a, b, old, new in ((one, other, x, y), (other, one, y, x)):
            if old.to_end or new.from_start or old.always or new.always:
                continue
            over_it = new.overwrites == old.name
            apart |= all(is_before(s, t) or (over_it and s == t) for s in asked.users[a] for t in asked.users[b])
        idle = any(not asked.users[k] and not problem.buffers[k].resident for k in (one, other))
        if not apart and not idle:
            found.append(f"overwrite: {x.name} and {y.name}")
    return found
