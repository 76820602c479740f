"""The map of buffers in the tables: one row for each, and for a range in parts one for it and one for every part.

A kernel is given whole ranges, as its op names them. Rows of parts come right behind that of their range; which of them
an op uses stands behind its operands, for those who ask what may be used again when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hexloom.emit.records import BUFFER_IN_PARTS, BUFFER_PART

if TYPE_CHECKING:
    from hexloom.formulations.problem import Buffer, Problem


class Row(NamedTuple):
    """A buffer, which of the problem's says where it begins, and the flags that tell ranges from parts."""

    buffer: Buffer
    first: int
    flags: int


@dataclass(frozen=True)
class BufferMap:
    """``whole`` and ``part`` are the rows of the problem's buffers: that of the range, and its own if it is a part."""

    rows: tuple[Row, ...]
    whole: dict[int, int]
    part: dict[int, int]

    def operands_of(self, buffers: tuple[int, ...]) -> list[int]:
        """Return the rows that an op with these buffers has to do with, ranges first."""
        whole = dict.fromkeys(self.whole[b] for b in buffers)
        return [*whole, *(self.part[b] for b in buffers if b in self.part)]


def buffer_map(problem: Problem) -> BufferMap:
    """Return the rows of all buffers of ``problem``, in its order."""
    rows: list[Row] = []
    whole: dict[int, int] = {}
    part: dict[int, int] = {}
    for buffer, parts in problem.buffers_as_one:
        whole.update(dict.fromkeys(parts, len(rows)))
        alone = problem.buffers[parts[0]].part_of is None
        rows.append(Row(buffer, parts[0], 0 if alone else BUFFER_IN_PARTS))
        for b in () if alone else parts:
            part[b] = len(rows)
            rows.append(Row(problem.buffers[b], b, BUFFER_PART))
    return BufferMap(tuple(rows), whole, part)
