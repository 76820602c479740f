"""A picture of a comparison: every unit twice on one axis of time, predicted above measured, errors coloured."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.emit.frame import WIDTH, Frame
from hexloom.emit.lanes import unit_label
from hexloom.emit.svg import FRAME, INK, MUTED, Bar, Svg, clean, coalesce, fit, text_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.comparison import Comparison, OpError, Pair

ROW, BETWEEN, TOP = 12.0, 10.0, 132.0
PREDICTED = "#8c959f"
COLOURS = (
    (Fraction(-1, 5), "#0b5fa5", "over 20 % shorter"),
    (Fraction(-1, 20), "#6cb0e0", "5 to 20 % shorter"),
    (Fraction(1, 20), "#4d9e6a", "within 5 %"),
    (Fraction(1, 5), "#f0a202", "5 to 20 % longer"),
)
LONGER = ("#c1121f", "over 20 % longer")


def comparison_svg(schedule: Schedule, found: Comparison) -> str:
    """Return the picture as one SVG file: the same bytes for the same schedule and trace."""
    frame = Frame(schedule)
    frame.span = max(1, found.makespan.predicted, found.makespan.measured)
    svg = Svg()
    _head(svg, frame, found)
    lanes = _lanes(schedule, found)
    bottom = TOP + len(lanes) * (2 * ROW + BETWEEN)
    frame.grid(svg, TOP - 4, bottom)
    y = TOP
    for label, rows in lanes:
        text = fit(clean(label), 11, frame.left - 34)
        svg.text(frame.left - 10, y + ROW + 4, text, 11, INK, "end")
        _lane(svg, frame, rows, y, measured=False)
        _lane(svg, frame, rows, y + ROW, measured=True)
        svg.line(
            frame.left, y + 2 * ROW + BETWEEN / 2, frame.right, y + 2 * ROW + BETWEEN / 2, FRAME, ' stroke-width=".4"'
        )
        y += 2 * ROW + BETWEEN
    for ticks, dash in ((found.makespan.predicted, ' stroke-dasharray="5 4"'), (found.makespan.measured, "")):
        at = float(frame.x(ticks))
        svg.line(at, TOP - 4, at, bottom, INK, f' stroke-width="1.2"{dash}')
    svg.line(frame.left, bottom, frame.right, bottom, FRAME)
    frame.axis(svg, bottom)
    return svg.document(WIDTH, bottom + 48, f"Predicted and measured: {clean(found.name)}", "")


def _head(svg: Svg, frame: Frame, found: Comparison) -> None:
    svg.text(24, 36, fit(clean(found.name, 200), 20, WIDTH - 48), 20, INK, more=' font-weight="600"')
    parts = [
        f"predicted {frame.us(found.makespan.predicted, 7)} {frame.unit} (dashed)",
        f"measured {frame.us(found.makespan.measured, 7)} {frame.unit} ({found.error:+.1%})",
        f"{found.matching.ops - len(found.matching.missing)} of {found.matching.ops} ops matched",
    ]
    svg.text(24, 58, "   ·   ".join(parts), 13, MUTED)
    x = 24.0
    marks = [(PREDICTED, "predicted (upper)"), *((colour, text) for _, colour, text in COLOURS), LONGER]
    for colour, text in marks:
        svg.rect(x, 78, 13, 11, colour)
        svg.text(x + 18, 87, text, 11)
        x += 18 + text_width(text, 11) + 18


def _lanes(schedule: Schedule, found: Comparison) -> list[tuple[str, list[OpError]]]:
    """Return the units of every engine with the ops that they ran; pipes are one lane each."""
    index = schedule.problem.op_index
    chosen = {a.op: a for a in schedule.plan.assignments}
    units = {engine.name: engine.units for engine in schedule.problem.engines}
    kinds = {engine.name: engine.kind for engine in schedule.problem.engines}
    lanes: dict[tuple[int, int], tuple[str, list[OpError]]] = {}
    order = list(units)
    for row in found.rows:
        mode = schedule.problem.ops[index[row.op]].modes[chosen[row.op].mode]
        for use in mode.uses:
            if kinds[use.engine] == "share" or use.ticks == 0:
                continue
            for unit in chosen[row.op].units.get(use.engine, (0,)):
                many = units[use.engine] if kinds[use.engine] != "pipe" else 1
                label = unit_label(use.engine, unit, many)
                lanes.setdefault((order.index(use.engine), unit), (label, []))[1].append(row)
    return [lanes[key] for key in sorted(lanes)]


def _lane(svg: Svg, frame: Frame, rows: list[OpError], y: float, *, measured: bool) -> None:
    side = "measured" if measured else "predicted"
    ordered = sorted(rows, key=lambda row: (getattr(row.start, side), getattr(row.end, side)))
    for bar in coalesce(_bars(frame, ordered, side)):
        tip = _tip(frame, ordered[bar.members[0]])
        if len(bar.members) > 1:
            tip = f"{len(bar.members)} ops, first {tip}"
        svg.rect(bar.x0, y + 0.5, max(bar.x1 - bar.x0, 0.3), ROW - 1, bar.key, tip)


def _bars(frame: Frame, rows: list[OpError], side: str) -> Iterator[Bar]:
    for k, row in enumerate(rows):
        colour = error_colour(row) if side == "measured" else PREDICTED
        yield Bar(float(frame.x(getattr(row.start, side))), float(frame.x(getattr(row.end, side))), colour, (k,))


def error_colour(row: OpError) -> str:
    """Return the colour of how much longer an op took than predicted."""
    was, now = _ticks(row, "predicted"), _ticks(row, "measured")
    off = Fraction(now - was) / was if was else Fraction(0 if not now else 1)
    return next((colour for limit, colour, _ in COLOURS if off <= limit), LONGER[0])


def _ticks(row: OpError, side: str) -> int | Fraction:
    start, end = _side(row.start, side), _side(row.end, side)
    return end - start


def _side(pair: Pair, side: str) -> int | Fraction:
    return pair.measured if side == "measured" else pair.predicted


def _tip(frame: Frame, row: OpError) -> str:
    was = frame.interval(row.start.predicted, row.end.predicted)
    now = frame.interval(row.start.measured, row.end.measured)
    return f"{clean(row.op, 60)}: predicted {was}, measured {now}"
