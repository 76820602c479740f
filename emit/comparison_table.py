"""A comparison for people: the makespan, what explains its error, and where in the plan it lies."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.emit.figures import short
from hexloom.emit.svg import clean
from hexloom.emit.trace_table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.traces.comparison import ClockRow, Comparison, Pair

MOST_STAGES, MOST_BUBBLES, MOST_NAMED = 16, 16, 6
PARTS = ("saved_entries", "overlap_within_tasks", "overlap_between_tasks", "contention_cost", "tail")
TAKEN = ("contention_cost", "tail")


def comparison_table(found: Comparison, source: str) -> Iterator[Text]:
    """Yield what to print, most important first."""
    yield Text(f"{clean(found.name, 80)} against {clean(source, 80)} ({found.form})", style="bold")
    for finding in found.warnings:
        yield Text(f"warning: {finding.text}", style="yellow")
    if found.other_plan:
        yield Text(f"warning: {found.other_plan}", style="yellow")
    yield from _matching(found)
    for clock in found.clocks:
        yield Text(_clock(clock))
    if found.clock_text:
        yield Text(f"clock     {found.clock_text}")
    at = _Times(found)
    yield Text(f"predicted {at.words(found.makespan.predicted)}")
    yield Text(
        f"measured  {at.words(found.makespan.measured)}  {found.error:+.2%}: durations explain "
        f"{at.signed(found.by_durations)}, hand-over and waiting {at.signed(found.by_dispatch)}",
        style="bold",
    )
    if found.gain is not None and found.measured_gain is not None:
        yield _parts(found, at)
    yield _stages(found)
    yield _engines(found)
    if found.bubbles:
        yield _bubbles(found, at)
    for inversion in found.inversions:
        first, second = inversion.example
        pairs = f"{inversion.pairs:,} pair{'s' if inversion.pairs > 1 else ''}"
        yield Text(f"order     {inversion.engine}: {pairs} began the other way round, as {first} after {second}")


def _clock(clock: ClockRow) -> str:
    """Return a clock of the trace in words."""
    parts = [f"clock     {clock.domain}"]
    if clock.mhz is not None:
        parts.append(f"at {clock.mhz:,.1f} MHz")
    if clock.mhz is not None and clock.machine_mhz is not None:
        parts.append(f"(machine file {clock.machine_mhz:,.1f}, {clock.mhz / clock.machine_mhz - 1:+.1%})")
    if clock.offset_us is not None:
        bounds = ["-" if us is None else f"{us:,.3f}" for us in (clock.low_us, clock.high_us)]
        known = f"the orders of the plan leave {bounds[0]} to {bounds[1]}"
        if clock.low_us is None and clock.high_us is None:
            known = "no order of the plan says how it lies to the others"
        parts.append(f"moved by {clock.offset_us:,.3f} us; {known}")
    return " ".join(parts)


class _Times:
    """Ticks of a comparison in its unit."""

    def __init__(self, found: Comparison) -> None:
        self.tick = Fraction(found.tick_us) if found.tick_us else Fraction(1)
        self.unit = found.unit

    def words(self, ticks: int | Fraction) -> str:
        return f"{self.bare(ticks)} {self.unit}"

    def bare(self, ticks: int | Fraction) -> str:
        return short(Fraction(ticks) * self.tick)

    def signed(self, ticks: int | Fraction) -> str:
        text = self.words(ticks)
        return text if text.startswith("-") else f"+{text}"


def _matching(found: Comparison) -> Iterator[Text]:
    of = found.matching
    how = [f"{count:,} by {word}" for count, word in ((of.by_name, "name"), (of.by_order, "order")) if count]
    runs = f", run {of.run} of {of.runs} (the median; the first stands apart)" if of.runs > 1 else ""
    yield Text(f"matched   {of.ops - len(of.missing):,} of {of.ops:,} ops, {', '.join(how)}{runs}")
    for names, what in ((of.missing, "ops that the trace does not have"), (of.unknown, "events that are no op")):
        if names:
            more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
            shown = ", ".join(clean(name, 40) for name in names[:MOST_NAMED])
            yield Text(f"unmatched {len(names):,} {what}: {shown}{more}", style="yellow")


def _parts(found: Comparison, at: _Times) -> Text:
    assert found.gain is not None and found.measured_gain is not None
    lines = []
    for part in PARTS:
        sign = -1 if part in TAKEN else 1
        was, now = sign * getattr(found.gain, part), sign * getattr(found.measured_gain, part)
        lines.append([part.replace("_", " "), at.bare(was), at.bare(now), at.bare(now - was)])
    was, now = found.gain.total, found.measured_gain.total
    lines.append(["gain", at.bare(was), at.bare(now), at.bare(now - was)])
    return columns([f"gain over existing [{at.unit}]", "predicted", "measured", "difference"], lines)


def _stages(found: Comparison) -> Text:
    lines = []
    for row in found.stages[:MOST_STAGES]:
        clock = "" if row.clock_error is None else f"{row.clock_error:+.1%}"
        bound = "" if row.exact else "<= "
        lines.append(
            [
                clean("/".join(part for part in (row.task, row.stage) if part), 40),
                clean(row.engine, 16),
                str(row.ops),
                _us(row.predicted_us),
                f"{bound}{_us(row.median_us)}",
                _us(row.p95_us),
                "" if row.error is None else f"{row.error:+.1%}",
                clock,
                "" if row.first_run_us is None else _us(row.first_run_us),
                f"{row.skew_us:+,.3f}",
                f"{row.makespan_effect_us:+,.3f}",
            ]
        )
    head = ["stage", "on", "ops", "predicted", "median", "p95", "error", "by clock", "first", "skew", "on makespan"]
    text = columns(head, lines, left=2)
    if len(found.stages) > MOST_STAGES:
        text = Text("\n").join([text, Text(f"and {len(found.stages) - MOST_STAGES} more stages", style="dim")])
    return text


def _us(value: float) -> str:
    return f"{value:,.3f}"


def _share(of: Pair, whole: Pair) -> list[str]:
    sides = ((of.predicted, whole.predicted), (of.measured, whole.measured))
    return [f"{float(Fraction(part) / all_of):.1%}" if all_of else "" for part, all_of in sides]


def _engines(found: Comparison) -> Text:
    lines = []
    for row in found.engines:
        flight = [
            f"{float(Fraction(total) / span):.2f}" if span else ""
            for total, span in (
                (row.total.predicted, found.makespan.predicted),
                (row.total.measured, found.makespan.measured),
            )
        ]
        lines.append([clean(row.engine, 24), str(row.units), *_share(row.busy, found.makespan), *flight])
    for pair in found.overlaps:
        if pair.together.predicted or pair.together.measured:
            name = f"{clean(pair.engines[0], 20)} and {clean(pair.engines[1], 20)}"
            lines.append([name, "", *_share(pair.together, found.makespan), "", ""])
    head = ["engine", "units", "busy, predicted", "measured", "in flight, predicted", "measured"]
    return columns(head, lines)


def _bubbles(found: Comparison, at: _Times) -> Text:
    rows = sorted(found.bubbles, key=lambda row: (-row.accidental, -row.deliberate, row.engine, row.reason))
    lines = [
        [
            clean(row.engine, 16),
            row.reason.replace("_", " "),
            at.bare(row.idle.predicted),
            at.bare(row.idle.measured),
            at.bare(row.accidental),
        ]
        for row in rows[:MOST_BUBBLES]
    ]
    return columns(
        ["idle threads of", f"waiting for [{at.unit}]", "predicted", "measured", "accidental"], lines, left=2
    )
