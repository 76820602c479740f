"""The times of kernels and pairs: as they are written, else by solving the tasks alone and together."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.qos.choice import Fused, Table
from hexloom.optimizer.qos.model import whole_ns
from hexloom.optimizer.solve import solve
from hexloom.optimizer.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.qos.model import Filler, Qos, StreamKernel
    from hexloom.optimizer.workload import Task

PARTS = (Fraction(1, 4), Fraction(1, 2), Fraction(1))
"""Parts of a filler's loop for which the time with a kernel is solved: linear in between, as two phases are."""


def table_of(spec: Qos, machine: Machine | None, *, time_limit_s: float = 1.0, seed: int = 1) -> Table:
    """Return all times of ``spec``.

    Parameters
    ----------
    spec
        The file.
    machine
        Where tasks run; only needed where there are some.
    time_limit_s
        For every kernel and every point of a pair that is solved; counted in work.
    seed
        Of the solver.

    Raises
    ------
    InvalidInputError
        A task has no plan, times are no whole nanoseconds, or fused times fall with more iterations.
    """
    solver = _Solver(machine, time_limit_s, seed)
    stream = tuple(solver.alone(kernel) for kernel in spec.stream)
    iterations, each, parts = [], [], []
    for filler in spec.fillers:
        count = solver.iterations(filler)
        alone = solver.alone(filler)
        iterations.append(count)
        each.append(-(-alone // count))
        parts.append(solver.parts(filler, alone, count))
    written = {(pair.stream, pair.filler): pair for pair in spec.pairs}
    rows = []
    for kernel, alone in zip(spec.stream, stream, strict=True):
        row: list[Fused | None] = []
        for filler, count in zip(spec.fillers, iterations, strict=True):
            pair = written.get((kernel.name, filler.name))
            if pair is not None:
                what = f"pair {kernel.name!r} and {filler.name!r}"
                points = pair.points or {count: pair.fused_us or Fraction(0)}
                if max(points) > count:
                    raise InvalidInputError(f"{what}: {max(points)} iterations, but {filler.name!r} has {count}")
                row.append(Fused(alone, tuple((x, whole_ns(points[x], what)) for x in sorted(points))))
            else:
                row.append(solver.together(kernel, filler, alone, count))
        rows.append(tuple(row))
    return Table(
        stream,
        tuple(each),
        tuple(iterations),
        tuple(rows),
        whole_ns(spec.deadline_us, "deadline_us"),
        whole_ns(spec.guard_us, "guard_us"),
        tuple(parts),
    )


class _Solver:
    def __init__(self, machine: Machine | None, seconds: float, seed: int) -> None:
        self.machine, self.seconds, self.seed = machine, seconds, seed

    def alone(self, kernel: StreamKernel) -> int:
        """Return the nanoseconds of a kernel, rounded up where it is solved."""
        if kernel.duration_us is not None:
            return whole_ns(kernel.duration_us, f"kernel {kernel.name!r}")
        assert kernel.task is not None
        return self._solved(kernel.name, kernel.task)

    def iterations(self, filler: Filler) -> int:
        """Return the iterations of a filler: those of the task's own loop, where it is one."""
        if filler.task is None:
            return filler.iterations
        found = getattr(filler.task, "iterations", None)
        count = None if found is None else found(self._machine(filler.name))
        return int(count or 1)

    def together(self, kernel: StreamKernel, filler: Filler, alone: int, count: int) -> Fused | None:
        """Solve a kernel beside parts of a filler; None where one of them is no task."""
        if kernel.task is None or filler.task is None:
            return None
        points: list[tuple[int, int]] = []
        least = alone
        for taken, task in self._shortened(filler.task, filler.name, count):
            # A search may find less for more; the time for less is then as good.
            least = max(least, self._solved(f"{kernel.name} with {filler.name}", kernel.task, task))
            points.append((taken, least))
        return Fused(alone, tuple(points))

    def parts(self, filler: Filler, alone: int, count: int) -> Fused | None:
        """Solve parts of a filler by themselves; None where it is no task, whose parts are taken to be equal."""
        if filler.task is None:
            return None
        points: list[tuple[int, int]] = []
        least = 0
        for taken, task in self._shortened(filler.task, filler.name, count):
            least = max(least, alone if taken == count else self._solved(f"a part of {filler.name}", task))
            points.append((taken, least))
        return Fused(0, tuple(points))

    def _shortened(self, task: Task, name: str, count: int) -> Iterator[tuple[int, Task]]:
        """Yield `PARTS` of a loop with their iterations; of another task all of it."""
        shortened = getattr(task, "shortened", None)
        for taken in sorted({max(1, int(count * part)) for part in PARTS}):
            if taken == count:
                yield count, task
            elif shortened is not None:
                yield taken, shortened(self._machine(name), taken)

    def _machine(self, name: str) -> Machine:
        if self.machine is None:
            raise InvalidInputError(f"kernel {name!r} is a task: name a machine, --hw or hw in the file")
        return self.machine

    def _solved(self, name: str, *tasks: Task) -> int:
        named = tuple(task.model_copy(update={"name": f"t{k}"}) for k, task in enumerate(tasks))
        work = Workload(name=name, tasks=named)
        found = solve(work, self._machine(name), time_limit_s=self.seconds, seed=self.seed, explained=False)
        if found.makespan_us is None:
            why = "" if found.infeasibility is None else f": {found.infeasibility.message}"
            raise InvalidInputError(f"{name}: there is no plan{why}")
        return math.ceil(found.makespan_us * 1000)
