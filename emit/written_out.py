"""Tables with loops, read lap by lap: the same tables without loops, for so many laps.

What a runtime finds out on its way is found out here from the records alone: which task of which lap stands where on a
queue, for which count its waits are, where its operands lie, and which transfer a wait is for.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit import records
from hexloom.emit.chosen import iteration_of
from hexloom.emit.records import NONE
from hexloom.emit.rows import Await, Entry, Event, Operand, Queue, Tables, Task, entry_that_waits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class _Turn(NamedTuple):
    """An entry on its queue, after so many laps of every loop there."""

    entry: Entry
    laps: tuple[int, ...]


def written_out(tables: Tables, laps: Sequence[int]) -> Tables:
    """Return the tables with so many laps of every loop written out; without loops the tables themselves.

    ``op`` of a task is that of the first lap. Events keep their numbers.
    """
    return tables if not tables.loops else _WrittenOut(tables, laps).tables()


class _WrittenOut:
    def __init__(self, tables: Tables, laps: Sequence[int]) -> None:
        self.old, self.laps = tables, tuple(laps)
        self.loop_of_event = {
            e: k
            for k, loop in enumerate(tables.loops)
            for e in range(loop.first_event, loop.first_event + loop.event_count)
        }
        self.per_lap = [0] * len(tables.events)
        loops = len(tables.loops)
        for b, body in enumerate(tables.bodies):
            for entry in tables.entries[body.first_entry : body.first_entry + body.entry_count]:
                event = trigger_of(tables, entry)
                if event != NONE and self.loop_of_event.get(event) == b % loops:
                    self.per_lap[event] += 1

    def _numbers(self) -> Iterator[tuple[Task, tuple[int, ...]]]:
        """Yield every task of every lap, in the order of their serial numbers."""
        at = 0
        done = [0] * len(self.laps)
        for k, loop in enumerate(self.old.loops):
            for task in self.old.tasks[at : loop.first_task]:
                yield task, tuple(done)
            at = loop.first_task + loop.task_count
            for lap in range(self.laps[k]):
                done[k] = lap
                for task in self.old.tasks[loop.first_task : at]:
                    yield task, tuple(done)
            done[k] = self.laps[k]
        for task in self.old.tasks[at:]:
            yield task, tuple(done)

    def serial(self, task: int, laps: Sequence[int]) -> int:
        """Return the number of a task after so many laps on its queue."""
        behind = [task >= loop.first_task + loop.task_count for loop in self.old.loops]
        counts = zip(self.old.loops, laps, behind, strict=True)
        return task + sum(loop.task_count * (count - past) for loop, count, past in counts)

    def tables(self) -> Tables:
        tasks: list[Task] = []
        operands: list[Operand] = []
        slots = 0
        for task, laps in self._numbers():
            iteration = iteration_of(self.old, task, laps)
            mine = self.old.operands[task.first_operand : task.first_operand + task.operand_count]
            own = self._await(Await(task.wait_event, task.wait_threshold), laps)
            tasks.append(
                replace(
                    task,
                    tile=task.tile + task.tile_step * (iteration - task.iteration),
                    tile_step=0,
                    iteration=iteration,
                    first_operand=len(operands),
                    wait_threshold=own.threshold,
                    first_slot=slots,
                    slots=min(task.slots, 1),
                )
            )
            operands += (self._operand(operand, iteration) for operand in mine)
            slots += min(task.slots, 1)
        queues, entries = self._queues()
        waiters = [0] * len(self.old.events)
        waiting = (entry.wait.event for entry in entries if entry.action == records.AFTER)
        for event in (*waiting, *(task.wait_event for task in tasks if task.wait_event != NONE)):
            waiters[event] += 1
        events = tuple(Event(self._triggers(e), waiters[e]) for e in range(len(self.old.events)))
        tables = replace(
            self.old,
            tasks=tuple(tasks),
            operands=tuple(operands),
            events=events,
            queues=tuple(queues),
            entries=tuple(entries),
            loops=(),
            bodies=(),
            parameters=(),
            advances=(),
        )
        counts = {f"{record.name}_count": len(rows) for _, record, rows in tables.parts}
        return replace(tables, header=replace(tables.header, **counts, slot_count=slots)).sealed()

    def _triggers(self, event: int) -> int:
        loop = self.loop_of_event.get(event)
        return self.old.events[event].triggers + (0 if loop is None else self.per_lap[event] * self.laps[loop])

    def _await(self, wait: Await, laps: Sequence[int]) -> Await:
        loop = self.loop_of_event.get(wait.event)
        grown = 0 if loop is None else self.per_lap[wait.event] * laps[loop]
        return Await(wait.event, (wait.threshold + grown) % 2**32)

    def _operand(self, operand: Operand, iteration: int) -> Operand:
        if operand.flags != records.OPERAND_RING:
            return operand
        return self.old.operands[operand.offset + iteration % operand.buffer]

    def _turns(self, number: int) -> Iterator[_Turn]:
        """Yield the entries of a queue in their order."""
        queue, loops = self.old.queues[number], len(self.old.loops)
        done = [0] * loops
        at = queue.first_entry
        for k in range(loops):
            body = self.old.bodies[number * loops + k]
            yield from (_Turn(entry, tuple(done)) for entry in self.old.entries[at : body.first_entry])
            at = body.first_entry + body.entry_count
            for lap in range(self.laps[k]):
                done[k] = lap
                yield from (_Turn(entry, tuple(done)) for entry in self.old.entries[body.first_entry : at])
            done[k] = self.laps[k]
        end = queue.first_entry + queue.entry_count
        yield from (_Turn(entry, tuple(done)) for entry in self.old.entries[at:end])

    def _queues(self) -> tuple[list[Queue], list[Entry]]:
        queues: list[Queue] = []
        entries: list[Entry] = []
        for q, queue in enumerate(self.old.queues):
            first = len(entries)
            under_way: dict[int, deque[int]] = {}
            for entry, laps in self._turns(q):
                if entry.action == records.AFTER:
                    entries.append(entry_that_waits(self._await(entry.wait, laps)))
                    continue
                slot = self.old.tasks[entry.task].first_slot
                is_wait = entry.action == records.WAIT
                task = under_way[slot].popleft() if is_wait else self.serial(entry.task, laps)
                if entry.action == records.START:
                    under_way.setdefault(slot, deque()).append(task)
                entries.append(replace(entry, task=task))
            queues.append(replace(queue, first_entry=first, entry_count=len(entries) - first))
        return queues, entries


def trigger_of(tables: Tables, entry: Entry) -> int:
    """Return the event that an entry triggers when it is over, or NONE."""
    if entry.action in (records.START, records.AFTER):
        return NONE
    task = tables.tasks[entry.task]
    if task.trigger_event == NONE:
        return NONE
    return task.trigger_event + (entry.slice if task.flags & records.TASK_APART else 0)
