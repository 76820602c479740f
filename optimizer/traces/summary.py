"""What a trace says by itself: which engine works how long, what overlaps, what bounds each op."""

from __future__ import annotations

from array import array
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import ConfigDict, Field

from hexloom.formulations.problem import Frozen
from hexloom.optimizer.traces.findings import Finding
from hexloom.optimizer.traces.intervals import Span, common, length, merged, most_at_once
from hexloom.optimizer.traces.trace import Clock, Kind, Trace
from hexloom.optimizer.traces.verdict import Bound, verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

WORKING: tuple[Kind, ...] = ("work", "transfer")
"""Kinds during which an engine does what it is for; the others are shown beside them."""

COLD = Fraction(3, 2)
"""A first run that takes more than so many times what nearly all others take is called cold."""

MOST_OPS = 1000
"""Ops that a summary holds, the longest first."""


class EngineRow(Frozen):
    """What one engine does in a window, in units of the clock.

    ``busy_ticks`` is the union of its events, at most the window; ``total_ticks`` their sum, which counts what is in
    flight at the same time several times; ``exact`` is False where ends are when somebody looked.
    """

    engine: str
    working: bool
    lanes: int
    events: int
    busy_ticks: int
    total_ticks: int
    most_at_once: int
    exact: bool

    def in_flight(self, span_ticks: int) -> float:
        """Average number at once over a window."""
        return self.total_ticks / span_ticks if span_ticks else 0.0


class OverlapRow(Frozen):
    """Time during which two engines both work."""

    engines: tuple[str, str]
    ticks: int


class ClassRow(Frozen):
    """Durations of the events of one name on one engine; the first one stands apart where it took far longer."""

    name: str
    engine: str
    count: int
    total_ticks: int
    median_ticks: int
    p95_ticks: int
    first_ticks: int
    cold: bool


class OpRow(Frozen):
    """One op, or what belongs to one node of a graph, and what bounds it."""

    name: str
    key: str
    detail: str
    batch: int
    start_ticks: int | None
    span_ticks: int
    ns: int | None
    idle_ticks: int
    bound_by: Bound
    reason: str
    engines: tuple[EngineRow, ...]
    overlaps: tuple[OverlapRow, ...]


class TotalRow(Frozen):
    """A sum that the file states; None where it does not."""

    name: str
    group: str
    count: int
    ticks: int | None
    ns: int | None


class TraceSummary(Frozen):
    """One trace at a glance. Times are in units of ``clock``, ``khz`` of them a millisecond where it is known."""

    schema_: Literal["hexloom.trace_summary/1"] = Field(default="hexloom.trace_summary/1", alias="schema")
    form: str
    clock: Clock
    khz: int | None
    events: int
    batches: int
    span_ticks: int
    idle_ticks: int
    dependencies: int
    engines: tuple[EngineRow, ...]
    overlaps: tuple[OverlapRow, ...]
    classes: tuple[ClassRow, ...]
    ops: tuple[OpRow, ...]
    ops_in_all: int
    totals: tuple[TotalRow, ...]
    counters: dict[str, int]
    warnings: tuple[Finding, ...]
    notes: tuple[Finding, ...]

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class _Window(NamedTuple):
    """Spans by engine row, and what they cover."""

    rows: tuple[EngineRow, ...]
    unions: dict[str, list[Span]]
    span: int
    idle: int


def summarize(trace: Trace, most_ops: int = MOST_OPS) -> TraceSummary:
    """Return what ``trace`` says by itself; at most ``most_ops`` of its longest ops are looked into."""
    by_batch: dict[int, list[int]] = {}
    for i in trace.in_time():
        if trace.kind_of(i) not in ("op", "batch") or not _has_parts(trace):
            by_batch.setdefault(trace[i].batch, []).append(i)
    windows = [_window(trace, positions) for positions in by_batch.values()]
    ops, count = _ops(trace, most_ops)
    classes = _classes(trace)
    return TraceSummary(
        form=trace.form,
        clock=trace.clock,
        khz=trace.khz,
        events=len(trace),
        batches=trace.batches,
        span_ticks=sum(w.span for w in windows),
        idle_ticks=sum(w.idle for w in windows),
        dependencies=len(trace.edges),
        engines=_added([row for w in windows for row in w.rows]),
        overlaps=_overlaps([w.unions for w in windows]),
        classes=classes,
        ops=ops,
        ops_in_all=count,
        totals=tuple(TotalRow(name=t.name, group=t.group, count=t.count, ticks=t.ticks, ns=t.ns) for t in trace.totals),
        counters={name: max((value for _, value in values), default=0) for name, values in trace.counters.items()},
        warnings=trace.findings.warnings,
        notes=trace.findings.notes,
    )


