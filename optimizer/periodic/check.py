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

from hexloom.optimizer.check import Violation, check_schedule
from hexloom.optimizer.periodic.check_bounds import ONCE, check_whole_bounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.formulations.problem import Problem
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule, Stretch
    from hexloom.optimizer.schedule import Schedule

    Label = tuple[str, str, int, int]
    Fault = tuple[str, tuple[str, ...], str]
    Report = Callable[[str, tuple[str, ...], str], None]

TIMES = ("start", "end", "transfer_start", "done", "wait_start", "observed")

HEAD = ("name", "machine", "machine_digest", "contention", "seed")

UNSTEADY = ("grown", "steady_time", "steady_wait", "steady_unit", "steady_queue", "steady_address")
"""Kinds of violations that say that a schedule with a period more is not the written one with its steady state."""


def check_periodic_schedule(schedule: PeriodicSchedule) -> list[Violation]:
    """Return every violation of a periodic schedule file; an empty list means that it holds for all its iterations."""
    found: list[Violation] = []

    def report(kind: str, parties: tuple[str, ...], message: str) -> None:
        found.append(Violation(kind=kind, parties=parties, message=message))

    for part in (schedule.written, *(grown for grown in schedule.grown if grown is not None)):
        found += check_schedule(part)
    if found:
        return found
    _check_head(schedule, report)
    _check_counts(schedule, report)
    if found:
        return found
    for k, grown in enumerate(schedule.grown):
        if grown is not None:
            _check_growth(schedule, k, grown, report)
    _check_makespan(schedule, report)
    if not found:
        labels = labels_of(schedule.written.problem, parts_of(schedule) or {})
        _check_written_counts(schedule, labels, report)
        check_whole_bounds(schedule, labels, report)
    return found


def _check_head(schedule: PeriodicSchedule, report: Report) -> None:
    """Report where the file says of itself what the schedules in it do not."""
    for part in (schedule.written, *(grown for grown in schedule.grown if grown is not None)):
        for field in HEAD:
            ours, theirs = getattr(schedule, field), getattr(part, field)
            if ours != theirs:
                report("head", (field,), f"{field} is {ours!r}, in a schedule that the file holds {theirs!r}")
                return


