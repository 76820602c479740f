"""Where the operands of looped tables lie: one place, or one for each of several iterations in turn."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.emit.buffer_map import buffer_map
from hexloom.emit.rows import Binding, Buffer, Operand
from hexloom.emit.tables import buffer_row
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.emit.fold import Folded, Key

DIGITS = re.compile(r"\d+")


class Places:
    """The map of buffers, and the places of operands.

    Buffers of different iterations that have the same place, and names that differ in numbers alone, are one row of the
    map. The iterations of a loop take the places of a ring in turn; what lies elsewhere, in the last iterations, keeps
    its own place, and then only so many laps more are the same as bring the ring round.
    """

    def __init__(self, folded: Folded, ops: Sequence[int]) -> None:
        self.folded = folded
        self.problem = folded.problem
        if any(buffer.pool or buffer.part_of for buffer in self.problem.buffers):
            raise InvalidInputError("tables with loops know neither pools nor buffers in parts")
        self._map = buffer_map(self.problem)
        self._numbers: dict[tuple[object, ...], int] = {}
        self.names: list[str] = []
        rows: list[Buffer] = []
        self._row_of: list[int] = []
        for row in self._map.rows:
            made = buffer_row(row.buffer, folded.schedule.plan.addresses[row.buffer.name])
            key = (made, DIGITS.sub("#", row.buffer.name))
            if key not in self._numbers:
                self._numbers[key] = len(rows)
                rows.append(made)
                self.names.append(row.buffer.name)
            self._row_of.append(self._numbers[key])
        self.buffers = tuple(rows)
        self._rings = {key: self._turns(members) for key, members in self._members().items()}
        self._loose = {i for i in ops if not self._follows(i)}

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """The scratchpad."""
        size = max((b.offset + b.bytes for b in self.buffers), default=0)
        return (Binding(size, max((b.align for b in self.buffers), default=1), records.VTCM, 0),)

    def rows_of(self, op: int) -> tuple[int, ...]:
        """Return the rows of the map that an op has to do with, in the order of its operands."""
        return tuple(self._row_of[row] for row in self._map.operands_of(self.problem.op_buffers[op]))

    def operands_of(self, op: int) -> list[list[Operand]]:
        """Return the places of every operand of an op: one, or in turn those of iterations 0, 1, 2..."""
        key = self.folded.key(op)
        rows = self.rows_of(op)
        if key is None or op in self._loose:
            return [[self._operand(row)] for row in rows]
        return [[self._operand(row) for row in ring] for ring in self._rings[key]]

    def fixed_behind(self, loop: int) -> Iterator[tuple[str, int]]:
        """Yield (task, period) of what keeps its place behind a loop, while the iterations there take turns."""
        for op in self._loose:
            key = self.folded.key(op)
            assert key is not None
            if self.folded.segment(self.folded.rows[op].start)[0] > 2 * loop + 1:
                yield from ((key.task, len(ring)) for ring in self._rings[key])
        for key, rings in self._rings.items():
            if self.folded.loop_of[key.stretch] > loop:
                yield from ((key.task, len(ring)) for ring in rings)

    def _operand(self, row: int) -> Operand:
        return Operand(binding=0, space=records.VTCM, flags=0, buffer=row, offset=self.buffers[row].offset)

    def _members(self) -> dict[Key, dict[int, int]]:
        """Return, for every key, its ops by iteration from the first window on up to the last one."""
        found: dict[Key, dict[int, int]] = defaultdict(dict)
        for i, label in enumerate(self.folded.labels):
            key = self.folded.key(i)
            if key is None:
                continue
            loop = self.folded.loop_of[key.stretch]
            if self.folded.segment(self.folded.rows[i].start)[0] == 2 * loop + 1:
                found[key][label[3]] = i
        return found

    def _turns(self, members: dict[int, int]) -> list[list[int]]:
        """Return for every operand the rows of iterations 0, 1, 2... until they are the first ones again."""
        rows = {j: self.rows_of(i) for j, i in members.items()}
        first, last = min(rows), max(rows)
        if len({len(places) for places in rows.values()}) > 1:
            raise InvalidInputError(
                f"op {self.problem.ops[members[first]].name!r} has more buffers in other iterations"
            )
        found = []
        for n in range(len(rows[first])):
            mine = {j: places[n] for j, places in rows.items()}
            ring = next((r for period in range(1, (last - first + 1) // 2 + 1) if (r := _ring(mine, period))), None)
            if ring is None:
                name = self.problem.ops[members[first]].name
                raise InvalidInputError(f"op {name!r}: a buffer takes no turns within {last - first + 1} iterations")
            found.append(ring)
        return found

    def _follows(self, op: int) -> bool:
        """Whether an op has the places that its iteration has in the loop."""
        key = self.folded.key(op)
        if key is None:
            return True
        j = self.folded.labels[op][3]
        return self.rows_of(op) == tuple(ring[j % len(ring)] for ring in self._rings[key])


def _ring(rows: dict[int, int], period: int) -> list[int] | None:
    """Return the rows of iterations 0 to ``period`` - 1, None if they are not the same in every period."""
    by_rest: dict[int, int] = {}
    for j, row in rows.items():
        if by_rest.setdefault(j % period, row) != row:
            return None
    return [by_rest[rest] for rest in range(period)] if len(by_rest) == period else None
