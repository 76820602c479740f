"""The words and tables of the report, which are there without scripts, too."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hexloom.emit.critical_path import WORDS
from hexloom.emit.figures import short
from hexloom.emit.html import Html, element, joined, table, text
from hexloom.emit.memory_map import size
from hexloom.emit.report_data import unit_of
from hexloom.emit.summary import ADVICE, busy_fractions
from hexloom.optimizer.bottleneck import in_words, limiting_bound
from hexloom.optimizer.contention import contention_of
from hexloom.optimizer.footprint import least_footprint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hexloom.emit.critical_path import Step
    from hexloom.emit.lanes import View
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.schedule import BoundRow, Gain, Schedule

THINNEST = 0.3
"""Percent of the longest bar at which something above 0 is still seen."""

MOST_GROUPS, MOST_RIVALS, MOST_STEPS = 12, 8, 400

BASELINES = {
    "existing": "what runs today: tasks back to back, each with its own loop",
    "serial": "one stage at a time",
    "concurrent": "today's loops started together, first come first served",
    "fused_serial": "this plan with a barrier after every op",
}
PROOFS = {
    "arithmetic": "by arithmetic that the checker repeats",
    "dual": "by prices that the checker adds up again",
    "search": "by an exhaustive search, which only another search can confirm",
}
DOING = {
    "run": "works",
    "start": "issues its transfer",
    "flight": "transfer in flight",
    "wait": "waits for its transfer",
}


def section(ident: str, title: str, *inner: object) -> Html:
    """Return a part of the page that a heading names."""
    head = element("h2", title, id=f"{ident}-title")
    return element("section", head, *inner, id=ident, aria_labelledby=f"{ident}-title")


def paragraph(*inner: object, **attributes: str) -> Html:
    """Return a paragraph."""
    return element("p", *inner, **attributes)


class Times:
    """Times of a schedule in words."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.unit = schedule, unit_of(schedule)

    def bare(self, ticks: Moment) -> str:
        """Return a time without its unit."""
        return short(self.schedule.us(Fraction(ticks)))

    def words(self, ticks: Moment) -> str:
        """Return a time with its unit."""
        return f"{self.bare(ticks)} {self.unit}"


def share(part: Moment, whole: Moment) -> str:
    """Return ``part`` of ``whole`` in percent."""
    return f"{float(Fraction(part) / whole):.1%}" if whole else ""


def bar(part: Moment, whole: Moment, kind: str) -> Html:
    """Return a bar as long as ``part`` is of ``whole``; the number stands beside it."""
    wide = max(0.0, min(100.0, float(100 * Fraction(part) / whole))) if whole else 0.0
    wide = max(wide, THINNEST) if part > 0 else wide
    return element("span", class_=f"bar {kind}", style=f"width:{wide:.2f}%", aria_hidden="true")


def headline(makespan: Moment, existing: Moment | None, at: Times) -> Html:
    """Return the sentence that a manager reads."""
    if existing is None:
        return paragraph("This plan takes ", element("strong", at.words(makespan)), ".", class_="lead")
    if makespan and existing > makespan:
        factor = element("strong", f"{float(Fraction(existing) / makespan):.3f}\u00d7 faster", class_="good")
        told: list[object] = [factor, " than what runs today: "]
    else:
        told = [element("strong", "No faster"), " than what runs today: "]
    return paragraph(*told, f"{at.words(makespan)} instead of {at.words(existing)}.", class_="lead")


def proof(makespan: Moment, bound: Moment, certificate: str, at: Times) -> Html:
    """Return how far from the best this can be."""
    how = PROOFS[certificate]
    if makespan == bound:
        return paragraph(element("strong", "No schedule is shorter"), f": proven {how}.")
    gap = float(1 - Fraction(bound) / makespan) if makespan else 0.0
    words = "Less than 0.01%" if 0 < gap < 0.0001 else f"At most {gap:.2%}"
    most = element("strong", words)
    return paragraph(most, f" could still be gained: no schedule takes less than {at.words(bound)}, proven {how}.")


