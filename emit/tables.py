"""The tables of a schedule: what the device runtime reads, as plain data. No predicted times, no pointers.

Every op that someone executes is a task. Its slices, one for each queue it stands in, trigger its event when they
are over; whoever must come later waits until the counter of the event has reached its threshold. Producers that are
awaited by the same tasks share one event.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.emit.awaited import awaited, events_of
from hexloom.emit.buffer_map import buffer_map
from hexloom.emit.orders import Orders
from hexloom.emit.records import NONE
from hexloom.emit.rows import Await, Binding, Buffer, Entry, Header, Operand, Queue, Tables, Task
from hexloom.optimizer.kernels.engines import HMX, HVX
from hexloom.optimizer.schedule import schedule_hash

if TYPE_CHECKING:
    from hexloom.emit.awaited import Awaited
    from hexloom.emit.orders import Action
    from hexloom.formulations.problem import Buffer as ProblemBuffer
    from hexloom.formulations.problem import Mode
    from hexloom.optimizer.schedule import Schedule

ENGINE_KINDS = {HMX: records.HMX, HVX: records.HVX}
ACTIONS: dict[Action, int] = {"run": records.RUN, "start": records.START, "wait": records.WAIT}


def target_arch(machine: str | None) -> int:
    """Return the version of the instruction set that a machine is named after (79 for hexagon-v79), or 0."""
    found = re.search(r"(?:^|-)v(\d{2,3})$", machine or "")
    return int(found[1]) if found else 0


def buffer_row(b: ProblemBuffer, offset: int, flags: int = 0, binding: int = 0) -> Buffer:
    """Return the row of a buffer that lies at ``offset``; ``flags`` are those that its plan gives it."""
    flags |= records.BUFFER_LIVES[b.resident] | records.BUFFER_PINNED * (b.address is not None)
    return Buffer(offset=offset, bytes=b.occupied_bytes, align=b.align_bytes, binding=binding, flags=flags)


def kind_of(mode: Mode) -> int:
    """Return the kind of a task in this mode."""
    if mode.dma is not None:
        return records.DMA
    kinds = [ENGINE_KINDS.get(use.engine, records.OTHER) for use in mode.uses if use.ticks > 0]
    return min(kinds, default=records.OTHER)


def make_tables(schedule: Schedule) -> Tables:
    """Return the tables of a checked schedule.

    Raises
    ------
    PlanError
        When the plan orders less than the problem asks for, or never ends.
    InvalidInputError
        When a number does not fit into its field.
    """
    return _Build(schedule).tables()


class _Build:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.problem = schedule.problem
        self.orders = Orders(schedule)
        folded = set(self.orders.markers)
        self.ops = [i for i in range(len(self.problem.ops)) if i not in folded]
        self.task_of = {i: t for t, i in enumerate(self.ops)}
        self.slices = [0] * len(self.problem.ops)
        self.queue_of: dict[int, int] = {}
        for q, lane in enumerate(self.orders.lanes):
            for step in lane.steps:
                self.slices[step.op] += step.action != "start"
                self.queue_of.setdefault(step.op, q)
        self.groups = tuple(dict.fromkeys(self.problem.ops[i].task for i in self.ops))
        self.stages = tuple(dict.fromkeys((self.problem.ops[i].task, self.problem.ops[i].stage) for i in self.ops))
        self.engines = tuple(engine.name for engine in self.problem.engines)
        self.map = buffer_map(self.problem)

    def tables(self) -> Tables:
        event_of, triggers = self._events()
        awaits = {i: self._awaited(i, event_of, triggers) for i in self.ops}
        tasks, operands = self._tasks(event_of, awaits)
        queues, entries = self._queues(awaits)
        events = events_of(triggers, awaits.values())
        buffers = self._buffers()
        bindings = tuple(self._binding(buffers, k) for k in range(1 + len(self.problem.pools)))
        vtcm_bytes = bindings[0].bytes
        header = Header(
            target_arch=target_arch(self.schedule.machine),
            task_count=len(tasks),
            operand_count=len(operands),
            event_count=len(events),
            queue_count=len(queues),
            entry_count=len(entries),
            buffer_count=len(buffers),
            binding_count=len(bindings),
            vtcm_bytes=vtcm_bytes,
            schedule_hash=schedule_hash(self.schedule),
            group_count=len(self.groups),
            slot_count=sum(task.slots for task in tasks),
        )
        tables = Tables(
            header=header,
            tasks=tasks,
            operands=operands,
            events=events,
            queues=queues,
            entries=entries,
            buffers=buffers,
            bindings=bindings,
            groups=self.groups,
            stages=self.stages,
            engines=self.engines,
            markers=tuple(self.orders.markers),
            buffer_names=tuple(row.buffer.name for row in self.map.rows),
        )
        return tables.sealed()

    def _events(self) -> tuple[dict[int, int], list[int]]:
        """One event for all producers that the same ops wait for: whose it is, and how often it is triggered."""
        waiters: dict[int, list[int]] = {}
        for after, befores in enumerate(self.orders.waits):
            for before in befores:
                waiters.setdefault(before, []).append(after)
        number: dict[tuple[int, ...], int] = {}
        event_of: dict[int, int] = {}
        triggers: list[int] = []
        for op in sorted(waiters):
            key = tuple(waiters[op])
            event = number.setdefault(key, len(number))
            if event == len(triggers):
                triggers.append(0)
            event_of[op] = event
            triggers[event] += self.slices[op]
        return event_of, triggers

    def _awaited(self, op: int, event_of: dict[int, int], triggers: list[int]) -> Awaited:
        needed: dict[Await, list[int]] = {}
        for producer, lanes in self.orders.waits[op].items():
            event = event_of[producer]
            needed.setdefault(Await(event, triggers[event]), []).extend(lanes)
        return awaited(needed)

    def _tasks(
        self, event_of: dict[int, int], awaits: dict[int, Awaited]
    ) -> tuple[tuple[Task, ...], tuple[Operand, ...]]:
        group_of = {name: k for k, name in enumerate(self.groups)}
        stage_of = {name: k for k, name in enumerate(self.stages)}
        chosen = {assignment.op: assignment.mode for assignment in self.schedule.plan.assignments}
        tasks: list[Task] = []
        operands: list[Operand] = []
        transfers = 0
        for i in self.ops:
            op = self.problem.ops[i]
            used = [self._operand(row) for row in self.map.operands_of(self.problem.op_buffers[i])]
            tasks.append(
                Task(
                    op=i,
                    kind=kind_of(self.orders.modes[i]),
                    flags=records.TASK_ASYNC if self.orders.late[i] else 0,
                    mode=chosen[op.name],
                    group=group_of[op.task],
                    stage=stage_of[op.task, op.stage],
                    tile=op.tile,
                    queue=self.queue_of[i],
                    slice_count=self.slices[i],
                    first_operand=len(operands),
                    operand_count=len(used),
                    wait_event=awaits[i].own.event,
                    wait_threshold=awaits[i].own.threshold,
                    trigger_event=event_of.get(i, NONE),
                    first_slot=transfers,
                    slots=int(self.orders.modes[i].dma is not None),
                )
            )
            transfers += tasks[-1].slots
            operands += used
        return tuple(tasks), tuple(operands)

    def _operand(self, buffer: int) -> Operand:
        address = self._address_of(buffer)
        binding = self._binding_of(buffer)
        return Operand(binding=binding, space=self._space(binding), flags=0, buffer=buffer, offset=address)

    def _binding_of(self, buffer: int) -> int:
        """Return 0 for the scratchpad, and 1 and up for pools, in their order."""
        names = [None, *(pool.name for pool in self.problem.pools)]
        return names.index(self.map.rows[buffer].buffer.pool)

    def _space(self, binding: int) -> int:
        if binding == 0:
            return records.VTCM
        return records.DDR_DMA_ONLY if self.problem.pools[binding - 1].dma_only else records.POOL

    def _address_of(self, buffer: int) -> int:
        return self.schedule.plan.addresses[self.problem.buffers[self.map.rows[buffer].first].name]

    def _binding(self, buffers: tuple[Buffer, ...], binding: int) -> Binding:
        mine = [buffer for buffer in buffers if buffer.binding == binding]
        return Binding(
            bytes=max((buffer.offset + buffer.bytes for buffer in mine), default=0),
            align=max((buffer.align for buffer in mine), default=1),
            space=self._space(binding),
            flags=0,
        )

    def _buffers(self) -> tuple[Buffer, ...]:
        return tuple(
            buffer_row(
                b,
                self._address_of(k),
                records.BUFFER_OVERWRITES * self._lies_on_another(b) | flags,
                self._binding_of(k),
            )
            for k, (b, _, flags) in enumerate(self.map.rows)
        )

    def _lies_on_another(self, buffer: ProblemBuffer) -> bool:
        """Whether it has the address of the buffer that its first op reads last."""
        at = self.schedule.plan.addresses
        return buffer.overwrites is not None and at[buffer.overwrites] == at[buffer.name]

    def _queues(self, awaits: dict[int, Awaited]) -> tuple[tuple[Queue, ...], tuple[Entry, ...]]:
        queues: list[Queue] = []
        entries: list[Entry] = []
        engine_of = {name: k for k, name in enumerate(self.engines)}
        for q, lane in enumerate(self.orders.lanes):
            kind = records.DETACHED if lane.detached else ENGINE_KINDS.get(lane.engine, records.OTHER)
            engine = engine_of.get(lane.engine, len(self.engines))
            first = len(entries)
            for step in lane.steps:
                entries += [] if step.action == "wait" else awaits[step.op].entries(q)
                entries.append(Entry(self.task_of[step.op], ACTIONS[step.action], 0, step.slice))
            queues.append(Queue(engine, lane.unit, kind, 0, first, len(entries) - first))
        return tuple(queues), tuple(entries)
