"""Host staging of the next operator under device work on the current one: a flow shop of two machines."""

from __future__ import annotations

from hexloom import Workload, solve

Operator = tuple[int, int]
"""(microseconds of staging on the host, microseconds on the device)."""


def flow(operators: list[Operator]) -> int:
    """Return when the last one ends in the given order: staged in turn, run in turn."""
    staged = done = 0
    for stage, run in operators:
        staged += stage
        done = max(done, staged) + run
    return done


def johnson(operators: list[Operator]) -> list[Operator]:
    """Return the best order of independent operators (Johnson 1954)."""
    first = sorted((o for o in operators if o[0] < o[1]), key=lambda o: o[0])
    return first + sorted((o for o in operators if o[0] >= o[1]), key=lambda o: -o[1])


def planned(operators: list[Operator], *, chained: bool) -> tuple[float, str]:
    """Return the time of the best plan, and whether it is proven; ``chained``: the device keeps their order."""
    ops = []
    for k, (stage, run) in enumerate(operators):
        before = [f"run{k - 1}"] if chained and k else []
        ops.append({"name": f"stage{k}", "engine": "host", "duration_us": stage})
        ops.append({"name": f"run{k}", "engine": "npu", "duration_us": run, "after": [f"stage{k}", *before]})
    engines = [{"name": "host"}, {"name": "npu"}]
    task = {"name": "operators", "ops": ops}
    data = {"name": "llada", "hw": "hexagon-v79", "engines": engines, "tasks": [task]}
    result = solve(Workload.from_data(data), seed=1, time_limit_s=0.3)
    assert result.makespan_us is not None
    return float(result.makespan_us), result.status


def measure(operators: list[list[int]]) -> dict[str, float | str]:
    """Return the times of a chain of operators, and of the same as independent ones."""
    given = [(stage, run) for stage, run in operators]
    chain, status = planned(given, chained=True)
    free, free_status = planned(given, chained=False)
    return {
        "serial": sum(stage + run for stage, run in given),
        "overlapped": flow(given),
        "chain": chain,
        "status": status,
        "johnson": flow(johnson(given)),
        "free": free,
        "free_status": free_status,
    }
