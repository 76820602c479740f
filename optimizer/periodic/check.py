"""The independent checker of periodic schedules.

``written`` is a schedule like any other, and so is each of ``grown``; both are checked in full. What is left to show is
that the plan goes on as it does there. Each of ``grown`` must be ``written`` with one period more of one stretch: in
every queue, in the waits, in the addresses and in the times, up to one point the same, and from there on the same one
period later. Where both descriptions hold for a whole period, the plan is a steady state: what comes before and after a
period more is what came before and after the one before. Everything that two ops, however many runs apart, owe each
other stands in these two schedules, since what a run reaches into lies within the steady state that they show.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.optimizer.arithmetic import Measure, all_work, windows
from hexloom.optimizer.check import Violation, check_schedule
from hexloom.optimizer.sharing import acting_rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.schedule import Schedule

    Label = tuple[str, str, int, int]
    Report = Callable[[str, tuple[str, ...], str], None]

TIMES = ("start", "end", "transfer_start", "done", "wait_start", "observed")

ONCE = -1
"""The iteration of what runs once."""


def check_periodic_schedule(schedule: PeriodicSchedule) -> list[Violation]:
    """Return every violation of a periodic schedule file; an empty list means that it holds for all its iterations."""
    found: list[Violation] = []

    def report(kind: str, parties: tuple[str, ...], message: str) -> None:
        found.append(Violation(kind=kind, parties=parties, message=message))

    for part in (schedule.written, *(grown for grown in schedule.grown if grown is not None)):
        found += check_schedule(part)
    if found:
        return found
    _check_counts(schedule, report)
    if not found:
        for k, grown in enumerate(schedule.grown):
            if grown is not None:
                _check_growth(schedule, k, grown, report)
        _check_makespan(schedule, report)
        _check_bounds(schedule, report)
    return found


def _check_counts(schedule: PeriodicSchedule, report: Report) -> None:
    """The stretches have all iterations, and what one leaves out are whole periods that another file shows."""
    if len(schedule.grown) != len(schedule.stretches):
        report("grown", (), f"there are {len(schedule.stretches)} stretches, but {len(schedule.grown)} grown schedules")
        return
    for task, trips in schedule.trips.items():
        have = sum(stretch.count.get(task, 0) for stretch in schedule.stretches)
        if have != trips:
            report("trips", (task,), f"task {task!r} has {trips} iterations, the stretches have {have}")
    for k, (stretch, grown) in enumerate(zip(schedule.stretches, schedule.grown, strict=True)):
        if stretch.left_out % stretch.period or (stretch.left_out > 0) != (grown is not None):
            report(
                "left_out",
                (f"stretch {k}",),
                f"stretch {k} leaves out {stretch.left_out} runs: whole periods of {stretch.period}, and a grown schedule "
                "if it leaves any out",
            )
        short = [
            task for task, times in stretch.times.items() if times * (stretch.left_out) > stretch.count.get(task, 0)
        ]
        if short:
            report("left_out", (f"stretch {k}", *short), f"stretch {k} leaves out more than it has of {short[0]!r}")


def _labels(schedule: Schedule, parts: dict[tuple[str, str], int]) -> dict[str, Label]:
    """Return for every op its task, stage, part and iteration."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for op in schedule.problem.ops:
        stage = op.task, op.stage
        if parts.get(stage):
            iteration, part = divmod(seen[stage], parts[stage])
            found[op.name] = (*stage, part, iteration)
        else:
            found[op.name] = (*stage, seen[stage], ONCE)
        seen[stage] += 1
    return found


def _parts(schedule: PeriodicSchedule) -> dict[tuple[str, str], int] | None:
    """Return how many ops of a (task, stage) an iteration has, by what the grown schedules have more."""
    count = Counter((op.task, op.stage) for op in schedule.written.problem.ops)
    parts: dict[tuple[str, str], int] = {}
    for stretch, grown in zip(schedule.stretches, schedule.grown, strict=True):
        if grown is None:
            continue
        more = Counter((op.task, op.stage) for op in grown.problem.ops)
        for stage, n in more.items():
            extra = n - count[stage]
            each, rest = divmod(extra, stretch.advance.get(stage[0], 1))
            if rest or extra < 0 or (each and parts.setdefault(stage, each) != each):
                return None
    return parts


