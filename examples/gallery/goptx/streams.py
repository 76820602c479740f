"""Two instruction streams on one issue slot: as two warps that switch at stalls, and merged into one stream."""

from __future__ import annotations

from typing import Any

from hexloom import Workload, solve

MULTIPLY, LOAD = 4, 30
"""Cycles until a result can be used: a multiply-add, and a load from shared memory (ours, about an A100's)."""

SWITCH = 4
"""Cycles of a switch between warps: about one multiply (published)."""

Instruction = tuple[str, int, tuple[str, ...]]
"""Its value, its latency, the values it reads."""


def streams(count: int) -> dict[str, list[Instruction]]:
    """Return a stream that loads, multiplies and adds up, and one that multiplies in four chains."""
    gather: list[Instruction] = []
    for k in range(count):
        gather += [(f"x{k}", LOAD, ()), (f"y{k}", MULTIPLY, (f"x{k}",)), (f"s{k}", MULTIPLY, (f"y{k}", f"s{k - 1}"))]
    chains: list[Instruction] = [
        (f"c{j}.{k}", MULTIPLY, (f"c{j}.{k - 1}",)) for k in range(4 * count) for j in range(4)
    ]
    return {"gather": gather, "chains": chains}


def alone(stream: list[Instruction]) -> int:
    """Return the cycles of one stream in its order, one instruction a cycle."""
    return two_warps([stream])


def two_warps(given: list[list[Instruction]]) -> int:
    """Return the cycles of warps that each go in order; the slot is given to another one at a stall, for SWITCH."""
    at, ready, now, warp = [0] * len(given), dict[str, int](), 0, 0

    def due(w: int) -> int:
        _, _, reads = given[w][at[w]]
        return max((ready.get(value, 0) for value in reads), default=0)

    while True:
        left = [w for w in range(len(given)) if at[w] < len(given[w])]
        if not left:
            return max(ready.values())
        if warp not in left or due(warp) > now:
            other = min(left, key=due)
            now = max(now, due(other)) + (SWITCH if other != warp else 0)
            warp = other
        value, latency, _ = given[warp][at[warp]]
        ready[value] = now + latency
        at[warp] += 1
        now += 1


def merged(given: dict[str, list[Instruction]], registers: int | None) -> float:
    """Return the cycles of the best order of all instructions on the slot, with so many registers.

    A value holds one from the issue of its instruction to the end of the last that reads it.
    """
    tasks: list[dict[str, Any]] = []
    for name, stream in given.items():
        known = {value for value, _, _ in stream}
        ops = [
            {
                "name": value,
                "engine": "slot",
                "duration_us": 1,
                "latency_us": latency,
                "after": [read for read in reads if read in known],
                "buffers": [f"r.{v}" for v in (value, *reads) if v in known] if registers else [],
            }
            for value, latency, reads in stream
        ]
        held = [{"name": f"r.{value}", "size_bytes": 4, "pool": "registers"} for value in known] if registers else []
        tasks.append({"name": name, "ops": ops, "buffers": sorted(held, key=lambda b: str(b["name"]))})
    pools = [{"name": "registers", "size_bytes": 4 * registers}] if registers else []
    data = {
        "name": "goptx",
        "hw": "h100-sm",
        "engines": [{"name": "slot", "kind": "worker"}],
        "pools": pools,
        "tasks": tasks,
    }
    result = solve(Workload.from_data(data), seed=1, time_limit_s=0.3)
    assert result.makespan_us is not None
    return float(result.makespan_us)


def measure(count: int) -> dict[str, float]:
    """Return the cycles of both kernels, ``count`` rounds each: in turn, as two warps, and merged."""
    given = streams(count)
    return {
        "apart": sum(alone(stream) for stream in given.values()),
        "two_warps": two_warps(list(given.values())),
        "merged": merged(given, None),
    }


def with_registers(count: int, registers: int) -> dict[str, float]:
    """Return the cycles of the merged kernels with so many registers."""
    return {"merged": merged(streams(count), registers)}
