"""What the predicted times of a plan must respect. Times are ticks, intervals half-open ``[start, end)``.

An interval of no length takes nothing. Every function takes ``report(kind, parties, message)`` and calls it once
per violation; rows cover every op once.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from hexloom.optimizer.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.formulations.problem import Mode, Problem, Rule
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.check_memory import Report
    from hexloom.optimizer.plan import Plan, QueueEntry
    from hexloom.optimizer.schedule import OpRow


ROUNDED = Fraction(1, 2**30)
"""Ticks of work that the simulator's rounding of long fractions may add to an op."""


class Held(NamedTuple):
    """One unit is held by ``op`` in ``[start, end)`` for the purpose ``what``."""

    start: Moment
    end: Moment
    op: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} of {self.op!r} [{self.start}, {self.end})"


def check_cover(problem: Problem, rows: Sequence[OpRow], report: Report) -> None:
    """Every op has one row, and every row an op."""
    count: dict[str, int] = defaultdict(int)
    for row in rows:
        count[row.op] += 1
    for op in problem.ops:
        if count[op.name] != 1:
            report("row_cover", (op.name,), f"op {op.name!r} has {count[op.name]} rows of times, not 1")
    known = {op.name for op in problem.ops}
    for name in count:
        if name not in known:
            report("row_cover", (name,), f"times are given for {name!r}, not an op of the problem")


def check_durations(
    problem: Problem, modes: Mapping[str, Mode], rows: Mapping[str, OpRow], progress: Progress, report: Report
) -> None:
    """Every op takes the ticks of its mode, from entry on, and keeps its deadline.

    Run: ``end = start + overhead + longest use``, ``done = start + overhead + latency``, observed at once.
    Transfer: ``end = start + issue <= transfer_start``, ``done = transfer_start + latency``, ``wait_start >= end``,
    ``observed = max(done, wait_start) + poll``. Where others slow the op, uses and latency are work that takes longer:
    from its first to its last moment of work it does all of it, and no more than the rounding of long fractions.
    """
    for op in problem.ops:
        row, mode = rows[op.name], modes[op.name]
        dma = mode.dma
        work = progress.done(op.name)
        done: Moment
        if work is None:
            done = progress.begun[op.name] + mode.latency_ticks
        else:
            done = row.done
            if not mode.latency_ticks <= work <= mode.latency_ticks + ROUNDED:
                text = f"op {op.name!r}, mode {mode.name!r}, does {float(work)} ticks of work, not {mode.latency_ticks}"
                report("work", (op.name,), text)
        exact: list[tuple[str, Moment, Moment]]
        if dma is None:
            longest = max((use.ticks for use in mode.uses if use.engine not in problem.shares), default=0)
            held = row.start if not longest and work is None else row.end
            if work is None and longest:
                held = row.start + mode.overhead_ticks + longest
            exact = [
                ("end", row.end, held),
                ("transfer_start", row.transfer_start, row.start),
                ("done", row.done, done),
                ("wait_start", row.wait_start, row.done),
                ("observed", row.observed, row.done),
            ]
        else:
            exact = [
                ("end", row.end, row.start + dma.issue_ticks),
                ("done", row.done, done),
                ("observed", row.observed, max(row.done, row.wait_start) + dma.poll_ticks),
            ]
            for name, value in (("transfer_start", row.transfer_start), ("wait_start", row.wait_start)):
                if value < row.end:
                    text = f"op {op.name!r} has {name} {value}, before its issue ends at {row.end} ticks"
                    report("duration", (op.name,), text)
        for name, value, right in exact:
            if value != right:
                text = f"op {op.name!r}, mode {mode.name!r}, has {name} {value}, but its mode gives {right} ticks"
                report("duration", (op.name,), text)
        if row.start < problem.entry_ticks:
            text = f"op {op.name!r} starts at {row.start}, before the entry is over at {problem.entry_ticks} ticks"
            report("entry", (op.name,), text)
        if op.deadline_ticks is not None and row.observed > op.deadline_ticks:
            late = row.observed - op.deadline_ticks
            text = f"op {op.name!r} ends at {row.observed}, {late} ticks after its deadline {op.deadline_ticks}"
            report("deadline", (op.name,), text)


