"""What a calibration learnt, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.emit.trace_table import columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hexloom.optimizer.traces.calibrate import Calibration


def calibration_table(found: Calibration) -> Iterator[Text]:
    """Yield what to print: the fit, the numbers it determines, and those it refuses, with the run that would tell."""
    yield Text(
        f"{found.machine}: {found.phases:,} phases of {found.runs} runs; median error {found.before:.1%} before, "
        f"{found.unseen:.1%} on phases that were not fitted, scatter {found.spread:.1%}",
        style="bold",
    )
    lines = [
        [
            row.name,
            row.unit,
            f"{row.before:g}",
            f"{row.value:.4g}",
            f"{row.low:.4g} to {row.high:.4g}",
            _change(row.before, row.value),
        ]
        for row in found.fitted
    ]
    if lines:
        yield columns(["fitted", "unit", "file", "fit", "95 % interval", "change"], lines, left=2)
    else:
        yield Text("nothing is determined by these runs; the machine file stays as it is", style="yellow")
    refused = [row for row in found.open if row.matters]
    if refused:
        rows = [[row.name, row.reason, row.run] for row in refused]
        yield columns(["not fitted", "why", "what would tell it"], rows, left=3)
    if found.pairs:
        rows = [
            [
                f"{row.victim} beside {row.cause}",
                f"{row.speed:.3f}",
                f"{row.low:.3f} to {row.high:.3f}",
                f"{row.runs} at {row.ratios} ratios",
                f"{row.residual:.1%}",
                f"{row.unseen:.1%}",
                f"{row.without:.1%}",
                row.refused,
            ]
            for row in found.pairs
        ]
        head = ["side by side", "speed", "95 % interval", "ops", "error", "unseen ratio", "if none", "refused"]
        yield columns(head, rows, left=1)
    others = len(found.open) - len(refused)
    if others:
        yield Text(f"{others} more numbers play no part in these runs; --json names them", style="dim")


def _change(before: float, value: float) -> str:
    return f"{value / before - 1:+.1%}" if before else ""