def times_table(at: Times, makespan: Moment, bound: Moment, baselines: Mapping[str, Moment | None]) -> Html:
    """Return all totals as bars on one scale."""
    totals: list[Moment] = [makespan, bound, *(ticks for ticks in baselines.values() if ticks is not None)]
    longest = max(totals)
    rows: list[list[object]] = []
    for name, ticks in sorted(baselines.items(), key=lambda item: item[0] != "existing"):
        note = BASELINES.get(name, "")
        if ticks is None:
            rows.append([name.replace("_", " "), "\u2013", "", "does not fit, breaks a deadline, or waits for itself"])
        else:
            kind = "today" if name == "existing" else "other"
            rows.append([name.replace("_", " "), at.bare(ticks), bar(ticks, longest, kind), note])
    rows.append(["this plan", at.bare(makespan), bar(makespan, longest, "plan"), "checked"])
    rows.append(["lower bound", at.bare(bound), bar(bound, longest, "bound"), "no schedule can be shorter"])
    return element("div", table(f"How long it takes [{at.unit}]", ["", "time", "", "what it is"], rows), class_="bars")


def gain_table(gain: Gain, at: Times) -> Html:
    """Return the five parts of the gain, and their sum."""
    parts: list[tuple[str, Moment, int, str]] = [
        ("saved entries", gain.saved_entries, 1, "fewer dispatches of whole ops"),
        ("overlap within tasks", gain.overlap_within_tasks, 1, "stages of one task at the same time"),
        ("overlap between tasks", gain.overlap_between_tasks, 1, "different tasks on different engines"),
        ("contention", gain.contention_cost, -1, "ops that slow each other on shared channels"),
        ("tail", gain.tail, -1, "what is left over at the end"),
    ]
    sizes: list[Moment] = [_size(gain.total), *(_size(ticks) for _, ticks, _, _ in parts)]
    widest = max(sizes)
    rows: list[list[object]] = []
    for name, ticks, sign, note in parts:
        value = sign * ticks
        rows.append([name, signed(value, at), bar(_size(value), widest, "plus" if value >= 0 else "minus"), note])
    total = gain.total
    kind = "plus" if total >= 0 else "minus"
    rows.append(
        [element("strong", "gain"), element("strong", signed(total, at)), bar(_size(total), widest, kind), "sum"]
    )
    caption = f"Where the gain over today comes from [{at.unit}]"
    return element("div", table(caption, ["part", "time", "", "what it is"], rows), class_="bars")


def _size(ticks: Moment) -> Moment:
    return -ticks if ticks < 0 else ticks


def signed(ticks: Moment, at: Times) -> str:
    """Return a time with its sign, without its unit."""
    words = at.bare(ticks)
    return words if words.startswith("-") and words != "-0" else f"+{words.removeprefix('-')}"


def cards(schedule: Schedule, view: View) -> Html:
    """Return bottleneck, engines, scratchpad and advice, each in a box of its own."""
    limit = paragraph(_sentence(in_words(schedule.bounds)), ".")
    found = [_card("Bottleneck", limit, limiting_bound(schedule.bounds).detail)]
    busy = {name: of for name, of in busy_fractions(schedule, view).items() if not name.startswith("dma_queue")}
    if busy:
        items = [
            element(
                "li",
                element("span", name),
                element("meter", f"{of:.0%}", value=f"{of:.4f}", aria_label=name),
                f"{of:.1%}",
            )
            for name, of in busy.items()
        ]
        found.append(_card("Busy from first to last work", element("ul", *items, class_="meters")))
    peak = max((total for _, total in view.live_bytes()), default=0)
    if peak:
        available = schedule.problem.scratchpad.available_bytes
        least = least_footprint(schedule)
        more = "" if least is None else f"{size(least)} would hold this plan"
        found.append(_card("Scratchpad", paragraph(f"{size(peak)} of {size(available)} at most"), more))
    if schedule.advice is not None:
        advice = schedule.advice
        changed = "No unknown overhead changes this."
        if advice.flips is None:
            changed = "Whether an overhead changes this was not asked."
        elif advice.flips:
            changed = f"Changes inside a published range: {'; '.join(advice.flips)}."
        answer = ADVICE[advice.answer]
        found.append(_card("Advice", paragraph(f"{answer[0].upper()}{answer[1:]}: {advice.reason}."), changed))
    return element("div", *found, class_="cards")


def _sentence(words: str) -> str:
    """Return ``words`` with a capital, unless they begin with a name."""
    return f"{words[0].upper()}{words[1:]}" if words.startswith(("the ", "no ")) else words


