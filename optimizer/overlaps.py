"""Which strided byte ranges share bytes, or lines of the cache: a sort, a sweep, and exact arithmetic on rows.

Two regions whose extents overlap need not share a byte: rows can pass between rows. Whether they do is arithmetic where
they repeat in step (or one of them has one row), else the rows of the one with fewer rows are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hexloom.formulations.problem import Region

Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]

LINE_BYTES = 128
"""Line of the L2 cache; what shares one is kept in step by nobody where DMA goes past the cache."""

MOST_PAIRS = 500_000_000
"""Pairs of regions with overlapping extents that are looked at: a minute."""

MOST_MEETINGS = 10_000_000
"""Pairs that share bytes or a line; row by row the same two count several times."""

FEW_PAIRS, MOST_ROWS = 1_000_000, 8_000_000
"""Above so many pairs, up to so many rows, it is asked whether fewer overlap row by row."""

PAIRS_AT_ONCE = 1 << 21
ROWS_AT_ONCE = 1 << 20

LONGEST_AXIS = 2**62
"""All tensors are laid behind each other on one axis of 64-bit numbers."""


class Rows(NamedTuple):
    """Strided ranges, one per position: ``rows`` rows of ``width`` bytes, every ``stride`` bytes from ``low`` on."""

    low: Integers
    width: Integers
    rows: Integers
    stride: Integers

    def take(self, which: Integers | Truths) -> Rows:
        """Return the ranges at ``which``."""
        return Rows(*(values[which] for values in self))

    @property
    def end(self) -> Integers:
        """First byte behind the last row."""
        return self.low + (self.rows - 1) * self.stride + self.width

    def in_lines(self) -> Rows:
        """Round every row out to whole lines; exact for one row, and where the stride is a multiple of a line."""
        low = self.low // LINE_BYTES * LINE_BYTES
        return Rows(low, _up(self.low + self.width) - low, self.rows, self.stride)


class Touches(NamedTuple):
    """Accesses by position in a list: their op, their bytes on one axis, whether they write, whether past the cache."""

    op: Integers
    bytes: Rows
    write: Truths
    bypass: Truths


class Pairs(NamedTuple):
    """Positions of two touches of different ops that meet, that of the op earlier in the file first.

    ``bytes``: they share a byte; else they are two writers, one past the cache, that share a line.
    """

    first: Integers
    second: Integers
    bytes: Truths


def touches_of(accesses: Sequence[tuple[int, Region]]) -> Touches:
    """Return (op, region) pairs as arrays, tensors laid behind each other with whole lines for each.

    Raises
    ------
    InvalidInputError
        The tensors together are longer than 64-bit numbers reach.
    """
    regions = [region for _, region in accesses]

    def column(values: Iterable[int]) -> Integers:
        return np.fromiter(values, np.int64, len(regions))

    known: dict[str, int] = {}
    tensor = column(known.setdefault(region.tensor, len(known)) for region in regions)
    low, width = column(r.offset_bytes for r in regions), column(r.row_bytes for r in regions)
    rows, stride = column(r.rows for r in regions), column(r.stride_bytes for r in regions)
    lengths = np.zeros(len(known), np.int64)
    np.maximum.at(lengths, tensor, _up(low + (rows - 1) * stride + width))
    total = sum(lengths.tolist())
    if total > LONGEST_AXIS:
        raise InvalidInputError(f"regions: the tensors together have {total} bytes, above {LONGEST_AXIS}; use less")
    low += (np.cumsum(lengths) - lengths)[tensor]
    # Rows without a gap are one row.
    solid = (rows > 1) & (stride == width)
    one = Rows(low, np.where(solid, width * rows, width), np.where(solid, 1, rows), np.where(solid, 0, stride))
    write = column(r.kind == "write" for r in regions).astype(bool)
    return Touches(column(op for op, _ in accesses), one, write, column(r.bypass for r in regions).astype(bool))


def meeting(touches: Touches) -> Pairs:
    """Return all pairs of touches of different ops, at least one of them writing, that share what they must not.

    Raises
    ------
    InvalidInputError
        So many extents overlap that they cannot be looked at.
    """
    sweep = _by_extents(touches)
    rows = int(touches.bytes.rows.sum())
    if sweep.pairs > FEW_PAIRS and rows <= MOST_ROWS:
        # Columns of a matrix, all inside each other's extents: then row by row there is less to look at.
        by_row = _by_rows(touches)
        sweep = by_row if by_row.pairs + rows < sweep.pairs else sweep
    if sweep.pairs > MOST_PAIRS:
        raise InvalidInputError(
            f"regions: {sweep.pairs} pairs of regions overlap, above {MOST_PAIRS}; state fewer and larger regions"
        )
    parts, count = [], 0
    for a, b in sweep.portions():
        parts.append(_that_meet(touches, a, b))
        count += len(parts[-1].first)
        if count > MOST_MEETINGS:
            raise InvalidInputError(
                f"regions: more than {MOST_MEETINGS} pairs of regions share bytes; state fewer and larger regions"
            )
    found = Pairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    _, once = np.unique(found.first * len(touches.op) + found.second, return_index=True)
    return Pairs(found.first[once], found.second[once], found.bytes[once])


def _that_meet(touches: Touches, a: Integers, b: Integers) -> Pairs:
    differ = touches.op[a] != touches.op[b]
    a, b = a[differ], b[differ]
    swap = touches.op[a] > touches.op[b]
    a, b = np.where(swap, b, a), np.where(swap, a, b)
    one, other = touches.bytes.take(a), touches.bytes.take(b)
    common = share_bytes(one, other)
    risky = ~common & touches.write[a] & touches.write[b] & (touches.bypass[a] != touches.bypass[b])
    lines = np.zeros(len(a), dtype=bool)
    lines[risky] = share_lines(one.take(risky), other.take(risky))
    kept = common | lines
    return Pairs(a[kept], b[kept], common[kept])


class _Sweep:
    """Intervals of lines by start: every write meets what starts inside it, every read the writes that do."""

    def __init__(self, low: Integers, end: Integers, write: Truths, owner: Integers) -> None:
        order = np.argsort(2 * low + ~write, kind="stable")  # of equal starts the writes come first
        low, end, write = low[order], end[order], write[order]
        place = np.arange(len(order))
        self.owner = owner[order]
        self.writers, readers = place[write], place[~write]
        starts = low[self.writers]
        # From which position on, in all or among the writers, and how many meet each.
        self.begin = np.concatenate([self.writers + 1, np.searchsorted(starts, low[readers], "right")])
        until = [np.searchsorted(low, end[self.writers], "left"), np.searchsorted(starts, end[readers], "left")]
        self.counts = np.concatenate(until) - self.begin
        self.total = np.cumsum(self.counts)
        self.mine = np.concatenate([self.writers, readers])
        self.pairs = int(self.total[-1]) if len(order) else 0

    def portions(self) -> Iterator[tuple[Integers, Integers]]:
        """Return the owners of all pairs, so many at a time as memory has room for."""
        at = 0
        while at < len(self.mine):
            before = self.total[at - 1] if at else 0
            stop = max(at + 1, int(np.searchsorted(self.total, before + PAIRS_AT_ONCE, "right")))
            of = np.repeat(np.arange(at, stop), self.counts[at:stop])
            second = self.begin[of] + np.arange(len(of)) - (self.total - self.counts)[of] + before
            of_reader = of >= len(self.writers)
            second[of_reader] = self.writers[second[of_reader]]
            yield self.owner[self.mine[of]], self.owner[second]
            at = stop


def _by_extents(touches: Touches) -> _Sweep:
    whole = touches.bytes
    return _Sweep(whole.low // LINE_BYTES, -(-whole.end // LINE_BYTES), touches.write, np.arange(len(whole.low)))


def _by_rows(touches: Touches) -> _Sweep:
    owner, single = _rows_of(touches.bytes)
    return _Sweep(single.low // LINE_BYTES, -(-single.end // LINE_BYTES), touches.write[owner], owner)


def share_bytes(one: Rows, other: Rows) -> Truths:
    """Return where the ranges of ``one`` and ``other`` share a byte."""
    single = (one.rows == 1) | (other.rows == 1)
    even = single | (one.stride == other.stride)
    found = np.zeros(len(even), dtype=bool)
    found[even] = _in_step(one.take(even), other.take(even))
    found[~even] = _row_by_row(one.take(~even), other.take(~even), lines=False)
    return found


def share_lines(one: Rows, other: Rows) -> Truths:
    """Return where the ranges share a line. It is enough to round one side out: then the other reaches into a line."""
    found = np.zeros(len(one.low), dtype=bool)
    first = (one.rows == 1) | (one.stride % LINE_BYTES == 0)
    second = ~first & ((other.rows == 1) | (other.stride % LINE_BYTES == 0))
    neither = ~first & ~second
    found[first] = share_bytes(one.take(first).in_lines(), other.take(first))
    found[second] = share_bytes(one.take(second), other.take(second).in_lines())
    found[neither] = _row_by_row(one.take(neither), other.take(neither), lines=True)
    return found


def _up(values: Integers) -> Integers:
    return -(-values // LINE_BYTES) * LINE_BYTES


def _in_step(one: Rows, other: Rows) -> Truths:
    """Look for rows i of ``one``, j of ``other`` with ``-width_other < distance + (j - i) stride < width_one``."""
    stride = np.maximum(np.where(one.rows == 1, other.stride, one.stride), 1)
    distance = other.low - one.low
    least = (-other.width - distance) // stride + 1
    most = -((distance - one.width) // stride) - 1
    hit: Truths = np.maximum(least, 1 - one.rows) <= np.minimum(most, other.rows - 1)
    return hit


def _row_by_row(one: Rows, other: Rows, *, lines: bool) -> Truths:
    """Hold every row of the range with fewer rows against the other range; rounded out to lines where asked."""
    swap = one.rows > other.rows
    few = Rows(*(np.where(swap, b, a) for a, b in zip(one, other, strict=True)))
    many = Rows(*(np.where(swap, a, b) for a, b in zip(one, other, strict=True)))
    found = np.zeros(len(swap), dtype=bool)
    total = np.cumsum(few.rows)
    begin = 0
    while begin < len(total):
        before = total[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(total, before + ROWS_AT_ONCE, "right")))
        found[begin:end] = _expanded(few.take(np.arange(begin, end)), many.take(np.arange(begin, end)), lines)
        begin = end
    return found


def _expanded(few: Rows, many: Rows, lines: bool) -> Truths:
    of, single = _rows_of(few)
    hit = _in_step(single.in_lines() if lines else single, many.take(of))
    return np.bincount(of[hit], minlength=len(few.low)) > 0


def _rows_of(ranges: Rows) -> tuple[Integers, Rows]:
    """Return every row as a range of its own, and the position of the range that it belongs to."""
    of = np.repeat(np.arange(len(ranges.low)), ranges.rows)
    row = np.arange(len(of)) - np.repeat(np.cumsum(ranges.rows) - ranges.rows, ranges.rows)
    return of, Rows(ranges.low[of] + row * ranges.stride[of], ranges.width[of], np.ones_like(of), np.zeros_like(of))
