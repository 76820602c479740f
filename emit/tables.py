"""The tables of a schedule: what the device runtime reads, as plain data. No predicted times, no pointers.

Every op that someone executes is a task. Its slices, one for each queue it stands in, trigger its event when they
are over; whoever must come later waits until the counter of the event has reached its threshold. Producers that are
awaited by the same tasks share one event.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.emit.buffer_map import buffer_map
from hexloom.emit.orders import Orders
from hexloom.emit.records import NONE
from hexloom.optimizer.kernels.engines import HMX, HVX
from hexloom.optimizer.schedule import schedule_hash

if TYPE_CHECKING:
    from hexloom.emit.orders import Action
    from hexloom.emit.records import Record
    from hexloom.formulations.problem import Buffer as ProblemBuffer
    from hexloom.optimizer.schedule import Schedule

ENGINE_KINDS = {HMX: records.HMX, HVX: records.HVX}
ACTIONS: dict[Action, int] = {"run": records.RUN, "start": records.START, "wait": records.WAIT}


@dataclass(frozen=True, slots=True)
class Task:
    """One op. ``op`` is its position in the problem, ``queue`` its first queue; a transfer has one slice."""

    op: int
    kind: int
    flags: int
    mode: int
    group: int
    stage: int
    tile: int
    queue: int
    slice_count: int
    first_operand: int
    operand_count: int
    first_wait: int
    wait_count: int
    trigger_event: int


@dataclass(frozen=True, slots=True)
class Operand:
    """Memory that a task uses: ``offset`` bytes from the base of a binding; ``buffer`` names its entry in the map."""

    binding: int
    space: int
    flags: int
    buffer: int
    offset: int


@dataclass(frozen=True, slots=True)
class Await:
    """The task starts once the counter of ``event`` has reached ``threshold``."""

    event: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Event:
    """How often a run triggers the event, and how many tasks wait for it."""

    triggers: int
    waiters: int


@dataclass(frozen=True, slots=True)
class Queue:
    """The entries ``[first_entry, first_entry + entry_count)`` are executed in order by one thread."""

    engine: int
    unit: int
    kind: int
    flags: int
    first_entry: int
    entry_count: int


@dataclass(frozen=True, slots=True)
class Entry:
    """Run slice ``slice`` of a task, or start its transfer, or wait for it."""

    task: int
    action: int
    flags: int
    slice: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where a buffer lies in the scratchpad; ``bytes`` are those it occupies, rounded to its granule."""

    offset: int
    bytes: int
    align: int
    binding: int
    flags: int


@dataclass(frozen=True, slots=True)
class Binding:
    """A memory that is known only at run time, by its base; what the plan asks of it."""

    bytes: int
    align: int
    space: int
    flags: int


@dataclass(frozen=True, slots=True)
class Header:
    """What the tables are: ABI, sizes of records, counts, target, hash and checksum."""

    target_arch: int
    task_count: int
    operand_count: int
    wait_count: int
    event_count: int
    queue_count: int
    entry_count: int
    buffer_count: int
    binding_count: int
    vtcm_bytes: int
    schedule_hash: int
    crc32: int = 0
    header_crc32: int = 0
    flags: int = 0
    magic: int = records.MAGIC
    abi_major: int = records.ABI_MAJOR
    abi_minor: int = records.ABI_MINOR
    header_bytes: int = records.HEADER.size_bytes
    task_bytes: int = records.TASK.size_bytes
    operand_bytes: int = records.OPERAND.size_bytes
    wait_bytes: int = records.AWAIT.size_bytes
    event_bytes: int = records.EVENT.size_bytes
    queue_bytes: int = records.QUEUE.size_bytes
    entry_bytes: int = records.ENTRY.size_bytes
    buffer_bytes: int = records.BUFFER.size_bytes
    binding_bytes: int = records.BINDING.size_bytes


@dataclass(frozen=True)
class Tables:
    """All tables of one schedule, and the names that they leave out.

    ``stages`` are pairs (name of the workload's task, stage); a record's ``group`` and ``stage`` are positions in
    ``groups`` and ``stages``, its ``engine`` in ``engines``. ``markers`` are ops that take no time on no engine.
    """

    header: Header
    tasks: tuple[Task, ...]
    operands: tuple[Operand, ...]
    waits: tuple[Await, ...]
    events: tuple[Event, ...]
    queues: tuple[Queue, ...]
    entries: tuple[Entry, ...]
    buffers: tuple[Buffer, ...]
    bindings: tuple[Binding, ...]
    groups: tuple[str, ...]
    stages: tuple[tuple[str, str], ...]
    engines: tuple[str, ...]
    markers: tuple[int, ...]

    @cached_property
    def parts(self) -> tuple[tuple[str, Record, tuple[object, ...]], ...]:
        """Return (plural name, record, rows) of every table after the header, in the order of the checksum."""
        return (
            ("tasks", records.TASK, self.tasks),
            ("operands", records.OPERAND, self.operands),
            ("waits", records.AWAIT, self.waits),
            ("events", records.EVENT, self.events),
            ("queues", records.QUEUE, self.queues),
            ("entries", records.ENTRY, self.entries),
            ("buffers", records.BUFFER, self.buffers),
            ("bindings", records.BINDING, self.bindings),
        )

    def to_bytes(self) -> bytes:
        """Return the canonical bytes: header, then the tables without gaps."""
        rows = (record.pack(row) for _, record, rows in self.parts for row in rows)
        return records.HEADER.pack(self.header) + b"".join(rows)

    def checksum(self) -> int:
        """Return the CRC-32 of the canonical bytes with a checksum of zero in the header."""
        return zlib.crc32(replace(self, header=replace(self.header, crc32=0)).to_bytes())

    def sealed(self) -> Tables:
        """Return these tables with the checksums that fit them: first that of the header alone."""
        blank = replace(self.header, crc32=0, header_crc32=0)
        header = replace(blank, header_crc32=zlib.crc32(records.HEADER.pack(blank)))
        tables = replace(self, header=header)
        return replace(tables, header=replace(header, crc32=tables.checksum()))


