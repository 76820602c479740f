"""Rammer's wavefront policy as a baseline, on a module of two branches, and the best plan beside it."""

from __future__ import annotations

from hexloom import solve
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use

UNITS = 4
OPERATORS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    # rTasks, ticks of each, operators before it
    "conv_a": (4, 5, ()),
    "pool_b": (1, 3, ()),
    "conv_b": (2, 4, ("pool_b",)),
    "relu_b": (2, 1, ("conv_b",)),
    "conv_a2": (4, 5, ("conv_a",)),
    "conv_b2": (3, 4, ("relu_b",)),
    "concat": (4, 1, ("conv_a2", "conv_b2")),
}
"""Short of published operator times, a module in the manner of NASBench with times of one digit."""


def waves() -> list[list[str]]:
    """Return the operators by their depth."""
    depth: dict[str, int] = {}
    for name, (_, _, before) in OPERATORS.items():
        depth[name] = 1 + max((depth[other] for other in before), default=-1)
    return [[name for name in OPERATORS if depth[name] == d] for d in range(max(depth.values()) + 1)]


def wavefront(*, global_barrier: bool) -> int:
    """Return the ticks of wave after wave, each rTask on the unit that is available first.

    An rTask waits for the operators before its own, or, with ``global_barrier``, for the whole wave before.
    """
    free, ends = [0] * UNITS, dict.fromkeys(OPERATORS, 0)
    for wave in waves():
        barrier = max(ends.values())
        for name in wave:
            count, ticks, before = OPERATORS[name]
            ready = barrier if global_barrier else max((ends[other] for other in before), default=0)
            for _ in range(count):
                unit = free.index(min(free))
                free[unit] = max(free[unit], ready) + ticks
                ends[name] = max(ends[name], free[unit])
    return max(ends.values())


def problem() -> Problem:
    """Return every rTask as an op on one of the units."""
    ops, edges = [], []
    for name, (count, ticks, before) in OPERATORS.items():
        mode = Mode(uses=(Use(engine="veu", ticks=ticks),), latency_ticks=ticks)
        for k in range(count):
            ops.append(Op(name=f"{name}.{k}", modes=(mode,)))
            edges += [
                Precedence(before=f"{other}.{j}", after=f"{name}.{k}")
                for other in before
                for j in range(OPERATORS[other][0])
            ]
    return Problem(engines=(Engine(name="veu", units=UNITS),), ops=tuple(ops), precedences=tuple(edges))


def measure() -> dict[str, float | str]:
    """Return the ticks of both policies and of the best plan."""
    result = solve(problem(), seed=1, time_limit_s=1)
    assert result.makespan_us is not None
    return {
        "global_barriers": wavefront(global_barrier=True),
        "wavefront": wavefront(global_barrier=False),
        "best": float(result.makespan_us),
        "status": result.status,
    }
