"""The table of `hexloom study`: four ways to run the work, what parts their gains have, what each thing is worth."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.emit.figures import short
from hexloom.emit.summary import ADVICE
from hexloom.optimizer.study.report import GROUPS

if TYPE_CHECKING:
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.study.report import Group, Study

PARTS = ("saved_entries", "overlap_within_tasks", "overlap_between_tasks", "contention_cost", "tail")
"""The parts of a gain; the last two are subtracted."""

COSTS = ("contention_cost", "tail")

HEADS = ("group", "", "against existing", "entries", "within", "between", "contention", "tail", "what it is")


def signed_part(group: Group, part: str) -> Moment | None:
    """Return what a part adds to the gain of a group; costs are negative."""
    if group.gain is None:
        return None
    value: Moment = getattr(group.gain, part)
    return -value if part in COSTS else value


def study_table(found: Study) -> Text:
    """Return the groups, the advice and the ablations as lines of text."""
    rows = [_group(found, group) for group in found.groups]
    lines = _aligned(((HEADS[0], found.unit, *HEADS[2:]), *rows), "plan")
    lines.append(Text("against existing = entries + within + between - contention - tail, exactly", style="dim"))
    bound = f"bound     {short(Fraction(found.lower_bound))} {found.unit}"
    lines.append(Text(f"{bound}; bottleneck {found.bottleneck}" if found.bottleneck else bound))
    if found.advice is not None:
        lines.append(Text(f"advice    {ADVICE[found.advice.answer]}: {found.advice.reason}"))
    lines += [Text(f"note      {g.name}: {g.note}") for g in found.groups if g.note]
    lines += [Text(f"note      {note}") for note in found.notes]
    if found.ablations:
        lines.append(Text(""))
        cells = [
            (
                row.name,
                row.status if row.makespan is None else short(Fraction(row.makespan)),
                "" if row.costs is None else f"{float(row.costs):+,.3f}",
                row.title if row.makespan is not None else f"{row.title}: {row.note}",
            )
            for row in found.ablations
        ]
        lines += _aligned((("without", found.unit, "costs", "what is changed"), *cells), "")
    return Text("\n").join(lines)


def _group(found: Study, group: Group) -> tuple[str, ...]:
    title = GROUPS[group.name]
    if group.makespan is None:
        return group.name, "none", *[""] * 6, title
    parts = [signed_part(group, part) for part in PARTS]
    shown = ["" if part is None else f"{float(part):+,.3f}" for part in parts]
    existing = found.makespan("existing")
    ratio = "" if not existing or not group.makespan else f"{float(Fraction(existing) / group.makespan):.3f}x"
    return group.name, short(Fraction(group.makespan)), ratio, *shown, title


def _aligned(rows: tuple[tuple[str, ...], ...], bold: str) -> list[Text]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for k, row in enumerate(rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        cells[0], cells[-1] = row[0].ljust(widths[0]), row[-1]
        style = "dim" if k == 0 else "bold" if row[0] == bold else "not dim"
        lines.append(Text("  ".join(cells).rstrip(), style=style))
    return lines
