"""Two models side by side, kernel by kernel: one after the other, by Orion's rule, and by a plan.

``resnet50_4_fwd.csv`` and ``mobilenetv2_4_fwd.csv`` are columns of benchmarking/model_kernels of eth-easl/orion
(aded65d, MIT licence, copyright 2023 ETH Zurich): class (1 compute, 0 memory, -1 unknown), SMs, nanoseconds.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from hexloom import solve
from hexloom.formulations.problem import Engine, Mode, Op, Precedence, Problem, Use

FOLDER = Path(__file__).resolve().parent
SMS = 80
THRESHOLD = SMS
"""SMs that a best-effort kernel may ask for beside another one, exclusive: where the search for it may end."""

COMPUTE, MEMORY = 1, 0


@dataclass(frozen=True)
class Kernel:
    """One launch."""

    profile: int
    sms: int
    ns: int


def kernels(name: str, count: int | None = None) -> list[Kernel]:
    """Return the first ``count`` kernels of a model, all without it."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        found = [Kernel(*(int(row[key]) for key in ("profile", "sms", "ns"))) for row in csv.DictReader(file)]
    return found[:count]


def table(model: str) -> dict[str, float]:
    """Return what the published table says of a model: kernels, milliseconds, shares of classes."""
    found = kernels(model)
    total = sum(kernel.ns for kernel in found)
    share = {p: sum(k.ns for k in found if k.profile == p) / total for p in (COMPUTE, MEMORY)}
    return {"kernels": len(found), "ms": total / 1e6, "compute": share[COMPUTE], "memory": share[MEMORY]}


def may_join(running: Kernel | None, best_effort: Kernel) -> bool:
    """Orion's rule: nobody else is there, or it is small and its class is the other one or unknown."""
    if running is None:
        return True
    known = -1 not in (running.profile, best_effort.profile)
    return best_effort.sms < THRESHOLD and (not known or running.profile != best_effort.profile)


def by_rule(first: list[Kernel], second: list[Kernel]) -> int:
    """Return the nanoseconds of ``first``, which never waits, with ``second`` let in at its own or its starts."""
    ends, now, free = [], 0, 0
    for kernel in first:
        ends.append((now, now + kernel.ns, kernel))
        now += kernel.ns
    for kernel in second:
        at = free
        while True:
            beside = [k for start, end, k in ends if start < at + kernel.ns and at < end]
            if all(may_join(k, kernel) for k in beside):
                break
            at = min(end for start, end, k in ends if end > at and not may_join(k, kernel))
        free = at + kernel.ns
    return max(now, free)


def problem(first: list[Kernel], second: list[Kernel]) -> Problem:
    """Return both chains under the same rule: two of a class share no time, a large best-effort kernel shares none."""
    ops, edges = [], []
    for name, chain in (("first", first), ("second", second)):
        for k, kernel in enumerate(chain):
            large = name == "second" and kernel.sms >= THRESHOLD
            uses = [Use(engine="room", ticks=kernel.ns, units=2 if large else 1)]
            if kernel.profile >= 0:
                uses.append(Use(engine=("memory", "compute")[kernel.profile], ticks=kernel.ns))
            ops.append(Op(name=f"{name}.{k}", task=name, modes=(Mode(uses=tuple(uses), latency_ticks=kernel.ns),)))
            if k:
                edges.append(Precedence(before=f"{name}.{k - 1}", after=f"{name}.{k}"))
    engines = (Engine(name="room", units=2, kind="resource"), *(Engine(name=n) for n in ("memory", "compute")))
    return Problem(name="orion", tick_us="1/1000", engines=engines, ops=tuple(ops), precedences=tuple(edges))


def pair(count: int, seconds: float) -> dict[str, float | str]:
    """Return microseconds of the first ``count`` kernels of both models, all with 0, in all three ways."""
    first, second = (kernels(name, count or None) for name in ("resnet50_4_fwd", "mobilenetv2_4_fwd"))
    result = solve(problem(first, second), seed=1, time_limit_s=seconds)
    assert result.makespan_us is not None and result.lower_bound_us is not None
    return {
        "serial": sum(kernel.ns for kernel in (*first, *second)) / 1000,
        "rule": by_rule(first, second) / 1000,
        "planned": float(result.makespan_us),
        "bound": float(result.lower_bound_us),
        "status": result.status,
    }
