"""The records of the tables: names, widths and order of their fields. `include/hexloom_tables.h` says the same in C.

Everything is unsigned and little endian, laid out without holes: a field lies at a multiple of its width, and a
record is a multiple of its widest field long.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hexloom.emit.ctext import braced, unsigned
from hexloom.optimizer.errors import InvalidInputError

ABI_MAJOR, ABI_MINOR = 1, 0
MAGIC = int.from_bytes(b"HXLM", "little")
NONE = 0xFFFFFFFF
"""No event, no buffer."""

HMX, HVX, DMA, OTHER, DETACHED = 1, 2, 3, 4, 5
"""Kinds of tasks and queues; a detached queue has no hardware thread in the plan."""

RUN, START, WAIT, AFTER = 1, 2, 3, 4
"""Actions of queue entries; AFTER waits for an event, for the entry that follows it."""

VTCM, DDR_MAPPED, DDR_DMA_ONLY, POOL = 1, 2, 3, 4
"""Space of an operand."""

TASK_ASYNC = 1
"""The result exists later than the kernel returns: the end of the work, not the return, triggers the event."""

TASK_APART = 2
"""Every slice triggers an event of its own."""

OPERAND_RING = 1
"""The operand has several places, one after the other iteration by iteration."""

TASK_REPEATED = 4
"""One of every iteration of its group, which may be left out."""

LAPS, TRIPS, STRIDE, TAIL_ROWS, TAIL_COLUMNS = range(1, 6)
"""Kinds of parameters: how often a loop runs, how many iterations of a group are not left out, how far apart the
rows of a binding lie, and how many rows or columns the last iteration of a group has."""

FEWER_ROWS, SHORTER_ROWS = 1, 2
"""What of a descriptor is shorter in the last iteration."""

BINDING_DESCRIBED = 1
"""Descriptors say which bytes of the binding there must be."""

TO_OPERAND, FROM_OPERAND, CLEAN, INVALIDATE = 1, 2, 3, 4
"""Kinds of descriptors."""

BUFFER_RESIDENT, BUFFER_PINNED, BUFFER_FROM_START, BUFFER_TO_END, BUFFER_OVERWRITES = 1, 2, 4, 8, 16
BUFFER_IN_PARTS, BUFFER_PART = 32, 64
BUFFER_LIVES: dict[bool | str, int] = {
    False: 0,
    True: BUFFER_RESIDENT,
    "from_start": BUFFER_FROM_START,
    "to_end": BUFFER_TO_END,
}

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


@dataclass(frozen=True)
class Record:
    """One kind of record; fields are (name, bits, count), reserved ones are zero."""

    name: str
    fields: tuple[tuple[str, int, int], ...]

    @cached_property
    def _packer(self) -> struct.Struct:
        return struct.Struct("<" + "".join(_CODES[bits] * count for _, bits, count in self.fields))

    @property
    def size_bytes(self) -> int:
        """Length of one record."""
        return self._packer.size

    def pack(self, row: object) -> bytes:
        """Return the bytes of ``row``, whose attributes are named like the fields."""
        return self._packer.pack(*(v for values in self._values(row) for v in values))

    def unpack(self, data: bytes) -> dict[str, int]:
        """Return the fields of one record by name.

        Raises
        ------
        InvalidInputError
            A reserved field is not zero.
        """
        values = iter(self._packer.unpack(data))
        found: dict[str, int] = {}
        for name, _, count in self.fields:
            read = [next(values) for _ in range(count)]
            if not name.startswith("reserved"):
                found[name] = read[0]
            elif any(read):
                raise InvalidInputError(f"a record of kind {self.name} has a value in its reserved field {name!r}")
        return found

    def initialiser(self, row: object) -> str:
        """Return ``row`` in C."""
        parts: list[str | list[str]] = []
        for (_, bits, count), values in zip(self.fields, self._values(row), strict=True):
            literals = [unsigned(v, bits) for v in values]
            parts.append(literals if count > 1 else literals[0])
        return braced(parts)

    def _values(self, row: object) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for name, bits, count in self.fields:
            value: Any = 0 if name.startswith("reserved") else getattr(row, name)
            if not 0 <= value < 1 << bits:
                raise InvalidInputError(f"the tables hold {self.name}.{name} in {bits} bits; {value} does not fit")
            found.append((value,) * count)
        return found


def _record(name: str, text: str) -> Record:
    """Read fields written as ``bits name`` or ``bits name*count``."""
    fields = []
    for part in text.split(","):
        bits, _, rest = part.strip().partition(" ")
        field, _, count = rest.partition("*")
        fields.append((field, int(bits), int(count or 1)))
    return Record(name, tuple(fields))


HEADER = _record(
    "header",
    """32 magic, 16 abi_major, 16 abi_minor, 16 header_bytes, 16 task_bytes, 16 operand_bytes,
    16 event_bytes, 16 queue_bytes, 16 entry_bytes, 16 buffer_bytes, 16 binding_bytes, 16 loop_bytes, 16 body_bytes,
    16 parameter_bytes, 16 descriptor_bytes, 16 advance_bytes, 16 target_arch, 32 flags,
    32 task_count, 32 operand_count, 32 event_count, 32 queue_count, 32 entry_count, 32 buffer_count,
    32 binding_count, 32 loop_count, 32 body_count, 32 parameter_count, 32 descriptor_count, 32 advance_count,
    32 group_count, 32 slot_count, 64 vtcm_bytes, 64 schedule_hash, 32 crc32, 32 header_crc32,
    32 reserved*18""",
)
TASK = _record(
    "task",
    """32 op, 8 kind, 8 flags, 16 mode, 16 group, 16 stage, 32 tile, 16 queue, 16 slice_count, 32 tile_step,
    32 first_operand, 32 operand_count, 32 wait_event, 32 wait_threshold, 32 trigger_event, 32 first_slot, 32 iteration,
    32 first_descriptor, 16 descriptor_count, 16 slots, 32 reserved""",
)
OPERAND = _record("operand", "16 binding, 8 space, 8 flags, 32 buffer, 64 offset")
EVENT = _record("event", "32 triggers, 32 waiters")
QUEUE = _record("queue", "16 engine, 16 unit, 8 kind, 8 flags, 16 reserved, 32 first_entry, 32 entry_count")
ENTRY = _record("entry", "32 task, 8 action, 8 flags, 16 slice")
BUFFER = _record("buffer", "64 offset, 64 bytes, 32 align, 16 binding, 16 flags")
BINDING = _record("binding", "64 bytes, 32 align, 8 space, 8 flags, 16 reserved")
LOOP = _record("loop", "32 first_task, 32 task_count, 32 first_event, 32 event_count, 32 parameter, 32 reserved")
BODY = _record("body", "32 first_entry, 32 entry_count")
ADVANCE = _record("advance", "32 iterations")
PARAMETER = _record("parameter", "16 kind, 16 where, 32 least, 32 most, 32 step, 32 usual, 32 reserved")
DESCRIPTOR = _record(
    "descriptor",
    """64 offset, 64 step, 32 rows, 32 row_bytes, 32 stride, 32 operand_offset, 32 operand_stride, 16 binding,
    16 operand, 8 kind, 8 dimensions, 16 stride_parameter, 16 tail_parameter, 16 tail""",
)
