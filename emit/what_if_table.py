"""The table of `hexloom solve --what-if`: one line per point, in columns that no pipe cuts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.emit.figures import short

if TYPE_CHECKING:
    from hexloom.optimizer.what_if import WhatIf, WhatIfRow

MOST_NAMED = 6
"""Ops that are named without, and with, time to spare; programs get all."""


def what_if_table(found: WhatIf) -> Text:
    """Return the rows as text, the current points in bold, and which ops nothing may delay."""
    cells = [_cells(found, row) for row in found.rows]
    head = ("what if", "value", "makespan ", "bound", "gap", "bottleneck")
    widths = [max(len(line[k]) for line in (head, *cells)) for k in range(len(head))]
    lines = [_line(head, widths, "dim")]
    lines += [
        _line(line, widths, "bold" if row.current else "not dim") for row, line in zip(found.rows, cells, strict=True)
    ]
    if any(row.carried for row in found.rows):
        lines.append(Text("* the plan for less, started at the same times: the search found none better", style="dim"))
    critical = [s.op for s in found.slack if not s.slack]
    if critical:
        spare = [f"{s.op} {short(Fraction(s.slack))} {found.time_unit}" for s in found.slack if s.slack]
        text = f"slack     none: {_few(critical)}" + (f"; {_few(spare)}" if spare else "")
        lines.append(Text(text))
    return Text("\n").join(lines)


def _few(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _cells(found: WhatIf, row: WhatIfRow) -> tuple[str, ...]:
    value = f"{short(Fraction(row.value))} {row.unit}"
    if row.makespan is None:
        return row.field, value, f"{row.status} ", "", "", ""
    makespan = f"{short(Fraction(row.makespan))} {found.time_unit}{'*' if row.carried else ' '}"
    bound = "" if row.lower_bound is None else f"{short(Fraction(row.lower_bound))} {found.time_unit}"
    return row.field, value, makespan, bound, "" if row.gap is None else f"{row.gap:.2%}", row.bottleneck or ""


def _line(cells: tuple[str, ...], widths: list[int], style: str) -> Text:
    parts = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    parts[0], parts[-1] = cells[0].ljust(widths[0]), cells[-1]
    return Text("  ".join(parts).rstrip(), style=style)
