"""Loops that run side by side: bodies with so many iterations of each, and how often each body runs.

The master problem: minimise the sum of ``cost_b z_b`` so that every loop gets its iterations. A body that was not
looked at yet stands with a lower bound on its interval, so the optimum is optimistic; a body that it uses gets a modulo
schedule, and what the simulator says that a run of it takes: where ops slow each other, that is more than the interval.
It ends when the optimum uses none that was not looked at, or could gain next to nothing by it. A body of one loop alone
is one of those in question: whether to run side by side comes out by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from hexloom.formulations.exact_lp import minimise
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.limit import Budget
from hexloom.formulations.periodic.bounds import impossible, recurrence_ticks, shares_of
from hexloom.formulations.periodic.counted_units import with_counted_units
from hexloom.formulations.periodic.loop import Dependency, Loop, LoopBuffer, LoopOp, LoopUser
from hexloom.formulations.periodic.modulo import modulo_schedule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.formulations.periodic.schedule import ModuloSchedule

MOST_OPS, MOST_TIMES, MOST_BODIES = 200, 8, 64
"""Of a body: its ops, and iterations of one loop in it. Of a mix: the bodies in question, those with the fewest ops."""

MOST_LOOKED = 24
"""Bodies that get a modulo schedule; those that the optimum asks for come first."""

FINE = 10**6
"""Parts of a tick: of mixes that take equally long, that of the smallest bodies is preferred."""

ENOUGH = Fraction(1, 100)
"""Bodies by which a mix of those that are known could become shorter by no more than this part are not looked at."""

BODY_SHARE, LEAST_BODY_S, MEASURE_S = 0.25, 0.05, 0.1
"""For the interval of one body: part of the time that is left, and seconds at least; what measuring it counts for."""


def copy_name(name: str, copy: int) -> str:
    """Return the name in a body of what is ``name`` in the loop, for the ``copy``-th of its iterations there."""
    return f"{name}#{copy}"


def side_by_side(loops: Sequence[Loop], times: Sequence[int]) -> Loop:
    """Return the body with so many iterations of each loop; all have the same engines, channels and scratchpad.

    Iteration ``j`` of a loop that has ``r`` of them is copy ``j mod r`` of iteration ``j div r`` of the body.
    """
    ops: list[LoopOp] = []
    dependencies: list[Dependency] = []
    buffers: list[LoopBuffer] = []
    for loop, count in zip(loops, times, strict=True):
        for copy in range(count):
            ops += [op.model_copy(update={"name": copy_name(op.name, copy)}) for op in loop.ops]
            for edge in loop.dependencies:
                back, source = divmod(copy - edge.distance, count)
                dependencies.append(
                    Dependency(
                        before=copy_name(edge.before, source),
                        after=copy_name(edge.after, copy),
                        distance=-back,
                        delay_ticks=edge.delay_ticks,
                    )
                )
            for buffer in loop.buffers:
                users = []
                for user in buffer.users:
                    ahead, target = divmod(copy + user.distance, count)
                    users.append(LoopUser(op=copy_name(user.op, target), distance=ahead))
                changes = {"name": copy_name(buffer.name, copy), "users": tuple(users)}
                buffers.append(buffer.model_copy(update=changes))
    return loops[0].changed(
        name=" + ".join(f"{n} {loop.name}" for loop, n in zip(loops, times, strict=True) if n),
        ops=tuple(ops),
        dependencies=tuple(dependencies),
        buffers=tuple(buffers),
    )


@dataclass(frozen=True, slots=True)
class Body:
    """So many iterations of every loop (``times``), and a modulo schedule of them.

    ``paced``: what an iteration begins with also waits for the busiest engine, as far as the modulo schedule says that
    it comes later anyway. Where ops slow each other, runs else come close to a steady state and never reach it.
    ``tied``: the busiest engine waits for all others, too, where that costs nothing by the modulo schedule; what shares
    nothing with the rest else runs further and further ahead of it. ``punctual``: transfers begin when the modulo
    schedule says, and not when they could.
    """

    times: tuple[int, ...]
    loop: Loop
    schedule: ModuloSchedule
    paced: bool = False
    tied: bool = False
    punctual: bool = False


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each body runs, as the master problem has it: fractions; and its value.

    Of ``bodies`` in question so many were ``looked_at``; ``complete``: the others cannot make the mix shorter
    by more than `ENOUGH`.
    """

    runs: tuple[tuple[Body, Fraction], ...]
    value_ticks: Fraction
    bodies: int
    looked_at: int
    complete: bool


Measure = Callable[[Body], "tuple[Body, Fraction] | None"]
"""The body as it is to run, and what one run of it takes in the long run; None where it can have no plan."""


