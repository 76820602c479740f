"""Changes of kernel tasks that need less scratchpad: fewer buffers, smaller chunks, fewer workers, a split k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hexloom.hwmodels import format_bytes
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.infeasibility import Lever
from hexloom.optimizer.kernels import MatmulW4A16
from hexloom.optimizer.kernels.matmul_w4a16 import TILE, Depth
from hexloom.optimizer.kernels.spec import workers_of
from hexloom.optimizer.levers import SOLVE_S, number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from fractions import Fraction

    from hexloom.formulations.problem import Problem
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.levers import Solved
    from hexloom.optimizer.workload import Task, Workload


class Change(NamedTuple):
    """A changed workload, and what was changed in words."""

    text: str
    workload: Workload


def changes_of(workload: Workload, machine: Machine, tasks: Collection[str]) -> Iterator[Change]:
    """Yield the changes of the tasks named in ``tasks``, those that cost least first."""
    for k, task in enumerate(workload.tasks):
        if task.name not in tasks and not any(f"{task.name}.{copy}" in tasks for copy in range(task.copies)):
            continue
        for text, changed in _changed(task, machine):
            edited = (*workload.tasks[:k], task.model_copy(update=changed), *workload.tasks[k + 1 :])
            yield Change(f"task {task.name!r}: {text}", workload.model_copy(update={"tasks": edited}))


def _changed(task: Task, machine: Machine) -> Iterator[tuple[str, dict[str, Any]]]:
    depth = getattr(task, "depth", None)
    if isinstance(depth, Depth):
        for edge in type(depth).model_fields:
            if getattr(depth, edge) > 1:
                yield f"depth.{edge} {getattr(depth, edge)} to 1", {"depth": depth.model_copy(update={edge: 1})}
    elif isinstance(depth, int) and depth > 1:
        yield f"depth {depth} to 1", {"depth": 1}
    for key, least in (("n_chunk", TILE), ("m_chunk", TILE), ("rows_per_block", 1)):
        size = getattr(task, key, None)
        if size is not None and size > least:
            half = -(-size // (2 * least)) * least
            yield f"{key} {size} to {half}", {key: half}
    if hasattr(task, "workers"):
        workers = workers_of(machine, task.name, task.workers)
        if workers > 1:
            yield f"workers {workers} to {workers - 1}", {"workers": workers - 1}
    if isinstance(task, MatmulW4A16) and task.k % (2 * TILE) == 0:
        text = f"split k by 2: two matmuls of k = {task.k // 2} (adding their results up is not counted)"
        yield text, {"k": task.k // 2, "copies": 2 * task.copies}


def kernel_levers(
    workload: Workload,
    machine: Machine,
    tasks: Collection[str],
    before: Problem,
    roomy: Fraction | None,
    solve_changed: Callable[[Workload, float], tuple[Solved, Problem]],
    seconds_left: Callable[[], float],
) -> Iterator[Lever]:
    """Yield what changes of kernels save in bytes and cost in time.

    ``roomy`` is the makespan of the unchanged workload with room for everything, which costs are counted from.
    """
    held = sum(b.occupied_bytes for b in before.buffers)
    for change in changes_of(workload, machine, tasks):
        if seconds_left() <= 0:
            yield Lever(text=change.text)
            continue
        try:
            (outcome, makespan), after = solve_changed(change.workload, min(SOLVE_S, seconds_left()))
        except InvalidInputError:
            continue
        saved = held - sum(b.occupied_bytes for b in after.buffers)
        cost = None if makespan is None or roomy is None else makespan - roomy
        text = f"{change.text}, saves {format_bytes(saved)}" if saved > 0 else change.text
        yield Lever(text=text, outcome=outcome, makespan=number(makespan), saved_bytes=max(0, saved), cost=number(cost))