def _check_counts(schedule: PeriodicSchedule, report: Report) -> None:
    """Report where stretches lack iterations, or leave out what is no whole period that a grown schedule shows."""
    if len(schedule.grown) != len(schedule.stretches):
        report("grown", (), f"there are {len(schedule.stretches)} stretches, but {len(schedule.grown)} grown schedules")
        return
    for task in dict.fromkeys((*schedule.trips, *(t for stretch in schedule.stretches for t in stretch.count))):
        trips = schedule.trips.get(task, 0)
        have = sum(stretch.count.get(task, 0) for stretch in schedule.stretches)
        if have != trips or trips < 1:
            report("trips", (task,), f"task {task!r} has {trips} iterations, the stretches have {have}")
    for k, (stretch, grown) in enumerate(zip(schedule.stretches, schedule.grown, strict=True)):
        odd = [task for task, n in (*stretch.times.items(), *stretch.count.items()) if n < 1]
        odd += [task for task in stretch.count if task not in stretch.times]
        if stretch.interval_ticks <= 0:
            what = f"stretch {k} has an interval of {stretch.interval_ticks} ticks; it must be above 0"
            report("interval", (f"stretch {k}",), what)
        if odd or not stretch.times:
            why = f"so many of {odd[0]!r} are no iterations of a body" if odd else "its body has no iterations"
            report("times", (f"stretch {k}", *odd), f"stretch {k}: {why}")
            continue
        runs = max(-(-stretch.count.get(task, 0) // times) for task, times in stretch.times.items())
        if runs != stretch.runs:
            report("runs", (f"stretch {k}",), f"stretch {k} has {stretch.runs} runs, its iterations make {runs}")
        if stretch.left_out % stretch.period or (stretch.left_out > 0) != (grown is not None):
            report(
                "left_out",
                (f"stretch {k}",),
                f"stretch {k} leaves out {stretch.left_out} runs: "
                f"these must be whole periods of {stretch.period}, with a grown schedule if there are any",
            )
        short = [
            task for task, times in stretch.times.items() if times * (stretch.left_out) > stretch.count.get(task, 0)
        ]
        if short:
            report("left_out", (f"stretch {k}", *short), f"stretch {k} leaves out more than it has of {short[0]!r}")


def _check_written_counts(schedule: PeriodicSchedule, labels: dict[str, Label], report: Report) -> None:
    """Report tasks of which the written schedule holds other iterations than those that are not left out."""
    have: dict[str, int] = {}
    for task, _, _, iteration in labels.values():
        if iteration != ONCE:
            have[task] = max(have.get(task, 0), iteration + 1)
    for task, written in have.items():
        due = schedule.trips[task] - sum(s.left_out * s.times.get(task, 0) for s in schedule.stretches)
        if due != written:
            what = f"of task {task!r} {due} iterations are not left out, the written schedule holds {written}"
            report("trips", (task,), what)


def labels_of(problem: Problem, parts: dict[tuple[str, str], int]) -> dict[str, Label]:
    """Return for every op its task, stage, part and iteration."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for op in problem.ops:
        stage = op.task, op.stage
        if parts.get(stage):
            iteration, part = divmod(seen[stage], parts[stage])
            found[op.name] = (*stage, part, iteration)
        else:
            found[op.name] = (*stage, seen[stage], ONCE)
        seen[stage] += 1
    return found


def parts_of(schedule: PeriodicSchedule) -> dict[tuple[str, str], int] | None:
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
    """Report what differs, unless at some time a period can be put in: the two are the same before, and after it."""
    parts, who = parts_of(schedule), (f"stretch {k}",)
    if parts is None:
        report("grown", who, f"grown schedule {k} has other ops more than whole iterations")
        return
    growth = _Growth(schedule.written, grown, schedule.stretches[k], parts)
    cuts = _run_starts(schedule, k, growth.old)
    faults: list[Fault] = [("grown", who, f"the written schedule does not hold two periods of stretch {k}")]
    for cut in cuts:
        faults = growth.faults(cut)
        if not faults:
            return
    for fault in faults:
        report(*fault)


def _run_starts(schedule: PeriodicSchedule, k: int, labels: dict[str, Label]) -> list[Moment]:
    """Return when the runs of stretch ``k`` begin that come a period or more after its first steady one."""
    stretch = schedule.stretches[k]
    skipped: Counter[str] = Counter()
    for before in schedule.stretches[:k]:
        skipped.update({task: n - before.left_out * before.times[task] for task, n in before.count.items()})
    first: dict[int, Moment] = {}
    for row in schedule.written.rows:
        task, _, _, iteration = labels[row.op]
        if task in stretch.times and iteration != ONCE and iteration >= skipped[task]:
            run = (iteration - skipped[task]) // stretch.times[task]
            first[run] = min(first.get(run, row.start), row.start)
    runs = range(stretch.first + stretch.period, stretch.runs - stretch.left_out)
    return [first[r] for r in runs if r in first]


class _Growth:
    """``grown`` beside ``written``: whether it is that with one period more of a stretch."""

    def __init__(self, written: Schedule, grown: Schedule, stretch: Stretch, parts: dict[tuple[str, str], int]) -> None:
        self.written, self.grown, self.stretch = written, grown, stretch
        self.old, self.new = labels_of(written.problem, parts), labels_of(grown.problem, parts)
        self.rows_old = {self.old[row.op]: row for row in written.rows}
        self.rows_new = {self.new[row.op]: row for row in grown.rows}
        self.moved = {self.later(label): label for label in self.rows_old}
        self.waits_old, self.waits_new = _waits(written, self.old), _waits(grown, self.new)
        self.modes_old = {self.old[a.op]: (a.mode, a.units) for a in written.plan.assignments}
        self.modes_new = {self.new[a.op]: (a.mode, a.units) for a in grown.plan.assignments}

    def later(self, label: Label) -> Label:
        """Return the op that is to do a period later what the one of ``label`` does."""
        task, stage, part, iteration = label
        return (task, stage, part, iteration if iteration == ONCE else iteration + self.stretch.advance.get(task, 0))

    def faults(self, cut: Moment) -> list[Fault]:
        """Return what differs if the period is put in at ``cut``."""
        found: list[Fault] = []
        ticks = self.stretch.period_ticks
        for label, row in self.rows_new.items():
            early = row.start < cut
            of = label if early else self.moved.get(label)
            if of is None or of not in self.rows_old:
                return [("grown", (row.op,), f"op {row.op!r} repeats none of the written schedule")]
            shift = 0 if early else ticks
            if [getattr(self.rows_old[of], f) + shift for f in TIMES] != [getattr(row, f) for f in TIMES]:
                found.append(
                    ("steady_time", (row.op,), f"op {row.op!r} does not run {shift} ticks after what it repeats")
                )
            waits = self.waits_old[of] if early else {self.later(w) for w in self.waits_old[of]}
            if self.waits_new[label] != waits:
                what = f"op {row.op!r} does not wait for those whom what it repeats waits for"
                found.append(("steady_wait", (row.op,), what))
            if self.modes_new[label] != self.modes_old[of]:
                what = f"op {row.op!r} runs in another mode or on other units than what it repeats"
                found.append(("steady_unit", (row.op,), what))
        return found + self._queue_faults(cut) + self._address_faults()

    def _queue_faults(self, cut: Moment) -> list[Fault]:
        """Every queue is that of the written schedule up to the cut, and from a period before the cut on once more."""
        found: list[Fault] = []
        queues = {(q.engine, q.unit): [(self.old[e.op], e.action) for e in q.entries] for q in self.written.plan.queues}
        for queue in self.grown.plan.queues:
            before = queues.pop((queue.engine, queue.unit), [])
            after = [(self.new[e.op], e.action) for e in queue.entries]
            rows = [self.rows_new[label] for label, _ in after]
            at = [
                row.wait_start if action == "wait" else row.start for row, (_, action) in zip(rows, after, strict=True)
            ]
            early = next((i for i, moment in enumerate(at) if moment >= cut), len(at))
            back = early - (len(after) - len(before))
            moved = [(self.later(label), action) for label, action in before[max(back, 0) :]]
            if back < 0 or after[:early] != before[:early] or after[early:] != moved:
                name = f"{queue.engine}[{queue.unit}]"
                found.append(("steady_queue", (name,), f"queue {name} does not go on as in the period before"))
        for engine, unit in queues:
            name = f"{engine}[{unit}]"
            found.append(("steady_queue", (name,), f"queue {name} is gone with a period more"))
        return found

    def _address_faults(self) -> list[Fault]:
        """Every buffer lies where the one that it repeats does; those that last lie where they did."""
        known: dict[frozenset[Label], set[int]] = defaultdict(set)
        for buffer in self.written.problem.buffers:
            at = self.written.plan.addresses[buffer.name]
            users = frozenset(self.old[name] for name in buffer.ops)
            known[users].add(at)
            known[frozenset(self.later(label) for label in users)].add(at)
        found: list[Fault] = []
        for buffer in self.grown.problem.buffers:
            at = self.grown.plan.addresses[buffer.name]
            users = frozenset(self.new[name] for name in buffer.ops)
            if at not in known[users] and self.written.plan.addresses.get(buffer.name) != at:
                what = f"buffer {buffer.name!r} lies at {at} B, where what it repeats does not"
                found.append(("steady_address", (buffer.name,), what))
        return found


def _waits(schedule: Schedule, labels: dict[str, Label]) -> dict[Label, set[Label]]:
    found: dict[Label, set[Label]] = defaultdict(set)
    for wait in schedule.plan.waits:
        found[labels[wait.after]].add(labels[wait.before])
    return found


def _check_makespan(schedule: PeriodicSchedule, report: Report) -> None:
    total = Fraction(schedule.written.makespan)
    for stretch in schedule.stretches:
        total += stretch.periods_left_out * Fraction(stretch.period_ticks)
    if total != schedule.makespan:
        report("makespan", (), f"the makespan is {schedule.makespan} ticks, its stretches add up to {total}")
    for k, (stretch, grown) in enumerate(zip(schedule.stretches, schedule.grown, strict=True)):
        if grown is not None and grown.makespan != schedule.written.makespan + stretch.period_ticks:
            report("makespan", (f"stretch {k}",), f"a period more of stretch {k} does not take {stretch.period_ticks}")
