"""The table of `hexloom qos`: what every policy costs the stream and brings the fillers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.emit.figures import short

if TYPE_CHECKING:
    from hexloom.optimizer.qos.report import QosReport


def qos_table(found: QosReport) -> Text:
    """Return the policies and the pairs as lines of text."""
    lines = [
        Text(
            f"query     {_us(found.work_ns)} us of work, due after {_us(found.deadline_ns)} us, of which "
            f"{_us(found.guard_ns)} are never given away"
        )
    ]
    head = ("policy", "late", "worst", "p99", "median", "fillers", "", "fused", "reordered", "what it does")
    table = [head]
    for row in found.rows:
        table.append(
            (
                row.policy,
                f"{row.late:,} of {row.queries:,}",
                f"{_us(row.worst_ns)} us",
                f"{_us(row.p99_ns)} us",
                f"{_us(row.median_ns)} us",
                f"{_us(row.filler_ns)} us",
                "" if row.against_alone is None else f"{row.against_alone:.3f}x",
                f"{row.fused:,}",
                f"{row.reordered:,}",
                row.title,
            )
        )
    widths = [max(len(row[k]) for row in table) for k in range(len(head))]
    for k, cells in enumerate(table):
        shown = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
        shown[0], shown[-1] = cells[0].ljust(widths[0]), cells[-1]
        lines.append(Text("  ".join(shown), style="dim" if k == 0 else "not dim"))
    for pair in found.pairs:
        lines.append(
            Text(
                f"pair      {pair.stream} {_us(pair.alone_ns)} us, with all {_us(pair.filler_ns)} us of {pair.filler} "
                f"{_us(pair.fused_ns)} us; best {pair.best_iterations} of {pair.of} iterations, gains "
                f"{_us(pair.gain_ns)} us"
            )
        )
    return Text("\n").join(lines)


def _us(ns: int) -> str:
    return short(Fraction(ns, 1000))
