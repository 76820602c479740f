"""What a table must order, slice by slice, and the fewest waits that do.

In a plan an op on several threads is one: it starts when all of them have come to it. In a table every thread runs
its own slice as soon as it gets there, so a queue orders less than in the plan, and the waits are found anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import networkx as nx

from hexloom.optimizer.errors import PlanError
from hexloom.optimizer.happens_before import HappensBefore

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hexloom.formulations.problem import Mode
    from hexloom.optimizer.schedule import Schedule

Action = Literal["run", "start", "wait"]


@dataclass(frozen=True, slots=True)
class Step:
    """One entry of a queue: slice ``slice`` of op ``op``."""

    op: int
    action: Action
    slice: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """A queue; ``detached`` when no hardware thread of the plan executes it."""

    engine: str
    unit: int
    steps: tuple[Step, ...]
    detached: bool = False


class Orders:
    """Lanes of a schedule, and for each op the ops it waits for, by position.

    An op that holds no thread of the plan still needs someone to do it; it goes into a detached lane. One that takes
    no time either is a marker: it is left out, and its followers wait for what it waits for.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        problem, plan = schedule.problem, schedule.plan
        chosen = {a.op: a for a in plan.assignments}
        self.modes = [op.modes[chosen[op.name].mode] for op in problem.ops]
        self.units = [chosen[op.name].units for op in problem.ops]
        self.turns = self._turns()
        self.rank = {i: k for k, (i, action) in enumerate(self.turns) if action != "wait"}
        self.lanes = self._lanes()
        placed = {step.op for lane in self.lanes for step in lane.steps}
        self.markers = [i for i in range(len(problem.ops)) if i not in placed]
        workers = {e.name for e in problem.engines if e.kind == "worker"}
        self.late = [m.dma is None and _held(m, workers) < m.latency_ticks for m in self.modes]
        """Ops whose threads are all free before the result exists."""
        self.waits = self._waits(self._required())
        """For each op those it waits for, in their order, and which of its lanes do not know them to be over."""

    def _turns(self) -> list[tuple[int, Action]]:
        """Return the starts of all ops, and the ends of transfers, in an order in which they can happen."""
        problem = self.schedule.problem
        graph = HappensBefore(problem, self.schedule.plan).graph
        try:
            nodes = list(nx.topological_sort(graph))
        except nx.NetworkXUnfeasible:
            raise PlanError("the plan never ends: its queues and waits block each other") from None
        turns: list[tuple[int, Action]] = []
        for node in nodes:
            i = problem.op_index[node.op]
            if node.point == "start":
                turns.append((i, "run" if self.modes[i].dma is None else "start"))
            elif node.point == "observed" and self.modes[i].dma is not None:
                turns.append((i, "wait"))
        return turns

    def _lanes(self) -> list[Lane]:
        problem, plan = self.schedule.problem, self.schedule.plan
        index = problem.op_index
        slices = [0] * len(problem.ops)
        lanes: list[Lane] = []
        for queue in plan.queues:
            steps = []
            for entry in queue.entries:
                i = index[entry.op]
                steps.append(Step(i, entry.action, slices[i]))
                if entry.action == "run":
                    slices[i] += 1
            lanes.append(Lane(queue.engine, queue.unit, tuple(steps)))
        detached: dict[tuple[str, int], list[Step]] = {}
        for i in sorted(range(len(problem.ops)), key=lambda i: self.rank[i]):
            if slices[i] or self.modes[i].dma is not None or self.modes[i].duration_ticks == 0:
                continue
            held = [(engine, ids[0]) for engine, ids in self.units[i].items() if ids]
            detached.setdefault(min(held, default=("", i)), []).append(Step(i, "run"))
        return lanes + [Lane(engine, unit, tuple(steps), True) for (engine, unit), steps in detached.items()]

    def _required(self) -> list[set[int]]:
        """For each op the ops that must have ended before it starts, markers replaced by what they stand for."""
        problem = self.schedule.problem
        required = [set(befores) for befores in problem.predecessors]
        for wait in self.schedule.plan.waits:
            required[problem.op_index[wait.after]].add(problem.op_index[wait.before])
        for before, after in (*self._reuse(), *self._shared_units()):
            required[after].add(before)
        folded = set(self.markers)
        for i in sorted(range(len(problem.ops)), key=lambda i: self.rank[i]):
            for marker in required[i] & folded:
                required[i] |= required[marker]
            required[i] -= folded
        return required

    def _shared_units(self) -> Iterable[tuple[int, int]]:
        """Ops that follow each other on a unit that is no thread."""
        resources = {e.name for e in self.schedule.problem.engines if e.kind == "resource"}
        users: dict[tuple[str, int], list[int]] = {}
        for i in sorted(range(len(self.modes)), key=lambda i: self.rank[i]):
            for engine, ids in self.units[i].items():
                for unit in ids if engine in resources else ():
                    users.setdefault((engine, unit), []).append(i)
        for ops in users.values():
            yield from pairwise(ops)

    def _reuse(self) -> Iterable[tuple[int, int]]:
        """Last users of a buffer, first users of the next one at the same addresses; markers touch no bytes."""
        problem = self.schedule.problem
        places = problem.on_line([self.schedule.plan.addresses[b.name] for b in problem.buffers])
        working = {problem.ops[i].name for i in set(range(len(problem.ops))) - set(self.markers)}
        users = [
            sorted({problem.op_index[op] for op in b.ops if op in working}, key=lambda i: self.rank[i])
            for b in problem.buffers
        ]
        born = sorted(
            (
                b
                for b, u in enumerate(users)
                if u and problem.buffers[b].occupied_bytes and not problem.buffers[b].always
            ),
            key=lambda b: (
                -1 if problem.buffers[b].from_start else self.rank[users[b][0]],
                problem.buffers[b].overwrites is not None,
            ),
        )
        holders: list[tuple[int, int, int]] = []
        for b in born:
            start = places[b]
            end = start + problem.buffers[b].occupied_bytes
            left: list[tuple[int, int, int]] = []
            for low, high, old in holders:
                if low >= end or high <= start:
                    left.append((low, high, old))
                    continue
                last = _without(users[old], problem.successors)
                first = _without(users[b], problem.predecessors)
                yield from ((x, y) for x in last for y in first if x != y)
                left += [piece for piece in ((low, start, old), (end, high, old)) if piece[0] < piece[1]]
            holders = [*left, (start, end, b)]

    def _waits(self, required: Sequence[set[int]]) -> list[dict[int, list[int]]]:
        """Return for each op the required ops that neither its queues nor its other waits imply, in their order.

        Ops are taken in an order in which they can run. Bit sets hold the entries known to be over, one bit for each
        entry that ends an op or a slice of it. With each come the lanes that need it.
        """
        at: dict[tuple[int, Action], list[int]] = {}
        bit: dict[tuple[int, int], int] = {}
        ends = [0] * len(required)
        for q, lane in enumerate(self.lanes):
            for step in lane.steps:
                at.setdefault((step.op, step.action), []).append(q)
                if step.action != "start":
                    bit[step.op, q] = 1 << len(bit)
                    ends[step.op] |= bit[step.op, q]
        over = [0] * len(self.lanes)  # what is known to be over where a lane stands now
        known = [0] * len(required)  # what is known to be over once an op is
        ended: dict[int, int] = {}
        waits: list[dict[int, list[int]]] = [{} for _ in required]
        for turn, (i, action) in enumerate(self.turns):
            lanes = at.get((i, action), [])
            if action != "wait":
                self._check_order(i, required[i] - ended.keys())
                for a in sorted(required[i], key=lambda a: ended[a], reverse=True):
                    needing = [q for q in lanes if ends[a] & ~over[q]]
                    if needing:
                        waits[i][a] = needing
                    for q in needing:
                        over[q] |= known[a]
                waits[i] = dict(reversed(waits[i].items()))
            if action == "start":
                continue
            ended[i] = turn
            for q in lanes:
                known[i] |= over[q] | bit[i, q]
            for q in lanes:
                over[q] |= 0 if self.late[i] else bit[i, q]
        return waits

    def slice_waits(self) -> list[dict[tuple[int, int], list[int]]]:
        """Return for each op the fewest (op, slice) that must have ended before it starts, in their order.

        As `waits`, but slice by slice: where every slice has an event of its own. No op may be late.
        """
        required = self._required()
        place: dict[tuple[int, int], int] = {}
        at: dict[tuple[int, Action], list[int]] = {}
        for q, lane in enumerate(self.lanes):
            for step in lane.steps:
                at.setdefault((step.op, step.action), []).append(q)
                if step.action != "start":
                    place[step.op, step.slice] = q
        bit = {who: 1 << k for k, who in enumerate(place)}
        slices: dict[int, list[int]] = {}
        for op, piece in sorted(place):
            slices.setdefault(op, []).append(piece)
        over = [0] * len(self.lanes)
        known: dict[tuple[int, int], int] = {}
        ended: dict[int, int] = {}
        found: list[dict[tuple[int, int], list[int]]] = [{} for _ in required]
        for turn, (i, action) in enumerate(self.turns):
            lanes = at.get((i, action), [])
            if action != "wait":
                self._check_order(i, required[i] - ended.keys())
                latest = sorted(required[i], key=lambda a: ended[a], reverse=True)
                for who in ((a, piece) for a in latest for piece in slices[a]):
                    needing = [q for q in lanes if not bit[who] & over[q]]
                    if needing:
                        found[i][who] = needing
                    for q in needing:
                        over[q] |= known[who]
                found[i] = dict(reversed(found[i].items()))
            if action == "start":
                continue
            ended[i] = turn
            for piece in slices.get(i, ()):
                q = place[i, piece]
                over[q] |= bit[i, piece]
                known[i, piece] = over[q]
        return found

    def _check_order(self, op: int, missing: set[int]) -> None:
        if missing:
            names = [self.schedule.problem.ops[i].name for i in (min(missing), op)]
            raise PlanError(f"{names[1]!r} must follow {names[0]!r}, but the plan does not order them")


def _held(mode: Mode, workers: set[str]) -> int:
    """How long the last thread of a mode is held; who executes an op without threads holds on to its end."""
    return max((u.ticks for u in mode.uses if u.engine in workers and u.ticks), default=mode.latency_ticks)


def _without(ops: Sequence[int], toward: Sequence[Sequence[int]]) -> list[int]:
    """Drop the ops that have a direct neighbour among ``ops`` in the direction ``toward``."""
    members = set(ops)
    return [i for i in ops if not members.intersection(toward[i])]