def _has_parts(trace: Trace) -> bool:
    return any(trace.kind_of(i) not in ("op", "batch") for i in range(len(trace)))


def row_name(engine: str, kind: Kind) -> str:
    """Return the row of an event: what an engine is for has its name, all else says what it is."""
    return engine if kind in WORKING or kind in ("op", "batch") else f"{engine} {kind}"


def _window(trace: Trace, positions: Iterable[int], start: int | None = None, end: int | None = None) -> _Window:
    """Return the rows of the events at ``positions``; the window is theirs unless it is given, and cuts them."""
    spans: dict[str, list[Span]] = {}
    lanes: dict[str, set[str]] = {}
    exact: dict[str, bool] = {}
    working: dict[str, bool] = {}
    for i in positions:
        event = trace[i]
        if event.start is None:
            continue
        name = row_name(event.engine, event.kind)
        first, last = event.start, event.start + event.ticks
        if start is not None and end is not None:
            first, last = max(first, start), min(last, end)
        spans.setdefault(name, []).append((first, max(first, last)))
        lanes.setdefault(name, set()).add(event.lane)
        exact[name] = exact.get(name, True) and event.exact
        working[name] = event.kind in WORKING
    unions = {name: merged(of) for name, of in spans.items()}
    rows = tuple(
        EngineRow(
            engine=name,
            working=working[name],
            lanes=len(lanes[name]),
            events=len(of),
            busy_ticks=length(unions[name]),
            total_ticks=length(of),
            most_at_once=most_at_once(of),
            exact=exact[name],
        )
        for name, of in sorted(spans.items(), key=lambda item: (not working[item[0]], item[0]))
    )
    everything = [span for of in spans.values() for span in of]
    if start is None or end is None:
        start = min((a for a, _ in everything), default=0)
        end = max((b for _, b in everything), default=0)
    covered = length(merged(span for name, of in unions.items() if working[name] for span in of))
    at_work = {name: of for name, of in unions.items() if working[name]}
    return _Window(rows, at_work, end - start, end - start - covered)


def _added(rows: list[EngineRow]) -> tuple[EngineRow, ...]:
    """Add up rows of one engine over batches."""
    found: dict[str, EngineRow] = {}
    for row in rows:
        was = found.get(row.engine)
        if was is not None:
            row = EngineRow(
                engine=row.engine,
                working=row.working,
                lanes=max(row.lanes, was.lanes),
                events=row.events + was.events,
                busy_ticks=row.busy_ticks + was.busy_ticks,
                total_ticks=row.total_ticks + was.total_ticks,
                most_at_once=max(row.most_at_once, was.most_at_once),
                exact=row.exact and was.exact,
            )
        found[row.engine] = row
    return tuple(sorted(found.values(), key=lambda row: (not row.working, row.engine)))


def _overlaps(windows: list[dict[str, list[Span]]]) -> tuple[OverlapRow, ...]:
    names = sorted({name for unions in windows for name in unions})
    return tuple(
        OverlapRow(engines=(a, b), ticks=sum(common(unions.get(a, []), unions.get(b, [])) for unions in windows))
        for k, a in enumerate(names)
        for b in names[k + 1 :]
    )


# --- ops


def _ops(trace: Trace, most: int) -> tuple[tuple[OpRow, ...], int]:
    """Return the longest ops, in the order of the file, and how many there are."""
    members: dict[int, list[int]] = {}
    for i in range(len(trace)):
        if trace.op_of(i) >= 0:
            members.setdefault(trace.op_of(i), []).append(i)
    whole = [i for i in range(len(trace)) if trace.kind_of(i) == "op"]
    if whole:
        longest = sorted(whole, key=lambda i: (-trace[i].ticks, i))[:most]
        return tuple(_op(trace, i, members.get(i, [])) for i in sorted(longest)), len(whole)
    groups: dict[tuple[int, str], list[int]] = {}
    for i in range(len(trace)):
        event = trace[i]
        groups.setdefault((event.batch, event.detail or event.name), []).append(i)
    by_length = sorted(groups, key=lambda g: (-sum(trace[i].ticks for i in groups[g]), g))[:most]
    kept = [g for g in groups if g in set(by_length)]
    return tuple(_group(trace, g, groups[g]) for g in kept), len(groups)


