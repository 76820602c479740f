"""What is run: tables, the problem whose ops they execute, and where they have loops how many laps these make."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.emit.buffer_map import buffer_map
from hexloom.emit.chosen import (
    advances_of,
    check_laps,
    laps_for_trips,
    least_laps,
    parameters_for,
)
from hexloom.emit.looped import make_looped_tables
from hexloom.emit.records import NONE, TASK_REPEATED
from hexloom.emit.tables import buffer_row, make_tables
from hexloom.emit.written_out import written_out
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.check import labels_of, parts_of
from hexloom.optimizer.periodic.check_bounds import ONCE
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.trial import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.emit.rows import Operand, Tables
    from hexloom.formulations.problem import Problem
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.workload import Workload


@dataclass(frozen=True)
class Job:
    """``tables`` of ``source``; ``plain`` are those with all laps written out, whose tasks are ops of ``problem``.

    ``parameters`` are given when the tables are bound. ``workload`` is the one that comes to ``problem``, where it is
    known.
    """

    source: Schedule | PeriodicSchedule
    problem: Problem
    tables: Tables
    plain: Tables
    parameters: tuple[int, ...] = ()
    workload: Workload | None = None


def job_of(schedule: Schedule, workload: Workload | None = None) -> Job:
    """Return the run of a schedule of ops one by one."""
    tables = make_tables(schedule)
    return Job(schedule, schedule.problem, tables, tables, (), workload)


def laps_for(periodic: PeriodicSchedule, tables: Tables, times: Sequence[int]) -> tuple[int, ...]:
    """Return the laps with which every stretch runs so many ``times``.

    Raises
    ------
    InvalidInputError
        There are more or fewer stretches, or the tables are not proven for that.
    """
    if len(times) != len(periodic.stretches):
        raise InvalidInputError(
            f"schedule {periodic.name!r} has {len(periodic.stretches)} stretches, and {len(times)} numbers of runs are "
            "given; give one for each"
        )
    least = list(least_laps(tables))
    laps: list[int] = []
    for k, (stretch, runs) in enumerate(zip(periodic.stretches, times, strict=True)):
        written = stretch.runs - stretch.left_out
        if not stretch.left_out:
            if runs != stretch.runs:
                raise InvalidInputError(f"stretch {k} is no loop of the tables: it runs {stretch.runs} times")
            continue
        if runs < written or (runs - written) % stretch.period:
            every = "" if stretch.period == 1 else f", {stretch.period} apart"
            raise InvalidInputError(f"stretch {k}: {runs} runs; the plan is proven for {written} and more{every}")
        group = next(g for g, name in enumerate(tables.groups) if stretch.times.get(name))
        advance = advances_of(tables, group)[len(laps)]
        laps.append(least[len(laps)] + (runs - written) * stretch.times[tables.groups[group]] // advance)
    check_laps(tables, laps)
    return tuple(laps)


def looped_job(
    periodic: PeriodicSchedule,
    times: Sequence[int] | None = None,
    workload: Workload | None = None,
    machine: Machine | None = None,
    *,
    trips: Mapping[str, int] | None = None,
) -> Job:
    """Return the run of a periodic schedule in which every stretch runs so many ``times``; default: those written down.

    ``trips`` are, instead, iterations of tasks: any number of them, and of tasks that are not named as many as usual.

    Raises
    ------
    InvalidInputError
        Other ``times`` need the workload and its machine, or are none that the plan is proven for.
    """
    tables = make_looped_tables(periodic)
    least = least_laps(tables)
    given: dict[str, int] = {}
    if trips is not None:
        usual = {tables.groups[p.where]: p.usual for p in tables.parameters if p.kind == records.TRIPS}
        laps, given = laps_for_trips(tables, trips), usual | dict(trips)
        if 0 in given.values():
            raise InvalidInputError("a run checks at least one iteration of every task; give 1 or more")
    else:
        laps = least if times is None else laps_for(periodic, tables, times)
    cut = None
    if workload is None and (laps != least or given):
        raise InvalidInputError("runs other than those written down need the workload; give it with --workload")
    problem = periodic.written.problem
    if workload is not None and machine is not None:
        source = Source(workload, machine, periodic.contention, FEW)
        iterations = trips_of(periodic, tables, laps) | given
        problem, cut = source.problem(iterations), source.cut(iterations)
    plain = plain_tables(periodic, tables, laps, problem, given)
    return Job(periodic, problem, tables, plain, parameters_for(tables, laps, given), cut)


def trips_of(periodic: PeriodicSchedule, tables: Tables, laps: Sequence[int]) -> dict[str, int]:
    """Return the iterations of every task after so many laps."""
    trips = {
        task: n - sum(stretch.left_out * stretch.times.get(task, 0) for stretch in periodic.stretches)
        for task, n in periodic.trips.items()
    }
    more = [count - least for count, least in zip(laps, least_laps(tables), strict=True)]
    for g, group in enumerate(tables.groups):
        if group in trips:
            trips[group] += sum(n * count for n, count in zip(advances_of(tables, g), more, strict=True))
    return trips


def plain_tables(
    periodic: PeriodicSchedule,
    tables: Tables,
    laps: Sequence[int],
    problem: Problem,
    trips: Mapping[str, int] | None = None,
) -> Tables:
    """Return the tables with all laps written out, in terms of the ops and buffers of ``problem``.

    Of groups with so many ``trips`` the tasks of later iterations are no op, and have no operands.

    Raises
    ------
    InvalidInputError
        ``problem`` has other ops, or two of them do not agree where one of its buffers lies.
    """
    out = written_out(tables, laps)
    limits = {tables.groups.index(task): count for task, count in (trips or {}).items()}
    parts = parts_of(periodic) or {}
    old = labels_of(periodic.written.problem, parts)
    names = [old[op.name] for op in periodic.written.problem.ops]
    number = {label: problem.op_index[name] for name, label in labels_of(problem, parts).items()}
    rows = buffer_map(problem)
    places: dict[int, Operand] = {}
    operands: list[Operand] = []
    tasks = []
    for task in out.tasks:
        if task.flags & TASK_REPEATED and task.iteration >= limits.get(task.group, NONE):
            tasks.append(replace(task, op=NONE, first_operand=len(operands), operand_count=0))
            continue
        stage = names[task.op]
        op = number.get(stage if stage[3] == ONCE else (*stage[:3], task.iteration))
        mine = out.operands[task.first_operand : task.first_operand + task.operand_count]
        used = [] if op is None else rows.operands_of(problem.op_buffers[op])
        if op is None or len(used) != len(mine):
            raise InvalidInputError(
                f"the workload is another one: it has no op like iteration {task.iteration} of {stage}"
            )
        tasks.append(replace(task, op=op, first_operand=len(operands)))
        for row, operand in zip(used, mine, strict=True):
            made = replace(operand, buffer=row)
            if places.setdefault(row, made) != made:
                raise InvalidInputError(f"buffer {rows.rows[row].buffer.name!r} has two places: {places[row]}, {made}")
            operands.append(made)
    addresses = periodic.written.plan.addresses
    buffers = tuple(
        buffer_row(row.buffer, places[k].offset if k in places else addresses[row.buffer.name], row.flags)
        for k, row in enumerate(rows.rows)
    )
    made_of = replace(
        out,
        tasks=tuple(tasks),
        operands=tuple(operands),
        buffers=buffers,
        buffer_names=tuple(row.buffer.name for row in rows.rows),
    )
    counts = {"buffer_count": len(buffers), "operand_count": len(operands)}
    return replace(made_of, header=replace(made_of.header, **counts)).sealed()
