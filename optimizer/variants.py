"""The same work on a little more or less of one thing: scratchpad, contexts, bandwidth, or a stage twice as fast."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hexloom.formulations.problem import Mode, Op, Problem, Scratchpad
from hexloom.hwmodels import Machine, MachineFileError
from hexloom.optimizer.splits import with_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FACTORS = (Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(3, 2), Fraction(2))
"""Sizes and rates that are asked about, as parts of the current one."""

STEPS = (-2, -1, 0, 1, 2)
"""Contexts and units that are asked about, beside those that there are."""

MOST_STAGES = 6
"""Stages that are made faster, those with the most work first."""

MANY_OPS, FEWER_FACTORS, FEWER_STEPS, FEWER_STAGES = 500, FACTORS[::2], (-1, 0, 1), 2
"""From so many ops on a point takes ten seconds whatever its limit, and fewer points are asked about."""

KIB = 1024


@dataclass(frozen=True)
class Point:
    """One value of an axis: exact in its unit, and what it makes of the problem or of the machine.

    ``tick`` is the length of its ticks in bare ticks of the input; times in microseconds need none.
    """

    value: Fraction
    problem: Problem | None = None
    machine: Machine | None = None
    tick: Fraction = Fraction(1)


@dataclass(frozen=True)
class Axis:
    """What is varied, from the least to the most; ``current`` is the position of the input as it is.

    ``only_changed``: the current point says nothing that others do not. ``enlarge`` gives a problem that was made for
    less as much as a point has, its ops unchanged; None where ops always have one shape.
    """

    field: str
    unit: str
    points: tuple[Point, ...]
    current: int
    enlarge: Callable[[Problem, Fraction], Problem] | None = None
    only_changed: bool = False


def axes_of_machine(machine: Machine, ops: int) -> Iterator[Axis]:
    """Yield scratchpad, HVX contexts and the bandwidths of ``machine``, for work of so many ``ops``."""
    factors, steps = (FEWER_FACTORS, FEWER_STEPS) if ops >= MANY_OPS else (FACTORS, STEPS)
    total = machine.vtcm.total_bytes.whole
    reserved = machine.vtcm.reserved_bytes.whole
    sizes = [(Fraction(total) * f / KIB, {"vtcm.total_bytes": int(total * f)}) for f in factors]

    def room(problem: Problem, kib: Fraction) -> Problem:
        return with_parts(problem, scratchpad=Scratchpad(total_bytes=int(kib * KIB), reserved_bytes=reserved))

    yield from _axis("vtcm", "KiB", machine, sizes, Fraction(total, KIB), room)
    have, threads = machine.hvx_contexts, machine.hw_threads
    contexts = [
        (Fraction(have + s), {"engines.hvx_contexts": have + s, "engines.hw_threads": threads + max(0, s)})
        for s in steps
        if have + s > 0
    ]

    def wider(problem: Problem, contexts: Fraction) -> Problem:
        return _with_units(problem, "hvx", int(contexts))

    yield from _axis("hvx", "contexts", machine, contexts, Fraction(have), wider)
    names = {
        "ddr": ("ddr.total_gb_s",),
        "dma": ("dma.pipe_read_gb_s", "dma.pipe_write_gb_s", "dma.queue_rate_gb_s"),
    }
    known = dict(machine.quantities())
    for field, keys in names.items():
        rates = [known[key].exact for key in keys]
        changes = [(rates[0] * f, {k: rate * f for k, rate in zip(keys, rates, strict=True)}) for f in factors]
        yield from _axis(field, "GB/s", machine, changes, rates[0], None)


def _axis(
    field: str,
    unit: str,
    machine: Machine,
    changes: list[tuple[Fraction, dict[str, Fraction]]] | list[tuple[Fraction, dict[str, int]]],
    current: Fraction,
    enlarge: Callable[[Problem, Fraction], Problem] | None,
) -> Iterator[Axis]:
    points = []
    for value, values in changes:
        try:
            points.append(Point(value, machine=machine if value == current else machine.with_values(values)))
        except MachineFileError:
            continue  # for example a scratchpad that is all reserved
    at = next(k for k, point in enumerate(points) if point.value == current)
    if len(points) > 1:
        yield Axis(field, unit, tuple(points), at, enlarge)


def axes_of_problem(problem: Problem) -> Iterator[Axis]:
    """Yield scratchpad, units of engines and capacities of channels of a problem in ticks."""
    have = problem.scratchpad.available_bytes
    if problem.buffers and have:
        reserved = problem.scratchpad.reserved_bytes
        sizes = [int(have * f) for f in FACTORS]
        made = [
            Point(
                Fraction(n),
                with_parts(problem, scratchpad=Scratchpad(total_bytes=n + reserved, reserved_bytes=reserved)),
            )
            for n in sizes
        ]
        yield Axis("scratchpad", "B", tuple(made), FACTORS.index(Fraction(1)))
    for engine in problem.engines:
        if engine.kind == "share":
            continue
        points = []
        for units in (engine.units + s for s in STEPS):
            try:
                points.append(Point(Fraction(units), _with_units(problem, engine.name, units)))
            except ValidationError:
                continue  # no units at all, or an op names one that is gone
        at = next(k for k, point in enumerate(points) if point.value == engine.units)
        yield Axis(engine.name, "units", tuple(points), at)
    for channel in problem.channels:
        found = {max(1, int(channel.capacity * f)): f for f in FACTORS}
        points = [
            Point(
                Fraction(capacity),
                with_parts(
                    problem,
                    channels=tuple(
                        c.model_copy(update={"capacity": capacity}) if c is channel else c for c in problem.channels
                    ),
                ),
            )
            for capacity in sorted(found)
        ]
        at = next(k for k, point in enumerate(points) if point.value == channel.capacity)
        yield Axis(channel.name, "capacity", tuple(points), at)


def _with_units(problem: Problem, name: str, units: int) -> Problem:
    engines = tuple(type(e)(name=e.name, kind=e.kind, units=units) if e.name == name else e for e in problem.engines)
    return with_parts(problem, engines=engines)


def axes_of_stages(problem: Problem) -> Iterator[Axis]:
    """Yield for each stage of a task the problem in which it takes half of its time.

    A tick is halved, so that halves are whole: all else takes twice as many. Bytes stay, so demands double.
    """
    work: dict[tuple[str, str], int] = {}
    for op in problem.ops:
        ticks = min(mode.latency_ticks for mode in op.modes)
        work[op.task, op.stage or op.name] = work.get((op.task, op.stage or op.name), 0) + ticks
    count = FEWER_STAGES if len(problem.ops) >= MANY_OPS else MOST_STAGES
    most = sorted((key for key in work if work[key]), key=lambda key: -work[key])[:count]
    for key in (key for key in work if key in most):
        name = "/".join(part for part in key if part)
        tick = Fraction(1, 2) if problem.tick is None else Fraction(1)
        point = Point(Fraction(1, 2), _halved(problem, key), tick=tick)
        yield Axis(f"time of {name}", "x", (Point(Fraction(1), problem), point), 0, only_changed=True)


def _halved(problem: Problem, stage: tuple[str, str]) -> Problem:
    known: dict[tuple[int, bool], Mode] = {}

    def scaled(op: Op) -> Op:
        fast = (op.task, op.stage or op.name) == stage
        modes = []
        for mode in op.modes:
            key = id(mode), fast
            if key not in known:
                known[key] = _scaled(mode, 1 if fast else 2)
            modes.append(known[key])
        due = None if op.deadline_ticks is None else 2 * op.deadline_ticks
        return op.model_copy(update={"modes": tuple(modes), "deadline_ticks": due})

    tick = None if problem.tick is None else str(problem.tick / 2)
    return with_parts(
        problem, tick_us=tick, ops=tuple(scaled(op) for op in problem.ops), entry_ticks=2 * problem.entry_ticks
    )


def _scaled(mode: Mode, factor: int) -> Mode:
    """Return ``mode`` in ticks of half the length; with factor 1 its work is twice as fast, its overheads are not."""
    dma = mode.dma
    if dma is not None:
        dma = dma.model_copy(update={"issue_ticks": 2 * dma.issue_ticks, "poll_ticks": 2 * dma.poll_ticks})
    return mode.model_copy(
        update={
            "uses": tuple(use.model_copy(update={"ticks": factor * use.ticks}) for use in mode.uses),
            "latency_ticks": factor * mode.latency_ticks,
            "overhead_ticks": 2 * mode.overhead_ticks,
            "pulls": tuple(p.model_copy(update={"rate": p.rate * 2 // factor}) for p in mode.pulls),
            "dma": dma,
        }
    )
