"""A trace for people: one screen per op, and what the whole of it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.emit.svg import clean
from hexloom.optimizer.traces.summary import nanoseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from hexloom.optimizer.traces.floors import FloorRow
    from hexloom.optimizer.traces.summary import EngineRow, OpRow, OverlapRow, TraceSummary

MOST_CLASSES = 12
MOST_TOTALS = 24
MOST_BESIDE = 5
"""Engines whose overlaps fit beside their rows."""

UNIT = {"ns": "ns", "cycles": "cycles", "ticks_19m2": "ticks of 19.2 MHz"}


def trace_table(
    summary: TraceSummary, floors: Mapping[int, FloorRow], screens: int, source: str
) -> Iterator[RenderableType]:
    """Yield what to print: the trace, its classes and totals, and the ``screens`` longest ops one by one."""
    yield Text(_title(summary, source), style="bold")
    for finding in summary.warnings:
        yield Text(f"warning: {finding.text}", style="yellow")
    for finding in summary.notes:
        yield Text(f"note: {finding.text}", style="dim")
    if summary.engines:
        yield _engines(summary.engines, summary.overlaps, summary.span_ticks)
    if summary.classes:
        yield _classes(summary)
    if summary.totals:
        yield _totals(summary)
    for name, peak in list(summary.counters.items())[:MOST_CLASSES]:
        yield Text(f"counter {clean(name, 60)}: at most {peak:,}")
    ranked = sorted(range(len(summary.ops)), key=lambda k: (-summary.ops[k].span_ticks, k))[:screens]
    for k in sorted(ranked):
        yield from _op(summary.ops[k], floors.get(k), summary)
    left = summary.ops_in_all - len(ranked)
    if left > 0:
        yield Text(
            f"and {left:,} shorter ones; --top {summary.ops_in_all} shows all, --json gives numbers", style="dim"
        )


def _title(summary: TraceSummary, source: str) -> str:
    clock = UNIT[summary.clock]
    if summary.clock == "cycles":
        clock += f" at {summary.khz / 1000:.1f} MHz" if summary.khz else " of an unknown clock"
    runs = f" in {summary.batches:,} runs" if summary.batches > 1 else ""
    links = f", {summary.dependencies:,} dependencies" if summary.dependencies else ""
    return f"{clean(source, 100)}: {summary.form}, {summary.events:,} events{runs}{links}; times in {clock}"


def _time(ticks: int, summary: TraceSummary, ns: int | None = None) -> str:
    """Return a time in the unit of the trace, and in microseconds where they are another thing."""
    ns = ns if ns is not None else nanoseconds(ticks, summary.clock, summary.khz)
    if summary.clock == "ns":
        return f"{ticks / 1000:,.3f} us"
    return f"{ticks:,}" + (f" = {ns / 1000:,.1f} us" if ns is not None else "")


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _engines(
    rows: Sequence[EngineRow], overlaps: Sequence[OverlapRow], span: int, *, sums: bool = False
) -> RenderableType:
    beside = {frozenset(row.engines): row.ticks for row in overlaps}
    working = [row.engine for row in rows if row.working]
    matrix = working if 1 < len(working) <= MOST_BESIDE and beside else []
    head = ["engine", "lanes", "events", "busy", "share", "idle", "in flight", "most"]
    head += [f"with {clean(name, 16)}" for name in matrix]
    lines = []
    for row in rows:
        bound = "" if row.exact or sums else "<= "
        # Of sums alone a union is known only where they are less than the op.
        known = not sums or row.total_ticks <= span
        cells = [clean(row.engine, 24), str(row.lanes), f"{row.events:,}"]
        cells += [f"{bound}{row.busy_ticks:,}", _share(row.busy_ticks, span)] if known else ["", ""]
        cells.append(_share(span - row.busy_ticks, span) if row.working and not sums else "")
        cells += [f"{row.in_flight(span):.2f}", str(row.most_at_once or "")]
        for other in matrix:
            ticks = beside.get(frozenset((row.engine, other)))
            cells.append("" if other == row.engine or ticks is None else _share(ticks, span))
        lines.append(cells)
    return columns(head, lines)


def _classes(summary: TraceSummary) -> RenderableType:
    lines = []
    for row in summary.classes[:MOST_CLASSES]:
        first = f"{row.first_ticks:,} cold, apart" if row.cold else f"{row.first_ticks:,}"
        cells = [clean(row.name, 40), clean(row.engine, 20), f"{row.count:,}", f"{row.total_ticks:,}"]
        lines.append([*cells, f"{row.median_ticks:,}", f"{row.p95_ticks:,}", first])
    if len(summary.classes) > MOST_CLASSES:
        lines.append([f"and {len(summary.classes) - MOST_CLASSES} more", *[""] * 6])
    return columns(["class", "on", "count", "total", "median", "p95", "first run"], lines, left=2)


def _totals(summary: TraceSummary) -> RenderableType:
    lines = []
    for row in summary.totals[:MOST_TOTALS]:
        ticks = "" if row.ticks is None else f"{row.ticks:,}"
        us = "" if row.ns is None else f"{row.ns / 1000:,.0f}"
        lines.append([clean(row.name, 60), clean(row.group, 30), f"{row.count:,}", ticks, us])
    if len(summary.totals) > MOST_TOTALS:
        lines.append([f"and {len(summary.totals) - MOST_TOTALS} more", *[""] * 4])
    return columns(["stated", "of", "count", "cycles", "us"], lines, left=2)


def columns(head: Sequence[str], lines: Sequence[Sequence[str]], left: int = 1) -> Text:
    """Return lines of columns that no narrow terminal cuts; the first ``left`` are flush left."""
    widths = [max(len(line[k]) for line in (head, *lines)) for k in range(len(head))]

    def one(cells: Sequence[str]) -> str:
        parts = [c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return "  ".join(parts).rstrip()

    return Text("\n").join([Text(one(head), style="dim"), *(Text(one(line)) for line in lines)])


def _op(op: OpRow, floor: FloorRow | None, summary: TraceSummary) -> Iterator[RenderableType]:
    title = " ".join(part for part in (clean(op.name, 60), clean(op.key, 60)) if part)
    yield Text(f"\n{title}  {_time(op.span_ticks, summary, op.ns)}", style="bold")
    if op.detail:
        yield Text(clean(op.detail.replace("|", "  "), 160), style="dim")
    yield Text(f"bound by: {'' if op.bound_by == 'engine' else op.bound_by + ': '}{op.reason}")
    if op.engines:
        yield _engines(op.engines, op.overlaps, op.span_ticks, sums=op.start_ticks is None)
    if floor is not None:
        yield Text(_floor_line(op, floor))
        if floor.command:
            yield Text(f"what other parameters would change: {floor.command}", style="dim")


def _floor_line(op: OpRow, floor: FloorRow) -> str:
    loop = "" if floor.loop_us is None else f", today's loop {floor.loop_us:,.1f} us"
    measured = ""
    if op.ns is not None and floor.loop_us:
        measured = f"; measured {op.ns / 1000 / floor.loop_us - 1:+.1%} against that loop"
    return (
        f"predicted: {floor.kernel} {floor.shape} takes at least {floor.floor_us:,.1f} us "
        f"({floor.bottleneck}){loop}{measured}"
    )
