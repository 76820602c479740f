"""Changes of kernel tasks that need less scratchpad: fewer buffers, smaller chunks, fewer workers, a split k."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hexloom.formulations.feasibility import first_shortfall
from hexloom.formulations.problem import Scratchpad
from hexloom.hwmodels import format_bytes
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.groups import roomy_bytes
from hexloom.optimizer.infeasibility import Lever
from hexloom.optimizer.kernels import MatmulW4A16
from hexloom.optimizer.kernels.ggml_layout import TILE, Depth
from hexloom.optimizer.kernels.spec import workers_of
from hexloom.optimizer.levers import MOST_OPS, SOLVE_S, makespan_of, number
from hexloom.optimizer.lower import lower
from hexloom.optimizer.splits import with_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from fractions import Fraction

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.decide import Decider
    from hexloom.optimizer.workload import Task, Workload


HALVES = (2, 4, 8, 16)
"""Into how many parts chunks and k are cut, and by how much workers are fewer, until arithmetic finds no fault."""


class Change(NamedTuple):
    """Ever larger changes of one kind, each in words and as the workload that has it."""

    steps: tuple[tuple[str, Workload], ...]


def changes_of(workload: Workload, machine: Machine, tasks: Collection[str]) -> Iterator[Change]:
    """Yield the changes of the tasks named in ``tasks``, those that cost least first."""
    for k, task in enumerate(workload.tasks):
        if task.name not in tasks and not any(f"{task.name}.{copy}" in tasks for copy in range(task.copies)):
            continue
        for steps in _changed(task, machine):
            found = []
            for text, changed in steps:
                edited = (*workload.tasks[:k], task.model_copy(update=changed), *workload.tasks[k + 1 :])
                found.append((f"task {task.name!r}: {text}", workload.model_copy(update={"tasks": edited})))
            if found:
                yield Change(tuple(found))


Steps = list[tuple[str, dict[str, Any]]]


def _changed(task: Task, machine: Machine) -> Iterator[Steps]:
    depth = getattr(task, "depth", None)
    if isinstance(depth, Depth):
        for edge in type(depth).model_fields:
            if getattr(depth, edge) > 1:
                yield [(f"depth.{edge} {getattr(depth, edge)} to 1", {"depth": depth.model_copy(update={edge: 1})})]
    elif isinstance(depth, int) and depth > 1:
        yield [(f"depth {depth} to 1", {"depth": 1})]
    for key, least in (("n_chunk", TILE), ("m_chunk", TILE), ("rows_per_block", 1)):
        size = getattr(task, key, None) or least
        parts = [-(-size // (pieces * least)) * least for pieces in HALVES]
        yield [(f"{key} {size} to {part}", {key: part}) for part in dict.fromkeys(parts) if part < size]
    if hasattr(task, "workers"):
        workers = workers_of(machine, task.name, task.workers)
        fewer = dict.fromkeys(-(-workers // pieces) for pieces in HALVES)
        yield [(f"workers {workers} to {few}", {"workers": few}) for few in fewer if few < workers]
    if isinstance(task, MatmulW4A16):
        yield [
            (
                f"split k by {n}: {n} matmuls of k = {task.k // n} (adding their results up is not counted)",
                {"k": task.k // n, "copies": n * task.copies},
            )
            for n in HALVES
            if task.k % (n * TILE) == 0
        ]


def kernel_levers(
    workload: Workload,
    machine: Machine,
    tasks: Collection[str],
    before: Problem,
    rule: Rule,
    decider: Decider,
    until: float,
) -> Iterator[Lever]:
    """Yield what changes of kernels save in bytes and cost in time, until the monotonic clock shows ``until``.

    ``before`` is the problem of the unchanged workload. Costs are counted from its makespan with room for everything.
    """
    held = _held(before)
    roomy: Fraction | None = None
    if len(before.ops) <= MOST_OPS and time.monotonic() < until:
        room = with_parts(before, scratchpad=Scratchpad(total_bytes=roomy_bytes(before)))
        roomy = makespan_of(room, decider.good(room, rule, SOLVE_S))
    for change in changes_of(workload, machine, tasks):
        if time.monotonic() >= until:
            yield Lever(text=change.steps[0][0])
            continue
        found = _first_that_fits(change, machine, rule)
        if found is None:
            continue
        text, after = found
        saved = next((b - a for b, a in zip(held, _held(after), strict=True) if b > a), 0)
        text = f"{text}, saves {format_bytes(saved)}" if saved else text
        if len(after.ops) > MOST_OPS and first_shortfall(after) is None:
            yield Lever(text=text, saved_bytes=saved)
            continue
        answer = decider.good(after, rule, SOLVE_S)
        makespan = makespan_of(after, answer)
        cost = None if makespan is None or roomy is None else makespan - roomy
        yield Lever(text=text, outcome=answer.verdict, makespan=number(makespan), saved_bytes=saved, cost=number(cost))


def _held(problem: Problem) -> tuple[int, int]:
    """Return the bytes of the hungriest op, and of all buffers."""
    sizes = [b.occupied_bytes for b in problem.buffers]
    return max((sum(sizes[b] for b in of) for of in problem.op_buffers), default=0), sum(sizes)


def _first_that_fits(change: Change, machine: Machine, rule: Rule) -> tuple[str, Problem] | None:
    """Return the first step in which arithmetic finds no fault, else the largest; None when none can be lowered."""
    last = None
    for text, workload in change.steps:
        try:
            last = text, lower(workload, machine, rule).problem.under(rule)
        except InvalidInputError:
            break
        if first_shortfall(last[1]) is None:
            break
    return last
