"""The rows of the tables as data: one class for each kind of record, and all of them together."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from hexloom.emit.records import Record


@dataclass(frozen=True, slots=True)
class Task:
    """One op. ``op`` is its position in the problem, ``queue`` its first queue; a transfer has one slice.

    In a loop it is one op of every lap: from ``iteration`` of its group on, ``tile_step`` tiles further in each.
    ``slots`` are as many transfers as may be under way of it at the same time. It waits for one event at most; for more
    of them entries wait before its own.
    """

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
    wait_event: int
    wait_threshold: int
    trigger_event: int
    tile_step: int = 0
    iteration: int = 0
    first_slot: int = 0
    slots: int = 0
    first_descriptor: int = 0
    descriptor_count: int = 0


@dataclass(frozen=True, slots=True)
class Operand:
    """Memory that a task uses: ``offset`` bytes from the base of a binding; ``buffer`` names its entry in the map.

    One with the flag for rings has as many places as ``buffer`` says, from operand ``offset`` on: one per iteration.
    """

    binding: int
    space: int
    flags: int
    buffer: int
    offset: int


@dataclass(frozen=True, slots=True)
class Await:
    """What comes next starts once the counter of ``event`` has reached ``threshold``."""

    event: int
    threshold: int


@dataclass(frozen=True, slots=True)
class Event:
    """How often a run triggers the event, and how many waits there are for it."""

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
    """Run slice ``slice`` of a task, or start its transfer, or wait for it.

    One that waits for an event has this one's number in place of the task's, and its threshold in flags and slice.
    """

    task: int
    action: int
    flags: int
    slice: int

    @property
    def wait(self) -> Await:
        """What an entry waits for that has nothing else to do."""
        return Await(self.task, ((self.flags << 16 | self.slice) ^ _SIGN) - _SIGN & records.NONE)


_SIGN = 1 << 23


def entry_that_waits(wait: Await) -> Entry:
    """Return the entry that waits for an event.

    Raises
    ------
    InvalidInputError
        The threshold takes more than its 24 bits.
    """
    threshold = (wait.threshold ^ 1 << 31) - (1 << 31)
    if not -_SIGN <= threshold < _SIGN:
        raise InvalidInputError(f"an entry holds the threshold of a wait in 24 bits; {threshold} does not fit")
    return Entry(wait.event, records.AFTER, threshold >> 16 & 0xFF, threshold & 0xFFFF)


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
class Loop:
    """Tasks and events of a loop, and the parameter that says how many laps it makes."""

    first_task: int
    task_count: int
    first_event: int
    event_count: int
    parameter: int


@dataclass(frozen=True, slots=True)
class Body:
    """The entries of a loop in one queue; if there are none, where it is passed."""

    first_entry: int
    entry_count: int


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number that is given when tables are bound: ``usual`` + n * ``step``, from ``least`` to ``most``."""

    kind: int
    where: int
    least: int
    most: int
    step: int
    usual: int


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A part of a transfer between an operand and a binding, or lines of a binding that are maintained."""

    offset: int
    step: int
    rows: int
    row_bytes: int
    stride: int
    operand_offset: int
    operand_stride: int
    binding: int
    operand: int
    kind: int
    dimensions: int
    stride_parameter: int = 0
    tail_parameter: int = 0
    tail: int = 0


@dataclass(frozen=True, slots=True)
class Advance:
    """Iterations of a group in a lap of a loop."""

    iterations: int


@dataclass(frozen=True, slots=True)
class Header:
    """What the tables are: ABI, sizes of records, counts, target, hash and checksum."""

    target_arch: int
    task_count: int
    operand_count: int
    event_count: int
    queue_count: int
    entry_count: int
    buffer_count: int
    binding_count: int
    vtcm_bytes: int
    schedule_hash: int
    loop_count: int = 0
    body_count: int = 0
    parameter_count: int = 0
    descriptor_count: int = 0
    advance_count: int = 0
    group_count: int = 0
    slot_count: int = 0
    crc32: int = 0
    header_crc32: int = 0
    flags: int = 0
    magic: int = records.MAGIC
    abi_major: int = records.ABI_MAJOR
    abi_minor: int = records.ABI_MINOR
    header_bytes: int = records.HEADER.size_bytes
    task_bytes: int = records.TASK.size_bytes
    operand_bytes: int = records.OPERAND.size_bytes
    event_bytes: int = records.EVENT.size_bytes
    queue_bytes: int = records.QUEUE.size_bytes
    entry_bytes: int = records.ENTRY.size_bytes
    buffer_bytes: int = records.BUFFER.size_bytes
    binding_bytes: int = records.BINDING.size_bytes
    loop_bytes: int = records.LOOP.size_bytes
    body_bytes: int = records.BODY.size_bytes
    parameter_bytes: int = records.PARAMETER.size_bytes
    descriptor_bytes: int = records.DESCRIPTOR.size_bytes
    advance_bytes: int = records.ADVANCE.size_bytes


@dataclass(frozen=True)
class Tables:
    """All tables of one schedule, and the names that they leave out.

    ``stages`` are pairs (name of the workload's task, stage); a record's ``group`` and ``stage`` are positions in
    ``groups`` and ``stages``, its ``engine`` in ``engines``. ``markers`` are ops that take no time on no engine.
    ``buffer_names`` are those of the rows of the map, where several take turns that of the
    first one; ``tensors`` those of the last bindings.
    """

    header: Header
    tasks: tuple[Task, ...]
    operands: tuple[Operand, ...]
    events: tuple[Event, ...]
    queues: tuple[Queue, ...]
    entries: tuple[Entry, ...]
    buffers: tuple[Buffer, ...]
    bindings: tuple[Binding, ...]
    groups: tuple[str, ...]
    stages: tuple[tuple[str, str], ...]
    engines: tuple[str, ...]
    markers: tuple[int, ...]
    buffer_names: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    loops: tuple[Loop, ...] = ()
    bodies: tuple[Body, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    descriptors: tuple[Descriptor, ...] = ()
    advances: tuple[Advance, ...] = ()

    @cached_property
    def parts(self) -> tuple[tuple[str, Record, tuple[object, ...]], ...]:
        """Return (plural name, record, rows) of every table after the header, in the order of the checksum."""
        return (
            ("tasks", records.TASK, self.tasks),
            ("operands", records.OPERAND, self.operands),
            ("events", records.EVENT, self.events),
            ("queues", records.QUEUE, self.queues),
            ("entries", records.ENTRY, self.entries),
            ("buffers", records.BUFFER, self.buffers),
            ("bindings", records.BINDING, self.bindings),
            ("loops", records.LOOP, self.loops),
            ("bodies", records.BODY, self.bodies),
            ("parameters", records.PARAMETER, self.parameters),
            ("descriptors", records.DESCRIPTOR, self.descriptors),
            ("advances", records.ADVANCE, self.advances),
        )

    @cached_property
    def waits(self) -> tuple[tuple[Await, ...], ...]:
        """Return for every entry what its queue has waited for when it begins, by its task and entries before it."""
        found: list[tuple[Await, ...]] = []
        before: tuple[Await, ...] = ()
        for entry in self.entries:
            if entry.action == records.AFTER:
                found.append((entry.wait,))
                before += found[-1]
                continue
            task = self.tasks[entry.task]
            is_own = entry.action != records.WAIT and task.wait_event != records.NONE
            found.append((*before, Await(task.wait_event, task.wait_threshold)) if is_own else before)
            before = ()
        return tuple(found)

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
