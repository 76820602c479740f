"""What a trace says by itself: which engine works how long, what overlaps, what bounds each op."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field

from hexloom.formulations.problem import Frozen
from hexloom.optimizer.traces.findings import Finding
from hexloom.optimizer.traces.intervals import (
    Ints,
    Spans,
    clipped,
    common,
    groups,
    largest_groups,
    length,
    merged,
    most_at_once,
    together,
    total,
)
from hexloom.optimizer.traces.trace import KINDS, NO_START, Clock, Kind, Trace
from hexloom.optimizer.traces.verdict import Bound, verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hexloom.optimizer.traces.trace import Columns

WORKING: tuple[Kind, ...] = ("work", "transfer")
"""Kinds during which an engine does what it is for; the others are shown beside them."""

COLD = Fraction(3, 2)
"""A first run that takes more than so many times what nearly all others take is called cold."""

MOST_BESIDE = 24
"""Engines up to which all pairs are looked at."""

MOST_CLASSES = 5000
"""Classes that a summary holds, those of the largest sums."""

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
    """Rows of the engines that did anything in a window, the unions of those that worked, and its length."""

    rows: tuple[EngineRow, ...]
    unions: dict[str, Spans]
    span: int
    idle: int


class _Rows:
    """Which row every event belongs to, as numbers."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.of: Columns = trace.columns
        self.names: list[str] = []
        number: dict[str, int] = {}
        table = np.zeros((max(1, len(trace.lanes)), len(KINDS)), np.int64)
        self.working: dict[str, bool] = {}
        for lane, (engine, _) in enumerate(trace.lanes):
            for k, kind in enumerate(KINDS):
                name = row_name(engine, kind)
                if name not in number:
                    number[name] = len(self.names)
                    self.names.append(name)
                    self.working[name] = kind in (*WORKING, "op", "batch")
                table[lane, k] = number[name]
        self.row: Ints = table[self.of.lane, self.of.kind] if len(trace) else np.empty(0, np.int64)
        whole = [KINDS.index("op"), KINDS.index("batch")]
        self.spans_all: NDArray[np.bool_] = np.isin(self.of.kind, whole)

    def window(self, positions: Ints, start: int | None = None, end: int | None = None) -> _Window:
        """Return what the timed events at ``positions`` do; the window is theirs unless it is given, and cuts them."""
        of = self.of
        positions = positions[of.start[positions] != NO_START]
        spans = Spans(of.start[positions], of.start[positions] + of.ticks[positions])
        if start is None or end is None:
            start = int(spans.starts.min()) if len(positions) else 0
            end = int(spans.ends.max()) if len(positions) else 0
        else:
            spans = clipped(spans, start, end)
        rows: list[EngineRow] = []
        unions: dict[str, Spans] = {}
        for number, places in groups(self.row[positions]):
            name = self.names[number]
            mine = Spans(spans.starts[places], spans.ends[places])
            union = merged(mine)
            if self.working[name]:
                unions[name] = union
            rows.append(
                EngineRow(
                    engine=name,
                    working=self.working[name],
                    lanes=len(np.unique(of.lane[positions[places]])),
                    events=len(places),
                    busy_ticks=length(union),
                    total_ticks=length(mine),
                    most_at_once=most_at_once(mine),
                    exact=bool(of.exact[positions[places]].all()),
                )
            )
        idle = end - start - length(merged(together(list(unions.values()))))
        return _Window(_ordered(rows), unions, end - start, idle)

    def sums(self, positions: Ints, limit: int) -> tuple[EngineRow, ...]:
        """Return rows of events of which only durations are known: their union is at most ``limit``."""
        rows = []
        for number, places in groups(self.row[positions]):
            mine = positions[places]
            ticks = total(self.of.ticks[mine])
            rows.append(
                EngineRow(
                    engine=self.names[number],
                    working=self.working[self.names[number]],
                    lanes=len(np.unique(self.of.lane[mine])),
                    events=len(mine),
                    busy_ticks=min(ticks, limit),
                    total_ticks=ticks,
                    most_at_once=0,
                    exact=False,
                )
            )
        return _ordered(rows)


def row_name(engine: str, kind: Kind) -> str:
    """Return the row of an event: what an engine is for has its name, all else says what it is."""
    return engine if kind in (*WORKING, "op", "batch") else f"{engine} {kind}"


def _ordered(rows: Sequence[EngineRow]) -> tuple[EngineRow, ...]:
    return tuple(sorted(rows, key=lambda row: (not row.working, row.engine)))


def summarize(trace: Trace, most_ops: int = MOST_OPS) -> TraceSummary:
    """Return what ``trace`` says by itself; at most ``most_ops`` of its longest ops are looked into."""
    rows = _Rows(trace)
    of = rows.of
    # Where parts of ops were recorded, what spans them says nothing of engines.
    inside = ~rows.spans_all if (~rows.spans_all).any() else np.ones(len(trace), bool)
    counted = np.flatnonzero(inside & (of.start != NO_START))
    windows = [rows.window(counted[places]) for _, places in groups(of.batch[counted])]
    ops, count = _ops(rows, most_ops)
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
        classes=_classes(rows),
        ops=ops,
        ops_in_all=count,
        totals=tuple(TotalRow(name=t.name, group=t.group, count=t.count, ticks=t.ticks, ns=t.ns) for t in trace.totals),
        counters={name: max((value for _, value in values), default=0) for name, values in trace.counters.items()},
        warnings=trace.findings.warnings,
        notes=trace.findings.notes,
    )


