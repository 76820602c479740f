"""From a graph to the whole report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexloom.optimizer.opportunities.graph import checked, part_of, side_by_side
from hexloom.optimizer.opportunities.kinds import ATTENTION, ELEMENTS, GGML, MATRIX, NORM
from hexloom.optimizer.opportunities.overlap import place, repeated, solved
from hexloom.optimizer.opportunities.pairs import Finder
from hexloom.optimizer.opportunities.reach import Reach
from hexloom.optimizer.opportunities.report import KindShare, Opportunities, Pairs, Reason, Solved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.opportunities.graph import Graph
    from hexloom.optimizer.opportunities.overlap import Placed

LITTLE = 0.02
"""Part of a request below which the verdict says that little is to be had."""

CANDIDATE = (
    "candidates: no addresses are known, and ggml's allocator reuses memory in the serial order; each pair needs an "
    "address-range check"
)
FREE = "tensors are written once; a runtime that reuses activation memory in the serial order must give pairs their own"

SEVERAL_SHARE = 0.5
"""Part of the time for several requests."""


def find(
    graph: Graph, machine: Machine, *, requests: int = 1, time_limit_s: float = 10.0, seed: int = 1
) -> Opportunities:
    """Return what is to be had in ``graph`` on ``machine``, in one request and in several at a time.

    Parameters
    ----------
    graph
        From `from_log`, `from_onnx` or `from_gguf`; of a log every run is looked at alone, and added up.
    machine
        Where it runs.
    requests
        Independent copies that are looked at together, in a report of their own.
    time_limit_s
        For solving, in all; counted in work.
    seed
        Of the solver.

    Raises
    ------
    InvalidInputError
        The graph is empty or too large.
    """
    checked(graph)
    runs = [*graph.runs] or [len(graph.nodes)]
    parts = [part_of(graph, first, end) for first, end in zip([0, *runs], runs, strict=False)]
    parts = [part for part in parts if part.ns]
    share = time_limit_s * (1 - (SEVERAL_SHARE if requests > 1 else 0))
    seen: dict[object, tuple[Finder, Pairs, Solved, Placed]] = {}
    found: list[tuple[Finder, Pairs, Solved, Placed]] = []
    for part in parts:
        key = tuple((node.ns, node.needs, node.after, node.vtcm_bytes) for node in part.nodes)
        if key not in seen:
            reach = Reach(part)
            finder = Finder(part, reach)
            counted = finder.pairs()
            placed = place(part, reach, share * part.ns / graph.ns, seed)
            seen[key] = finder, counted, solved(part, finder, placed), placed
        found.append(seen[key])
    one = added([each[2] for each in found])
    largest = max(found, key=lambda each: each[2].saves_us)[0]
    several = None
    if requests > 1:
        longest, alone = max(zip(parts, found, strict=True), key=lambda pair: pair[0].ns)
        together = side_by_side(longest, requests)
        reach = Reach(together)
        placed = place(together, reach, time_limit_s * SEVERAL_SHARE, seed)
        apart = repeated(alone[3], requests)  # at worst requests follow each other, each as it is best alone
        if apart.makespan < placed.makespan:
            placed = replace(apart, bound=placed.bound, groups=placed.groups, largest=placed.largest)
        several = solved(together, Finder(together, reach), placed)
    return Opportunities(
        name=graph.name,
        source=graph.kind,
        machine=machine.name,
        measured=graph.measured,
        operators=len(graph.nodes),
        total_us=graph.ns / 1000,
        kinds=kinds(graph),
        pairs=pairs_added([each[1] for each in found], parts),
        best_pairs=largest.named(),
        sets=largest.sets(),
        one=one,
        requests=requests,
        several=several,
        hazards=FREE if graph.addresses_known else CANDIDATE,
        verdict=verdict(one),
        notes=graph.notes,
    )


def of_totals(name: str, machine: Machine, rows: Sequence[tuple[str, int, int]], total_ns: int) -> Opportunities:
    """Return what sums of a profile say: no pairs, but the most that hiding all of one kind of operators saves.

    Parameters
    ----------
    name, machine
        What was profiled, and the machine that was named.
    rows
        For every kind its name, count and nanoseconds.
    total_ns
        Nanoseconds of all operators.
    """
    shares = tuple(
        KindShare(op=op, count=count, us=ns / 1000, share=ns / total_ns)
        for op, count, ns in sorted(rows, key=lambda row: (-row[2], row[0]))
    )
    small = [row for row in shares if GGML.get(row.op.split("+")[0], ELEMENTS) not in (MATRIX, ATTENTION)]
    norms = [row for row in small if GGML.get(row.op.split("+")[0]) == NORM]
    said = f"hiding all vector and copy operators saves at most {sum(row.share for row in small):.1%} of the request"
    if norms:
        said += f", the norms at most {sum(row.share for row in norms):.1%}"
    return Opportunities(
        name=name,
        source="totals",
        machine=machine.name,
        measured=True,
        operators=sum(row.count for row in shares),
        total_us=total_ns / 1000,
        kinds=shares,
        verdict=f"sums only, so no pair is known: {said}",
    )


def kinds(graph: Graph) -> tuple[KindShare, ...]:
    """Return the time of every kind of operator, the largest share first."""
    total = graph.ns
    sums: dict[str, tuple[int, int]] = {}
    for node in graph.nodes:
        count, ns = sums.get(node.op, (0, 0))
        sums[node.op] = count + 1, ns + node.ns
    return tuple(
        KindShare(op=op, count=count, us=ns / 1000, share=ns / total)
        for op, (count, ns) in sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
        if ns
    )


def added(parts: Sequence[Solved]) -> Solved:
    """Return runs one after the other as one."""
    serial = sum(part.serial_us for part in parts)
    makespan = sum(part.makespan_us for part in parts)
    bound = sum(part.lower_bound_us for part in parts)
    best = max(parts, key=lambda part: part.saves_us)
    return Solved(
        status="OPTIMAL" if all(part.status == "OPTIMAL" for part in parts) else "FEASIBLE",
        serial_us=round(serial, 6),
        makespan_us=round(makespan, 6),
        lower_bound_us=round(bound, 6),
        saves_us=round(serial - makespan, 6),
        saves=(serial - makespan) / serial,
        saves_at_most=(serial - bound) / serial,
        groups=sum(part.groups for part in parts),
        largest=max(part.largest for part in parts),
        pairs=best.pairs,
        activation_bytes_serial=max(part.activation_bytes_serial for part in parts),
        activation_bytes=max(part.activation_bytes for part in parts),
        broken_by_reuse=sum(part.broken_by_reuse for part in parts),
    )


def pairs_added(parts: Sequence[Pairs], graphs: Sequence[Graph]) -> Pairs:
    """Return the counts of runs added up, and shares weighted by the time of each."""
    total = sum(graph.ns for graph in graphs)

    def share(values: Sequence[float]) -> float:
        return sum(value * graph.ns for value, graph in zip(values, graphs, strict=True)) / total

    reasons: dict[Reason, int] = {key: sum(part.reasons[key] for part in parts) for key in parts[0].reasons}
    return Pairs(
        nodes=sum(part.nodes for part in parts),
        pairs=sum(part.pairs for part in parts),
        independent=sum(part.independent for part in parts),
        ready=sum(part.ready for part in parts),
        complementary=sum(part.complementary for part in parts),
        complementary_ready=sum(part.complementary_ready for part in parts),
        reasons=reasons,
        coverage=share([part.coverage for part in parts]),
        coverage_ready=share([part.coverage_ready for part in parts]),
        uncovered={key: share([part.uncovered[key] for part in parts]) for key in parts[0].uncovered},
    )


def verdict(one: Solved) -> str:
    """Say in one line what a request can gain."""
    most = f"no order saves more than {one.saves_at_most:.1%}"
    if one.saves_at_most < LITTLE:
        return f"little is to be had inside one request: {most}"
    if one.saves < LITTLE:
        return f"little was found inside one request: {one.saves:.1%}; {most}"
    return f"overlap inside one request saves {one.saves:.1%}; {most}"
