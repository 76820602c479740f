"""Baseline ``concurrent``: every task with its loop of today, started together, on queues of its own, without a plan.

The scratchpad is given first come, first served as well: a task begins when there is room for all of its buffers beside
those of the tasks that have not ended. Where all fit at once, what is left over is shared equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hexloom.formulations.problem import Scratchpad
from hexloom.optimizer.planner import make_plan
from hexloom.optimizer.restrict import decision_of_loop
from hexloom.optimizer.study.first_come import first_come
from hexloom.optimizer.study.steps import with_barriers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hexloom.formulations.problem import Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.lower import TaskLoop
    from hexloom.optimizer.plan import Plan
    from hexloom.optimizer.simulate import ExactTimeline

Part = tuple[str, "Problem", "Plan"]


@dataclass(frozen=True)
class Concurrent:
    """Ticks of tasks side by side (None, and ``why``: what forbids it), and of the same if nothing slowed anything.

    ``alone`` is the sum over the tasks of what each takes alone in these queues, without its entry. ``waited`` are the
    tasks that had to wait for scratchpad.
    """

    timeline: ExactTimeline | None
    why: str = ""
    free: Moment = 0
    alone: Moment = 0
    waited: tuple[str, ...] = ()


class NoneSideBySideError(Exception):
    """Why tasks cannot run side by side without a plan, in words."""


def concurrent(problem: Problem, loops: Sequence[TaskLoop], rule: Rule) -> Concurrent:
    """Return the baseline for the loops of all tasks of ``problem``."""
    try:
        caps = caps_of(problem, loops)
        parts = parts_of(problem, loops, caps)
    except NoneSideBySideError as why:
        return Concurrent(None, str(why))
    timeline, after, waited = _admitted(problem, parts, caps, problem.scratchpad.available_bytes, rule)
    free = first_come(problem, parts, after, "none").makespan
    alone = sum(first_come(problem, [part], (), rule).makespan - problem.entry_ticks for part in parts)
    return Concurrent(timeline, "", free, alone, waited)


def caps_of(problem: Problem, loops: Sequence[TaskLoop]) -> list[int]:
    """Return the bytes of scratchpad that each task has while it runs.

    Raises
    ------
    NoneSideBySideError
        Only a plan knows how they share it.
    """
    for buffer in problem.buffers:
        if buffer.address is not None or buffer.resident or buffer.pool is not None:
            raise NoneSideBySideError(
                f"buffer {buffer.name!r} is pinned, resident or in a pool, which only a plan knows"
            )
    task_of = {name: k for k, loop in enumerate(loops) for name in loop.loop}
    for buffer in problem.buffers:
        if len({task_of[name] for name in buffer.ops}) > 1:
            raise NoneSideBySideError(f"buffer {buffer.name!r} belongs to several tasks, whose order only a plan knows")
    whole = [problem.restricted(frozenset(loop.loop), loop.task) for loop in loops]
    room = problem.scratchpad.available_bytes
    needs = [_bytes_needed(part, loop, room) for part, loop in zip(whole, loops, strict=True)]
    for need, loop in zip(needs, loops, strict=True):
        if need is None:
            raise NoneSideBySideError(f"task {loop.task!r}: its loop of today does not fit into {room} B of scratchpad")
    caps = [need or 0 for need in needs]
    crossing = any(task_of[edge.before] != task_of[edge.after] for edge in problem.precedences)
    if crossing and sum(caps) > room:
        raise NoneSideBySideError(
            "tasks wait for each other, and their buffers do not fit at once: without a plan they block"
        )
    spare = (room - sum(caps)) // len(caps)
    if spare > 0:
        caps = [cap + spare if part.buffers else cap for cap, part in zip(caps, whole, strict=True)]
    return caps


def parts_of(problem: Problem, loops: Sequence[TaskLoop], caps: Sequence[int]) -> list[Part]:
    """Return each task with its own plan within so many bytes.

    Raises
    ------
    NoneSideBySideError
        One of them does not fit.
    """
    return [
        _part(problem.restricted(frozenset(loop.loop), loop.task), loop, cap)
        for loop, cap in zip(loops, caps, strict=True)
    ]


def _part(part: Problem, loop: TaskLoop, cap: int) -> Part:
    decision = decision_of_loop(_within(part, cap), [part.op_index[name] for name in loop.loop])
    if decision is None:
        raise NoneSideBySideError(f"task {loop.task!r}: its loop of today does not fit into {cap} B of scratchpad")
    if loop.one_stage_at_a_time:  # today this loop overlaps nothing, whoever runs beside it
        decision = with_barriers(part, decision)
    return loop.task, part, make_plan(part, decision)


def _within(part: Problem, cap: int) -> Problem:
    return part.changed(scratchpad=Scratchpad(total_bytes=cap, reserved_bytes=0))


def _bytes_needed(part: Problem, loop: TaskLoop, room: int) -> int | None:
    """Return the bytes of all buffers side by side, or, where these are more than ``room``, the fewest for the loop."""
    align = max((buffer.align_bytes for buffer in part.buffers), default=1)

    def up(size: int) -> int:
        return -(-size // align) * align

    largest = sum(up(buffer.occupied_bytes) for buffer in part.buffers)
    order = [part.op_index[name] for name in loop.loop]
    if largest <= room // 2 or decision_of_loop(_within(part, room // align * align), order) is None:
        return largest if largest <= room else None
    low, high = 0, room // align
    while high - low > 1:
        middle = (low + high) // 2
        if decision_of_loop(_within(part, middle * align), order) is None:
            low = middle
        else:
            high = middle
    return high * align


def _admitted(
    problem: Problem, parts: Sequence[Part], caps: Sequence[int], room: int, rule: Rule
) -> tuple[ExactTimeline, tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Let tasks in as bytes come free; what began before a task does not change by it, so all is simulated again."""
    inside: list[int] = []
    running: set[int] = set()
    after: list[tuple[str, str]] = []
    waited: list[str] = []
    gate: list[int] = []
    for k in range(len(parts)):
        while running and sum(caps[j] for j in running) + caps[k] > room:
            ended = _first_to_end(first_come(problem, [parts[j] for j in inside], after, rule), parts, running)
            running.discard(ended)
            gate.append(ended)
            if parts[k][0] not in waited:
                waited.append(parts[k][0])
        if gate:  # nobody enters before those who gave their bytes back, nor before those who waited longer
            after += [(sink, source) for sink in _sinks(parts[gate[-1]][1]) for source in _sources(parts[k][1])]
        inside.append(k)
        running.add(k)
    return first_come(problem, parts, after, rule), tuple(after), tuple(waited)


def _first_to_end(timeline: ExactTimeline, parts: Sequence[Part], running: set[int]) -> int:
    ends = {k: max(timeline.times[op.name].observed for op in parts[k][1].ops) for k in sorted(running)}
    return min(ends, key=lambda k: ends[k])


def _sinks(part: Problem) -> Iterator[str]:
    return (op.name for i, op in enumerate(part.ops) if not part.successors[i])


def _sources(part: Problem) -> Iterator[str]:
    return (op.name for i, op in enumerate(part.ops) if not part.predecessors[i])
