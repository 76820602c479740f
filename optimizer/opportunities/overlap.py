"""The best overlap of a graph, found by solving: part by part, where parts can only follow each other.

While an operator runs it uses each resource for a part of the time, its tiles between those of others: resources are
channels, and operators that together ask for more than there is slow each other. Orders are the graph's. That is a
problem as any other, and its plan passes the checker.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.formulations.flows import without_shares
from hexloom.formulations.greedy import Policy, list_schedule
from hexloom.formulations.problem import Buffer, Channel, Mode, Op, Precedence, Problem, Pull, Scratchpad
from hexloom.formulations.speeds import Speeds
from hexloom.optimizer.check import check_plan
from hexloom.optimizer.errors import CheckFailedError
from hexloom.optimizer.evaluate import evaluator
from hexloom.optimizer.opportunities.graph import RESOURCES, subgraph
from hexloom.optimizer.opportunities.pairs import saves_together
from hexloom.optimizer.opportunities.report import Solved
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.simulate import simulate
from hexloom.optimizer.solve import solve

if TYPE_CHECKING:
    from hexloom.optimizer.opportunities.graph import Graph, Needs
    from hexloom.optimizer.opportunities.pairs import Finder
    from hexloom.optimizer.opportunities.reach import Reach

Key = tuple[tuple[int, "Needs", tuple[int, ...], int], ...]
"""What makes two parts the same."""

CAPACITY = 10**6
"""Units of DDR bandwidth: demands are rounded down to a millionth."""

MOST_NAMED = 12
"""Overlapping pairs that are named, the longest overlap first."""

LEAST_S = 0.5
"""A search for fewer seconds is not begun, since to start it takes longer: the part is planned at once instead."""

MOST_SOLVED = 600
"""Operators of all parts that are solved, those that could save most first; the others get a list schedule."""

PIECE = 400
"""Operators of a larger part are listed so many at a time, one piece after the other, which takes less time."""


@dataclass(frozen=True)
class Placed:
    """Starts and ends of all nodes in nanoseconds from the start of the request, and what no order beats."""

    starts: tuple[Fraction, ...]
    ends: tuple[Fraction, ...]
    makespan: Fraction
    bound: Fraction
    groups: int
    largest: int


def problem_of(graph: Graph) -> Problem:
    """Return the problem of a graph; a tick is a nanosecond."""
    ops, edges, buffers = [], [], []
    for i, node in enumerate(graph.nodes):
        pulls = tuple(
            Pull(channel=name, rate=CAPACITY * ns // node.ns)
            for name, ns in zip(RESOURCES, node.needs, strict=True)
            if ns
        )
        ops.append(Op(name=f"n{i}", modes=(Mode(latency_ticks=node.ns, pulls=pulls),)))
        edges += [Precedence(before=f"n{p}", after=f"n{i}") for p in node.after]
        if node.vtcm_bytes:
            buffers.append(Buffer(name=f"b{i}", size_bytes=min(node.vtcm_bytes, graph.vtcm_bytes), ops=(f"n{i}",)))
    return Problem(
        name=graph.name,
        tick_us="1/1000",
        channels=tuple(Channel(name=name, capacity=CAPACITY) for name in RESOURCES),
        ops=tuple(ops),
        precedences=tuple(edges),
        buffers=tuple(buffers),
        scratchpad=Scratchpad(total_bytes=graph.vtcm_bytes),
    )


def place(graph: Graph, reach: Reach, seconds: float, seed: int) -> Placed:
    """Solve every part of ``graph`` that has something to overlap; equal parts once."""
    groups = reach.components()
    parts = [subgraph(graph, group) for group in groups]
    keys = [tuple((node.ns, node.needs, node.after, node.vtcm_bytes) for node in part.nodes) for part in parts]
    known = _solutions(parts, keys, seconds, seed)
    starts: list[Fraction] = [Fraction(0)] * len(graph.nodes)
    ends: list[Fraction] = [Fraction(0)] * len(graph.nodes)
    now, bound = Fraction(0), Fraction(0)
    for group, key in zip(groups, keys, strict=True):
        times, took, least = known[key]
        for i, (start, end) in zip(group, times, strict=True):
            starts[i], ends[i] = now + start, now + end
        now, bound = now + took, bound + least
    return Placed(tuple(starts), tuple(ends), now, bound, len(groups), max((len(g) for g in groups), default=0))


Part = tuple[list[tuple[Fraction, Fraction]], Fraction, Fraction]
"""Start and end of every node, the time of the part, and a bound on it."""


def _solutions(parts: list[Graph], keys: list[Key], seconds: float, seed: int) -> dict[Key, Part]:
    """Solve each kind of part once, those that could save most first, as long as there is time for a search."""
    times = Counter(keys)
    kinds = dict(zip(keys, parts, strict=True))
    hope = {key: part.ns - max(critical_ns(part), busiest_ns(part)) for key, part in kinds.items()}
    wanted = sorted((key for key in kinds if hope[key]), key=lambda key: -hope[key] * times[key])
    work = sum(len(key) for key in wanted) or 1
    known = {key: _in_a_row(part) for key, part in kinds.items() if not hope[key]}
    left, ops = seconds, MOST_SOLVED
    for key in wanted:
        if len(key) > ops:
            found = in_pieces(kinds[key])
        else:
            ops -= len(key)
            limit = max(LEAST_S, seconds * len(key) / work)
            limit = limit if limit <= left else 0.0
            left -= limit
            found = _solved(kinds[key], limit, seed)
        row = _in_a_row(kinds[key])
        best = found if found[1] <= row[1] else row
        known[key] = best[0], best[1], max(found[2], row[2])
    return known


def _in_a_row(part: Graph) -> Part:
    """Return the nodes one after the other; the bound is that of arithmetic."""
    found, now = [], Fraction(0)
    for node in part.nodes:
        found.append((now, now + node.ns))
        now += node.ns
    return found, now, Fraction(max(critical_ns(part), busiest_ns(part)))


def _solved(part: Graph, seconds: float, seed: int) -> Part:
    result = solve(problem_of(part), time_limit_s=seconds, seed=seed, explained=False)
    schedule = result.schedule
    if schedule is None:  # one after the other is always a plan
        raise CheckFailedError(f"{part.name}: no order of its operators was found")
    rows = {row.op: (Fraction(row.start), Fraction(row.done)) for row in schedule.rows}
    return [rows[f"n{i}"] for i in range(len(part.nodes))], Fraction(schedule.makespan), Fraction(schedule.lower_bound)


def in_pieces(part: Graph) -> Part:
    """Return list schedules of `PIECE` operators each, one after the other: those first that could start first."""
    heads: list[int] = []
    for node in part.nodes:
        heads.append(max((heads[p] + part.nodes[p].ns for p in node.after), default=0))
    order = sorted(range(len(part.nodes)), key=lambda i: (heads[i], i))
    times: list[tuple[Fraction, Fraction]] = [(Fraction(0), Fraction(0))] * len(part.nodes)
    now = Fraction(0)
    for first in range(0, len(order), PIECE):
        members = order[first : first + PIECE]
        piece = subgraph(part, members)
        found, row = listed(piece), _in_a_row(piece)
        best = found if found[1] <= row[1] else row
        for i, (start, end) in zip(members, best[0], strict=True):
            times[i] = now + start, now + end
        now += best[1]
    return times, now, _in_a_row(part)[2]


def listed(part: Graph) -> Part:
    """Return a list schedule, the longest rest of a chain first.

    It is the better one of two: no resource is asked for more than there is, or operators slow each other.
    """
    problem, row = problem_of(part), _in_a_row(part)
    rest = [0] * len(part.nodes)
    for i in range(len(part.nodes) - 1, -1, -1):
        rest[i] = part.nodes[i].ns + max((rest[k] for k in problem.successors[i]), default=0)
    policy = Policy(priority=tuple(map(float, rest)), modes=(0,) * len(part.nodes))
    apart = list_schedule(problem.with_rigid_channels(), policy)
    freely = list_schedule(problem, policy, Speeds(problem, "fluid"))
    judge = evaluator("fluid")
    found = [] if apart is None else [without_shares(problem, apart)]
    decision = min(
        (*found, *([] if freely is None else [freely])), key=lambda one: judge(problem, one).makespan, default=None
    )
    if decision is None:
        return row
    plan = make_plan(problem, decision)
    violations = check_plan(problem, plan)
    if violations:
        raise CheckFailedError(f"{part.name}: {violations[0].message}")
    timeline = simulate(problem, plan, "fluid")
    times = [timeline.times[op.name] for op in problem.ops]
    return [(Fraction(t.start), Fraction(t.done)) for t in times], Fraction(timeline.makespan), row[2]


def critical_ns(graph: Graph) -> int:
    """Return the longest chain of operators."""
    ends: list[int] = []
    for node in graph.nodes:
        ends.append(node.ns + max((ends[p] for p in node.after), default=0))
    return max(ends, default=0)


def busiest_ns(graph: Graph) -> int:
    """Return the time of the resource that all operators together need most."""
    return max(sum(node.needs[r] for node in graph.nodes) for r in range(len(RESOURCES)))


def repeated(one: Placed, times: int) -> Placed:
    """Return copies of a graph one after the other, each as in ``one``."""
    shifts = [k * one.makespan for k in range(times)]
    return Placed(
        tuple(start + shift for shift in shifts for start in one.starts),
        tuple(end + shift for shift in shifts for end in one.ends),
        times * one.makespan,
        Fraction(0),
        1,
        times * len(one.starts),
    )


def solved(graph: Graph, finder: Finder, found: Placed) -> Solved:
    """Return an overlap with its bound, and what it asks of memory."""
    serial = graph.ns
    bound = max(found.bound, Fraction(critical_ns(graph)), Fraction(busiest_ns(graph)))
    pairs = _overlaps(graph, found)
    named = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:MOST_NAMED]
    before, after, broken = _memory(graph, found, pairs)
    return Solved(
        status="OPTIMAL" if found.makespan == bound else "FEASIBLE",
        serial_us=serial / 1000,
        makespan_us=_us(found.makespan),
        lower_bound_us=_us(bound),
        saves_us=_us(serial - found.makespan),
        saves=float((serial - found.makespan) / serial),
        saves_at_most=float((serial - bound) / serial),
        groups=found.groups,
        largest=found.largest,
        pairs=tuple(
            finder.pair(i, j, saves_together(graph, i, j), finder.reach.last_before(j) < i, _us(pairs[i, j]))
            for i, j in named
        ),
        activation_bytes_serial=before,
        activation_bytes=after,
        broken_by_reuse=broken,
    )


def _us(ns: Fraction | int) -> float:
    return round(float(Fraction(ns) / 1000), 6)


def _overlaps(graph: Graph, found: Placed) -> dict[tuple[int, int], Fraction]:
    """Return the pairs that run at the same time and gain by it, in today's order, and for how long."""
    order = sorted((i for i, node in enumerate(graph.nodes) if node.ns), key=lambda i: found.starts[i])
    pairs: dict[tuple[int, int], Fraction] = {}
    active: list[int] = []
    for i in order:
        active = [j for j in active if found.ends[j] > found.starts[i]]
        for j in active:
            if saves_together(graph, i, j):
                pairs[min(i, j), max(i, j)] = min(found.ends[i], found.ends[j]) - found.starts[i]
        active.append(i)
    return pairs


