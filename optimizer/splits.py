"""Work cut into pieces: how many are needed so that the bytes of one fit, and the problem that has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.memory import still_overwriting
from hexloom.formulations.problem import Buffer, Mode, Op, Precedence, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def largest_size(buffer: Buffer, room: int) -> int:
    """Return the largest size of ``buffer`` that is at most ``room`` bytes after rounding to its granule."""
    return room // buffer.granule_bytes * buffer.granule_bytes


def pieces_needed(buffers: Sequence[Buffer], room: int) -> int | None:
    """Into how many pieces each of ``buffers`` must be cut so that one of each fits into ``room``; None: no number."""

    def need(pieces: int) -> int:
        cut = (b.model_copy(update={"size_bytes": -(-b.size_bytes // pieces)}) for b in buffers)
        return sum(b.occupied_bytes for b in cut)

    low, high = 0, max((b.size_bytes for b in buffers), default=0)
    if high == 0 or need(high) > room:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if need(middle) <= room else (middle, high)
    return high


def cut(problem: Problem, names: Collection[str], pieces: int) -> Problem:
    """Return the problem with the buffers ``names`` in ``pieces`` parts, and every op that uses one of them.

    Part k of an op uses part k of these buffers and follows part k of what it followed. Its work is an equal part,
    rounded up to ticks; overheads are paid by every part.
    """
    # A range is cut as a whole.
    ranges = {b.part_of for b in problem.buffers if b.part_of is not None and (b.name in names or b.part_of in names)}
    names = {b.name for b in problem.buffers if b.name in names or b.part_of in ranges}
    users = {op for b in problem.buffers if b.name in names for op in b.ops}

    def parts(name: str) -> list[str]:
        return [f"{name}#{k}" for k in range(pieces)] if name in users else [name]

    known: dict[int, Mode] = {}
    ops: list[Op] = []
    for op in problem.ops:
        modes = op.modes if op.name not in users else tuple(_part(mode, pieces, known) for mode in op.modes)
        ops += [op.model_copy(update={"name": name, "modes": modes}) for name in parts(op.name)]
    edges = []
    for edge in problem.precedences:
        befores, afters = parts(edge.before), parts(edge.after)
        pairs = list(zip(befores, afters, strict=True)) if len(befores) == len(afters) else None
        edges += [Precedence(before=b, after=a) for b, a in pairs or [(b, a) for b in befores for a in afters]]
    buffers: list[Buffer] = []
    for b in problem.buffers:
        if b.name not in names:
            buffers.append(b.model_copy(update={"ops": tuple(part for name in b.ops for part in parts(name))}))
            continue
        for k in range(pieces):
            changed = {"name": f"{b.name}#{k}", "size_bytes": -(-b.size_bytes // pieces), "address": None}
            changed |= {} if b.part_of is None else {"part_of": f"{b.part_of}#{k}"}
            buffers.append(b.model_copy(update={**changed, "ops": tuple(f"{name}#{k}" for name in b.ops)}))
    return with_parts(problem, ops=tuple(ops), precedences=tuple(edges), buffers=still_overwriting(buffers))


def with_parts(problem: Problem, **changes: object) -> Problem:
    """Return ``problem`` with some fields replaced, validated and with nothing remembered of the old one.

    What ops touch is left out: it has become orders already, and the ops may have other names now.
    """
    return problem.changed(**{"accesses": (), **changes})


def _part(mode: Mode, pieces: int, known: dict[int, Mode]) -> Mode:
    """Return the mode of one part; ops share their modes, so each is changed once."""
    if id(mode) not in known:
        uses = tuple(use.model_copy(update={"ticks": -(-use.ticks // pieces)}) for use in mode.uses)
        known[id(mode)] = mode.model_copy(update={"uses": uses, "latency_ticks": -(-mode.latency_ticks // pieces)})
    return known[id(mode)]
