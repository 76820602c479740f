"""The parts of the report that only some have: a measured run, what if, loops, and why there is no plan."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hexloom.emit.figures import short
from hexloom.emit.html import Html, element, joined, table
from hexloom.emit.report_sections import Times, bar, list_of, paragraph, share, signed
from hexloom.hwmodels import format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.emit.lanes import Lane, View
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.infeasibility import Infeasibility, Lever
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule, Stretch
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.comparison import Comparison, Pair
    from hexloom.optimizer.what_if import WhatIf, WhatIfRow

MOST_STAGES, MOST_BUBBLES, MOST_NAMED = 24, 16, 12
AT_MOST = "\N{LESS-THAN OR EQUAL TO}"

PARTS = {
    "saved_entries": 1,
    "overlap_within_tasks": 1,
    "overlap_between_tasks": 1,
    "contention_cost": -1,
    "tail": -1,
}


def comparison_section(schedule: Schedule, found: Comparison) -> Html:
    """Return how a measured run differs from the prediction."""
    at = Times(schedule)
    made = [f"durations explain {signed(found.by_durations, at)} {at.unit}"]
    made.append(f"hand-over and waiting {signed(found.by_dispatch, at)} {at.unit}")
    of = found.matching
    seen = f"{of.ops - len(of.missing):,} of {of.ops:,} ops are in the trace ({found.form})."
    parts = [
        paragraph(
            "Measured ", element("strong", at.words(found.makespan.measured)),
            f", predicted {at.words(found.makespan.predicted)}: ", element("strong", f"{found.error:+.2%}"),
            f"; {' and '.join(made)}.",
        ),
        paragraph(seen, " ", found.clock_text or ""),
    ]  # fmt: skip
    rows = [
        [
            " / ".join(filter(None, (row.task, row.stage))),
            row.engine,
            row.ops,
            f"{row.predicted_us:,.3f}",
            f"{row.median_us:,.3f}" if row.exact else f"{AT_MOST} {row.median_us:,.3f}",
            f"{row.p95_us:,.3f}",
            "" if row.error is None else f"{row.error:+.1%}",
            f"{row.makespan_effect_us:+,.3f}",
        ]
        for row in found.stages[:MOST_STAGES]
    ]
    head = ["stage", "on", "ops", "predicted", "median", "p95", "error", "on makespan"]
    parts.append(table(f"Stage by stage [{at.unit}], what moves the makespan most first", head, rows, left=2))
    engines = [
        [row.engine, *_both(row.busy, found.makespan), at.bare(row.total.predicted), at.bare(row.total.measured)]
        for row in found.engines
    ]
    head = ["engine", "busy, predicted", "busy, measured", "work, predicted", "work, measured"]
    parts.append(table(f"Engines; work of all units in {at.unit}", head, engines))
    idle = [
        [row.engine, row.reason, *(at.bare(t) for t in (row.idle.predicted, row.idle.measured, row.accidental))]
        for row in found.bubbles[:MOST_BUBBLES]
    ]
    if idle:
        head = ["engine", "why idle", "predicted", "measured", "not foreseen"]
        parts.append(table(f"Idle time of queues by reason [{at.unit}]", head, idle, left=2))
    if found.gain is not None and found.measured_gain is not None:
        pairs = [
            (name.replace("_", " "), sign * getattr(found.gain, name), sign * getattr(found.measured_gain, name))
            for name, sign in PARTS.items()
        ]
        pairs.append(("gain", found.gain.total, found.measured_gain.total))
        lines = [[name, at.bare(was), at.bare(now), at.bare(now - was)] for name, was, now in pairs]
        parts.append(table(f"The gain for this run [{at.unit}]", ["part", "predicted", "measured", "off by"], lines))
    parts.append(list_of("What was not taken as it stands", [f.text for f in (*found.warnings, *found.notes)]))
    return joined(parts)


def _both(of: Pair, whole: Pair) -> list[str]:
    return [share(of.predicted, whole.predicted), share(of.measured, whole.measured)]


def what_if_section(found: WhatIf) -> Html:
    """Return the makespan against more and less of one thing at a time."""
    known = [row.makespan for row in found.rows if row.makespan is not None]
    longest = Fraction(max(known, default=1)) or Fraction(1)
    rows = [_point(row, longest) for row in found.rows]
    head = ["what", "value", f"makespan [{found.time_unit}]", "", "gap", "bottleneck"]
    parts = [element("div", table("One thing at a time, all else as it is", head, rows), class_="bars")]
    if any(row.carried for row in found.rows):
        parts.append(
            paragraph("* the plan for less, started at the same times: the search found none better.", class_="small")
        )
    critical = [s.op for s in found.slack if not s.slack]
    if critical:
        more = f" and {len(critical) - MOST_NAMED:,} more" if len(critical) > MOST_NAMED else ""
        parts.append(
            paragraph(f"Ops that nothing may delay: {', '.join(critical[:MOST_NAMED])}{more}.", class_="small")
        )
    return joined(parts)


def _point(row: WhatIfRow, longest: Fraction) -> list[object]:
    value = f"{short(Fraction(row.value))} {row.unit}"
    name: object = element("strong", f"{row.field} (as it is)") if row.current else row.field
    if row.makespan is None:
        return [name, value, row.status, "", "", ""]
    makespan = f"{short(Fraction(row.makespan))}{'*' if row.carried else ''}"
    line = bar(Fraction(row.makespan), longest, "plan" if row.current else "other")
    return [name, value, makespan, line, "" if row.gap is None else f"{row.gap:.2%}", row.bottleneck or ""]


def stretches_section(schedule: PeriodicSchedule) -> Html:
    """Return the phases of a plan of loops: what runs how often, and its steady state."""
    at = Times(schedule.written)
    rows = [[f"{k}", *_stretch(at, stretch)] for k, stretch in enumerate(schedule.stretches, start=1)]
    head = ["phase", "body", "runs", "steady from run", "period", f"takes [{at.unit}]", "not written down"]
    trips = ", ".join(f"{n:,} \u00d7 {task}" for task, n in schedule.trips.items())
    said = (
        f"The plan is for {trips}. It is written down by {len(schedule.written.rows):,} ops: the pictures below show "
        f"these. Where a phase repeats itself exactly, whole periods are left out, and the checker shows that they go "
        "on alike."
    )
    return joined([paragraph(said), table("Phases, one after the other", head, rows, left=2)])


def _stretch(at: Times, stretch: Stretch) -> list[object]:
    body = " + ".join(f"{n} \u00d7 {task}" for task, n in stretch.times.items())
    if not stretch.left_out:
        return [body, f"{stretch.runs:,}", "\u2013", "\u2013", "\u2013", "nothing"]
    period = f"{stretch.period} run{'s' if stretch.period > 1 else ''}"
    return [
        body,
        f"{stretch.runs:,}",
        stretch.first,
        period,
        at.bare(stretch.period_ticks),
        f"{stretch.left_out:,} runs",
    ]


def periods_of(schedule: PeriodicSchedule, view: View) -> list[list[Any]]:
    """Return [words, start, end] of one period of every phase that repeats itself, for the picture to be set to.

    A period begins with an op of the busiest unit that does the same once more exactly one period later; of several
    the one in the middle is taken.
    """
    lanes = sorted(view.lanes(), key=lambda lane: -sum((s.ticks for s in lane.slices), Fraction(0)))
    found = []
    for k, stretch in enumerate(schedule.stretches, start=1):
        starts = next(filter(None, (_repeats(view, lane, stretch) for lane in lanes)), []) if stretch.left_out else []
        if starts:
            start = starts[len(starts) // 2]
            ends = start, start + stretch.period_ticks
            found.append([f"phase {k}", *(float(schedule.us(ticks)) for ticks in ends)])
    return found


def _repeats(view: View, lane: Lane, stretch: Stretch) -> list[Moment]:
    """Return when ops of a lane begin that one period later come again."""
    own = [(piece.start, view.ops[piece.op]) for piece in lane.slices if view.ops[piece.op].task in stretch.times]
    seen = {(start, op.task, op.stage) for start, op in own}
    return [start for start, op in own if (start + stretch.period_ticks, op.task, op.stage) in seen]


def infeasibility_section(why: Infeasibility) -> Html:
    """Return who holds what, what excludes what, and what would make it fit."""
    bytes_ = why.unit == "bytes"

    def amount(n: int) -> str:
        return format_bytes(n) if bytes_ else f"{n:,} {why.unit}"

    parts: list[Html] = [paragraph(why.message, class_="lead bad")]
    if why.need > why.have:
        most = max(why.need, why.have, 1)
        rows = [
            ["need", amount(why.need), bar(why.need, most, "minus")],
            ["have", amount(why.have), bar(why.have, most, "plan")],
            ["short", amount(why.short), bar(why.short, most, "minus")],
        ]
        caption = f"{why.resource}: need and have"
        parts.append(element("div", table(caption, ["", "amount", ""], rows), class_="bars"))
    if why.holders:
        held = sorted(why.holders, key=lambda h: (-h.size_bytes, h.buffer))
        most = max(h.size_bytes for h in held) or 1
        rows = [
            [
                h.buffer,
                format_bytes(h.size_bytes),
                bar(h.size_bytes, most, "other"),
                "" if h.address is None else f"{h.address:,}",
            ]
            for h in held
        ]
        head = ["buffer", "size", "", "pinned at"]
        parts.append(element("div", table("Who holds it", head, rows), class_="bars"))
    parts += [_conflict(why), _levers(why.levers, why.time_unit)]
    return joined(parts)


def _conflict(why: Infeasibility) -> Html:
    if not why.conflict:
        return Html("")
    shown = {"feasible": "the others have a checked schedule", "open": "not decided in time"}
    rows = [[member.text, shown[member.without]] for member in why.conflict]
    said = "These exclude each other" + ("; each of them is needed for that" if why.minimal else "")
    if not why.conflict_proven:
        said += "; that these alone do was not decided in time"
    return joined([paragraph(said + "."), table("What excludes what", ["constraint", "without it"], rows, left=2)])


def _levers(levers: Sequence[Lever], unit: str) -> Html:
    if not levers:
        return Html("")
    said = {
        "feasible": "fits",
        "infeasible": "not enough alone",
        "open": "not decided in time",
        "not_asked": "not asked",
    }
    rows = [
        [
            lever.text,
            said[lever.outcome] + ("; any less is not enough" if lever.least else ""),
            "" if lever.makespan is None else f"{short(Fraction(lever.makespan))} {unit}",
            "" if lever.cost is None else f"{short(Fraction(lever.cost))} {unit}",
        ]
        for lever in levers
    ]
    head = ["change", "then it", "makespan", "more than with room for everything"]
    known = 2 if all(lever.makespan is None for lever in levers) else 4
    caption = "What would make it fit, and what came of solving the changed input"
    return table(caption, head[:known], [row[:known] for row in rows], left=2)