def _check_growth(schedule: PeriodicSchedule, k: int, grown: Schedule, report: Report) -> None:
    stretch, parts, who = schedule.stretches[k], _parts(schedule), (f"stretch {k}",)
    if parts is None:
        report("grown", who, f"grown schedule {k} has other ops more than whole iterations")
        return
    written = schedule.written
    old, new = _labels(written, parts), _labels(grown, parts)

    def later(label: Label) -> Label:
        task, stage, part, iteration = label
        return (task, stage, part, iteration if iteration == ONCE else iteration + stretch.advance.get(task, 0))

    cut = _steady_from(schedule, k, old)
    if cut is None:
        report("grown", who, f"the written schedule does not hold two steady periods of stretch {k}")
        return
    rows_old = {old[row.op]: row for row in written.rows}
    rows_new = {new[row.op]: row for row in grown.rows}
    moved = {later(label): label for label in rows_old}
    source: dict[Label, tuple[Label, bool]] = {}
    for label, row in rows_new.items():
        early = row.start < cut
        of = label if early else moved.get(label)
        if of not in rows_old:
            report("grown", (row.op,), f"op {row.op!r} of grown schedule {k} repeats none of the written one")
            return
        source[label] = of, early
        shift = 0 if early else stretch.period_ticks
        if [getattr(rows_old[of], f) + shift for f in TIMES] != [getattr(row, f) for f in TIMES]:
            report("steady_time", (row.op,), f"op {row.op!r} does not run {shift} ticks after what it repeats")

    def shifted(labels: set[Label], early: bool) -> set[Label]:
        """Return who the op that repeats them has in their place: those before the cut are there once."""
        return labels if early else {later(w) if rows_old[w].start >= cut - stretch.period_ticks else w for w in labels}

    waits_old, waits_new = _waits(written, old), _waits(grown, new)
    modes_old = {old[a.op]: (a.mode, a.units) for a in written.plan.assignments}
    modes_new = {new[a.op]: (a.mode, a.units) for a in grown.plan.assignments}
    for label, (of, early) in source.items():
        name = rows_new[label].op
        if waits_new[label] != shifted(waits_old[of], early):
            report("steady_wait", (name,), f"op {name!r} does not wait for those whom what it repeats waits for")
        if modes_new[label] != modes_old[of]:
            report("steady_unit", (name,), f"op {name!r} runs in another mode or on other units than what it repeats")
    _check_queues(written, grown, old, new, later, cut, report)
    _check_addresses(written, grown, old, new, later, report)


def _steady_from(schedule: PeriodicSchedule, k: int, labels: dict[str, Label]) -> Moment | None:
    """Return a time in the steady state of stretch ``k``: what starts a period earlier, or later, belongs to it.

    That is the start of a run, a period after all that belongs to runs before ``first`` has started.
    """
    stretch = schedule.stretches[k]
    skipped: Counter[str] = Counter()
    for before in schedule.stretches[:k]:
        skipped.update({task: n - before.left_out * before.times[task] for task, n in before.count.items()})
    first: dict[int, Moment] = {}
    transient: Moment = 0
    for row in schedule.written.rows:
        task, _, _, iteration = labels[row.op]
        if task not in stretch.times or iteration == ONCE or iteration < skipped[task]:
            if iteration == ONCE and _runs_first(schedule.written, row.op):
                transient = max(transient, row.start)
            continue
        run = (iteration - skipped[task]) // stretch.times[task]
        first[run] = min(first.get(run, row.start), row.start)
        if run < stretch.first:
            transient = max(transient, row.start)
    runs = range(stretch.first + stretch.period, stretch.runs - stretch.left_out)
    return next((first[r] for r in runs if r in first and first[r] - stretch.period_ticks > transient), None)


def _runs_first(schedule: Schedule, op: str) -> bool:
    """Whether somebody depends on an op that runs once."""
    return bool(schedule.problem.successors[schedule.problem.op_index[op]])


def _waits(schedule: Schedule, labels: dict[str, Label]) -> dict[Label, set[Label]]:
    found: dict[Label, set[Label]] = defaultdict(set)
    for wait in schedule.plan.waits:
        found[labels[wait.after]].add(labels[wait.before])
    return found


