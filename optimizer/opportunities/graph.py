"""A graph of operators with what each needs of every resource: the common form of logs, ONNX models and GGUF files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

RESOURCES = ("hmx", "hvx", "ddr")
"""What operators compete for: the matrix unit, the vector contexts as one, and the bytes per second of DDR."""

Needs = tuple[int, int, int]
"""Nanoseconds that an operator keeps each of `RESOURCES` busy, never more than it takes itself."""

MOST_NODES = 50_000
"""Nodes of a graph: who precedes whom takes a bit per pair."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator: ``ns`` alone, as it runs today or as the machine file says.

    ``after`` are the positions of nodes that it must follow. ``vtcm_bytes`` is the least scratchpad that it works with,
    ``out_bytes`` what it writes to DDR for others.
    """

    name: str
    op: str
    ns: int
    needs: Needs
    after: tuple[int, ...] = ()
    vtcm_bytes: int = 0
    out_bytes: int = 0

    @property
    def resource(self) -> str | None:
        """Name of the resource that it needs most; None where it is no work."""
        if not self.ns or not any(self.needs):
            return None
        return RESOURCES[max(range(len(RESOURCES)), key=lambda r: (self.needs[r], -r))]


@dataclass(frozen=True)
class Graph:
    """Operators in the order in which they run today, those of one request or of several.

    ``kind`` is where they come from, ``measured`` whether their times were. ``runs`` are the ends of parts that run one
    after the other whatever happens, such as the tokens of a log. ``addresses_known``: whether it is known which
    tensors share memory; where it is not, every pair is a candidate only.
    """

    name: str
    kind: Literal["ggml", "onnx", "gguf", "totals"]
    nodes: tuple[Node, ...]
    measured: bool = False
    addresses_known: bool = True
    runs: tuple[int, ...] = ()
    vtcm_bytes: int = 0
    notes: tuple[str, ...] = ()

    @property
    def ns(self) -> int:
        """Time of all operators one after the other."""
        return sum(node.ns for node in self.nodes)


def checked(graph: Graph) -> Graph:
    """Return ``graph``; every node follows earlier ones only.

    Raises
    ------
    InvalidInputError
        It has too many nodes, or none that is work.
    """
    if len(graph.nodes) > MOST_NODES:
        raise InvalidInputError(
            f"{graph.name}: {len(graph.nodes):,} operators, above the limit {MOST_NODES:,}; give a part of it"
        )
    for i, node in enumerate(graph.nodes):
        if any(not 0 <= p < i for p in node.after):
            raise InvalidInputError(f"{graph.name}: operator {node.name!r} follows one that comes later")
        if any(need > node.ns for need in node.needs) or min(node.needs) < 0:
            raise InvalidInputError(f"{graph.name}: operator {node.name!r} keeps a resource busy longer than it takes")
    if not graph.ns:
        raise InvalidInputError(f"{graph.name}: no operator takes any time; there is nothing to overlap")
    return graph


def side_by_side(graph: Graph, requests: int) -> Graph:
    """Return ``requests`` independent copies of the graph, as one after the other run today."""
    nodes: list[Node] = []
    for k in range(requests):
        base = len(nodes)
        nodes += [
            replace(node, name=f"{node.name} #{k + 1}", after=tuple(base + p for p in node.after))
            for node in graph.nodes
        ]
    return replace(graph, name=f"{requests} x {graph.name}", nodes=tuple(nodes), runs=())


def part_of(graph: Graph, first: int, end: int) -> Graph:
    """Return the nodes from ``first`` to ``end`` as a graph of their own."""
    nodes = [replace(node, after=tuple(p - first for p in node.after if p >= first)) for node in graph.nodes[first:end]]
    return replace(graph, nodes=tuple(nodes), runs=())


def subgraph(graph: Graph, members: Sequence[int]) -> Graph:
    """Return some nodes, in the order of the graph, with the orders among them (direct ones only)."""
    place = {old: new for new, old in enumerate(members)}
    nodes = [
        replace(graph.nodes[i], after=tuple(place[p] for p in graph.nodes[i].after if p in place)) for i in members
    ]
    return replace(graph, nodes=tuple(nodes), runs=())
