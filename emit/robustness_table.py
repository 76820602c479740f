"""What durations that scatter do to a plan, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from hexloom.emit.trace_table import columns

if TYPE_CHECKING:
    from hexloom.optimizer.robust.report import Makespans, Robustness

SHOWN = 6
"""Critical ops on the screen; the file has more."""


def robustness_table(found: Robustness) -> Text:
    """Return what to print: both plans over the fresh runs, and the ops that the makespan hangs on."""
    text = Text(f"durations scatter: {found.durations}; {found.fresh:,} runs, {found.orders} orders\n", style="bold")
    rows = [_row("nominal", found.nominal)]
    if not found.kept:
        rows.append(_row("chosen", found.chosen))
    text.append_text(columns(["plan", f"predicted {found.unit}", "median", "p95", "95 % interval"], rows, left=1))
    text.append(f"\n{found.text}\n")
    often = ", ".join(f"{op.op} {op.part:.0%}" for op in found.critical[:SHOWN])
    text.append(f"critical  {often}", style="dim")
    return text


def _row(name: str, of: Makespans) -> list[str]:
    interval = f"{of.p95_low:,.3f} to {of.p95_high:,.3f}"
    return [name, f"{of.predicted:,.3f}", f"{of.median:,.3f}", f"{of.p95:,.3f}", interval]


def robustness_texts(found: Robustness | None) -> dict[str, str]:
    """Return the file of it, by its name."""
    return {} if found is None else {"robustness.json": found.to_json()}


def robustness_numbers(found: Robustness | None) -> dict[str, Any]:
    """Return it for ``--json``."""
    return {} if found is None else {"robustness": found.model_dump(mode="json", by_alias=True)}
