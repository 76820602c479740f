"""The panel of the scratchpad: every buffer at its address for as long as it lives."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.emit.palette import RESERVED, Palette, ink_on
from hexloom.emit.svg import FRAME, GRID, INK, MUTED, Bar, Svg, clean, coalesce, fit, fit_end, number, text_width
from hexloom.formulations.problem import Pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.emit.frame import Frame
    from hexloom.emit.lanes import View
    from hexloom.formulations.problem import Scratchpad

HEIGHT, GAP = 300.0, 24.0
UNUSED = "#b9c1ca"
"""Buffers that no op names: they only hold their place."""

KIB, MIB = 1 << 10, 1 << 20
ZOOM_BELOW = Fraction(1, 4)
"""The axis ends above the highest buffer when less than this part of the scratchpad is ever used."""


def draw_memory_map(svg: Svg, view: View, frame: Frame, palette: Palette, top: float) -> float:
    """Paint a map of the scratchpad, and of each pool, below ``top``, and return where they end.

    Nothing is painted where there is no buffer.
    """
    end = top
    for pad in (view.schedule.problem.scratchpad, *view.schedule.problem.pools):
        end = _draw_one(svg, view, frame, palette, end if end == top else end + GAP, pad)
    return end


def _draw_one(svg: Svg, view: View, frame: Frame, palette: Palette, top: float, pad: Scratchpad) -> float:
    problem = view.schedule.problem
    pool = pad.name if isinstance(pad, Pool) else None
    buffers = problem.buffers
    lives = [life for life in view.lives() if buffers[life.buffer].occupied_bytes and buffers[life.buffer].pool == pool]
    if not lives:
        return top
    highest = max(life.address + problem.buffers[life.buffer].occupied_bytes for life in lives)
    total = max(pad.total_bytes, highest)
    zoomed = highest < total * ZOOM_BELOW
    axis_end = -(-highest * 9 // 8) if zoomed else total
    peak = max(level for _, level in view.live_bytes(pool))

    title = "Scratchpad (VTCM)" if pool is None else f"Pool {clean(pool, 100)}"
    svg.text(frame.left, top + 14, f"{title}: addresses over time", 13, INK, more=' font-weight="600"')
    text = f"peak {size(peak)} alive, highest address {size(highest)}, {size(pad.available_bytes)} available"
    if zoomed:
        text += f"; axis cut at {size(axis_end)}"
    svg.text(frame.right, top + 14, text, 11, MUTED, "end")
    low, high = top + 24, top + 24 + HEIGHT

    def y(address: int) -> float:
        return high - HEIGHT * address / axis_end

    svg.rect(frame.left, low, frame.right - frame.left, HEIGHT, "#fff")
    frame.grid(svg, low, high)
    _address_axis(svg, frame, axis_end, y)
    if not zoomed and pad.reserved_bytes and pad.total_bytes:
        _reserved(svg, frame, y(pad.total_bytes), y(pad.available_bytes), size(pad.reserved_bytes))
    slots: dict[tuple[int, int], list[Bar]] = {}
    for life in sorted(lives, key=lambda life: (life.birth, life.death, life.buffer)):
        buffer = problem.buffers[life.buffer]
        colour = UNUSED if life.op is None else palette.of(view.ops[life.op])
        bar = Bar(frame.x(life.birth), frame.x(life.death), colour, (life.buffer,))
        slots.setdefault((life.address, buffer.occupied_bytes), []).append(bar)
    life_of = {life.buffer: life for life in lives}
    for (address, occupied), bars in sorted(slots.items()):
        upper, height = y(address + occupied), HEIGHT * occupied / axis_end
        for bar in coalesce(bars):
            names = [clean(problem.buffers[b].name, 100) for b in bar.members]
            label = names[0] if len(names) == 1 else f"{len(names)} buffers, {names[0]} to {names[-1]}"
            span = frame.interval(life_of[bar.members[0]].birth, max(life_of[b].death for b in bar.members))
            wide = bar.x1 - bar.x0
            tip = f"{label}: {size(occupied)} at {address:,}, {span}" if wide >= 1 else ""
            edge = ' stroke="#fff" stroke-width=".6"' if wide >= 3 and height >= 3 else ""
            svg.rect(bar.x0, upper, wide, height, bar.key, tip, edge)
            if height >= 13 and wide >= 24:
                first = life_of[bar.members[0]].op
                task = "" if first is None else view.ops[first].task
                text = _label(names, task, wide - 7)
                if text:
                    svg.text(bar.x0 + 4, upper + height / 2 + 3.5, text, 10, ink_on(bar.key))
    if not zoomed and pad.total_bytes:
        at = y(pad.available_bytes)
        svg.line(frame.left, at, frame.right, at, INK, ' stroke-width="1.4"')
        svg.text(frame.right + 5, at + 4, "capacity", 11, INK)
        svg.text(frame.right + 5, at + 17, size(pad.available_bytes), 11, INK)
    svg.line(frame.left, high, frame.right, high, FRAME)
    svg.line(frame.left, low, frame.left, high, FRAME)
    frame.end_mark(svg, low, high)
    frame.axis(svg, high)
    return high + 40


def size(count: int) -> str:
    """Return bytes for people."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{number(Fraction(count, unit), 3)} {name}"
    return f"{count} B"


def _label(names: list[str], task: str, width: float) -> str:
    """Return what fits: the name, the name without its task, or the end of it, where names differ."""
    if len(names) > 1:
        return fit(f"{len(names)} buffers", 10, width)
    short = names[0].removeprefix(f"{task}.")
    whole = (name for name in (names[0], short) if text_width(name, 10) <= width)
    cut = fit_end(short, 10, width)
    return next(whole, cut if len(cut) > 3 else "")


def _address_axis(svg: Svg, frame: Frame, axis_end: int, y: Callable[[int], float]) -> None:
    step = 1
    while axis_end > 8 * step:
        step *= 2
    for k in range(axis_end // step + 1):
        at = y(k * step)
        svg.line(frame.left, at, frame.right, at, GRID)
        svg.line(frame.left - 4, at, frame.left, at, MUTED)
        svg.text(frame.left - 8, at + 4, "0" if k == 0 else size(k * step), 11, MUTED, "end")


def _reserved(svg: Svg, frame: Frame, upper: float, lower: float, text: str) -> None:
    width = frame.right - frame.left
    svg.rect(frame.left, upper, width, lower - upper, RESERVED, f"reserved: {text}")
    if lower - upper >= 12:
        middle = (upper + lower) / 2 + 3.5
        svg.text(frame.left + width / 2, middle, f"reserved, {text}", 10, MUTED, "middle")
