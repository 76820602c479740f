"""Switches: the same work solved without one thing, as MUSE switches its conversion overlap off."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from hexloom.formulations.problem import Engine, Mode, Precedence, Problem, Use
from hexloom.hwmodels.errors import did_you_mean
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import Gemv, MatmulW4A16
from hexloom.optimizer.kernels.engines import HMX, HVX
from hexloom.optimizer.kernels.ggml_layout import Depth
from hexloom.optimizer.kernels.rows import RowKernel
from hexloom.optimizer.lower import loops_of, lower
from hexloom.optimizer.periodic.choose import source_for
from hexloom.optimizer.periodic.reduced import FEW
from hexloom.optimizer.periodic.roll import NotALoopError
from hexloom.optimizer.periodic.trial import Source
from hexloom.optimizer.solve import rule_named, solve
from hexloom.optimizer.splits import with_parts
from hexloom.optimizer.study.loops import planned
from hexloom.optimizer.study.report import Ablation

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.problem import Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.lower import Lowered
    from hexloom.optimizer.workload import Workload

ALL = "all"


class DoesNotApplyError(Exception):
    """The work has nothing to switch off; the message says what is missing."""


def synchronous_transfers(problem: Problem) -> Problem:
    """Return the problem in which a transfer holds the worker that issues it until it is done."""
    if all(mode.dma is None for op in problem.ops for mode in op.modes):
        raise DoesNotApplyError("there are no transfers")

    def changed(mode: Mode) -> Mode:
        if mode.dma is None:
            return mode
        owner = Use(engine=mode.dma.owner_engine, ticks=mode.latency_ticks, unit_ids=(mode.dma.owner_unit,))
        return mode.model_copy(
            update={"dma": None, "overhead_ticks": mode.dma.issue_ticks, "uses": (owner, *mode.uses)}
        )

    ops = tuple(op.model_copy(update={"modes": tuple(changed(mode) for mode in op.modes)}) for op in problem.ops)
    engines = tuple(
        Engine(name=e.name, units=e.units, kind="resource") if e.kind == "pipe" else e for e in problem.engines
    )
    return with_parts(problem, ops=ops, engines=engines)


def conversion_apart(problem: Problem) -> Problem:
    """Return the problem in which HVX work and HMX work of one task are never at the same time."""
    used: dict[str, set[str]] = {}
    for op in problem.ops:
        used.setdefault(op.task, set()).update(use.engine for mode in op.modes for use in mode.uses if use.ticks)
    both = [task for task, engines in used.items() if {HVX, HMX} <= engines]
    if not both:
        raise DoesNotApplyError("no task uses both HVX and HMX")
    width = next(engine.units for engine in problem.engines if engine.name == HVX)

    def changed(mode: Mode, task: str) -> Mode:
        held = {use.engine: use for use in mode.uses if use.ticks and use.engine in (HVX, HMX)}
        if not held:
            return mode
        units = width if HMX in held else held[HVX].units
        apart = Use(engine=f"conversion of {task}", ticks=max(use.ticks for use in held.values()), units=units)
        return mode.model_copy(update={"uses": (*mode.uses, apart)})

    ops = tuple(
        op.model_copy(update={"modes": tuple(changed(mode, op.task) for mode in op.modes)}) if op.task in both else op
        for op in problem.ops
    )
    new = tuple(Engine(name=f"conversion of {task}", units=width, kind="resource") for task in both)
    return with_parts(problem, ops=ops, engines=(*problem.engines, *new))


def tasks_apart(problem: Problem) -> Problem:
    """Return the problem in which a task begins when the one before it has ended, all in one entry."""
    loops = loops_of(problem)
    if len(loops) < 2:
        raise DoesNotApplyError("there is one task")
    edges = list(problem.precedences)
    for before, after in pairwise(loops):
        sinks = [n for n in before.loop if not _neighbours(problem, n, before.loop, problem.successors)]
        sources = [n for n in after.loop if not _neighbours(problem, n, after.loop, problem.predecessors)]
        edges += [Precedence(before=a, after=b) for a in sinks for b in sources]
    return with_parts(problem, precedences=tuple(edges))


def _neighbours(problem: Problem, name: str, of: tuple[str, ...], toward: tuple[tuple[int, ...], ...]) -> bool:
    members = set(of)
    return any(problem.ops[i].name in members for i in toward[problem.op_index[name]])


def direct_rows(work: Workload) -> Workload:
    """Return the workload whose row kernels read and write DDR through L2 instead of staging by DMA."""

    def changed(task: object) -> object:
        if isinstance(task, RowKernel) and task.mode == "dma":
            return task.model_copy(update={"mode": "direct", "rows_per_block": None})
        return task

    return _with_tasks(work, changed, "no row kernel is staged by DMA; a matmul always is")


def one_buffer(work: Workload) -> Workload:
    """Return the workload with one buffer per edge, so that neighbouring stages take turns."""

    def changed(task: object) -> object:
        staged = isinstance(task, Gemv) or (isinstance(task, RowKernel) and task.mode == "dma")
        if staged and isinstance(task, RowKernel | Gemv) and task.depth > 1:
            return task.model_copy(update={"depth": 1})
        if isinstance(task, MatmulW4A16) and task.depth != Depth(raw=1, weights=1, output=1):
            return task.model_copy(update={"depth": Depth(raw=1, weights=1, output=1)})
        return task

    return _with_tasks(work, changed, "no kernel of the library has two buffers per edge")


def one_slice(work: Workload) -> Workload:
    """Return the workload whose kernels use one HVX worker each."""

    def changed(task: object) -> object:
        if isinstance(task, RowKernel) and task.duration_us is not None:
            return task  # the time that is written is that of all workers
        if isinstance(task, RowKernel | Gemv | MatmulW4A16) and task.workers != 1:
            more = {"dma_owner": 0, "load_parts": 1} if isinstance(task, MatmulW4A16) else {}
            return task.model_copy(update={"workers": 1, **more})
        return task

    return _with_tasks(work, changed, "no kernel of the library uses several HVX workers")


def _sliced(work: Workload, wanted: bool, why: str) -> Workload:
    def changed(task: object) -> object:
        if isinstance(task, MatmulW4A16) and task.slices != wanted:
            return task.model_copy(update={"slices": wanted})
        return task

    return _with_tasks(work, changed, why)


def _with_tasks(work: Workload, changed: Callable[[object], object], why: str) -> Workload:
    tasks = tuple(changed(task) for task in work.tasks)
    if tasks == work.tasks:
        raise DoesNotApplyError(why)
    return work.model_copy(update={"tasks": tasks})


ABLATIONS = {
    "no_task_overlap": "tasks one after the other, in one entry",
    "no_dma_overlap": "a transfer holds the worker that issues it until it is done",
    "no_conversion_overlap": "HVX and HMX of one task take turns",
    "no_staging": "row kernels read and write through L2",
    "no_double_buffering": "one buffer per edge",
    "one_hvx_slice": "one HVX worker per kernel",
    "fork_join": "fork and join instead of slices and events",
    "events": "slices and events instead of fork and join",
    "no_contention": "channels that are never full",
}
"""What can be switched, in words; what is in neither of the next two changes the rule alone."""

ON_PROBLEMS: dict[str, Callable[[Problem], Problem]] = {
    "no_task_overlap": tasks_apart,
    "no_dma_overlap": synchronous_transfers,
    "no_conversion_overlap": conversion_apart,
}

ON_WORKLOADS: dict[str, Callable[[Workload], Workload]] = {
    "no_staging": direct_rows,
    "no_double_buffering": one_buffer,
    "one_hvx_slice": one_slice,
    "fork_join": lambda work: _sliced(work, False, "no matmul is in slices: it forks and joins already"),
    "events": lambda work: _sliced(work, True, "no matmul forks and joins"),
}


def names_of(asked: list[str]) -> tuple[str, ...]:
    """Return the switches that were asked for, ``all`` of them if that is among them.

    Raises
    ------
    InvalidInputError
        There is no such switch.
    """
    for name in asked:
        if name != ALL and name not in ABLATIONS:
            known = ", ".join(ABLATIONS)
            raise InvalidInputError(f"--ablate {name!r}{did_you_mean(name, ABLATIONS)}; known: {known}, or all")
    return tuple(ABLATIONS) if ALL in asked else tuple(dict.fromkeys(asked))


def ablate(
    name: str,
    work: Workload | Problem,
    machine: Machine | None,
    plan: Moment,
    time_limit_s: float,
    contention: str,
    seed: int | None,
) -> Ablation:
    """Solve ``work`` without one thing and say what that costs beside ``plan``, the time with everything."""
    title = ABLATIONS[name]
    rule = rule_named(contention)
    try:
        source = None if isinstance(work, Problem) or machine is None else source_for(work, machine, rule)[0]
        if source is not None:
            found = without_in_loops(name, source, time_limit_s, seed)
        else:
            changed: Workload | Problem = work
            if name in ON_PROBLEMS:
                changed = ON_PROBLEMS[name](_problem_of(work, machine, contention))
            elif name not in ON_WORKLOADS:
                rule = "none"
            elif isinstance(work, Problem):
                raise DoesNotApplyError("a problem in ticks has no kernels")
            else:
                changed = ON_WORKLOADS[name](work)
            found = _solved(changed, machine, rule, time_limit_s, seed)
    except (DoesNotApplyError, InvalidInputError, NotALoopError) as why:
        return Ablation(name=name, title=title, status="INVALID", note=str(why))
    if found.makespan is None:
        return Ablation(name=name, title=title, status=found.status, note=found.note)
    return Ablation(
        name=name,
        title=title,
        status=found.status,
        makespan=found.makespan,
        lower_bound=found.lower_bound,
        costs=found.makespan - plan,
    )


def without_in_loops(name: str, source: Source, seconds: float, seed: int | None) -> Times:
    """Return what the loops of ``source`` take without one thing.

    Raises
    ------
    DoesNotApplyError
        There is nothing to switch off.
    NotALoopError
        Without it they are no loops.
    """
    work, machine, rule = source.workload, source.machine, source.rule
    if name == "no_task_overlap":
        return _one_by_one(source, seconds, seed)
    if name in ON_WORKLOADS:
        changed = ON_WORKLOADS[name](work)
        other, _ = source_for(changed, machine, rule)
        return _solved(changed, machine, rule, seconds, seed) if other is None else _planned(other, seconds, seed)
    if name not in ON_PROBLEMS:
        return _planned(Source(work, machine, "none", FEW), seconds, seed)

    switch = ON_PROBLEMS[name]
    switch(source.small(dict.fromkeys(source.trips, FEW)).lowered.problem)  # raises where no task has it

    def change(lowered: Lowered) -> Lowered:
        with contextlib.suppress(DoesNotApplyError):  # a task alone may have nothing to switch off
            return replace(lowered, problem=switch(lowered.problem))
        return lowered

    return _planned(Source(work, machine, rule, FEW, change), seconds, seed)


class Times(NamedTuple):
    """What the changed work takes and at least takes, or why there is no plan."""

    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "LIMIT"]
    makespan: Moment | None = None
    lower_bound: Moment | None = None
    note: str = ""


def _solved(
    work: Workload | Problem, machine: Machine | None, rule: Rule, time_limit_s: float, seed: int | None
) -> Times:
    hw = None if isinstance(work, Problem) else machine
    found = solve(work, hw, time_limit_s=time_limit_s, contention=rule, seed=seed, explained=False)
    note = "" if found.infeasibility is None else found.infeasibility.message
    return Times(found.status, found.makespan_us, found.lower_bound_us, note)


def _planned(source: Source, seconds: float, seed: int | None) -> Times:
    found, _ = planned(source, seconds, seed)
    status: Literal["OPTIMAL", "FEASIBLE"] = "OPTIMAL" if found.makespan == found.lower_bound else "FEASIBLE"
    return Times(status, found.us(found.makespan), found.us(found.lower_bound))


def _one_by_one(source: Source, seconds: float, seed: int | None) -> Times:
    """Return the sum of all loops, each alone, in one entry."""
    tasks = list(source.trips)
    if len(tasks) < 2:
        raise DoesNotApplyError("there is one task")
    rows = []
    for task in tasks:
        one = Source(source.cut({task: source.trips[task]}), source.machine, source.rule, FEW)
        few = one.small({task: FEW}).problem
        found = _planned(one, seconds / len(tasks), seed)
        assert found.makespan is not None and found.lower_bound is not None
        entry = few.entry_ticks * (few.tick or Fraction(1))
        rows.append((found.makespan - entry, found.lower_bound - entry, entry))
    makespan, bound, _ = (sum(row[k] for row in rows) for k in range(3))
    entry = rows[0][2]
    return Times("OPTIMAL" if makespan == bound else "FEASIBLE", makespan + entry, bound + entry)


def _problem_of(work: Workload | Problem, machine: Machine | None, contention: str) -> Problem:
    if isinstance(work, Problem):
        return work
    assert machine is not None
    return lower(work, machine, rule_named(contention)).problem
