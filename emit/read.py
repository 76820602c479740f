"""Reading tables back: from their bytes and their side-car to the same tables, and from these to a plan."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hexloom.emit import records
from hexloom.emit import rows as made
from hexloom.emit.buffer_map import buffer_map
from hexloom.emit.records import ABI_MAJOR, MAGIC, Record
from hexloom.emit.rows import Header, Tables
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.plan import Assignment, Plan, Queue, QueueEntry, Wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.problem import Problem

KINDS: tuple[tuple[str, Record, Any], ...] = (
    ("tasks", records.TASK, made.Task),
    ("operands", records.OPERAND, made.Operand),
    ("events", records.EVENT, made.Event),
    ("queues", records.QUEUE, made.Queue),
    ("entries", records.ENTRY, made.Entry),
    ("buffers", records.BUFFER, made.Buffer),
    ("bindings", records.BINDING, made.Binding),
    ("loops", records.LOOP, made.Loop),
    ("bodies", records.BODY, made.Body),
    ("parameters", records.PARAMETER, made.Parameter),
    ("descriptors", records.DESCRIPTOR, made.Descriptor),
    ("advances", records.ADVANCE, made.Advance),
)


def read_tables(data: bytes, side_car: str) -> Tables:
    """Return the tables whose canonical bytes are ``data``, with the names that ``side_car`` (JSON) has for numbers.

    Raises
    ------
    InvalidInputError
        They are none, of another ABI, cut off, damaged, or the side-car is that of other tables.
    """
    header = _header(data)
    at = records.HEADER.size_bytes
    parts: dict[str, Any] = {}
    for plural, record, kind in KINDS:
        count = getattr(header, f"{record.name}_count")
        end = at + count * record.size_bytes
        if end > len(data):
            raise InvalidInputError(f"tables of {len(data)} bytes end within their {plural}; they are cut off")
        pieces = (data[k : k + record.size_bytes] for k in range(at, end, record.size_bytes))
        parts[plural] = tuple(kind(**record.unpack(piece)) for piece in pieces)
        at = end
    if at != len(data):
        raise InvalidInputError(f"tables have {len(data) - at} bytes behind their last record")
    tables = Tables(header=header, **parts, **_names(side_car, header))
    if tables.checksum() != header.crc32:
        raise InvalidInputError("the checksum does not fit the tables; they are damaged")
    return tables


ACTIONS: dict[int, Literal["run", "start", "wait"]] = {
    records.RUN: "run",
    records.START: "start",
    records.WAIT: "wait",
}


def plan_of(tables: Tables, problem: Problem, side_car: str) -> Plan:
    """Return the plan of tables, whose tasks are ops of ``problem``; ``side_car`` knows what no thread need know.

    Queues, modes and addresses are those of the tables; tables with loops are written out before
    (`job.plain_tables`). Units that are no threads, modes of markers, and waits of whole ops come from the side-car.

    Raises
    ------
    InvalidInputError
        The side-car is that of other tables, or the tables say two things of one op or buffer.
    """
    try:
        more = json.loads(side_car)["plan"]
        modes = {problem.op_index[op]: mode for op, mode in more["marker_modes"].items()}
        units: dict[int, dict[str, tuple[int, ...]]] = {
            problem.op_index[op]: {engine: tuple(ids) for engine, ids in held.items()}
            for op, held in more["units"].items()
        }
        waits = tuple(Wait(before=before, after=after) for before, after in more["waits"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"the side-car is damaged or that of another plan, emit it again: {error}") from None
    queues = []
    for queue in tables.queues:
        entries = tables.entries[queue.first_entry : queue.first_entry + queue.entry_count]
        if queue.kind == records.DETACHED:
            continue
        entries = tuple(entry for entry in entries if entry.action != records.AFTER)
        engine = tables.engines[queue.engine]
        ops = [tables.tasks[entry.task].op for entry in entries]
        for op, entry in zip(ops, entries, strict=True):
            if entry.action == records.RUN:
                held = units.setdefault(op, {})
                held[engine] = (*held.get(engine, ()), queue.unit)
        steps = (
            QueueEntry(op=problem.ops[op].name, action=ACTIONS[e.action]) for op, e in zip(ops, entries, strict=True)
        )
        queues.append(Queue(engine=engine, unit=queue.unit, entries=tuple(steps)))
    for task in tables.tasks:
        if modes.setdefault(task.op, task.mode) != task.mode:
            raise InvalidInputError(f"op {problem.ops[task.op].name!r} has two tasks of different modes")
    if len(modes) != len(problem.ops):
        raise InvalidInputError(f"the tables have {len(modes)} of the {len(problem.ops)} ops of the problem")
    known = {buffer.name for buffer in problem.buffers}
    return Plan(
        assignments=tuple(
            Assignment(op=op.name, mode=modes[i], units=units.get(i, {})) for i, op in enumerate(problem.ops)
        ),
        queues=tuple(queues),
        waits=waits,
        addresses={name: at for name, at in _addresses(tables, problem).items() if name in known},
    )


def _addresses(tables: Tables, problem: Problem) -> dict[str, int]:
    """Return where buffers lie: by the operands of their users, and of those without one by the map."""
    rows = buffer_map(problem)
    found: dict[str, int] = {}
    for task in tables.tasks:
        operands = tables.operands[task.first_operand : task.first_operand + task.operand_count]
        for row, operand in zip(rows.operands_of(problem.op_buffers[task.op]), operands, strict=True):
            name = rows.rows[row].buffer.name
            if found.setdefault(name, operand.offset) != operand.offset:
                raise InvalidInputError(f"buffer {name!r} has two places: {found[name]} and {operand.offset}")
    for name, buffer in zip(tables.buffer_names, tables.buffers, strict=True):
        found.setdefault(name, buffer.offset)
    return found


def _header(data: bytes) -> Header:
    if len(data) < records.HEADER.size_bytes:
        raise InvalidInputError(f"tables of {len(data)} bytes are shorter than their header")
    if int.from_bytes(data[:4], "little") != MAGIC:
        raise InvalidInputError("these are not tables of hexloom: their first four bytes are not HXLM")
    major = int.from_bytes(data[4:6], "little")
    if major != ABI_MAJOR:
        raise InvalidInputError(f"the tables have ABI {major}, this hexloom reads {ABI_MAJOR}; emit them again")
    header = Header(**records.HEADER.unpack(data[: records.HEADER.size_bytes]))
    blank = replace(header, crc32=0, header_crc32=0)
    if zlib.crc32(records.HEADER.pack(blank)) != header.header_crc32:
        raise InvalidInputError("the checksum does not fit the header of the tables; it is damaged")
    for _, record, _ in KINDS:
        if getattr(header, f"{record.name}_bytes") != record.size_bytes:
            raise InvalidInputError(f"a {record.name} has another size in these tables than here")
    return header


def _names(side_car: str, header: Header) -> Mapping[str, Any]:
    try:
        data = json.loads(side_car)
        crc = data.get("crc32")
        if crc != f"{header.crc32:08x}":
            raise InvalidInputError(f"the side-car is that of tables {crc}, not of {header.crc32:08x}")
        return {
            "groups": tuple(data["groups"]),
            "stages": tuple((stage["group"], stage["stage"]) for stage in data["stages"]),
            "engines": tuple(data["engines"]),
            "markers": tuple(data["marker_ops"]),
            "tensors": tuple(data.get("tensors", ())),
            "buffer_names": tuple(buffer["name"] for buffer in data["buffers"]),
        }
    except KeyError as error:
        raise InvalidInputError(f"the side-car has no {error}; it is damaged, emit the tables again") from None
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"the side-car is damaged, emit the tables again: {error}") from None