def check_order(problem: Problem, plan: Plan, rows: Mapping[str, OpRow], report: Report) -> None:
    """No op starts before what it depends on or waits for is observed; queues keep their order in time."""
    edges = {(edge.before, edge.after): "depends on" for edge in problem.precedences}
    for wait in plan.waits:
        edges.setdefault((wait.before, wait.after), "waits for")
    for (before, after), why in edges.items():
        start, known = rows[after].start, rows[before].observed
        if start < known:
            kind = "dependency_time" if why == "depends on" else "wait_time"
            text = f"op {after!r} starts at {start}, but {why} {before!r}, which is observed at {known} ticks"
            report(kind, (before, after), text)
    for queue in plan.queues:
        for first, then in pairwise(queue.entries):
            if _begin(then, rows) < _begin(first, rows):
                text = (
                    f"queue {queue.engine}[{queue.unit}] has {first.action} {first.op!r} before {then.action} "
                    f"{then.op!r}, but they begin at {_begin(first, rows)} and {_begin(then, rows)} ticks"
                )
                report("queue_time", (first.op, then.op), text)


def _begin(entry: QueueEntry, rows: Mapping[str, OpRow]) -> Moment:
    row = rows[entry.op]
    return row.wait_start if entry.action == "wait" else row.start


def check_units(
    plan: Plan, modes: Mapping[str, Mode], rows: Mapping[str, OpRow], progress: Progress, report: Report
) -> None:
    """No unit does two things at once; the issue and the wait for a transfer hold its owner."""
    lanes: dict[tuple[str, int], list[Held]] = defaultdict(list)
    for assignment in plan.assignments:
        op, mode, row = assignment.op, modes[assignment.op], rows[assignment.op]
        if mode.dma is not None:
            lane = lanes[mode.dma.owner_engine, mode.dma.owner_unit]
            lane.append(Held(row.start, row.start + mode.dma.issue_ticks, op, "issue"))
            lane.append(Held(row.wait_start, row.observed, op, "wait"))
            continue
        for use in mode.uses:
            for unit in assignment.units.get(use.engine, ()):
                end = progress.reached(op, use.ticks)
                lanes[use.engine, unit].append(Held(row.start, end, op, "run"))
    for (engine, unit), lane in lanes.items():
        active: list[Held] = []
        for held in sorted(h for h in lane if h.start < h.end):
            active = [other for other in active if other.end > held.start]
            for other in active:
                both = min(held.end, other.end)
                text = f"{engine}[{unit}] is held by {other} and {held}: both in [{held.start}, {both}) ticks"
                report("engine_overlap", (other.op, held.op), text)
            active.append(held)


def check_pipes(
    problem: Problem, modes: Mapping[str, Mode], rows: Mapping[str, OpRow], progress: Progress, report: Report
) -> None:
    """At no instant do transfers hold more units of a pipe than it has."""
    for pipe in (engine for engine in problem.engines if engine.kind == "pipe"):
        held: dict[str, tuple[Moment, Moment, int]] = {}
        for op in problem.ops:
            moved = rows[op.name].transfer_start
            for use in modes[op.name].uses:
                if use.engine == pipe.name and use.ticks > 0:
                    held[op.name] = (moved, progress.reached(op.name, use.ticks), use.units)
        # At one instant the ends come first: [start, end) is half-open, and a negative number sorts before.
        changes = sorted(change for start, end, units in held.values() for change in ((start, units), (end, -units)))
        used, over = 0, False
        for at, units in changes:
            used += units
            if used > pipe.units and not over:
                users = tuple(name for name, (start, end, _) in held.items() if start <= at < end)
                names = " and ".join(repr(name) for name in users)
                wanted = sum(held[name][2] for name in users)
                text = f"pipe {pipe.name!r} has {pipe.units} units, but {names} hold {wanted} at tick {at}"
                report("pipe_overload", users, text)
            over = used > pipe.units


def check_rows(
    problem: Problem,
    plan: Plan,
    modes: Mapping[str, Mode],
    rows: Mapping[str, OpRow],
    rule: Rule,
    report: Report,
) -> None:
    """All of the above that needs no memory."""
    progress = Progress(problem, rule, modes, rows)
    check_durations(problem, modes, rows, progress, report)
    check_order(problem, plan, rows, report)
    check_units(plan, modes, rows, progress, report)
    check_pipes(problem, modes, rows, progress, report)
