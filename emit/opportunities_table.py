"""What a person reads of a report of opportunities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from hexloom.optimizer.opportunities.report import REASONS

if TYPE_CHECKING:
    from hexloom.optimizer.opportunities.report import Opportunities, PairFound, Solved

MOST_KINDS = 10
MOST_PAIRS = 6


def opportunities_table(found: Opportunities) -> Text:
    """Return the report as lines of text, the verdict first."""
    times = "measured" if found.measured else f"by {found.machine}"
    lines = [
        Text(found.verdict, style="bold"),
        Text(f"request   {found.operators:,} operators, {found.total_us:,.1f} us one after the other ({times})"),
    ]
    if found.pairs is not None:
        p = found.pairs
        lines.append(
            Text(
                f"pairs     {p.pairs:,} of {p.nodes:,} operators that take time: {p.independent:,} independent "
                f"({p.ready:,} ready), {p.complementary:,} complementary ({p.complementary_ready:,} ready)"
            )
        )
        lines.append(
            Text(
                f"coverage  {p.coverage:.1%} of the time has a partner at all, {p.coverage_ready:.1%} one that is "
                "ready without moving anything else"
            )
        )
        rest = ", ".join(f"{share:.1%} {reason}" for reason, share in p.uncovered.items() if share)
        if rest:
            lines.append(Text(f"the rest  {rest}"))
        why = "; ".join(f"{count:,} {reason} ({REASONS[reason]})" for reason, count in p.reasons.items() if count)
        lines.append(Text(f"no pairs  {why}", style="dim"))
    if found.one is not None:
        lines += _solved("one", found.one)
    lines += _pairs("best pairs of all, apart from others", found.best_pairs)
    for one in found.sets:
        lines.append(Text(f"  set of {len(one.names)}: {'  |  '.join(one.names)}  at most {one.saves_us:,.1f} us"))
    if found.several is not None:
        lines.append(Text(""))
        lines.append(Text(f"{found.requests} requests at a time are another supply of work:", style="bold"))
        lines += _solved("together", found.several)
    shown = found.kinds[:MOST_KINDS]
    if shown:
        width = max(len(row.op) for row in shown)
        lines.append(Text("the most that hiding all operators of one kind saves", style="dim"))
        lines += [
            Text(f"  {row.op.ljust(width)}  {row.count:>6,}  {row.us:>12,.1f} us  {row.share:6.1%}") for row in shown
        ]
    if found.hazards:
        lines.append(Text(f"hazards   {found.hazards}"))
    lines += [Text(f"note      {note}") for note in found.notes]
    return Text("\n").join(lines)


def _solved(label: str, one: Solved) -> list[Text]:
    lines = [
        Text(
            f"{label.ljust(9)} {one.serial_us:,.1f} us today, {one.makespan_us:,.1f} us with the best overlap found: "
            f"saves {one.saves:.2%}; no order saves more than {one.saves_at_most:.2%}"
        ),
        Text(
            f"          {one.groups:,} groups that only follow each other, the largest of {one.largest:,} operators",
            style="dim",
        ),
    ]
    if one.activation_bytes:
        lines.append(
            Text(
                f"memory    {one.activation_bytes / 2**20:,.2f} MiB of activations alive at most, "
                f"{one.activation_bytes_serial / 2**20:,.2f} today; {one.broken_by_reuse:,} overlapping pairs write "
                "over what the other needs where addresses are reused as today",
                style="dim",
            )
        )
    return [*lines, *_pairs("run together in it", one.pairs)]


def _pairs(title: str, pairs: tuple[PairFound, ...]) -> list[Text]:
    if not pairs:
        return []
    lines = [Text(title, style="dim")]
    for pair in pairs[:MOST_PAIRS]:
        kind = " + ".join(pair.resources)
        both = f"  {pair.overlap_us:,.1f} us together" if pair.overlap_us is not None else ""
        ready = "ready" if pair.ready else "others move first"
        lines.append(
            Text(f"  {pair.first}  |  {pair.second}  ({kind}, {ready}){both}, at most {pair.saves_us:,.1f} us")
        )
    return lines
