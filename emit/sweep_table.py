"""What a person reads after a sweep: how many points, where it pays, the best and the worst of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

if TYPE_CHECKING:
    from hexloom.optimizer.study.sweep import Swept

MOST_ROWS = 12
"""Rows of a table; all of them are in the files."""


def sweep_table(found: Swept) -> Text:
    """Return counts, and the points that gain the most and the least."""
    rows = list(found.rows)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["status"]] = counts.get(row["status"], 0) + 1
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    answers = [row.get("answer") for row in rows if row.get("answer")]
    lines = [Text(f"points    {len(rows):,}: {said}; {found.reused:,} were there already")]
    if answers:
        pays = answers.count("co_schedule")
        rest = len(answers) - pays
        lines.append(Text(f"pays      co-schedule at {pays:,} points, do not at {rest:,}"))
    timed = [row for row in rows if row.get("plan") is not None]
    timed.sort(key=lambda row: -(row.get("together") or 0.0))
    shown = timed if len(timed) <= MOST_ROWS else [*timed[: MOST_ROWS // 2], *timed[-MOST_ROWS // 2 :]]
    cells = [_cells(found, row) for row in shown]
    head = (*found.fields, "existing", "concurrent", "plan", "saves", "together", "answer")
    table = [head, *cells]
    widths = [max(len(line[k]) for line in table) for k in range(len(head))]
    for k, line in enumerate(table):
        text = "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        lines.append(Text(text, style="dim" if k == 0 else "not dim"))
    wrong = next((row for row in rows if row["status"] in ("INVALID", "LOST")), None)
    if wrong is not None:
        lines.append(Text(f"note      {_values(wrong)}: {wrong['note']}"))
    return Text("\n").join(lines)


def _values(row: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row["values"].items())


def _cells(found: Swept, row: dict[str, Any]) -> tuple[str, ...]:
    def time(key: str) -> str:
        return "" if row.get(key) is None else f"{row[key]:,.2f}"

    def part(key: str) -> str:
        return "" if row.get(key) is None else f"{row[key]:+.2%}"

    fields = [str(row["values"][name]) for name in found.fields]
    return (*fields, time("existing"), time("concurrent"), time("plan"), part("saves"), part("together"), row["answer"])