def candidates(loops: Sequence[Loop], trips: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the numbers of iterations in question: every loop alone, then bodies with few ops before others.

    A loop alone is always in question, whatever their number.
    """
    sizes = [len(loop.ops) for loop in loops]
    most = [min(MOST_TIMES, MOST_OPS // size or 1, count) for size, count in zip(sizes, trips, strict=True)]
    alone = [tuple(int(t == one) for t in range(len(loops))) for one in range(len(loops))]
    found = alone[::-1]
    # Each is reached once: by an iteration more of the last loop that it has, or of one after it.
    queue = sorted((sizes[t], times) for t, times in enumerate(alone))
    while queue and len(found) < MOST_BODIES:
        ops, times = heappop(queue)
        if sum(times) > 1:
            found.append(times)
        last = max(t for t, n in enumerate(times) if n)
        for t in range(last, len(loops)):
            if times[t] < most[t] and ops + sizes[t] <= MOST_OPS:
                heappush(queue, (ops + sizes[t], (*times[:t], times[t] + 1, *times[t + 1 :])))
    return found


def best_mix(
    loops: Sequence[Loop],
    trips: Sequence[int],
    measure: Measure,
    seconds: float,
    *,
    seed: int | None = None,
    workers: int = 2,
) -> Mix | None:
    """Return the mix of bodies with the fewest ticks for ``trips`` iterations of every loop; None if there is none.

    Parameters
    ----------
    trips
        Iterations of every loop, at least 1.
    seconds
        For all bodies; once they are over, only loops alone that the mix needs are looked at, whatever that takes.
    """
    budget = Budget(seconds, counted=seed is not None)
    costs = _least(loops, candidates(loops, trips))
    bodies, known = len(costs), dict[tuple[int, ...], Body]()
    with Guard(lazy=True) as guard:

        def look_at(times: tuple[int, ...]) -> None:
            left = max(LEAST_BODY_S, budget.left * BODY_SHARE)
            loop = side_by_side(loops, times)
            result = modulo_schedule(loop, left, seed=seed, workers=workers, prove=False, guard=guard)
            if seed is not None:
                budget.spend(MEASURE_S + (left if any(attempt.by != "list" for attempt in result.attempts) else 0))
            found = result.schedule
            measured = None if found is None else measure(Body(times, loop, with_counted_units(loop, found)))
            if measured is None:
                del costs[times]
            else:
                known[times], costs[times] = measured

        looked = 0
        while True:
            # The first body, and loops alone where nothing else is left, are looked at whatever that takes.
            in_time = (budget.left > 0 and looked < MOST_LOOKED) or looked == 0
            answer = _master({t: cost for t, cost in costs.items() if in_time or t in known or sum(t) == 1}, trips)
            if answer is None:
                return None
            value, used = answer
            if in_time and any(times not in known for times in used):
                best = _master({t: cost for t, cost in costs.items() if t in known}, trips)
                if best is not None and best[0] <= value * (1 + ENOUGH):
                    value, used = best
            asked = max((t for t in used if t not in known), key=lambda t: sum(n > 0 for n in t), default=None)
            if asked is None:
                runs = tuple((known[times], runs) for times, runs in used.items())
                return Mix(runs, value, bodies, len(known), in_time)
            look_at(asked)
            looked += 1


def _least(loops: Sequence[Loop], found: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Fraction]:
    """Return a lower bound on the interval of every body, none for loops that cannot run at all."""
    if any(impossible(loop) is not None for loop in loops):
        return {}
    shares, cycles = [shares_of(loop) for loop in loops], [recurrence_ticks(loop) for loop in loops]
    costs: dict[tuple[int, ...], Fraction] = {}
    for times in found:
        asked: list[Fraction] = [n * cycle for n, cycle in zip(times, cycles, strict=True)]
        for what in {what for share in shares for what in share}:
            asked.append(
                sum((n * share.get(what, Fraction(0)) for n, share in zip(times, shares, strict=True)), Fraction(0))
            )
        costs[times] = max(Fraction(1), *asked)  # not rounded up: larger bodies would seem to gain by less rounding
    return costs


def _master(
    costs: Mapping[tuple[int, ...], Fraction], trips: Sequence[int]
) -> tuple[Fraction, dict[tuple[int, ...], Fraction]] | None:
    columns = list(costs)
    fine = [round(costs[times] * FINE) + sum(times) ** 2 for times in columns]
    rows = [({b: times[t] for b, times in enumerate(columns) if times[t]}, count) for t, count in enumerate(trips)]
    best = minimise(fine, rows)
    if best is None:
        return None
    used = {times: runs for times, runs in zip(columns, best.variables, strict=True) if runs}
    return sum((costs[times] * runs for times, runs in used.items()), Fraction(0)), used
