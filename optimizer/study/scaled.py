"""The same problem with other work: more of it for some tasks, tiles that take unequally long, coarser events."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Precedence
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.splits import with_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hexloom.formulations.problem import Mode, Op, Problem
    from hexloom.optimizer.lower import TaskLoop

FINER = 1000
"""Into how many parts a tick is cut, so that scaled work is whole in it to a tenth of a percent."""

MANY_TICKS = 10**6
"""An op this long is fine enough as it is."""


def with_ratio(problem: Problem, ratio: Fraction) -> Problem:
    """Return the problem in which all tasks after the first have together ``ratio`` times the work of the first.

    Work are the ticks that ops take at full speed, one after the other; what an op moves grows with it.

    Raises
    ------
    InvalidInputError
        There is one task, or the others have no work.
    """
    work = work_of(problem)
    first = next(iter(work))
    factor = factor_for(work, ratio)
    return with_work(problem, lambda op: Fraction(1) if op.task == first else factor)


def work_of(problem: Problem) -> dict[str, int]:
    """Return for every task the ticks that its ops take at full speed, one after the other."""
    work: dict[str, int] = {}
    for op, m in zip(problem.ops, problem.fastest_modes, strict=True):
        work[op.task] = work.get(op.task, 0) + op.modes[m].latency_ticks
    return work


def factor_for(work: Mapping[str, int], ratio: Fraction) -> Fraction:
    """Return by what the work of all tasks but the first grows, so that it is ``ratio`` times that of the first.

    Raises
    ------
    InvalidInputError
        There is one task, or the others have no work.
    """
    first, *others = work.values()
    if not others or not sum(others) or not first:
        raise InvalidInputError("work_ratio: the work must have two tasks or more, each with work of its own")
    return ratio * first / sum(others)


def with_jitter(problem: Problem, part: Fraction, seed: int) -> Problem:
    """Return the problem in which every op takes up to ``part`` more or less, the same for the same name and seed."""
    if not 0 <= part < 1:
        raise InvalidInputError(f"jitter {float(part):g}: write a part from 0 to below 1, such as 0.2")

    def factor(op: Op) -> Fraction:
        digest = hashlib.sha256(f"{seed} {op.name}".encode()).digest()
        return 1 + part * (Fraction(int.from_bytes(digest[:6], "big"), 2**47) - 1)

    return with_work(problem, factor)


def with_work(problem: Problem, factor: Callable[[Op], Fraction], finer: int | None = None) -> Problem:
    """Return the problem with the work of every op times its ``factor``, rounded up to ticks; overheads stay.

    Ticks are cut into ``finer`` parts: by default, into many where they are coarse.
    """
    if finer is None:
        finer = parts_of_a_tick(problem)
    known: dict[tuple[int, Fraction], Mode] = {}

    def changed(op: Op) -> Op:
        times = factor(op)
        modes = []
        for mode in op.modes:
            key = id(mode), times
            if key not in known:
                known[key] = _longer(mode, times, finer)
            modes.append(known[key])
        due = None if op.deadline_ticks is None else op.deadline_ticks * finer
        return op.model_copy(update={"modes": tuple(modes), "deadline_ticks": due})

    # In a problem of bare ticks, times come out in parts of its ticks.
    tick = str((problem.tick or Fraction(1)) / finer)
    ops = tuple(changed(op) for op in problem.ops)
    return with_parts(problem, ops=ops, entry_ticks=problem.entry_ticks * finer, tick_us=tick)


def parts_of_a_tick(problem: Problem) -> int:
    """Return into how many parts ticks are cut where work is scaled."""
    coarse = max((mode.latency_ticks for op in problem.ops for mode in op.modes), default=0) < MANY_TICKS
    return FINER if coarse else 1


def at_tick(loops: Sequence[TaskLoop], old: Fraction | None, new: Fraction | None) -> tuple[TaskLoop, ...]:
    """Return loops whose entries were counted in ticks of length ``old``, in those of ``new``."""
    times = (old or Fraction(1)) / (new or Fraction(1))
    return tuple(replace(loop, entry_ticks=math.ceil(loop.entry_ticks * times)) for loop in loops)


def in_order(loops: Sequence[TaskLoop], problem: Problem) -> tuple[TaskLoop, ...]:
    """Return loops whose ops come after what they follow in ``problem``, else in the order that they had."""
    place = {i: k for k, i in enumerate(problem.topological_order)}
    found = []
    for loop in loops:
        at = {problem.op_index[name]: k for k, name in enumerate(loop.loop)}
        latest = dict(at)
        for i in sorted(at, key=place.__getitem__):
            latest[i] = max([latest[i], *(latest[p] for p in problem.predecessors[i] if p in at)])
        order = sorted(at, key=lambda i: (latest[i], place[i]))
        found.append(replace(loop, loop=tuple(problem.ops[i].name for i in order)))
    return tuple(found)


def _longer(mode: Mode, factor: Fraction, finer: int) -> Mode:
    def ticks(of: int) -> int:
        return math.ceil(of * factor * finer)

    dma = mode.dma
    if dma is not None:
        dma = dma.model_copy(update={"issue_ticks": finer * dma.issue_ticks, "poll_ticks": finer * dma.poll_ticks})
    return mode.model_copy(
        update={
            "uses": tuple(use.model_copy(update={"ticks": ticks(use.ticks)}) for use in mode.uses),
            "latency_ticks": ticks(mode.latency_ticks),
            "overhead_ticks": finer * mode.overhead_ticks,
            "dma": dma,
        }
    )


def with_grain(problem: Problem, grain: int) -> Problem:
    """Return the problem in which a stage waits for ``grain`` tiles of the stage before it at once.

    An op that follows another one of its task at the same tile follows that stage's last tile of the same group of
    ``grain`` tiles instead. What gives a slot of a ring back to an earlier stage stays as it is.

    Raises
    ------
    InvalidInputError
        A ring of fewer slots than a group has would wait for itself.
    """
    if grain < 1:
        raise InvalidInputError(f"sync_grain {grain}: write a whole number of tiles from 1 on")
    last: dict[tuple[str, str, int], list[str]] = {}
    top: dict[tuple[str, str, int], int] = {}
    for op in problem.ops:
        key = op.task, op.stage, op.tile // grain
        if op.tile > top.get(key, -1):
            top[key], last[key] = op.tile, []
        if op.tile == top[key]:
            last[key].append(op.name)
    edges: dict[tuple[str, str], None] = {}
    for edge in problem.precedences:
        a, b = (problem.ops[problem.op_index[name]] for name in (edge.before, edge.after))
        edges[edge.before, edge.after] = None
        if a.task == b.task and a.tile == b.tile and a.stage != b.stage:
            for name in last[a.task, a.stage, a.tile // grain]:
                edges[name, edge.after] = None
    try:
        return with_parts(problem, precedences=tuple(Precedence(before=a, after=b) for a, b in edges))
    except ValueError:
        raise InvalidInputError(
            f"sync_grain {grain}: a ring has fewer slots than the {grain} tiles that are waited for; use a smaller "
            "grain or deeper rings"
        ) from None