def _added(rows: list[EngineRow]) -> tuple[EngineRow, ...]:
    """Add up rows of one engine over batches."""
    found: dict[str, list[EngineRow]] = {}
    for row in rows:
        found.setdefault(row.engine, []).append(row)
    return _ordered(
        [
            EngineRow(
                engine=name,
                working=of[0].working,
                lanes=max(row.lanes for row in of),
                events=sum(row.events for row in of),
                busy_ticks=sum(row.busy_ticks for row in of),
                total_ticks=sum(row.total_ticks for row in of),
                most_at_once=max(row.most_at_once for row in of),
                exact=all(row.exact for row in of),
            )
            for name, of in found.items()
        ]
    )


def _overlaps(windows: list[dict[str, Spans]]) -> tuple[OverlapRow, ...]:
    names = sorted({name for unions in windows for name in unions})
    if len(names) > MOST_BESIDE:
        return ()
    return tuple(
        OverlapRow(
            engines=(a, b), ticks=sum(common(unions[a], unions[b]) for unions in windows if a in unions and b in unions)
        )
        for k, a in enumerate(names)
        for b in names[k + 1 :]
    )


# --- ops


def _ops(rows: _Rows, most: int) -> tuple[tuple[OpRow, ...], int]:
    """Return the longest ops, in the order of the file, and how many there are."""
    of = rows.of
    whole = np.flatnonzero(of.kind == KINDS.index("op"))
    if len(whole):
        chosen = whole[np.argsort(-of.ticks[whole], kind="stable")[:most]]
        parts = np.flatnonzero(np.isin(of.op, chosen))
        members = {int(of.op[parts[places[0]]]): parts[places] for _, places in groups(of.op[parts])}
        none = np.empty(0, np.int64)
        return tuple(_op(rows, int(i), members.get(int(i), none)) for i in np.sort(chosen)), len(whole)
    if not len(rows.trace):
        return (), 0
    named = np.where(of.detail != 0, of.detail, of.name).astype(np.int64)
    longest, count = largest_groups((of.batch.astype(np.int64) << 32) + named * 2 + (of.detail != 0), of.ticks, most)
    return tuple(_group(rows, places) for places in sorted(longest, key=lambda places: int(places[0]))), count


def _op(rows: _Rows, i: int, inside: Ints) -> OpRow:
    event = rows.trace[i]
    if event.start is not None:
        window = rows.window(inside, event.start, event.start + event.ticks)
    else:
        window = _Window(rows.sums(inside, event.ticks), {}, event.ticks, 0)
    bound, reason = verdict(window.rows, window.unions, window.span, window.idle, timed=event.start is not None)
    return OpRow(
        name=event.name,
        key=event.key,
        detail=event.detail,
        batch=event.batch,
        start_ticks=event.start,
        span_ticks=event.ticks,
        ns=nanoseconds(event.ticks, rows.trace.clock, event.khz or rows.trace.khz),
        idle_ticks=window.idle,
        bound_by=bound,
        reason=reason,
        engines=window.rows,
        overlaps=_overlaps([window.unions]),
    )


def _group(rows: _Rows, positions: Ints) -> OpRow:
    """Return what belongs to one node of a graph, or has one name, as if it were an op."""
    first = rows.trace[int(positions[0])]
    timed = positions[rows.of.start[positions] != NO_START]
    window = rows.window(timed)
    ticks = window.span if len(timed) else total(rows.of.ticks[positions])
    bound, reason = verdict(window.rows, window.unions, window.span, window.idle, timed=len(timed) > 0)
    return OpRow(
        name=first.detail or first.name,
        key=first.key if len(positions) == 1 else "",
        detail=first.name if len(positions) == 1 else f"{len(positions)} events",
        batch=first.batch,
        start_ticks=int(rows.of.start[timed].min()) if len(timed) else None,
        span_ticks=ticks,
        ns=nanoseconds(ticks, rows.trace.clock, first.khz or rows.trace.khz),
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


def _classes(rows: _Rows) -> tuple[ClassRow, ...]:
    of = rows.of
    kept = np.flatnonzero(of.kind != KINDS.index("batch"))
    keys = rows.row[kept] * (int(of.name.max(initial=0)) + 1) + of.name[kept]
    by_key = [kept[places] for _, places in groups(keys)]
    if len(by_key) > MOST_CLASSES:
        by_key = sorted(by_key, key=lambda mine: -float(of.ticks[mine].sum(dtype=float)))[:MOST_CLASSES]
    found = []
    for mine in by_key:
        name, engine = rows.trace.text(int(of.name[mine[0]])), rows.names[int(rows.row[mine[0]])]
        found.append(_class(name, engine, of.ticks[mine]))
    return tuple(sorted(found, key=lambda row: (-row.total_ticks, row.name, row.engine)))


def _class(name: str, engine: str, ticks: Ints) -> ClassRow:
    """Return the row of one class; statistics leave a cold first run out."""
    first = int(ticks[0])
    rest = np.sort(ticks[1:])
    cold = len(rest) >= 2 and first > COLD * quantile(rest, 19, 20)
    kept = rest if cold else np.sort(ticks)
    return ClassRow(
        name=name,
        engine=engine,
        count=len(ticks),
        total_ticks=total(ticks),
        median_ticks=quantile(kept, 1, 2),
        p95_ticks=quantile(kept, 19, 20),
        first_ticks=first,
        cold=cold,
    )


def quantile(values: Ints, part: int, of: int) -> int:
    """Return the smallest of sorted ``values`` that at least ``part/of`` of them do not exceed; no interpolation."""
    return int(values[max(0, -(-len(values) * part // of) - 1)])
