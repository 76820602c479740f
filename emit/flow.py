"""What each task must find in its buffers, told to the kernels of `runtime/hexloom_flow.c`.

Every buffer is cut into stripes, one for each slice of each task that uses it, and one for what was there from the
start. A task must see the stripes of all users that the *problem* puts before it, and writes its own. This is made from
the dependencies of the problem and the map of buffers: what the tables order, and how, is not looked at.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.emit.records import NONE

if TYPE_CHECKING:
    from hexloom.emit.rows import Tables, Task
    from hexloom.formulations.problem import Problem

FROM_START = records.BUFFER_RESIDENT | records.BUFFER_FROM_START
TO_END = records.BUFFER_RESIDENT | records.BUFFER_TO_END


@dataclass
class _Stripes:
    """The stripes of one buffer so far: how many, and the first one of each task that writes some."""

    initial: int = NONE
    count: int = 0
    first_of: dict[int, int] = field(default_factory=dict)


def flow_words(problem: Problem, tables: Tables) -> bytes:
    """Return the little-endian 32-bit words that `hexloom_flow.h` describes."""
    before = _before(problem, tables)
    stripes = _stripes(tables)
    buffers: list[int] = []
    for row, mine in zip(tables.buffers, stripes, strict=True):
        buffers += [max(1, mine.count), mine.initial, int(bool(row.flags & TO_END) and mine.count > 0)]
    operands: list[int] = []
    seen: list[int] = []
    for t, task in enumerate(tables.tasks):
        for k in range(task.first_operand, task.first_operand + task.operand_count):
            buffer = tables.operands[k].buffer
            found = [] if _is_blind(tables, task, buffer) else _seen(stripes[buffer], before[t], tables)
            operands += [stripes[buffer].first_of.get(t, NONE), len(seen), len(found)]
            seen += found
    words = [len(tables.buffers), len(tables.operands), len(seen), *buffers, *operands, *seen]
    return struct.pack(f"<{len(words)}I", *words)


def _before(problem: Problem, tables: Tables) -> list[int]:
    """For each task the set of tasks, as bits, that the problem wants to end before it starts."""
    task_of = {task.op: 1 << t for t, task in enumerate(tables.tasks)}
    known: dict[int, int] = {}
    for op in problem.topological_order:
        known[op] = 0
        for earlier in problem.predecessors[op]:
            known[op] |= known[earlier] | task_of.get(earlier, 0)
    return [known.get(task.op, 0) for task in tables.tasks]  # what is left out is no op


def _stripes(tables: Tables) -> list[_Stripes]:
    """Give stripes to what is there from the start, and to every task that does not overwrite the buffer itself."""
    stripes = [_Stripes() for _ in tables.buffers]
    for mine, row in zip(stripes, tables.buffers, strict=True):
        if row.flags & FROM_START and not row.flags & records.BUFFER_IN_PARTS:
            mine.initial, mine.count = 0, 1
    for t, task in enumerate(tables.tasks):
        for buffer in _used(tables, task):
            if tables.buffers[buffer].flags & records.BUFFER_IN_PARTS or _overwritten(tables, task, buffer):
                continue
            stripes[buffer].first_of[t] = stripes[buffer].count
            stripes[buffer].count += task.slice_count
    return stripes


def _used(tables: Tables, task: Task) -> list[int]:
    return [o.buffer for o in tables.operands[task.first_operand : task.first_operand + task.operand_count]]


def _overwritten(tables: Tables, task: Task, buffer: int) -> bool:
    """Whether the task writes another one of its buffers over this one."""
    this = tables.buffers[buffer]
    for other in _used(tables, task):
        row = tables.buffers[other]
        if other == buffer or not row.flags & records.BUFFER_OVERWRITES or row.binding != this.binding:
            continue
        if row.offset < this.offset + this.bytes and this.offset < row.offset + row.bytes:
            return True
    return False


def _is_blind(tables: Tables, task: Task, buffer: int) -> bool:
    """Whether the task cannot look at a buffer: one slice may overwrite it before another one looks."""
    whole = bool(tables.buffers[buffer].flags & records.BUFFER_IN_PARTS)
    return whole or (task.slice_count > 1 and _overwritten(tables, task, buffer))


def _seen(stripes: _Stripes, before: int, tables: Tables) -> list[int]:
    found = [] if stripes.initial == NONE else [stripes.initial]
    for user, first in stripes.first_of.items():
        if before >> user & 1:
            found += range(first, first + tables.tasks[user].slice_count)
    return found
