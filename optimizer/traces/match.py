"""Which events of a trace are which ops of a schedule: by identifier, else by name pattern and order of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.schedule import PeriodicSchedule, periodic_hash
from hexloom.optimizer.schedule import schedule_hash
from hexloom.optimizer.simulate import OpTimes
from hexloom.optimizer.traces.domains import offsets
from hexloom.optimizer.traces.trace import TICK_KHZ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.formulations.problem import Mode, Op
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.domains import Domain, Offset
    from hexloom.optimizer.traces.trace import Event, Trace

IN_FLIGHT = "in flight"
UNKNOWN_HASH = "0" * 16
"""What a recorder writes that does not know whose plan it runs."""

DIGITS = re.compile(r"\d+")
LOOKED_AT = ("work", "overhead", "transfer", "issue", "wait")
"""Kinds of events that tell when an op did something."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the plan: what was measured of each op that was found, in ticks of the schedule.

    Times are aligned so that the first op begins when it was predicted to. ``exact`` names the transfers whose end is
    known and not only when it was seen. ``makespan`` is the last end that anybody observed.
    """

    batch: int
    times: dict[str, OpTimes[Moment]]
    exact: frozenset[str]
    makespan: Moment


@dataclass(frozen=True, slots=True)
class Matched:
    """All runs of a plan in a trace, and what has no partner on either side."""

    runs: tuple[Run, ...]
    by_name: int
    by_order: int
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    offsets: dict[Domain, Offset]


def match(schedule: Schedule, trace: Trace, khz: int | None = None) -> Matched:
    """Return the measured times of the ops of ``schedule``; ``khz`` is the clock of a trace in cycles.

    Raises
    ------
    InvalidInputError
        If the trace has no clock, no times, or no op of the schedule.
    """
    ops = schedule.problem.ops
    scale = _scale(schedule, trace, khz)
    index = {op.name: i for i, op in enumerate(ops)}
    found: dict[int, dict[int, list[Event]]] = {}
    others: dict[int, list[Event]] = {}
    by_name: set[int] = set()
    moved = _offsets(schedule, trace, index) if trace.domains else {}
    for i in trace.in_time().tolist():
        event = trace[i]
        if event.kind not in LOOKED_AT:
            continue
        domain = trace.domains.get(trace.lane_of(i))
        if domain in moved and event.start is not None:
            event = event._replace(start=event.start + moved[domain].ns)
        at = index.get(event.key, index.get(event.name))
        if at is None:
            others.setdefault(event.batch, []).append(event)
        else:
            by_name.add(at)
            found.setdefault(event.batch, {}).setdefault(at, []).append(event)
    by_order: set[int] = set()
    left: list[str] = []
    for batch, events in others.items():
        mine = found.setdefault(batch, {})
        left += _in_order(schedule, mine, events, by_order)
    modes = modes_of(schedule)
    runs = [_run(schedule, modes, batch, events, scale) for batch, events in sorted(found.items())]
    whole = tuple(run for run in runs if run is not None)
    if not whole:
        shown = ", ".join(dict.fromkeys(left)) or "none"
        raise InvalidInputError(f"no op of schedule {schedule.name!r} is in the trace; its events are {shown[:200]}")
    seen = {name for run in whole for name in run.times}
    missing = tuple(op.name for op in ops if op.name not in seen)
    return Matched(whole, len(by_name), len(by_order), missing, tuple(dict.fromkeys(left)), moved)


def _offsets(schedule: Schedule, trace: Trace, index: dict[str, int]) -> dict[Domain, Offset]:
    """Return how the zeros of a trace's clocks lie to each other, as far as the orders of the plan tell it."""
    runs: dict[int, dict[str, tuple[Domain | None, int, int]]] = {}
    torn: set[str] = set()
    for i in trace.in_time().tolist():
        event, domain = trace[i], trace.domains.get(trace.lane_of(i))
        name = event.key if event.key in index else event.name
        if name not in index or event.kind not in ("work", "transfer") or event.start is None:
            continue
        run = runs.setdefault(event.batch, {})
        if name in run and run[name][0] != domain:
            torn.add(name)
            continue
        start, end = event.start, event.start + event.ticks
        seen = run.get(name, (domain, start, end))
        run[name] = domain, min(seen[1], start), max(seen[2], end)
    edges = {(w.before, w.after) for w in schedule.plan.waits}
    edges |= {(e.before, e.after) for e in schedule.problem.precedences}
    whole = [pair for pair in sorted(edges) if torn.isdisjoint(pair)]
    return offsets(dict.fromkeys(trace.domains.values()), runs.values(), whole)


def of_another(schedule: Schedule | PeriodicSchedule, trace: Trace) -> str | None:
    """Return in one line that a trace says it is of another plan than ``schedule``; None where it does not."""
    said = trace.meta.get("schedule_hash", UNKNOWN_HASH)
    own = periodic_hash(schedule) if isinstance(schedule, PeriodicSchedule) else schedule_hash(schedule)
    mine = f"{own:016x}"
    if said in (mine, UNKNOWN_HASH):
        return None
    return (
        f"the trace is of the plan with hash {said}, {schedule.name!r} has {mine}: it was solved again, or is another "
        "schedule; give the schedule.json that was run"
    )


