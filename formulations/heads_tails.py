"""Heads and tails of ops: how long before its start, and after its end, a schedule must last.

The head of an op is a lower bound on its start in any schedule, its tail one on the time from its end (when its
result can be used) to the makespan. Both count the longest path *and* the work that an op's ancestors bring to each
engine: before the first matrix job of a matmul can start, all its activations must have passed the one DMA pipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from hexloom.formulations.problem import Engine, Mode, Problem

Ints = npt.NDArray[np.int64]

DENSE_LIMIT = 4096
"""Above this many ops only paths are followed: the closure of the precedence takes n^2 numbers."""

FAR = np.int64(2**62)


@dataclass(frozen=True)
class Demand:
    """The least that ops ask of one engine.

    ``ops`` are their positions; ``energy`` is units times ticks, the smallest over the modes; the work on the
    engine starts at least ``lead`` ticks after the op and ends at least ``trail`` ticks before its result.
    """

    engine: int
    units: int
    ops: Ints
    energy: Ints
    lead: Ints
    trail: Ints


def engine_demands(problem: Problem) -> list[Demand]:
    """Return what each engine must serve, for engines that some op cannot avoid."""
    found: list[Demand] = []
    for e, engine in enumerate(problem.engines):
        rows = []
        for i, op in enumerate(problem.ops):
            parts = [_on_engine(mode, engine) for mode in op.modes]
            energy = min(p[0] for p in parts)
            if energy > 0:
                rows.append((i, energy, min(p[1] for p in parts), min(p[2] for p in parts)))
        if rows:
            ops, energy_column, lead, trail = (np.array(c, dtype=np.int64) for c in zip(*rows, strict=True))
            found.append(Demand(e, engine.units, ops, energy_column, lead, trail))
    return found


def _on_engine(mode: Mode, engine: Engine) -> tuple[int, int, int]:
    """Energy on the engine, ticks from the op's start to it, ticks from its end to the result.

    A share is held for the whole life of the op.
    """
    dma = mode.dma
    for use in mode.uses:
        if use.engine == engine.name and use.ticks > 0:
            if engine.kind == "share":
                return use.units * mode.duration_ticks, 0, 0
            if dma is None:
                return use.units * (mode.overhead_ticks + use.ticks), 0, mode.latency_ticks - use.ticks
            return use.units * use.ticks, dma.issue_ticks, mode.latency_ticks - use.ticks + dma.poll_ticks
    if dma is not None and dma.owner_engine == engine.name:
        return dma.issue_ticks + dma.poll_ticks, 0, 0
    return 0, 0, 0


@dataclass(frozen=True)
class HeadsTails:
    """Lower bounds in ticks per op: start, shortest duration, and time from its result to the end."""

    head: Ints
    duration: Ints
    tail: Ints


def heads_and_tails(problem: Problem, demands: list[Demand]) -> HeadsTails:
    """Return heads and tails of all ops of ``problem``."""
    n = len(problem.ops)
    duration = np.array([min(m.duration_ticks for m in op.modes) for op in problem.ops], dtype=np.int64)
    forward = _heads(problem.topological_order, problem.predecessors, duration, demands, problem.entry_ticks)
    mirrored = [Demand(d.engine, d.units, d.ops, d.energy, lead=d.trail, trail=d.lead) for d in demands]
    backward = _heads(problem.topological_order[::-1], problem.successors, duration, mirrored, 0)
    assert len(forward) == len(backward) == n
    return HeadsTails(forward, duration, backward)


def _heads(
    order: tuple[int, ...],
    before: tuple[tuple[int, ...], ...],
    duration: Ints,
    demands: list[Demand],
    entry: int,
) -> Ints:
    n = len(order)
    head = np.full(n, entry, dtype=np.int64)
    if n > DENSE_LIMIT:
        for i in order:
            for p in before[i]:
                head[i] = max(head[i], head[p] + duration[p])
        return head
    # after[i, a]: longest path from the end of ancestor a to the start of i; -1 where a is no ancestor of i.
    after = np.full((n, n), -1, dtype=np.int64)
    for i in order:
        row = after[i]
        for p in before[i]:
            head[i] = max(head[i], head[p] + duration[p])
            through = after[p]
            np.maximum(row, np.where(through >= 0, through + duration[p], -1), out=row)
            row[p] = max(row[p], 0)
        if len(before[i]) == 0:
            continue
        for demand in demands:
            reach = row[demand.ops]
            mine = reach >= 0
            energy = int(demand.energy[mine].sum())
            if energy == 0:
                continue
            first = int((head[demand.ops] + demand.lead)[mine].min())
            last = int((reach + demand.trail)[mine].min())
            head[i] = max(head[i], first + -(-energy // demand.units) + last)
    return head
