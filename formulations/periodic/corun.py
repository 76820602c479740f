"""Loops that run side by side: bodies with so many iterations of each, and how often each body runs.

The master problem: minimise the sum of ``II_b z_b`` so that every loop gets its iterations. A body whose interval is
not known yet stands with its lower bound, so the optimum is optimistic; bodies that it uses get a modulo schedule and
their true interval, until it uses none that is not known. Then no mix of the bodies in question is shorter, as far as
their intervals are proven, and a body of one loop alone is one of them: whether to run side by side comes out by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from hexloom.formulations.exact_lp import minimise
from hexloom.formulations.flat.guard import Guard
from hexloom.formulations.limit import Budget
from hexloom.formulations.periodic.bounds import impossible, least_ii, lower_bounds
from hexloom.formulations.periodic.loop import Dependency, Loop, LoopBuffer, LoopOp, LoopUser
from hexloom.formulations.periodic.modulo import ModuloResult, modulo_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.formulations.periodic.schedule import ModuloSchedule

MOST_OPS, MOST_TIMES, MOST_BODIES = 240, 8, 400
"""Of a body: its ops, and iterations of one loop in it. Of a mix: the bodies in question."""

BODY_SHARE = 0.25
"""Part of the time that is left for the interval of one body."""


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
    """So many iterations of every loop (``times``), and their modulo schedule; ``proven``: no interval is smaller."""

    times: tuple[int, ...]
    loop: Loop
    schedule: ModuloSchedule
    lower_bound_ticks: int

    @property
    def proven(self) -> bool:
        """Whether no schedule of the body has a smaller interval."""
        return self.schedule.ii_ticks == self.lower_bound_ticks


@dataclass(frozen=True, slots=True)
class Mix:
    """How often each body runs, as the master problem has it: fractions; and its value, at most any mix of these."""

    runs: tuple[tuple[Body, Fraction], ...]
    value_ticks: Fraction
    bodies: int
    solved: int


def candidates(loops: Sequence[Loop], trips: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the numbers of iterations in question, small bodies first; a loop alone runs 1 to ``MOST_TIMES`` times."""
    sizes = [len(loop.ops) for loop in loops]
    ranges = [range(min(MOST_TIMES, MOST_OPS // size or 1, count) + 1) for size, count in zip(sizes, trips, strict=True)]
    found = [
        times
        for times in product(*ranges)
        if any(times) and (sum(n * size for n, size in zip(times, sizes, strict=True)) <= MOST_OPS or sum(times) == 1)
    ]
    return sorted(found, key=lambda times: (sum(times), times))[:MOST_BODIES]


def best_mix(
    loops: Sequence[Loop], trips: Sequence[int], seconds: float, *, seed: int | None = None, workers: int = 2
) -> Mix | None:
    """Return the mix of bodies that needs the fewest ticks for ``trips`` iterations of every loop; None if there is none.

    Parameters
    ----------
    trips
        Iterations of every loop, at least 1.
    seconds
        For the intervals of all bodies. What is not decided in time counts with the interval that was found.
    """
    budget = Budget(seconds, counted=seed is not None)
    open_, known = _costs(loops, candidates(loops, trips)), dict[tuple[int, ...], Body]()
    bodies = len(open_)
    costs: dict[tuple[int, ...], int] = dict(open_)
    with Guard(lazy=True) as guard:
        while True:
            answer = _master(costs, trips)
            if answer is None:
                return None
            value, used = answer
            asked = next((times for times in used if times not in known), None)
            if asked is None:
                runs = tuple((known[times], runs) for times, runs in used.items())
                return Mix(runs, value, bodies, len(known))
            left = max(0.05, budget.left * BODY_SHARE)
            body = side_by_side(loops, asked)
            result = modulo_schedule(body, left, seed=seed, workers=workers, shortest=False, guard=guard)
            if seed is not None:
                budget.spend(left)
            if result.schedule is None:
                del costs[asked]
                continue
            known[asked] = Body(asked, body, result.schedule, result.lower_bound_ticks)
            costs[asked] = result.schedule.ii_ticks


def _costs(loops: Sequence[Loop], found: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    """Return a lower bound on the interval of every body that can run at all."""
    costs = {}
    for times in found:
        body = side_by_side(loops, times)
        if impossible(body) is None:
            costs[times] = least_ii(lower_bounds(body))
    return costs


def _master(
    costs: dict[tuple[int, ...], int], trips: Sequence[int]
) -> tuple[Fraction, dict[tuple[int, ...], Fraction]] | None:
    columns = list(costs)
    rows = [({b: times[t] for b, times in enumerate(columns) if times[t]}, count) for t, count in enumerate(trips)]
    best = minimise([costs[times] for times in columns], rows)
    if best is None:
        return None
    return best.value, {times: runs for times, runs in zip(columns, best.variables, strict=True) if runs}