def _check_queues(
    written: Schedule,
    grown: Schedule,
    old: dict[str, Label],
    new: dict[str, Label],
    later: Callable[[Label], Label],
    cut: Moment,
    report: Report,
) -> None:
    """Every queue is that of the written schedule up to the cut, and from a period before the cut on once more."""
    queues = {(q.engine, q.unit): [(old[e.op], e.action) for e in q.entries] for q in written.plan.queues}
    rows = {row.op: row for row in grown.rows}
    for queue in grown.plan.queues:
        before = queues.pop((queue.engine, queue.unit), [])
        after = [(new[e.op], e.action) for e in queue.entries]
        at = [rows[e.op].wait_start if e.action == "wait" else rows[e.op].start for e in queue.entries]
        early = next((i for i, moment in enumerate(at) if moment >= cut), len(at))
        back = early - (len(after) - len(before))
        moved = [(later(label), action) for label, action in before[max(back, 0) :]]
        if back < 0 or after[:early] != before[:early] or after[early:] != moved:
            name = f"{queue.engine}[{queue.unit}]"
            report("steady_queue", (name,), f"queue {name} does not go on as in the period before")
    for engine, unit in queues:
        report("steady_queue", (f"{engine}[{unit}]",), f"queue {engine}[{unit}] is gone with a period more")


def _check_addresses(
    written: Schedule,
    grown: Schedule,
    old: dict[str, Label],
    new: dict[str, Label],
    later: Callable[[Label], Label],
    report: Report,
) -> None:
    """Every buffer lies where the one that it repeats does; those that last lie where they did."""
    known: dict[frozenset[Label], set[int]] = defaultdict(set)
    lasting: dict[str, int] = {}
    for buffer in written.problem.buffers:
        at = written.plan.addresses[buffer.name]
        users = frozenset(old[name] for name in buffer.ops)
        known[users].add(at)
        known[frozenset(later(label) for label in users)].add(at)
        lasting[buffer.name] = at
    for buffer in grown.problem.buffers:
        at = grown.plan.addresses[buffer.name]
        users = frozenset(new[name] for name in buffer.ops)
        if at not in known.get(users, ()) and lasting.get(buffer.name) != at:
            report("steady_address", (buffer.name,), f"buffer {buffer.name!r} lies at {at} B, where nothing lay before")


def _check_makespan(schedule: PeriodicSchedule, report: Report) -> None:
    total = Fraction(schedule.written.makespan)
    for stretch in schedule.stretches:
        total += stretch.periods_left_out * Fraction(stretch.period_ticks)
    if total != schedule.makespan:
        report("makespan", (), f"the makespan is {schedule.makespan} ticks, its stretches add up to {total}")
    for k, (stretch, grown) in enumerate(zip(schedule.stretches, schedule.grown, strict=True)):
        if grown is not None and grown.makespan != schedule.written.makespan + stretch.period_ticks:
            report("makespan", (f"stretch {k}",), f"a period more of stretch {k} does not take {stretch.period_ticks}")


def _check_bounds(schedule: PeriodicSchedule, report: Report) -> None:
    """Work of all iterations over units, after the least head and before the least tail: derived again."""
    problem = schedule.written.problem.under(schedule.contention)
    rule = acting_rule(problem, schedule.contention)
    parts = _parts(schedule) or {}
    labels = _labels(schedule.written, parts)
    have = {task: 0 for task in schedule.trips}
    for task, _, _, iteration in labels.values():
        have[task] = max(have.get(task, 0), iteration + 1)
    measure = Measure(problem, rule)
    window = windows(problem, rule)
    best: dict[str, Fraction] = {}
    for work in all_work(problem, measure):
        total = int(work.amount.sum())
        for i, amount in zip(work.ops.tolist(), work.amount.tolist(), strict=True):
            task, _, _, iteration = labels[problem.ops[i].name]
            if iteration != ONCE and iteration == have[task] // 2:
                total += amount * (schedule.trips[task] - have[task])
        # Windows are in whole ticks here; rounded down they are still bounds.
        head = int((window.head[work.ops] * measure.fine + work.before).min())
        tail = int((window.tail[work.ops] * measure.fine + work.behind).min())
        best[work.engine] = Fraction(head + measure.quotient(total, work.units) + tail, measure.fine)
    for row in schedule.bounds:
        again = best.get(row.engine or "", Fraction(0))
        if row.ticks > again + 2:
            report("bound", (row.name,), f"bound {row.name!r} says {row.ticks} ticks, derived again it is {again}")
        if row.ticks > schedule.makespan:
            report("bound", (row.name,), f"bound {row.name!r} of {row.ticks} ticks is above the makespan")
    if schedule.lower_bound != max(row.ticks for row in schedule.bounds):
        report("bound", (), "the lower bound is not the best of the bounds")
