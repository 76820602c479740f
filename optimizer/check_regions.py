"""What a plan must respect in memory: ops that touch the same bytes are ordered, and caches are kept in step.

A twin of what lowering does, with arithmetic of its own: row against row, region against region, in the order of their
tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.formulations.problem import Access, Problem, Region

Report = Callable[[str, tuple[str, ...], str], None]
"""Takes the kind of a violation, its parties and one line of text."""

LINE = 128
"""Bytes of a cache line."""


class Touch(NamedTuple):
    """One region and the access it belongs to."""

    access: int
    region: Region


class Order(Protocol):
    """What comes before what: of a plan, or of a problem alone."""

    def after(self, op: str) -> int:
        """Return the ops that start only when ``op`` has been observed, as a bit set."""

    def mask(self, ops: set[str]) -> int:
        """Return ``ops`` as a bit set."""


class ByPrecedences:
    """What the precedences of a problem alone order."""

    def __init__(self, problem: Problem) -> None:
        self.index = problem.op_index
        self.behind = [0] * len(problem.ops)
        for i in reversed(problem.topological_order):
            for follower in problem.successors[i]:
                self.behind[i] |= self.behind[follower] | 1 << follower

    def after(self, op: str) -> int:
        """Return the ops that a chain of precedences puts behind ``op``, as a bit set."""
        return self.behind[self.index[op]]

    def mask(self, ops: set[str]) -> int:
        """Return ``ops`` as a bit set."""
        return sum(1 << self.index[op] for op in ops)


def check_regions(problem: Problem, order: Order, report: Report) -> None:
    """Of two ops that touch the same bytes, one writing, one is observed before the other starts.

    The same for two writers of one cache line, one through the cache and one past it. Between a writer and what
    follows on the other path there is maintenance of what was written: ``clean`` of a write through the cache,
    ``invalidate`` of one past it. With hazards ``noted`` all this is asked only of ops that precedences order.
    """
    if not problem.accesses:
        return
    asked = None if problem.hazards == "ordered" else ByPrecedences(problem)
    told: set[tuple[str, int, int]] = set()
    upkeeps = _Upkeeps(problem)
    for one, other, why in _meetings(problem):
        a, b = problem.accesses[one.access], problem.accesses[other.access]
        if asked is not None and not (_ordered(a, b, asked) or _ordered(b, a, asked)):
            continue
        if _ordered(a, b, order):
            earlier, later = one, other
        elif _ordered(b, a, order):
            earlier, later = other, one
        else:
            if ("order", one.access, other.access) not in told:
                told.add(("order", one.access, other.access))
                text = f"ops {_named(a)} and {_named(b)} share {why}, but nothing orders them"
                report("hazard_unordered", (*a.ops, *b.ops), text)
            continue
        missing = upkeeps.missing(earlier, later, order)
        if missing and (missing, earlier.access, later.access) not in told:
            told.add((missing, earlier.access, later.access))
            parties = (*problem.accesses[earlier.access].ops, *problem.accesses[later.access].ops)
            report("maintenance_missing", parties, _without_upkeep(problem, earlier, later, missing))


class _Upkeeps:
    """The maintenance of the cache in a problem, by what it takes in."""

    def __init__(self, problem: Problem) -> None:
        self.accesses = problem.accesses
        self.same_rows: dict[tuple[object, ...], list[Access]] = {}
        self.solid: dict[tuple[str, str], list[tuple[Region, Access]]] = {}
        for access in problem.accesses:
            for region in access.regions:
                if region.kind in ("clean", "invalidate"):
                    self.same_rows.setdefault((region.kind, *_rows(region)), []).append(access)
                    if region.rows == 1 or region.stride_bytes == region.row_bytes:
                        self.solid.setdefault((region.kind, region.tensor), []).append((region, access))

    def missing(self, earlier: Touch, later: Touch, order: Order) -> str:
        """Return the kind that must come between two ordered touches and is not certain to; empty if none."""
        region = earlier.region
        if region.kind != "write" or region.bypass == later.region.bypass:
            return ""
        kind = "invalidate" if region.bypass else "clean"
        before, after = self.accesses[earlier.access], self.accesses[later.access]
        around = (access for upkeep, access in self.solid.get((kind, region.tensor), ()) if _holds(upkeep, region))
        for access in chain(self.same_rows.get((kind, *_rows(region)), ()), around):
            if _ordered(before, access, order) and _ordered(access, after, order):
                return ""
        return kind


def _rows(region: Region) -> tuple[object, ...]:
    return region.tensor, region.offset_bytes, region.row_bytes, region.rows, region.stride_bytes


def _holds(upkeep: Region, region: Region) -> bool:
    """Whether the lines of ``upkeep``, which has no gaps, take in all of ``region``."""
    low, end = upkeep.offset_bytes // LINE * LINE, -(-upkeep.end_bytes // LINE) * LINE
    return low <= region.offset_bytes and region.end_bytes <= end


def _without_upkeep(problem: Problem, earlier: Touch, later: Touch, kind: str) -> str:
    region, follower = earlier.region, later.region
    before, after = problem.accesses[earlier.access], problem.accesses[later.access]
    paths = ("past the cache", "through it") if region.bypass else ("through the cache", "past it")
    does = "reads" if follower.kind == "read" else "writes"
    return (
        f"op {_named(before)} writes {region} {paths[0]} and op {_named(after)} {does} there {paths[1]}, but no "
        f"{kind} of these lines is certain to come between them"
    )


def _meetings(problem: Problem) -> Iterator[tuple[Touch, Touch, str]]:
    """Find all pairs of accesses that share bytes, one writing, or a line as writers on two paths; and say what."""
    by_tensor: dict[str, list[Touch]] = {}
    for k, access in enumerate(problem.accesses):
        for region in access.regions:
            if region.kind in ("read", "write"):
                by_tensor.setdefault(region.tensor, []).append(Touch(k, region))
    for touches in by_tensor.values():
        if all(touch.region.kind == "read" for touch in touches):
            continue
        touches.sort(key=lambda touch: touch.region.offset_bytes)
        open_reads: list[Touch] = []
        open_writes: list[Touch] = []
        for touch in touches:
            line = touch.region.offset_bytes // LINE * LINE
            open_reads = [t for t in open_reads if t.region.end_bytes > line]
            open_writes = [t for t in open_writes if t.region.end_bytes > line]
            writes = touch.region.kind == "write"
            for other in chain(open_writes, open_reads if writes else ()):
                why = _shared(other.region, touch.region) if other.access != touch.access else ""
                if why:
                    yield other, touch, why
            (open_writes if writes else open_reads).append(touch)


def _shared(one: Region, other: Region) -> str:
    """Return which bytes, or which line, two regions must not touch unordered; empty where there are none."""
    fewer, more = (one, other) if one.rows <= other.rows else (other, one)
    for row in range(fewer.rows):
        low = fewer.offset_bytes + row * fewer.stride_bytes
        found = _first_common(low, low + fewer.row_bytes, more)
        if found is not None:
            return f"byte {found} of {one.tensor!r}"
    if one.kind == other.kind == "write" and one.bypass != other.bypass:
        for row in range(fewer.rows):
            low = fewer.offset_bytes + row * fewer.stride_bytes
            end = -(-(low + fewer.row_bytes) // LINE) * LINE
            found = _first_common(low // LINE * LINE, end, more)
            if found is not None:
                return f"the cache line at byte {found // LINE * LINE} of {one.tensor!r}, written past the cache by one"
    return ""


def _first_common(low: int, end: int, region: Region) -> int | None:
    """Return the first byte in [low, end) that ``region`` touches."""
    # The first row that ends behind `low`; rows before it are over. One row alone has no stride.
    row = max(0, (low - region.offset_bytes - region.row_bytes) // max(1, region.stride_bytes) + 1)
    if row >= region.rows:
        return None
    start = region.offset_bytes + row * region.stride_bytes
    if start + region.row_bytes <= low or start >= end:
        return None
    return max(low, start)


def _ordered(before: Access, after: Access, order: Order) -> bool:
    late = order.mask(set(after.ops))
    return all(not late & ~order.after(op) for op in before.ops)


def _named(access: Access) -> str:
    return " + ".join(repr(op) for op in access.ops)
