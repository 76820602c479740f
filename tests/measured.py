"""Runs of a plan, as if measured: the simulator with other durations, written as the runtime writes them."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexloom.optimizer.simulate import OpTimes, simulate
from hexloom.optimizer.traces.match import modes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.problem import Mode, Op
    from hexloom.optimizer.schedule import Schedule


def rerun(schedule: Schedule, factor: Callable[[Op], Fraction] | None = None) -> dict[str, OpTimes[Any]]:
    """Return what the simulator says of the plan when the work of each op takes ``factor`` times as long."""
    modes = modes_of(schedule)
    ops = []
    for op in schedule.problem.ops:
        by = Fraction(1) if factor is None else factor(op)
        ops.append(op.model_copy(update={"modes": (_longer(modes[op.name], by),)}))
    assignments = tuple(a.model_copy(update={"mode": 0}) for a in schedule.plan.assignments)
    plan = schedule.plan.model_copy(update={"assignments": assignments})
    problem = schedule.problem.model_copy(update={"ops": tuple(ops)})
    return simulate(problem, plan, schedule.contention).times


def _longer(mode: Mode, by: Fraction) -> Mode:
    uses = tuple(use.model_copy(update={"ticks": round(use.ticks * by)}) for use in mode.uses)
    return mode.model_copy(update={"uses": uses, "latency_ticks": round(mode.latency_ticks * by)})


def written(schedule: Schedule, runs: list[dict[str, OpTimes[Any]]], khz: int | None = None, exact: bool = True) -> str:
    """Return `hexloom.trace/1` of these runs, in nanoseconds, or in cycles of ``khz``."""
    tick_us = schedule.problem.tick or Fraction(1)
    scale = tick_us * (1000 if khz is None else Fraction(khz, 1000))
    modes = modes_of(schedule)
    units = list(dict.fromkeys((queue.engine, queue.unit) for queue in schedule.plan.queues)) or [("none", 0)]
    first = {engine: k for k, (engine, _) in reversed(list(enumerate(units)))}
    keys = ("start_ns", "end_ns") if khz is None else ("start", "end")
    records = []
    for k, times in enumerate(runs):
        origin = 10**15 + k * 10**10

        def at(ticks: Any, origin: int = origin) -> int:
            return origin + round(ticks * scale)

        for name, t in times.items():
            mode = modes[name]
            if mode.dma is None:
                owner = mode.uses[0].engine if mode.uses else ""
                phases = [("run", t.start, t.done)]
            else:
                owner = mode.dma.owner_engine
                phases = [
                    ("start", t.start, t.end),
                    ("transfer", t.transfer_start, t.done if exact else t.observed),
                    ("observe", t.wait_start, t.observed),
                ]
            for phase, start, end in phases:
                row = {"worker": first.get(owner, 0), "op": name, "run": k, "phase": phase}
                row |= {keys[0]: at(start), keys[1]: at(end), "exact": exact or phase != "transfer"}
                records.append(row)
    clock: Any = "ns" if khz is None else {"unit": "cycles", "khz": khz}
    workers = [{"engine": engine, "unit": unit, "kind": "other", "dropped": 0} for engine, unit in units]
    return json.dumps({"schema": "hexloom.trace/1", "clock": clock, "workers": workers, "records": records})