def _card(title: str, *inner: object) -> Html:
    parts = [part if isinstance(part, Html) else paragraph(part, class_="small") for part in inner if part]
    return element("div", element("h3", title), *parts, class_="card")


def contention_section(schedule: Schedule, at: Times) -> Html:
    """Return what sharing channels costs, or nothing where nothing is shared."""
    found = contention_of(schedule)
    if found is None:
        return Html("")
    if not any(found.channels.values()) and not found.interference:
        return paragraph("No limit of a channel costs this plan anything.")
    costs: list[list[object]] = [
        [name, at.bare(Fraction(ticks))]
        for name, ticks in [*found.channels.items(), ("interference", found.interference)]
    ]
    parts = [table(f"The same plan without this limit would save [{at.unit}]", ["channel", "saves"], costs)]
    if found.rivals:
        rows = [
            [" / ".join(filter(None, r.groups[0])), " / ".join(filter(None, r.groups[1])), at.bare(Fraction(r.ticks))]
            for r in found.rivals[:MOST_RIVALS]
        ]
        caption = f"Who slows whom most: work lost beside each other [{at.unit}]"
        parts.append(table(caption, ["one", "the other", "lost"], rows, left=2))
    return element("div", *parts, class_="pair")


def bounds_table(bounds: Sequence[BoundRow], makespan: Moment, at: Times) -> Html:
    """Return every bound that was proven."""
    rows = [
        [b.name.replace("_", " "), at.bare(b.ticks), share(b.ticks, makespan), b.engine or "", b.detail] for b in bounds
    ]
    head = ["bound", f"time [{at.unit}]", "of this plan", "engine", "why it holds"]
    return element("div", table("Lower bounds, the best first", head, rows, words_from=3), class_="bounds")


def critical_section(view: View, chain: Sequence[Step], at: Times) -> Html:
    """Return what the makespan is made of, and the chain itself."""
    if not chain:
        return Html("")
    schedule = view.schedule
    spent: dict[tuple[str, str, str], Moment] = {}
    for step in chain:
        op = view.ops[step.op]
        key = (op.task, op.stage or op.name, DOING[step.doing])
        spent[key] = spent.get(key, 0) + step.end - step.start
    entry = chain[0].start
    order = sorted(((key, ticks) for key, ticks in spent.items() if ticks), key=lambda item: (-item[1], item[0]))
    rows: list[list[object]] = [
        [" / ".join(filter(None, key[:2])), key[2], at.bare(ticks), share(ticks, schedule.makespan)]
        for key, ticks in order[:MOST_GROUPS]
    ]
    rest = sum((ticks for _, ticks in order[MOST_GROUPS:]), start=Fraction(0))
    if rest:
        rows.append([f"{len(order) - MOST_GROUPS} others", "", at.bare(rest), share(rest, schedule.makespan)])
    if entry:
        rows.append(["before it", "entry of the plan", at.bare(entry), share(entry, schedule.makespan)])
    shown = chain[-MOST_STEPS:]
    steps = [
        [
            element("button", view.ops[s.op].name, type="button", class_="op", data_op=str(s.op)),
            DOING[s.doing],
            at.bare(s.start),
            at.bare(s.end - s.start),
            WORDS[s.cause.why] if s.cause.op is None else f"{WORDS[s.cause.why]} {view.ops[s.cause.op].name}",
        ]
        for s in shown
    ]
    left = len(chain) - len(shown)
    caption = f"The chain: {len(chain):,} steps" + (f", the last {len(shown)} of them" if left else "")
    head = ["op", "does", f"from [{at.unit}]", f"takes [{at.unit}]", "begins then because it"]
    whole = element(
        "details", element("summary", "The chain, step by step"), table(caption, head, steps, left=2, words_from=4)
    )
    said = "Each step begins exactly when the one before it ends: whoever shortens none of them shortens nothing."
    groups = table(
        f"What the {at.words(schedule.makespan)} are made of",
        ["stage", "does", f"time [{at.unit}]", "share"],
        rows,
        left=2,
    )
    return joined([paragraph(said), groups, whole])


def list_of(title: str, items: Sequence[str]) -> Html:
    """Return a list, or nothing where it is empty."""
    if not items:
        return Html("")
    return joined([element("h3", title), element("ul", *(element("li", text(item)) for item in items))])
