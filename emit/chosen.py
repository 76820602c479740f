"""What is given when tables are bound: how many laps loops make, and how many iterations of every group there are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hexloom.emit import records
from hexloom.emit.records import NONE
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.emit.rows import Tables, Task


def check_laps(tables: Tables, laps: Sequence[int]) -> None:
    """Refuse laps that the tables are not proven for; raises InvalidInputError."""
    if len(laps) != len(tables.loops):
        raise InvalidInputError(f"the tables have {len(tables.loops)} loops, and {len(laps)} numbers of laps are given")
    for k, (count, loop) in enumerate(zip(laps, tables.loops, strict=True)):
        p = tables.parameters[loop.parameter]
        if not p.least <= count <= p.most or (count - p.usual) % p.step:
            every = "" if p.step == 1 else f", {p.step} apart"
            raise InvalidInputError(f"loop {k}: {count} laps; the plan is proven for {p.least} to {p.most}{every}")


def usual_laps(tables: Tables) -> tuple[int, ...]:
    """Return the laps that the schedule asks for."""
    return tuple(tables.parameters[loop.parameter].usual for loop in tables.loops)


def least_laps(tables: Tables) -> tuple[int, ...]:
    """Return the fewest laps of every loop; these are written down in the schedule."""
    return tuple(tables.parameters[loop.parameter].least for loop in tables.loops)


def advances_of(tables: Tables, group: int) -> list[int]:
    """Return the iterations of a group in a lap of every loop."""
    groups = tables.header.group_count
    return [tables.advances[k * groups + group].iterations for k in range(len(tables.loops))]


def iteration_of(tables: Tables, task: Task, laps: Sequence[int]) -> int:
    """Return which iteration of its group a task is, after so many laps on its queue."""
    return task.iteration + sum(n * count for n, count in zip(advances_of(tables, task.group), laps, strict=True))


def iterations_made(tables: Tables, laps: Sequence[int]) -> dict[int, int]:
    """Return how many iterations of every group so many laps make, of those of which fewer may be asked for."""
    made: dict[int, int] = {}
    for t, task in enumerate(tables.tasks):
        if not task.flags & records.TASK_REPEATED:
            continue
        done = [
            0 if t < loop.first_task else count - (t < loop.first_task + loop.task_count)
            for loop, count in zip(tables.loops, laps, strict=True)
        ]
        made[task.group] = max(made.get(task.group, 0), 1 + iteration_of(tables, task, done))
    return made


def laps_for_trips(tables: Tables, trips: Mapping[str, int]) -> tuple[int, ...]:
    """Return laps that make at least so many iterations of every named group; of the others as many as usual.

    As many laps as all of their groups fill, then the rest where fewest other groups run beside it. Where a group runs
    of which no iterations can be left out, there are as many laps as usual.

    Raises
    ------
    InvalidInputError
        A group is unknown, or has more or fewer iterations than the tables are proven for.
    """
    parameters = {p.where: p for p in tables.parameters if p.kind == records.TRIPS}
    wanted = {group: p.usual for group, p in parameters.items()}
    for name, count in trips.items():
        group = tables.groups.index(name) if name in tables.groups else NONE
        if group not in parameters:
            known = ", ".join(repr(tables.groups[g]) for g in parameters) or "none"
            raise InvalidInputError(f"trips of {name!r}: the tables take those of {known}")
        if not parameters[group].least <= count <= parameters[group].most:
            p = parameters[group]
            raise InvalidInputError(f"{name!r}: {count} iterations; the plan is proven for {p.least} to {p.most}")
        wanted[group] = count
    every = [advances_of(tables, group) for group in range(tables.header.group_count)]
    ranges = [tables.parameters[loop.parameter] for loop in tables.loops]
    for k, p in enumerate(ranges):
        if any(every[group][k] for group in range(len(every)) if group not in wanted):
            ranges[k] = replace(p, least=p.usual, most=p.usual)  # of those none may be left out
    laps = [p.least for p in ranges]
    advances = {group: every[group] for group in wanted}

    def missing(group: int) -> int:
        """Return how many iterations more are wanted than the laps make so far."""
        return wanted[group] - iterations_made(tables, laps)[group]

    for k, p in enumerate(ranges):
        room = [missing(g) // advances[g][k] for g in wanted if advances[g][k]]
        laps[k] += max(0, min(min(room, default=0), p.most - p.least)) // p.step * p.step
    for group, name in ((g, tables.groups[g]) for g in wanted):
        beside = {k: sum(1 for g in wanted if advances[g][k]) for k, n in enumerate(advances[group]) if n}
        for k in sorted(beside, key=lambda k: (beside[k], k)):
            short, p = missing(group), ranges[k]
            if short > 0:
                more = -(-short // advances[group][k])
                laps[k] = min(laps[k] + -(-more // p.step) * p.step, p.most)
        if missing(group) > 0:
            raise InvalidInputError(
                f"{name!r}: {wanted[group]} iterations beside those of other tasks are more than counters can count"
            )
    return tuple(laps)


def parameters_for(
    tables: Tables,
    laps: Sequence[int],
    trips: Mapping[str, int] | None = None,
    others: Mapping[tuple[int, int], int] | None = None,
) -> tuple[int, ...]:
    """Return the parameters of tables with so many laps, in which only so many iterations of some groups do something.

    ``others`` are strides and tails, by kind and what they are about; without it they are as usual.

    Raises
    ------
    InvalidInputError
        The tables are not proven for them, or the laps do not make so many.
    """
    check_laps(tables, laps)
    given = {} if trips is None else dict(trips)
    made = iterations_made(tables, laps)
    values = []
    more = {} if others is None else dict(others)
    for p in tables.parameters:
        if p.kind == records.LAPS:
            values.append(laps[p.where])
            continue
        if p.kind != records.TRIPS:
            value = more.pop((p.kind, p.where), p.usual)
            if not p.least <= value <= p.most or (value - p.usual) % p.step:
                raise InvalidInputError(
                    f"parameter {len(values)}: {value}; the plan is proven for {p.least} to {p.most}, {p.step} apart"
                )
            values.append(value)
            continue
        count = given.pop(tables.groups[p.where], NONE)
        if count != NONE and not p.least <= count <= made[p.where]:
            raise InvalidInputError(
                f"{tables.groups[p.where]!r}: {count} iterations; so many laps make {made[p.where]}, and the plan is "
                f"proven for {p.least} and more"
            )
        values.append(count)
    if more:
        raise InvalidInputError(f"the tables have no parameter of kind and place {min(more)}")
    if given:
        raise InvalidInputError(f"trips of {min(given)!r}: the tables have no such parameter")
    return tuple(values)
