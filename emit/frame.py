"""The frame that the panels of the picture share: one axis of time, its grid and its marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hexloom.emit.svg import GRID, INK, MUTED, Svg, nice_step, number, text_width

if TYPE_CHECKING:
    from fractions import Fraction

    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import Schedule

WIDTH, LEFT, RIGHT = 1400, 132, 104
MOST_TICKS = 12

BOUND_COLOUR = "#c1121f"


class Frame:
    """Where a tick lies on the page."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.span = max(1, schedule.makespan)
        self.left, self.right = float(LEFT), float(WIDTH - RIGHT)
        self.bound = self.x(min(schedule.lower_bound, self.span))
        self.unit = "ticks" if schedule.problem.tick is None else "µs"

    def x(self, tick: Moment) -> float:
        """Return the page coordinate of a time."""
        return self.left + (self.right - self.left) * tick / self.span

    def us(self, ticks: Moment, digits: int = 5) -> str:
        """Return a time for people, without its unit."""
        return number(self.schedule.us(ticks), digits)

    def interval(self, start: Moment, end: Moment) -> str:
        """Return a span of time in words."""
        return f"{self.us(start)} to {self.us(end)} {self.unit} ({self.us(end - start)} {self.unit})"

    def grid(self, svg: Svg, top: float, bottom: float) -> None:
        """Paint the vertical lines behind a panel."""
        for at, _ in self._ticks():
            svg.line(at, top, at, bottom, GRID)

    def axis(self, svg: Svg, y: float, *, named: bool = True) -> None:
        """Write the numbers below a panel whose bottom is ``y``."""
        for at, label in self._ticks():
            svg.line(at, y, at, y + 4, MUTED)
            svg.text(at, y + 16, label, 11, MUTED, "middle")
        if named:
            svg.text((self.left + self.right) / 2, y + 32, f"time [{self.unit}]", 11, MUTED, "middle")

    def end_mark(self, svg: Svg, top: float, bottom: float) -> None:
        """Paint the makespan across a panel."""
        end = self.x(self.schedule.makespan)
        svg.line(end, top, end, bottom, INK, ' stroke-width="1.2"')

    def bound_mark(self, svg: Svg, top: float, bottom: float) -> None:
        """Paint the lower bound as a dashed line across a panel."""
        svg.line(self.bound, top, self.bound, bottom, BOUND_COLOUR, ' stroke-width="1.4" stroke-dasharray="5 4"')

    def mark_labels(self, svg: Svg, y: float) -> None:
        """Write what the marks are: the end to the right of its line, the bound to the left of its own."""
        schedule = self.schedule
        if schedule.lower_bound == schedule.makespan:
            text = f"makespan = lower bound {self.us(schedule.makespan)} {self.unit}"
            svg.text(self.right, y, text, 11, INK, "end")
            return
        label = f"lower bound {self.us(schedule.lower_bound)} {self.unit}"
        bound = self.bound
        if bound - text_width(label, 11) - 6 >= self.left:
            svg.text(bound - 5, y, label, 11, BOUND_COLOUR, "end")
        else:
            svg.text(bound + 5, y, label, 11, BOUND_COLOUR)
        end = f"{self.us(schedule.makespan)} {self.unit}"
        if text_width(end, 11) > RIGHT - 10:
            svg.text(WIDTH - 8, y - 13, f"makespan {end}", 11, INK, "end")
            return
        svg.text(self.right + 5, y - 13, "makespan", 11, INK)
        svg.text(self.right + 5, y, end, 11, INK)

    def _ticks(self) -> list[tuple[float, str]]:
        span = self.schedule.us(self.span)
        room = (self.right - self.left) / (text_width(number(span, 12), 11) + 20)
        step = nice_step(span, max(1, min(MOST_TICKS, int(room))))
        length = self.schedule.us(1)
        found: list[tuple[float, str]] = []
        for k in range(int(span / step) + 1):
            ticks: Fraction = k * step / length
            at = self.left + (self.right - self.left) * float(ticks / self.span)
            found.append((at, number(k * step, 12)))
        return found
