"""A small SVG writer: escaping, widths of text, axes, and rectangles few enough for a browser."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
INK, MUTED, GRID, FRAME = "#1f2328", "#57606a", "#e6e9ec", "#afb8c1"

MERGE_PX = 0.3
"""Neighbours of one colour that are closer than this become one rectangle; what is narrower is pooled."""

APART_PX = 3.0
"""Neighbours of one colour that are both wider than this stay apart: a reader can count them."""

NARROW, WIDE = set("iljtfrI.,:;'|!()[]/ "), set("mwMW@%")
_NOT_XML = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean(name: str, limit: int = 80) -> str:
    """Return ``name`` on one line, without characters that XML forbids, cut to ``limit`` characters."""
    text = _NOT_XML.sub("\ufffd", " ".join(name.split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def escape(text: str) -> str:
    """Return ``text`` for use in XML content and in quoted attributes."""
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(raw, safe)
    return text


def text_width(text: str, size: float) -> float:
    """Return about how wide ``text`` is in pixels, rather too much than too little."""
    em = 0.0
    for char in text:
        if unicodedata.east_asian_width(char) in "WF":
            em += 1.05
        elif unicodedata.combining(char):
            continue
        else:
            em += 0.36 if char in NARROW else 0.96 if char in WIDE else 0.7 if char.isupper() else 0.63
    return em * size


def fit(text: str, size: float, width: float) -> str:
    """Return ``text`` cut so that it is at most ``width`` wide; empty when not even one letter is."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…" if text else ""


def fit_end(text: str, size: float, width: float) -> str:
    """Return the end of ``text`` that is at most ``width`` wide: where names of buffers differ."""
    cut = fit(text[::-1], size, width)
    return cut[::-1]


def px(value: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def number(value: Fraction | float, digits: int = 4) -> str:
    """Return ``value`` with about ``digits`` significant digits and groups of thousands."""
    size = abs(float(value))
    whole = len(str(int(size))) if size >= 1 else 0
    text = f"{float(value):,.{max(0, digits - whole)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def nice_step(span: Fraction, most: int) -> Fraction:
    """Return the smallest 1, 2 or 5 times a power of ten that cuts ``span`` into at most ``most`` parts."""
    step = Fraction(1)
    while span / step > most:
        step *= 10
    while span / (step / 10) <= most:
        step /= 10
    return next(s for s in (step / 5, step / 2, step) if span / s <= most)


@dataclass(frozen=True, slots=True)
class Bar:
    """A horizontal piece of a lane in pixels; ``key`` is what gives it its colour, ``members`` what it stands for."""

    x0: float
    x1: float
    key: str
    members: tuple[int, ...]


def coalesce(bars: Iterable[Bar]) -> list[Bar]:
    """Return ``bars`` of one lane, given in order of time, with far fewer of them where they cannot be told apart.

    Neighbours of equal colour that almost touch are merged unless both are wide enough to be seen apart. Pieces
    that are too narrow to see are pooled with their neighbours into one of visible width, in the colour that fills
    most of it.
    """
    groups: list[list[Bar]] = []
    end = 0.0
    for bar in bars:
        if groups and groups[-1][-1].key == bar.key and bar.x0 - end < MERGE_PX:
            narrow = bar.x1 - bar.x0 < APART_PX or end - groups[-1][0].x0 < APART_PX
        else:
            narrow = False
        if narrow:
            groups[-1].append(bar)
        else:
            groups.append([bar])
        end = max(end, bar.x1) if narrow else bar.x1
    found: list[Bar] = []
    pool: list[Bar] = []
    for group in groups:
        members = tuple(m for bar in group for m in bar.members)
        merged = Bar(group[0].x0, max(bar.x1 for bar in group), group[0].key, members)
        if pool and (merged.x1 - merged.x0 >= MERGE_PX or merged.x1 - pool[0].x0 > 2 * MERGE_PX):
            found.append(_pooled(pool))
            pool = []
        if merged.x1 - merged.x0 >= MERGE_PX:
            found.append(merged)
        else:
            pool.append(merged)
    return [*found, _pooled(pool)] if pool else found


def _pooled(pool: Sequence[Bar]) -> Bar:
    weight: Counter[str] = Counter()
    for bar in pool:
        weight[bar.key] += round((bar.x1 - bar.x0) * 1e6) + 1
    key = min(weight, key=lambda k: (-weight[k], k))
    members = tuple(m for bar in pool if bar.key == key for m in bar.members)
    return Bar(pool[0].x0, max(pool[-1].x1, pool[0].x0 + MERGE_PX), key, members)


@dataclass
class Svg:
    """Lines of one picture, in the order in which they are painted."""

    lines: list[str] = field(default_factory=list)

    def rect(self, x: float, y: float, width: float, height: float, fill: str, tip: str = "", more: str = "") -> None:
        """Paint a rectangle; ``tip`` is shown when the pointer rests on it, ``more`` holds further attributes."""
        shape = f'<rect x="{px(x)}" y="{px(y)}" width="{px(width)}" height="{px(height)}" fill="{fill}"{more}'
        self.lines.append(f"{shape}><title>{escape(tip)}</title></rect>" if tip else f"{shape}/>")

    def line(self, x0: float, y0: float, x1: float, y1: float, stroke: str = GRID, more: str = "") -> None:
        """Paint a line one pixel wide, unless ``more`` says otherwise."""
        self.lines.append(f'<line x1="{px(x0)}" y1="{px(y0)}" x2="{px(x1)}" y2="{px(y1)}" stroke="{stroke}"{more}/>')

    def text(
        self, x: float, y: float, text: str, size: float = 12, fill: str = INK, anchor: str = "start", more: str = ""
    ) -> None:
        """Write ``text`` with its baseline at ``y``."""
        at = f'x="{px(x)}" y="{px(y)}" font-size="{px(size)}" fill="{fill}"'
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.lines.append(f"<text {at}{side}{more}>{escape(text)}</text>")

    def open(self, attributes: str) -> None:
        """Open a group."""
        self.lines.append(f"<g {attributes}>")

    def close(self) -> None:
        """Close the last group."""
        self.lines.append("</g>")

    def document(self, width: int, height: float, title: str, definitions: str) -> str:
        """Return the whole picture on a white ground, whatever the colours of the page around it."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {px(height)}" width="{width}" '
            f'height="{px(height)}" font-family="{FONT}" role="img" style="color-scheme: light; background: #fff">'
        )
        ground = f'<rect width="{width}" height="{px(height)}" fill="#fff"/>'
        return "\n".join([head, f"<title>{escape(title)}</title>", definitions, ground, *self.lines, "</svg>", ""])
