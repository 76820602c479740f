"""The picture of a schedule: engines over time, and below them the scratchpad. One SVG, no scripts, no links."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

from hexloom.emit.frame import WIDTH, Frame
from hexloom.emit.lanes import Lane, Slice, View
from hexloom.emit.memory_map import draw_memory_map
from hexloom.emit.palette import ISSUE, WAIT, Palette, ink_on
from hexloom.emit.svg import FRAME, INK, MUTED, Bar, Svg, clean, coalesce, fit, number, text_width

if TYPE_CHECKING:
    from hexloom.optimizer.schedule import Schedule

ROW, SUB_ROW_MOST, SUB_ROW_LEAST, BAND_MOST = 30.0, 12.0, 4.0, 200.0
SHOW_ALL_UNITS = 16
"""Of wider engines only the units that do something are drawn."""

LEGEND_LINES = 8
HATCH = (
    '<defs><pattern id="hexloom-overhead" width="4" height="4" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="4" height="4" fill="#000" fill-opacity=".28"/>'
    '<rect width="1.6" height="4" fill="#000" fill-opacity=".55"/></pattern></defs>'
)
OVERHEAD_FILL = "url(#hexloom-overhead)"


def gantt_svg(schedule: Schedule) -> str:
    """Return the picture of ``schedule`` as one SVG file: the same bytes for the same schedule.

    Notes
    -----
    What is too narrow to see is merged, so that a few thousand ops stay a file that opens at once. A unit that owns
    transfers shows when it issues them and when it waits for them; a pipe shows the transfers that hold it.
    """
    return _Picture(schedule).draw()


class _Picture:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.view = View(schedule)
        self.frame = Frame(schedule)
        self.palette = Palette(schedule.problem)
        self.svg = Svg()
        self.has_overhead = any(mode.overhead_ticks for mode in self.view.modes)

    def draw(self) -> str:
        y = self._title()
        y = self._legend(y + 14)
        top = y + 30
        self.frame.mark_labels(self.svg, top - 6)
        bottom = self._engines(top)
        end = draw_memory_map(self.svg, self.view, self.frame, self.palette, bottom + 48)
        height = end if end > bottom + 48 else bottom + 44
        return self.svg.document(WIDTH, height + 8, f"Schedule {clean(self.schedule.name)}", HATCH)

    def _title(self) -> float:
        schedule, frame = self.schedule, self.frame
        name = fit(clean(schedule.name, 200) or "schedule", 20, WIDTH - 48)
        self.svg.text(24, 36, name, 20, INK, more=' font-weight="600"')
        parts = [fit(clean(schedule.machine), 13, 200)] if schedule.machine else []
        parts += [
            f"makespan {frame.us(schedule.makespan, 7)} {frame.unit}",
            f"lower bound {frame.us(schedule.lower_bound, 7)} {frame.unit}",
            self._quality(),
        ]
        existing = schedule.baselines.get("existing")
        if existing is not None:
            text = f"existing {frame.us(existing, 7)} {frame.unit}"
            factor = number(Fraction(existing, schedule.makespan), 3) if schedule.makespan else ""
            parts.append(f"speedup {factor}\u00d7 over {text}" if factor else text)
        if schedule.contention != "none":
            parts.append(f"contention {schedule.contention}")
        self.svg.text(24, 58, fit("   ·   ".join(parts), 13, WIDTH - 48), 13, MUTED)
        return 58

    def _quality(self) -> str:
        schedule = self.schedule
        if schedule.status == "OPTIMAL":
            return "optimal" if schedule.makespan == schedule.lower_bound else "optimal among event-driven plans"
        percent = schedule.gap * 100
        return "gap below 0.01 %" if 0 < percent < Fraction(1, 100) else f"gap {number(percent, 2)} %"

    def _legend(self, y: float) -> float:
        """One line per task while there are few; what does not fit is counted."""
        tasks = list(self.palette.stages.items())
        for task, stages in tasks[:LEGEND_LINES]:
            y += 18
            label = fit(clean(task) or "ops", 12, 150)
            self.svg.text(24, y, label, 12, INK, more=' font-weight="600"')
            x = 24 + max(108.0, text_width(label, 12) + 14)
            for k, stage in enumerate(stages):
                text = fit(clean(stage) or "all", 11, 160)
                width = 18 + text_width(text, 11) + 16
                if x + width > WIDTH - 110:
                    self.svg.text(x, y, f"and {len(stages) - k} more", 11, MUTED)
                    break
                self.svg.rect(x, y - 9, 13, 11, self.palette.colours[task, stage])
                self.svg.text(x + 18, y, text, 11)
                x += width
        if len(tasks) > LEGEND_LINES:
            y += 18
            self.svg.text(24, y, f"and {len(tasks) - LEGEND_LINES} more tasks", 11, MUTED)
        return self._legend_of_marks(y)

    def _legend_of_marks(self, y: float) -> float:
        marks: list[tuple[str, str]] = []
        if self.has_overhead:
            marks.append((OVERHEAD_FILL, "overhead before work"))
        if self.view.transfers():
            marks += [(ISSUE, "issues a transfer"), (WAIT, "waits for a transfer")]
        if not marks:
            return y
        y += 18
        x = 24.0 + 108
        for fill, text in marks:
            if fill == OVERHEAD_FILL:
                self.svg.rect(x, y - 9, 13, 11, "#9aa4ae")
            self.svg.rect(x, y - 9, 13, 11, fill)
            self.svg.text(x + 18, y, text, 11)
            x += 18 + text_width(text, 11) + 16
        return y

    def _engines(self, top: float) -> float:
        svg, frame = self.svg, self.frame
        bands = self._bands()
        heights = [_band_height(len(lanes)) for lanes in bands]
        bottom = top + sum(heights) + 8 * len(bands)
        frame.grid(svg, top, bottom)
        y = top
        for k, (lanes, height) in enumerate(zip(bands, heights, strict=True)):
            y += 4
            self._band(lanes, y, height)
            y += height + 4
            if k + 1 < len(bands):
                svg.line(24, y, WIDTH - 24, y, FRAME, ' stroke-width=".5"')
        entry = self.schedule.problem.entry_ticks
        if entry:
            wide = frame.x(entry) - frame.left
            tip = f"entry of the plan: {frame.interval(0, entry)}"
            svg.rect(frame.left, top, wide, bottom - top, OVERHEAD_FILL, tip, ' opacity=".55"')
        svg.line(frame.left, top, frame.left, bottom, FRAME)
        svg.line(frame.left, bottom, frame.right, bottom, FRAME)
        frame.bound_mark(svg, top - 4, bottom)
        frame.end_mark(svg, top - 2, bottom)
        frame.axis(svg, bottom)
        return bottom

    def _bands(self) -> list[list[Lane]]:
        kinds = [engine.kind for engine in self.schedule.problem.engines]
        bands: list[list[Lane]] = []
        for position, group in groupby(self.view.lanes(), key=lambda lane: lane.position):
            lanes = list(group)
            used = [lane for lane in lanes if lane.slices]
            if kinds[position] == "pipe" or len(lanes) > SHOW_ALL_UNITS:
                lanes = used
            if lanes:
                bands.append(lanes)
        return bands

    def _band(self, lanes: list[Lane], y: float, height: float) -> None:
        svg, frame = self.svg, self.frame
        engine = self.schedule.problem.engines[lanes[0].position]
        several = engine.units > 1
        name = fit(clean(engine.name), 13, frame.left - 24 - (38 if several else 12))
        svg.text(24, y + height / 2 + (-2 if several else 4.5), name, 13, INK, more=' font-weight="600"')
        if several:
            what = f"{engine.units} units" if len(lanes) == engine.units else f"{len(lanes)} of {engine.units} units"
            svg.text(24, y + height / 2 + 12, what, 10, MUTED)
        each = height / len(lanes)
        for k, lane in enumerate(lanes):
            upper, tall = y + k * each, each - (1 if several and each > 3 else 0)
            if several and each >= 9:
                svg.text(frame.left - 6, upper + tall / 2 + 3, str(lane.unit), 8.5, MUTED, "end")
            self._lane(lane, upper, tall)
        busy = sum(s.ticks for lane in lanes for s in lane.slices if s.kind in ("run", "transfer"))
        share = Fraction(busy, engine.units * frame.span)
        svg.text(frame.right + 8, y + height / 2 + 4, f"{number(share * 100, 2)} % busy", 11, MUTED)

    def _lane(self, lane: Lane, y: float, height: float) -> None:
        frame = self.frame
        bars = [
            Bar(frame.x(s.start), frame.x(s.end), self._fill(s), (k,))
            for k, s in enumerate(lane.slices)
            if s.end > s.start
        ]
        for bar in coalesce(bars):
            pieces = [lane.slices[k] for k in bar.members]
            wide = bar.x1 - bar.x0
            thin = pieces[0].kind == "dma_wait"
            tall = height * 0.5 if thin else height
            tip = self._tip(pieces) if wide >= 1 else ""
            edge = ' stroke="#fff" stroke-width=".6"' if wide >= 6 and height >= 6 and not thin else ""
            self.svg.rect(bar.x0, y + (height - tall) / 2, wide, tall, bar.key, tip, edge)
            if height >= 12 and not thin and wide >= 16:
                self._label(pieces, bar, y, height)
        for s in lane.slices:
            x0, x1 = frame.x(s.start), frame.x(s.work_start)
            if s.work_start > s.start and x1 - x0 >= 0.4:
                self.svg.rect(x0, y, x1 - x0, height, OVERHEAD_FILL)

    def _fill(self, piece: Slice) -> str:
        if piece.kind == "dma_start":
            return ISSUE
        return WAIT if piece.kind == "dma_wait" else self.palette.of(self.view.ops[piece.op])

    def _label(self, pieces: list[Slice], bar: Bar, y: float, height: float) -> None:
        """Write the longest of a few names that fits with room to spare."""
        op = self.view.ops[pieces[0].op]
        stage = clean(op.stage) or clean(op.task)
        long, short = (f"{stage} {op.tile}", str(op.tile)) if len(pieces) == 1 else (stage, "")
        x0, x1, bound = bar.x0, bar.x1, self.frame.bound
        for text in (long, short):
            wide = text_width(text, 10)
            if abs((x0 + x1) / 2 - bound) < wide / 2 + 4:
                # The line of the bound would cross the text: the larger side of it is still free.
                x0, x1 = (x0, bound) if bound - x0 > x1 - bound else (bound, x1)
            if text and wide <= x1 - x0 - 6:
                at = y + height / 2 + 3.5
                self.svg.text((x0 + x1) / 2, at, text, 10, ink_on(bar.key), "middle", ' pointer-events="none"')
                return

    def _tip(self, pieces: list[Slice]) -> str:
        ops = self.view.ops
        first, last = pieces[0], pieces[-1]
        op = ops[first.op]
        doing = {"dma_start": "issue of ", "dma_wait": "wait for "}.get(first.kind, "")
        span = self.frame.interval(first.start, max(p.end for p in pieces))
        if len(pieces) > 1:
            return f"{doing}{len(pieces)} ops, {clean(op.name, 60)} to {clean(ops[last.op].name, 60)}: {span}"
        where = " / ".join(clean(part, 40) for part in (op.task, op.stage) if part)
        tip = f"{doing}{clean(op.name)}: {where}, tile {op.tile}, {span}"
        if first.work_start > first.start:
            tip += f", overhead {self.frame.us(first.work_start - first.start)} {self.frame.unit}"
        return tip


def _band_height(lanes: int) -> float:
    if lanes == 1:
        return ROW
    return lanes * max(SUB_ROW_LEAST, min(SUB_ROW_MOST, BAND_MOST / lanes))