def _memory(graph: Graph, found: Placed, pairs: dict[tuple[int, int], Fraction]) -> tuple[int, int, int]:
    """Return the most activation bytes alive today and in the new order, and the pairs that today's reuse forbids.

    Today's addresses are those of a first fit over lives in the serial order; a pair is broken where the later one
    writes where something lies that the earlier one reads or writes.
    """
    n = len(graph.nodes)
    readers: list[list[int]] = [[] for _ in range(n)]
    for i, node in enumerate(graph.nodes):
        for p in node.after:
            readers[p].append(i)
    last = [max([i, *readers[i]]) for i in range(n)]
    address, before = _first_fit(graph, last)
    changes: list[tuple[Fraction, int, int]] = []
    for i, node in enumerate(graph.nodes):
        if node.out_bytes:
            changes.append((found.starts[i], 1, node.out_bytes))
            changes.append((max(found.ends[k] for k in (i, *readers[i])), 0, -node.out_bytes))
    alive = most = 0
    for _, _, change in sorted(changes):
        alive += change
        most = max(most, alive)
    broken = 0
    for i, j in pairs:
        used = [k for k in (i, *graph.nodes[i].after) if graph.nodes[k].out_bytes]
        a, size = address[j], graph.nodes[j].out_bytes
        broken += any(a < address[k] + graph.nodes[k].out_bytes and address[k] < a + size for k in used if size)
    return before, most, broken


def _first_fit(graph: Graph, last: list[int]) -> tuple[list[int], int]:
    """Return an address per output for lives in the serial order, and the most bytes alive at a time."""
    address = [0] * len(graph.nodes)
    alive: list[tuple[int, int, int]] = []  # address, end, last use
    most = 0
    for i, node in enumerate(graph.nodes):
        alive = sorted(entry for entry in alive if entry[2] >= i)
        at = 0
        for start, end, _ in alive:
            if start - at >= node.out_bytes:
                break
            at = max(at, end)
        address[i] = at
        if node.out_bytes:
            alive.append((at, at + node.out_bytes, last[i]))
        most = max(most, sum(end - start for start, end, _ in alive))
    return address, most
