"""A picture of a study: the time of each group, and how the parts of its gain lead there from ``existing``."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.emit.study_table import PARTS, signed_part
from hexloom.emit.svg import FRAME, GRID, INK, MUTED, Svg, clean, nice_step, number
from hexloom.optimizer.study.report import GROUPS

if TYPE_CHECKING:
    from hexloom.optimizer.study.report import Group, Study

WIDTH, LEFT, RIGHT, TOP = 960, 150.0, 110.0, 84.0
ROW, STRIP, BETWEEN = 20.0, 9.0, 16.0
BAR, PLAN = "#8c959f", "#0072b2"
COLOURS = {
    "saved_entries": ("#56b4e9", "saved entries"),
    "overlap_within_tasks": ("#009e73", "overlap within tasks"),
    "overlap_between_tasks": ("#0072b2", "overlap between tasks"),
    "contention_cost": ("#d55e00", "contention"),
    "tail": ("#e69f00", "tail"),
}


def study_svg(found: Study) -> str:
    """Return the picture as one SVG file: the same bytes for the same study."""
    svg = Svg()
    longest = max((Fraction(g.makespan) for g in found.groups if g.makespan is not None), default=Fraction(1))
    span = max(longest, max((_farthest(group) for group in found.groups), default=Fraction(0)), Fraction(1, 10**6))

    def x(value: Fraction) -> float:
        return LEFT + float(value / span) * (WIDTH - LEFT - RIGHT)

    svg.text(24, 34, clean(found.name, 90), 18, INK, more=' font-weight="600"')
    svg.text(24, 54, f"time in {found.unit}; below each bar the parts that lead there from existing", 11, MUTED)
    _legend(svg)
    bottom = TOP + len(found.groups) * (ROW + STRIP + BETWEEN)
    step = nice_step(span, 8)
    for k in range(int(span / step) + 1):
        svg.line(x(k * step), TOP - 6, x(k * step), bottom, GRID)
        svg.text(x(k * step), bottom + 16, number(k * step), 10, MUTED, "middle")
    svg.line(x(Fraction(found.lower_bound)), TOP - 6, x(Fraction(found.lower_bound)), bottom, INK, _DASHED)
    svg.text(x(Fraction(found.lower_bound)), bottom + 30, "lower bound", 10, INK, "middle")
    y = TOP
    for group in found.groups:
        svg.text(LEFT - 10, y + ROW - 5, group.name, 12, INK, "end")
        if group.makespan is None:
            svg.text(LEFT + 6, y + ROW - 5, clean(group.note or "none", 100), 11, MUTED)
        else:
            colour = PLAN if group.name == "plan" else BAR
            at = Fraction(group.makespan)
            svg.rect(LEFT, y, x(at) - LEFT, ROW, colour, GROUPS[group.name])
            svg.text(x(at) + 6, y + ROW - 5, number(at, 6), 11, INK)
            _strip(svg, group, x, y + ROW + 1)
        y += ROW + STRIP + BETWEEN
    svg.line(LEFT, bottom, WIDTH - RIGHT, bottom, FRAME)
    return svg.document(WIDTH, bottom + 42, f"Four ways to run {clean(found.name)}", "")


_DASHED = ' stroke-width="1.2" stroke-dasharray="5 4"'


def _legend(svg: Svg) -> None:
    at = 24.0
    for colour, label in COLOURS.values():
        svg.rect(at, 62, 10, 10, colour)
        svg.text(at + 14, 71, label, 10, MUTED)
        at += 30 + 6.2 * len(label)


def _steps(group: Group) -> list[tuple[str, Fraction, Fraction]]:
    """Return each part with where it begins and ends on the way from existing to the group's time."""
    if group.gain is None:
        return []
    at, found = Fraction(group.gain.existing), []
    for part in PARTS:
        change = Fraction(signed_part(group, part) or 0)
        found.append((part, at, at - change))
        at -= change
    return found


def _farthest(group: Group) -> Fraction:
    return max((max(a, b) for _, a, b in _steps(group)), default=Fraction(0))


def _strip(svg: Svg, group: Group, x: object, y: float) -> None:
    assert callable(x)
    for part, a, b in _steps(group):
        if a != b and group.name != "existing":
            low, high = x(max(min(a, b), Fraction(0))), x(max(a, b, Fraction(0)))
            colour, label = COLOURS[part]
            svg.rect(low, y, max(high - low, 0.5), STRIP - 2, colour, f"{label}: {number(a - b, 6)}")