def modes_of(schedule: Schedule) -> dict[str, Mode]:
    """Return the chosen mode of every op."""
    index = schedule.problem.op_index
    return {a.op: schedule.problem.ops[index[a.op]].modes[a.mode] for a in schedule.plan.assignments}


def _scale(schedule: Schedule, trace: Trace, khz: int | None) -> Fraction:
    """Return how many ticks of the schedule one unit of the trace is; bare ticks were drawn as microseconds."""
    tick = schedule.problem.tick or Fraction(1)
    if trace.clock == "ns":
        return 1 / (1000 * tick)
    rate = TICK_KHZ if trace.clock == "ticks_19m2" else khz or trace.khz
    if not rate:
        raise InvalidInputError("the trace counts cycles of an unknown clock; say it with --mhz")
    return Fraction(1000, rate) / tick


def pattern(name: str) -> str:
    """Return a name without its numbers: what the tiles of one stage share."""
    return DIGITS.sub("#", name)


def _in_order(
    schedule: Schedule, mine: dict[int, list[Event]], events: Sequence[Event], by_order: set[int]
) -> list[str]:
    """Give events without a known name to ops that have none: k-th by time to k-th by time, per pattern or stage."""
    rows = {row.op: row.start for row in schedule.rows}
    waiting: dict[str, list[int]] = {}
    for i, op in enumerate(schedule.problem.ops):
        if i not in mine:
            for name in dict.fromkeys((pattern(op.name), _last(op), op.stage)):
                if name:
                    waiting.setdefault(name, []).append(i)
    groups: dict[str, list[Event]] = {}
    for event in events:
        groups.setdefault(pattern(event.name), []).append(event)
    left: list[str] = []
    for name, of in groups.items():
        ops = [i for i in waiting.get(name, ()) if i not in mine]
        if len(ops) != len(of):
            left += [event.name for event in of]
            continue
        ops.sort(key=lambda i: (rows[schedule.problem.ops[i].name], i))
        for i, event in zip(ops, of, strict=True):
            mine[i] = [event]
            by_order.add(i)
    return left


def _last(op: Op) -> str:
    """Return the pattern of an op's name inside its task."""
    return pattern(op.name.rpartition("/")[2])


def _run(
    schedule: Schedule, modes: dict[str, Mode], batch: int, events: dict[int, list[Event]], scale: Fraction
) -> Run | None:
    raw: dict[str, tuple[OpTimes[Moment], bool]] = {}
    for i, of in events.items():
        name = schedule.problem.ops[i].name
        raw[name] = _times(of, dma=modes[name].dma is not None)
    if not raw:
        return None
    first = min(event.start or 0 for of in events.values() for event in of)
    begins = min(row.start for row in schedule.rows)

    def at(value: Moment) -> Moment:
        return begins + (value - first) * scale

    times = {name: OpTimes(*map(at, t)) for name, (t, _) in raw.items()}
    exact = frozenset(name for name, (_, known) in raw.items() if known)
    makespan = max(max(t.observed, t.end) for t in times.values())
    return Run(batch, times, exact, makespan)


def _of_all_units(events: list[Event]) -> tuple[int, int]:
    """Return start and end of an op of several units: it takes as long as its longest slice, and ends with the last.

    That its slices began one after the other is the hand-over's fault and not its own.
    """
    slices: dict[str, tuple[int, int]] = {}
    for event in events:
        start = event.start or 0
        first, last = slices.get(event.lane, (start, start))
        slices[event.lane] = min(first, start), max(last, start + event.ticks)
    end = max(last for _, last in slices.values())
    return end - max(last - first for first, last in slices.values()), end


def _times(events: list[Event], *, dma: bool) -> tuple[OpTimes[Moment], bool]:
    """Return the times of one op from its events, and whether its end is known."""
    spans = [(e.kind, e.start or 0, (e.start or 0) + e.ticks, e.exact) for e in events]
    flights = [(s, e, exact) for kind, s, e, exact in spans if kind == "transfer"]
    precise = [e for e in events if e.engine == IN_FLIGHT]
    if precise:  # beside what the op holds of its pipe
        flights = [(e.start or 0, (e.start or 0) + e.ticks, e.exact) for e in precise]
    if not dma:
        start, end = _of_all_units(events)
        return OpTimes(start, end, start, end, end, end), all(exact for _, _, _, exact in spans)
    issues = [(s, e) for kind, s, e, _ in spans if kind in ("issue", "overhead")]
    waits = [(s, e) for kind, s, e, _ in spans if kind == "wait"]
    work = [(s, e) for kind, s, e, _ in spans if kind == "work"]
    moving = flights or [(s, e, True) for s, e in work]
    first = min(s for _, s, _, _ in spans)
    issued = max((e for _, e in issues), default=first)
    last = max(e for _, _, e, _ in spans)
    observed = max((e for _, e in waits), default=last)
    moved = max(issued, min((s for s, _, _ in moving), default=issued))
    done = min(observed, max((e for _, e, _ in moving), default=observed))
    done = max(done, moved)
    waited = max(issued, min((s for s, _ in waits), default=done))
    known = bool(moving) and all(exact for _, _, exact in moving)
    return OpTimes(first, issued, moved, done, min(waited, max(observed, done)), max(observed, done)), known
