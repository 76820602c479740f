"""The topological order that needs the fewest bytes, beside the order of the graph."""

from __future__ import annotations

from hexloom.formulations.problem import Buffer, Mode, Op, Precedence, Problem, Scratchpad
from hexloom.formulations.serial_order import least_bytes

BRANCHES, KIB = 4, 1024
LARGE, SMALL = 512 * KIB, 64 * KIB


def problem() -> Problem:
    """Return branches that each widen to LARGE and end at SMALL, in an order that goes through them breadth first."""
    ops, edges, buffers = [], [], []
    for stage in ("widen", "narrow"):
        for b in range(BRANCHES):
            ops.append(Op(name=f"{stage}{b}", modes=(Mode(latency_ticks=1),)))
    ops.append(Op(name="join", modes=(Mode(latency_ticks=1),)))
    for b in range(BRANCHES):
        edges += [Precedence(before=f"widen{b}", after=f"narrow{b}"), Precedence(before=f"narrow{b}", after="join")]
        buffers += [
            Buffer(name=f"wide{b}", size_bytes=LARGE, ops=(f"widen{b}", f"narrow{b}")),
            Buffer(name=f"end{b}", size_bytes=SMALL, ops=(f"narrow{b}", "join")),
        ]
    return Problem(
        ops=tuple(ops), precedences=tuple(edges), buffers=tuple(buffers), scratchpad=Scratchpad(total_bytes=1)
    )


def measure() -> dict[str, float]:
    """Return the KiB of both orders."""
    graph = problem()
    at = graph.op_index
    alive = [
        sum(b.size_bytes for b in graph.buffers if min(at[o] for o in b.ops) <= k <= max(at[o] for o in b.ops))
        for k in range(len(graph.ops))
    ]
    return {"as_written": max(alive) / KIB, "least": least_bytes(graph) / KIB}