def _op(trace: Trace, i: int, inside: list[int]) -> OpRow:
    event = trace[i]
    if event.start is not None:
        window = _window(trace, inside, event.start, event.start + event.ticks)
    else:
        rows = tuple(_sums(trace, inside))
        window = _Window(rows, {}, event.ticks, 0)
    bound, reason = verdict(window.rows, window.unions, window.span, window.idle, timed=event.start is not None)
    khz = event.khz or trace.khz
    return OpRow(
        name=event.name,
        key=event.key,
        detail=event.detail,
        batch=event.batch,
        start_ticks=event.start,
        span_ticks=event.ticks,
        ns=nanoseconds(event.ticks, trace.clock, khz),
        idle_ticks=window.idle,
        bound_by=bound,
        reason=reason,
        engines=window.rows,
        overlaps=_overlaps([window.unions]),
    )


def _sums(trace: Trace, inside: list[int]) -> list[EngineRow]:
    """Return rows of an op of which only sums per thread are known: their union is at most the op."""
    found: list[EngineRow] = []
    groups: dict[str, list[int]] = {}
    for i in inside:
        groups.setdefault(row_name(trace[i].engine, trace[i].kind), []).append(i)
    for name, of in sorted(groups.items()):
        total = sum(trace[i].ticks for i in of)
        limit = trace[trace.op_of(of[0])].ticks
        row = EngineRow(
            engine=name,
            working=trace.kind_of(of[0]) in WORKING,
            lanes=len({trace[i].lane for i in of}),
            events=len(of),
            busy_ticks=min(total, limit),
            total_ticks=total,
            most_at_once=0,
            exact=False,
        )
        found.append(row)
    return found


def _group(trace: Trace, group: tuple[int, str], positions: list[int]) -> OpRow:
    timed = [i for i in positions if trace.has_start(i)]
    window = _window(trace, timed)
    ticks = window.span if timed else sum(trace[i].ticks for i in positions)
    bound, reason = verdict(window.rows, window.unions, window.span, window.idle, timed=bool(timed))
    first = trace[positions[0]]
    return OpRow(
        name=group[1],
        key=first.key if len(positions) == 1 else "",
        detail=first.name if len(positions) == 1 else f"{len(positions)} events",
        batch=group[0],
        start_ticks=min((s for s, _ in trace.spans(timed)), default=None),
        span_ticks=ticks,
        ns=nanoseconds(ticks, trace.clock, first.khz or trace.khz),
        idle_ticks=window.idle,
        bound_by=bound,
        reason=reason,
        engines=window.rows,
        overlaps=_overlaps([window.unions]),
    )


def nanoseconds(ticks: int, clock: Clock, khz: int | None) -> int | None:
    """Return a length of time in whole nanoseconds; None for cycles of an unknown clock."""
    if clock == "ns":
        return ticks
    if clock == "ticks_19m2":
        khz = 19_200
    return (ticks * 2_000_000 + khz) // (khz * 2) if khz else None


# --- classes


def _classes(trace: Trace) -> tuple[ClassRow, ...]:
    durations: dict[tuple[str, str], array[int]] = {}
    for event in trace:
        if event.kind != "batch":
            key = event.name, row_name(event.engine, event.kind)
            durations.setdefault(key, array("q")).append(event.ticks)
    rows = [_class(name, engine, of) for (name, engine), of in durations.items()]
    return tuple(sorted(rows, key=lambda row: (-row.total_ticks, row.name, row.engine)))


def _class(name: str, engine: str, ticks: array[int]) -> ClassRow:
    """Return the row of one class; statistics leave a cold first run out."""
    first = ticks[0]
    rest = sorted(ticks[1:])
    cold = len(rest) >= 2 and first > COLD * quantile(rest, 19, 20)
    kept = rest if cold else sorted(ticks)
    return ClassRow(
        name=name,
        engine=engine,
        count=len(ticks),
        total_ticks=sum(ticks),
        median_ticks=quantile(kept, 1, 2),
        p95_ticks=quantile(kept, 19, 20),
        first_ticks=first,
        cold=cold,
    )


def quantile(values: list[int], part: int, of: int) -> int:
    """Return the smallest of sorted ``values`` that at least ``part/of`` of them do not exceed; no interpolation."""
    return values[max(0, -(-len(values) * part // of) - 1)]
