"""All ranks send to all ranks: in the same order, and in the order that the plan finds."""

from __future__ import annotations

from hexloom import Workload, solve


def measure(ranks: int) -> dict[str, float | str]:
    """Return the steps of both, where a rank sends one block at a time and takes one in at a time."""
    ops = [
        {"name": f"{sender}.to.{to}", "engine": f"out{sender}", "duration_us": 1, "also": {f"in{to}": 1}}
        for sender in range(ranks)
        for to in range(ranks)
    ]
    engines = [{"name": f"{way}{k}"} for way in ("in", "out") for k in range(ranks)]
    data = {"name": "ranks", "hw": "ascend-910", "engines": engines, "tasks": [{"name": "exchange", "ops": ops}]}
    result = solve(Workload.from_data(data), seed=1, time_limit_s=0.3)
    assert result.schedule is not None and result.makespan_us is not None
    existing = result.schedule.baselines["existing"]
    assert existing is not None
    return {
        "same_order": float(result.schedule.us(existing)),
        "planned": float(result.makespan_us),
        "status": result.status,
    }
