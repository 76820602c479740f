"""A small HTML writer: escaped text, tables, bars, and data inside a page."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hexloom.emit.svg import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NOT_TEXT = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")

BAR = '<span class="bar '
"""How a bar beside a number begins."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return ``value`` escaped, on one line, unless it is HTML already; what is no character of a text is a space."""
    return value if isinstance(value, Html) else Html(escape(_NOT_TEXT.sub(" ", str(value))))


def element(tag: str, *inner: object, **attributes: str) -> Html:
    """Return an element; ``class_`` stands for class, and underscores for hyphens."""
    named = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Html(f"<{tag}{named}>{''.join(text(part) for part in inner)}</{tag}>")


def joined(parts: Iterable[object], by: str = "") -> Html:
    """Return all ``parts`` one after the other."""
    return Html(escape(by).join(text(part) for part in parts))


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1, words_from: int | None = None
) -> Html:
    """Return a table whose first cell of a row names it.

    Cells from column ``left`` to ``words_from`` hold numbers; a bar ends them, too.
    """
    lines = [list(row) for row in rows]
    bars = [k for row in lines for k, cell in enumerate(row) if isinstance(cell, Html) and cell.startswith(BAR)]
    bar = min(bars, default=len(head))
    end = min(bar, len(head) if words_from is None else words_from)

    def kind(k: int) -> dict[str, str]:
        return {"class_": "b"} if k == bar else {"class_": "n"} if left <= k < end else {}

    top = joined(element("th", cell, scope="col", **kind(k)) for k, cell in enumerate(head))
    body = [
        element(
            "tr",
            *(
                element("th", cell, scope="row") if k == 0 else element("td", cell, **kind(k))
                for k, cell in enumerate(row)
            ),
        )
        for row in lines
    ]
    inner = element("table", element("caption", caption), element("thead", element("tr", top)), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def script_data(name: str, data: Any) -> Html:
    """Return ``data`` as JSON in a script element, in which nothing can end the element or begin another one."""
    body = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for raw in "<>&":
        body = body.replace(raw, f"\\u{ord(raw):04x}")
    return Html(f'<script type="application/json" id="{escape(name)}">{body}</script>')
