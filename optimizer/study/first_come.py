"""Tasks on queues of their own that take engines first come, first served: what no plan arranges.

Every task has threads of its own, which go through its loop of today in its order. An op that its task is ready for
stands in line for the units that its loop names; who came first gets them first, and nobody passes who wants the same
unit. A thread that only issues or observes a transfer needs no unit for it, which is kind to this baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.formulations.problem import Precedence
from hexloom.optimizer.plan import Plan, Queue, Wait
from hexloom.optimizer.sharing import Sharing
from hexloom.optimizer.simulate import DONE, ENTRY_OVER, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Mode, Problem, Rule
    from hexloom.optimizer.simulate import ExactTimeline

Unit = tuple[str, int]
"""Engine and unit."""


def first_come(
    problem: Problem, parts: Sequence[tuple[str, Problem, Plan]], after: Sequence[tuple[str, str]], rule: Rule
) -> ExactTimeline:
    """Return the timeline of the plans of several tasks, each on queues of its own.

    Parameters
    ----------
    problem
        All ops; those of no part are left out.
    parts
        For each task its name, the problem of its ops, and its own plan.
    after
        Pairs of ops (before, after) of different tasks that are ordered all the same.
    rule
        How channels are shared.
    """
    kept = frozenset(op.name for _, part, _ in parts for op in part.ops)
    whole = problem.restricted(kept, buffers=False).changed(entry_ticks=problem.entry_ticks)
    task_of = {op.name: k for k, (_, part, _) in enumerate(parts) for op in part.ops}
    workers = {engine.name for engine in whole.engines if engine.kind == "worker"}

    def own(engine: str, k: int) -> str:
        return f"{engine}@{k}" if engine in workers else engine

    ops = []
    for op in whole.ops:
        k = task_of[op.name]
        ops.append(op.model_copy(update={"modes": tuple(_renamed(mode, k, own) for mode in op.modes)}))
    engines = [engine for engine in whole.engines if engine.name not in workers]
    for engine in whole.engines:
        if engine.name in workers:
            engines += [engine.model_copy(update={"name": own(engine.name, k)}) for k in range(len(parts))]
    edges = {(edge.before, edge.after) for edge in whole.precedences}
    between = [pair for pair in dict.fromkeys((*after, *edges)) if task_of[pair[0]] != task_of[pair[1]]]
    split = whole.changed(
        ops=tuple(ops),
        engines=tuple(engines),
        precedences=tuple(Precedence(before=a, after=b) for a, b in sorted(edges | set(after))),
    )
    assigned = {a.op: a for _, _, plan in parts for a in plan.assignments}
    plan = Plan(
        assignments=tuple(assigned[op.name] for op in split.ops),
        queues=tuple(
            Queue(engine=own(queue.engine, k), unit=queue.unit, entries=queue.entries)
            for k, (_, _, plan) in enumerate(parts)
            for queue in plan.queues
        ),
        waits=(
            *(wait for _, _, plan in parts for wait in plan.waits),
            *(Wait(before=a, after=b) for a, b in between),
        ),
        addresses={},
    )
    needs = [_needs(whole.ops[i].modes[a.mode], a.units, workers) for i, a in enumerate(plan.assignments)]
    return _FirstCome(split, plan, Sharing(split, rule), needs).run()


def _renamed(mode: Mode, k: int, own: object) -> Mode:
    assert callable(own)
    dma = mode.dma
    if dma is not None:
        dma = dma.model_copy(update={"owner_engine": own(dma.owner_engine, k)})
    uses = tuple(use.model_copy(update={"engine": own(use.engine, k)}) for use in mode.uses)
    return mode.model_copy(update={"uses": uses, "dma": dma})


def _needs(mode: Mode, units: dict[str, tuple[int, ...]], workers: set[str]) -> tuple[set[Unit], set[Unit]]:
    """Return the units that an op takes: those it gives back thread by thread, and those it holds to its end."""
    if mode.dma is not None:
        return set(), set()
    taken = {(engine, u) for engine, ids in units.items() for u in ids}
    threads = {unit for unit in taken if unit[0] in workers}
    return threads, taken - threads


class _FirstCome(Run):
    """A run in which ops of different tasks stand in line for the same units."""

    def __init__(
        self, problem: Problem, plan: Plan, sharing: Sharing, needs: list[tuple[set[Unit], set[Unit]]]
    ) -> None:
        super().__init__(problem, plan, sharing)
        self.needs = needs
        self.lanes: list[Unit] = [(queue.engine.rpartition("@")[0], queue.unit) for queue in plan.queues]
        self.taken: set[Unit] = set()
        self.line: list[int] = []

    def _start_op(self, i: int) -> None:
        if self.modes[i].dma is None and any(self.needs[i]):
            self.line.append(i)
        else:
            super()._start_op(i)

    def _happen(self, kind: int, i: int, q: int, pipe: str) -> None:
        if kind == ENTRY_OVER and self.modes[i].dma is None:
            self.taken.discard(self.lanes[q])
        elif kind == DONE:
            self.taken -= self.needs[i][1]
        super()._happen(kind, i, q, pipe)

    def _start_transfers(self) -> None:
        """Give free units to the ops that came first, then pipes to transfers."""
        reserved = set(self.taken)
        left = []
        for i in self.line:
            wanted = self.needs[i][0] | self.needs[i][1]
            if reserved.isdisjoint(wanted):
                self.taken |= wanted
                super()._start_op(i)
            else:
                left.append(i)
            reserved |= wanted
        self.line = left
        super()._start_transfers()
