"""Cutting a window out of a schedule with times, and putting its solution back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from hexloom.formulations.flat.solution import Window
from hexloom.formulations.heads_tails import HeadsTails
from hexloom.formulations.problem import Precedence, Problem, Scratchpad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.flat.solution import FlatSolution
    from hexloom.formulations.problem import Mode, Op


@dataclass(frozen=True, slots=True)
class Piece:
    """A window as a problem of its own; ``ops`` and ``buffers`` are the positions of its parts in the whole."""

    problem: Problem
    heads_tails: HeadsTails
    window: Window
    ops: tuple[int, ...]
    buffers: tuple[int, ...]


def named_units(
    problem: Problem, modes: Sequence[int], units: Sequence[Sequence[tuple[int, ...]]]
) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return the units, by (op, use), of engines of which some ops take certain units, others any."""
    mixed = _mixed_engines(problem)
    return {
        (i, k): ids
        for i, (op, of) in enumerate(zip(problem.ops, units, strict=True))
        for k, (use, ids) in enumerate(zip(op.modes[modes[i]].uses, of, strict=True))
        if ids and use.unit_ids is None and use.engine in mixed
    }


def _mixed_engines(problem: Problem) -> set[str]:
    """Engines of which some ops take certain units: that there are enough of them does not tell that these are free."""
    units = {e.name: e.units for e in problem.engines if e.kind not in ("pipe", "share") and e.units > 1}
    certain: set[str] = set()
    for op in problem.ops:
        for mode in op.modes:
            certain.update(u.engine for u in mode.uses if u.unit_ids is not None and u.units < units.get(u.engine, 0))
            if mode.dma is not None:
                certain.add(mode.dma.owner_engine)
    return certain & units.keys()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Ops to be solved anew, from when and until when they may last, and by how much all else may come earlier."""

    free: frozenset[int]
    begin: int
    reach: int
    shift: int


def stretch_at(times: FlatSolution, first: int, count: int) -> Stretch:
    """Return the stretch of ``count`` ops in order of their starts, beginning with the one at place ``first``."""
    order = sorted(times.start)
    begin = order[first]
    end = order[first + count] if first + count < len(order) else times.makespan + 1
    free = frozenset(i for i, at in enumerate(times.start) if begin <= at < max(end, begin + 1))
    last = max(times.known[i] for i in free)
    return Stretch(free, begin, last + (last - begin) // 2, (last - begin) // 2)


def cut(
    problem: Problem,
    ht: HeadsTails,
    times: FlatSolution,
    stretch: Stretch,
    firm: frozenset[int] = frozenset(),
    *,
    keep: bool = False,
) -> Piece:
    """Return the piece in which the ops of ``stretch`` are solved anew.

    All that could meet them is part of it. Modes stay, and units that are named. What was alive before the window keeps
    its address, and so do buffers that no free op uses, and ``firm`` ones; with ``keep`` also those that live on after
    the window, among others with addresses.
    """
    free, begin, reach = stretch.free, stretch.begin, stretch.reach
    start, known = times.start, times.known
    later = _later(times, free, begin)
    kept = free | {i for i in range(len(start)) if _meets(i, later, times, stretch)}
    placed = times.offsets or {}
    for b, buffer in enumerate(problem.buffers):
        users = [problem.op_index[name] for name in buffer.ops]
        if not any(_matters(problem, one, times, stretch, kept) for one in _with_its_range(problem, b)):
            continue
        before = [u for u in users if u not in free and u not in later]
        behind = [u for u in users if u in later]
        kept |= {min(before, key=start.__getitem__)} if before else frozenset()
        kept |= {max(behind, key=known.__getitem__)} if behind else frozenset()
        if b in problem.wholes and behind:
            kept |= {min(behind, key=start.__getitem__)}
    ops = tuple(sorted(kept))
    here = {
        b
        for b, buffer in enumerate(problem.buffers)
        if buffer.always or any(problem.op_index[name] in kept for name in buffer.ops)
    }
    buffers = tuple(sorted(here.union(*(_with_its_range(problem, b) for b in here))))
    pinned = {b for b in buffers if b in placed and (b in firm or _keeps_address(problem, b, free, later, keep=keep))}
    pinned = {b for b in buffers if not pinned.isdisjoint(_with_its_range(problem, b))}
    waiting = {
        b
        for b in buffers
        if b not in placed
        and not problem.buffers[b].from_start
        and all(problem.op_index[name] in later for name in problem.buffers[b].ops)
    }
    waiting = {b for b in buffers if waiting.issuperset(_with_its_range(problem, b))}
    part = _coarse(_part(problem, times, ops, buffers, pinned, waiting))
    place = {i: k for k, i in enumerate(ops)}
    counted = frozenset(k for k, b in enumerate(buffers) if b in waiting)
    window = Window(
        begin=begin,
        reach=reach,
        makespan=times.makespan,
        free=frozenset(place[i] for i in free),
        later=frozenset(place[i] for i in ops if i in later),
        start=tuple(start[i] for i in ops),
        moved=tuple(times.moved[i] for i in ops),
        known=tuple(known[i] for i in ops),
        offsets={k: placed[b] for k, b in enumerate(buffers) if b in placed},
        counted=counted,
    )
    rows = list(ops)
    sliced = HeadsTails(ht.head[rows], ht.duration[rows], ht.tail[rows])
    return Piece(part, sliced, window, ops, buffers)


def _with_its_range(problem: Problem, b: int) -> tuple[int, ...]:
    """Return the parts of the range of buffer ``b``, or ``b`` alone."""
    return problem.wholes[b].parts if b in problem.wholes else (b,)


def _matters(problem: Problem, b: int, times: FlatSolution, stretch: Stretch, kept: frozenset[int]) -> bool:
    """Whether buffer ``b`` can be alive in the window, or lives with an op that is part of it."""
    buffer, users = problem.buffers[b], [problem.op_index[name] for name in problem.buffers[b].ops]
    if not users or buffer.always or (max(times.known[u] for u in users) <= stretch.begin and not buffer.to_end):
        return False
    late = min(times.start[u] for u in users) >= stretch.reach + stretch.shift and not buffer.from_start
    return not (late and kept.isdisjoint(users))


def _later(times: FlatSolution, free: frozenset[int], begin: int) -> set[int]:
    return {i for i, at in enumerate(times.start) if i not in free and at >= begin}


def _keeps_address(problem: Problem, b: int, free: frozenset[int], later: set[int], *, keep: bool) -> bool:
    users = [problem.op_index[name] for name in problem.buffers[b].ops]
    others = [u for u in users if u not in free]
    return len(others) == len(users) or problem.buffers[b].from_start or any(keep or u not in later for u in others)


def _meets(i: int, later: set[int], times: FlatSolution, stretch: Stretch) -> bool:
    if i in later:
        return times.start[i] < stretch.reach + stretch.shift
    return i not in stretch.free and times.known[i] > stretch.begin


def _part(
    problem: Problem,
    times: FlatSolution,
    ops: tuple[int, ...],
    buffers: tuple[int, ...],
    pinned: set[int],
    waiting: set[int],
) -> Problem:
    names = {problem.ops[i].name for i in ops}
    placed = times.offsets or {}
    return Problem(
        name=problem.name,
        engines=problem.engines,
        channels=problem.channels,
        interference=problem.interference,
        ops=tuple(_fixed(problem.ops[i], i, times) for i in ops),
        precedences=tuple(
            Precedence(before=problem.ops[p].name, after=problem.ops[i].name)
            for i in ops
            for p in problem.predecessors[i]
            if problem.ops[p].name in names
        ),
        buffers=tuple(
            problem.buffers[b].model_copy(
                update={
                    "ops": tuple(name for name in problem.buffers[b].ops if name in names),
                    "address": placed[b] if b in pinned else problem.buffers[b].address,
                    # Parts that have their places need not be told to lie beside each other.
                    "part_of": None if b in pinned or b in waiting else problem.buffers[b].part_of,
                }
            )
            for b in buffers
        ),
        scratchpad=problem.scratchpad,
        entry_ticks=problem.entry_ticks,
    )


def _coarse(problem: Problem) -> Problem:
    """Return the same with addresses in multiples of what all sizes and all fixed addresses have in common.

    Whatever fits still does when every buffer slides down until it meets another: it then lies on such a multiple.
    """
    common = gcd(*(b.occupied_bytes for b in problem.buffers), *(b.address or 0 for b in problem.buffers))
    if common <= 1 or any(common % b.align_bytes for b in problem.buffers):
        return problem
    whole = problem.scratchpad.available_bytes // common * common
    beside = {b for b, of in problem.wholes.items() if b != of.head}
    return problem.model_copy(
        update={
            "buffers": tuple(
                b if k in beside else b.model_copy(update={"align_bytes": common})
                for k, b in enumerate(problem.buffers)
            ),
            "scratchpad": Scratchpad(total_bytes=whole),
        }
    )


def _fixed(op: Op, i: int, times: FlatSolution) -> Op:
    """Return ``op`` with the one mode that it has, on the units that are named."""
    mode: Mode = op.modes[times.mode[i]]
    uses = tuple(
        use.model_copy(update={"unit_ids": times.units[i, k]}) if (i, k) in times.units else use
        for k, use in enumerate(mode.uses)
    )
    return op.model_copy(update={"modes": (mode.model_copy(update={"uses": uses}),)})


def put_back(times: FlatSolution, piece: Piece, found: FlatSolution) -> FlatSolution:
    """Return the whole schedule with the piece as it was ``found``, and all that is later moved with it."""
    shift = found.makespan - piece.window.makespan
    free = {piece.ops[k] for k in piece.window.free}
    later = _later(times, frozenset(free), piece.window.begin)
    start, moved, known = (
        [at + shift if i in later else at for i, at in enumerate(of)] for of in (times.start, times.moved, times.known)
    )
    for k in piece.window.free:
        i = piece.ops[k]
        start[i], moved[i], known[i] = found.start[k], found.moved[k], found.known[k]
    offsets = dict(times.offsets or {})
    offsets.update({piece.buffers[k]: at for k, at in (found.offsets or {}).items()})
    return replace(
        times,
        start=tuple(start),
        moved=tuple(moved),
        known=tuple(known),
        offsets=offsets,
        makespan=max(known),
    )
