"""The happens-before graph of a plan: what is certain to come before what, whatever the ops take.

Every op has three nodes. ``start``: it begins (a transfer: its issue begins). ``done``: its result exists.
``observed``: others may count on it; for a transfer that is when its owner has waited for it, for any other op it
follows ``done`` at once. An op in several queues is one node: it starts when all of them have reached it, so a graph
without cycles cannot deadlock.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    import networkx as nx

    from hexloom.formulations.problem import Mode, Problem
    from hexloom.optimizer.plan import Plan, Queue, QueueEntry


class Node(NamedTuple):
    """One moment in the life of an op, by its name."""

    point: Literal["start", "done", "observed"]
    op: str

    def __str__(self) -> str:
        return f"{self.point} {self.op!r}"


class HappensBefore:
    """The graph of ``plan``; ``problem`` gives the chosen modes.

    The plan must name only ops, modes and units that exist. A cycle is allowed here, so that it can be reported.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.bit = {op.name: 1 << i for i, op in enumerate(problem.ops)}
        self.followers: dict[Node, dict[Node, str]] = {}
        """By node, what comes after it at once, and why: empty where that follows from the op itself."""
        for before, after, why in _edges(problem, plan):
            self.followers.setdefault(before, {})[after] = why
            self.followers.setdefault(after, {})
        self._started_after: dict[Node, int] | None = None

    def cycle(self) -> list[tuple[Node, str]]:
        """Return the nodes of one cycle in their order, each with why it comes after the one before; else nothing.

        A node that follows from the op itself, its end from its start, has no reason.
        """
        order, missing = self._order
        if len(order) == len(self.followers):
            return []
        # Whoever is left has one before it that is left, so going back from anyone ends in a cycle.
        back = {after: node for node, of in self.followers.items() if missing[node] for after in of if missing[after]}
        node = next(node for node in self.followers if missing[node])
        way: dict[Node, None] = {}
        while node not in way:
            way[node] = None
            node = back[node]
        turned = [*list(way)[list(way).index(node) :]][::-1]
        return [(after, self.followers[before][after]) for before, after in pairwise([turned[-1], *turned])]

    @cached_property
    def graph(self) -> nx.DiGraph[Node]:
        """The graph for others' algorithms; who only checks a plan need not load them."""
        import networkx as nx

        graph: nx.DiGraph[Node] = nx.DiGraph()
        graph.add_nodes_from(self.followers)
        graph.add_edges_from((node, after) for node, of in self.followers.items() for after in of)
        return graph

    def after(self, op: str) -> int:
        """Return the ops that start only when ``op`` has been observed, as a bit set.

        The bit of an op is ``bit[name]``. Bit sets make the closure of thousands of ops a matter of a second.
        """
        if self._started_after is None:
            self._started_after = self._closure()
        return self._started_after[Node("observed", op)]

    def mask(self, ops: set[str]) -> int:
        """Return ``ops`` as a bit set."""
        found = 0
        for op in ops:
            found |= self.bit[op]
        return found

    @cached_property
    def _order(self) -> tuple[list[Node], dict[Node, int]]:
        """Return the nodes, each behind all before it, and how many before each are left: none without a cycle."""
        missing = dict.fromkeys(self.followers, 0)
        for of in self.followers.values():
            for after in of:
                missing[after] += 1
        ready = deque(node for node, count in missing.items() if count == 0)
        order: list[Node] = []
        while ready:
            node = ready.popleft()
            order.append(node)
            for after in self.followers[node]:
                missing[after] -= 1
                if missing[after] == 0:
                    ready.append(after)
        return order, missing

    def _closure(self) -> dict[Node, int]:
        after: dict[Node, int] = {}
        for node in reversed(self._order[0]):
            found = 0
            for follower in self.followers[node]:
                found |= after[follower]
                if follower.point == "start":
                    found |= self.bit[follower.op]
            after[node] = found
        return after


def holds_to_result(mode: Mode, workers: set[str]) -> bool:
    """Whether every thread of an op is busy until its result exists, so that what follows in its queues sees it."""
    return all(use.ticks == mode.latency_ticks for use in mode.uses if use.ticks > 0 and use.engine in workers)


def _edges(problem: Problem, plan: Plan) -> Iterator[tuple[Node, Node, str]]:
    """Yield what comes before what at once, and why."""
    ops = {op.name: op for op in problem.ops}
    workers = {engine.name for engine in problem.engines if engine.kind == "worker"}
    lasts = {a.op: holds_to_result(ops[a.op].modes[a.mode], workers) for a in plan.assignments}
    for name in ops:
        yield Node("start", name), Node("done", name), ""
        yield Node("done", name), Node("observed", name), ""
    modes = {a.op: ops[a.op].modes[a.mode] for a in plan.assignments}
    rings = {engine.name: engine.depth for engine in problem.engines if engine.depth is not None}
    for queue in plan.queues:
        for entry, follower in pairwise(queue.entries):
            yield _left(entry, lasts), _reached(follower), f"queue {queue.engine}[{queue.unit}]"
        for ring, depth in rings.items():
            for before, after in _full(queue, ring, depth, modes):
                yield Node("observed", before), Node("start", after), f"{ring} holds {depth}"
    for wait in plan.waits:
        yield Node("observed", wait.before), Node("start", wait.after), "wait"


def _full(queue: Queue, ring: str, depth: int, modes: dict[str, Mode]) -> Iterator[tuple[str, str]]:
    """Yield who is pushed into a full ring, and who must be taken off before there is room for it.

    The thread that pushes takes off later whatever it has pushed and not taken off before: so it waits for itself.
    """
    places = {
        op: mode.dma.descriptors
        for op, mode in modes.items()
        if mode.dma is not None and any(use.engine == ring and use.ticks > 0 for use in mode.uses)
    }
    inside: dict[str, int] = {}
    for k, entry in enumerate(queue.entries):
        if entry.action == "wait":
            inside.pop(entry.op, None)
        elif entry.op in places:
            inside[entry.op] = places[entry.op]
            over = sum(inside.values()) - depth
            for later in queue.entries[k + 1 :] if over > 0 else ():
                if later.action == "wait" and later.op in inside and later.op != entry.op:
                    over -= inside[later.op]
                    if over <= 0:
                        yield later.op, entry.op
                        break


def _left(entry: QueueEntry, lasts: dict[str, bool]) -> Node:
    """Return what has surely happened when the thread leaves ``entry``.

    Of a transfer only the issue: transfers complete in any order. Of a run that frees its thread early only the
    start; of any other run the result, and others may count on that as soon as it exists.
    """
    if entry.action == "wait" or (entry.action == "run" and lasts[entry.op]):
        return Node("observed", entry.op)
    return Node("start", entry.op)


def _reached(entry: QueueEntry) -> Node:
    """Return what cannot happen before the thread comes to ``entry``."""
    return Node("observed" if entry.action == "wait" else "start", entry.op)