def target_arch(machine: str | None) -> int:
    """Return the version of the instruction set that a machine is named after (79 for hexagon-v79), or 0."""
    found = re.search(r"(?:^|-)v(\d{2,3})$", machine or "")
    return int(found[1]) if found else 0


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
        event_of, events = self._events()
        tasks, operands, waits = self._tasks(event_of, events)
        queues, entries = self._queues()
        buffers = self._buffers()
        bindings = tuple(self._binding(buffers, k) for k in range(1 + len(self.problem.pools)))
        vtcm_bytes = bindings[0].bytes
        header = Header(
            target_arch=target_arch(self.schedule.machine),
            task_count=len(tasks),
            operand_count=len(operands),
            wait_count=len(waits),
            event_count=len(events),
            queue_count=len(queues),
            entry_count=len(entries),
            buffer_count=len(buffers),
            binding_count=len(bindings),
            vtcm_bytes=vtcm_bytes,
            schedule_hash=schedule_hash(self.schedule),
        )
        tables = Tables(
            header=header,
            tasks=tasks,
            operands=operands,
            waits=waits,
            events=events,
            queues=queues,
            entries=entries,
            buffers=buffers,
            bindings=bindings,
            groups=self.groups,
            stages=self.stages,
            engines=self.engines,
            markers=tuple(self.orders.markers),
        )
        return tables.sealed()

    def _events(self) -> tuple[dict[int, int], tuple[Event, ...]]:
        """One event for all producers that the same ops wait for."""
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
        events = (Event(triggers[event], len(key)) for key, event in number.items())
        return event_of, tuple(events)

    def _tasks(
        self, event_of: dict[int, int], events: tuple[Event, ...]
    ) -> tuple[tuple[Task, ...], tuple[Operand, ...], tuple[Await, ...]]:
        group_of = {name: k for k, name in enumerate(self.groups)}
        stage_of = {name: k for k, name in enumerate(self.stages)}
        chosen = {assignment.op: assignment.mode for assignment in self.schedule.plan.assignments}
        tasks: list[Task] = []
        operands: list[Operand] = []
        waits: list[Await] = []
        for i in self.ops:
            op = self.problem.ops[i]
            used = [self._operand(row) for row in self.map.operands_of(self.problem.op_buffers[i])]
            awaited = [Await(e, events[e].triggers) for e in dict.fromkeys(event_of[a] for a in self.orders.waits[i])]
            tasks.append(
                Task(
                    op=i,
                    kind=self._kind(i),
                    flags=records.TASK_ASYNC if self.orders.late[i] else 0,
                    mode=chosen[op.name],
                    group=group_of[op.task],
                    stage=stage_of[op.task, op.stage],
                    tile=op.tile,
                    queue=self.queue_of[i],
                    slice_count=self.slices[i],
                    first_operand=len(operands),
                    operand_count=len(used),
                    first_wait=len(waits),
                    wait_count=len(awaited),
                    trigger_event=event_of.get(i, NONE),
                )
            )
            operands += used
            waits += awaited
        return tuple(tasks), tuple(operands), tuple(waits)

    def _kind(self, op: int) -> int:
        mode = self.orders.modes[op]
        if mode.dma is not None:
            return records.DMA
        kinds = [ENGINE_KINDS.get(use.engine, records.OTHER) for use in mode.uses if use.ticks > 0]
        return min(kinds, default=records.OTHER)

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
            Buffer(
                offset=self._address_of(k),
                bytes=b.occupied_bytes,
                align=b.align_bytes,
                binding=self._binding_of(k),
                flags=records.BUFFER_LIVES[b.resident]
                | records.BUFFER_PINNED * (b.address is not None)
                | records.BUFFER_OVERWRITES * self._lies_on_another(b)
                | flags,
            )
            for k, (b, _, flags) in enumerate(self.map.rows)
        )

    def _lies_on_another(self, buffer: ProblemBuffer) -> bool:
        """Whether it has the address of the buffer that its first op reads last."""
        at = self.schedule.plan.addresses
        return buffer.overwrites is not None and at[buffer.overwrites] == at[buffer.name]

    def _queues(self) -> tuple[tuple[Queue, ...], tuple[Entry, ...]]:
        queues: list[Queue] = []
        entries: list[Entry] = []
        engine_of = {name: k for k, name in enumerate(self.engines)}
        for lane in self.orders.lanes:
            kind = records.DETACHED if lane.detached else ENGINE_KINDS.get(lane.engine, records.OTHER)
            engine = engine_of.get(lane.engine, len(self.engines))
            queues.append(Queue(engine, lane.unit, kind, 0, len(entries), len(lane.steps)))
            entries += (Entry(self.task_of[s.op], ACTIONS[s.action], 0, s.slice) for s in lane.steps)
        return tuple(queues), tuple(entries)
