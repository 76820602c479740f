"""One point of a sweep, from plain data to a row of plain data: what a worker anywhere does."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from hexloom.formulations.problem import Problem
from hexloom.hwmodels import Machine, MachineFileError
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.lower import Lowered, lower
from hexloom.optimizer.periodic.choose import FLAT_OPS, source_for
from hexloom.optimizer.periodic.roll import ImpossibleLoopError, NotALoopError
from hexloom.optimizer.solve import rule_named, solve
from hexloom.optimizer.study.fields import point_of
from hexloom.optimizer.study.groups import study_of
from hexloom.optimizer.study.loops import study_of_loops
from hexloom.optimizer.study.loops import with_ratio as with_ratio_of_loops
from hexloom.optimizer.study.scaled import at_tick, in_order, with_grain, with_jitter, with_ratio
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.trial import Source
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.solve import Result
    from hexloom.optimizer.study.fields import Point, Value
    from hexloom.optimizer.study.report import GroupName, Study

PARTS = ("saved_entries", "overlap_within_tasks", "overlap_between_tasks", "contention_cost", "tail")
GROUPS: tuple[GroupName, ...] = ("serial", "existing", "concurrent", "fused_serial", "plan")


class Base(NamedTuple):
    """What all points of a sweep begin with, as text: it goes to every worker."""

    work: str
    is_problem: bool
    machine: str | None
    contention: str
    time_limit_s: float
    seed: int


@functools.lru_cache(maxsize=8)
def _read(base: Base) -> tuple[Workload | Problem, Machine | None]:
    machine = None if base.machine is None else Machine.from_json(base.machine)
    work = Problem.model_validate_json(base.work) if base.is_problem else Workload.from_json(base.work)
    return work, machine


def row_of(base: Base, key: str, values: Mapping[str, Value]) -> dict[str, Any]:
    """Solve one point; what is wrong with it is its status, so that one bad corner does not end a sweep.

    ``status`` is that of the plan, ``INFEASIBLE`` (proven), ``LIMIT`` (no plan in the time), or ``INVALID``: the input
    does not take the value. ``seconds`` of wall time are of this run alone.
    """
    started = time.monotonic()
    work, machine = _read(base)
    row: dict[str, Any] = {"key": key, "values": dict(values)}
    try:
        found = _solved(point_of(work, machine, base.contention, values), base)
    except (InvalidInputError, MachineFileError) as error:
        row |= {"status": "INVALID", "note": str(error)}
    except ValidationError as error:  # a problem that was changed beyond what one may be
        row |= {"status": "INVALID", "note": explain(error, Problem)}
    else:
        row |= found
    row["seconds"] = round(time.monotonic() - started, 3)
    return row


def _solved(point: Point, base: Base) -> dict[str, Any]:
    work, machine = point.work, point.machine
    if isinstance(work, Workload) and machine is not None:
        source, words = source_for(work, machine, rule_named(point.contention))
        with contextlib.suppress(NotALoopError):  # then op by op, as `solve` does
            if source is not None:
                return _of_loops(source, words, point, base)
    lowered: Lowered | None = None
    if point.ratio is not None or point.grain is not None:
        if isinstance(work, Workload):
            assert machine is not None
            lowered = lower(work, machine, rule_named(point.contention))
            work = lowered.problem
        if point.ratio is not None:
            work = with_ratio(work, point.ratio)
        if point.grain is not None:
            work = with_grain(work, point.grain)
        machine = None
    result = solve(
        work,
        machine,
        time_limit_s=base.time_limit_s,
        contention=point.contention,
        seed=base.seed,
        explained=False,
    )
    schedule = result.schedule
    if schedule is None:
        why = result.infeasibility
        return {"status": result.status, "note": "" if why is None else why.message}
    if lowered is not None:
        result = _with_loops(result, schedule, lowered)
    problem = schedule.problem
    actual = None if point.jitter is None else with_jitter(problem, point.jitter, base.seed)
    return _numbers(study_of(result, work.name, actual), len(problem.ops))


def _of_loops(source: Source, why: str, point: Point, base: Base) -> dict[str, Any]:
    for knob, value in (("jitter", point.jitter), ("sync_grain", point.grain)):
        if value is not None:
            raise InvalidInputError(
                f"--sweep {knob}: {why} are planned as loops, whose iterations are all alike; sweep it on the same "
                f"workload with fewer tiles, up to {FLAT_OPS:,} ops"
            )
    if point.ratio is not None:
        source = with_ratio_of_loops(source, point.ratio)
    try:
        found, ops = study_of_loops(source, time_limit_s=base.time_limit_s, seed=base.seed)
    except ImpossibleLoopError as impossible:
        return {"status": "INFEASIBLE", "note": str(impossible)}
    return _numbers(found, ops)


def _with_loops(result: Result, schedule: Schedule, lowered: Lowered) -> Result:
    """Give the loops of today to a problem that was changed, unless its ops were cut."""
    names = schedule.problem.op_index
    if any(name not in names for loop in lowered.loops for name in loop.loop):
        return result
    loops = at_tick(lowered.loops, lowered.problem.tick, schedule.problem.tick)
    return replace(result, loops=in_order(loops, schedule.problem))


def _numbers(found: Study, ops: int) -> dict[str, Any]:
    plan, existing = found.group("plan"), found.makespan("existing")
    lower_bound, makespan = Fraction(found.lower_bound), Fraction(plan.makespan or 0)
    row: dict[str, Any] = {"status": found.status, "note": "", "ops": ops}
    row |= {name: _plain(found.makespan(name)) for name in GROUPS}
    row |= {
        "lower_bound": _plain(lower_bound),
        "gap": round(float((makespan - lower_bound) / makespan), 9) if makespan else 0.0,
        "bottleneck": found.bottleneck or "",
    }
    gain = plan.gain
    row |= {part: None if gain is None else _plain(getattr(gain, part)) for part in PARTS}
    share = None if gain is None or not existing else Fraction(gain.together) / existing
    total = None if gain is None or not existing else Fraction(gain.total) / existing
    row |= {
        "saves": None if total is None else round(float(total), 9),
        "together": None if share is None else round(float(share), 9),
        "answer": "" if gain is None else gain.answer,
    }
    return row


def _plain(value: Moment | None) -> int | float | None:
    if value is None:
        return None
    exact = Fraction(value)
    return int(exact) if exact.denominator == 1 else round(float(exact), 6)


def as_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n"
