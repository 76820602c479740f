"""What bounds an op, from who works when; the rule is written down so that it can be argued with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from hexloom.optimizer.traces.intervals import Spans, length, merged, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.optimizer.traces.summary import EngineRow

Bound = Literal["engine", "turns", "waiting", "mixed", "unknown"]
"""``engine``: one works nearly all the time. ``turns``: together they do, hardly ever two at once. ``waiting``: for a
large part none does. ``mixed``: none of these. ``unknown``: the trace does not say."""

NEARLY = 0.85
"""Share of an op that one engine, or all together, must work to bound it."""

LITTLE = 0.15
"""Share of the working time during which more than one engine works, below which they take turns."""


def verdict(
    rows: Sequence[EngineRow], unions: Mapping[str, Spans], span: int, idle: int, *, timed: bool
) -> tuple[Bound, str]:
    """Return what bounds a window of ``span`` ticks, in ``idle`` of which no engine works, and why in a sentence."""
    if not timed:
        return "unknown", "only durations were recorded, so nothing says what runs beside what"
    working = [row for row in rows if row.working]
    if not working or span <= 0:
        return "unknown", "no work of an engine was recorded inside it"
    best = max(working, key=lambda row: (row.busy_ticks, row.engine))
    share = best.busy_ticks / span
    least = "" if best.exact else " at most"
    if share >= NEARLY:
        return "engine", f"{best.engine} works{least} {share:.0%} of the time"
    covered = span - idle
    if idle / span > 1 - NEARLY and idle >= best.busy_ticks / 2:
        return "waiting", f"no recorded engine works {idle / span:.0%} of the time; {best.engine} works {share:.0%}"
    both = sum(length(of) for of in unions.values()) - length(merged(together(list(unions.values()))))
    if len(working) > 1 and covered and both / covered < LITTLE:
        names = ", ".join(f"{row.engine} {row.busy_ticks / span:.0%}" for row in working)
        return "turns", f"engines take turns ({names}; beside each other {both / span:.0%})"
    return "mixed", f"{best.engine} works most, {share:.0%}; no engine works {idle / span:.0%} of the time"
