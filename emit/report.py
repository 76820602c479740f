"""The report: one HTML file that opens offline, for the one who decides and for the one who builds."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

from hexloom.emit.critical_path import Causes
from hexloom.emit.html import Html, element, joined, script_data, text
from hexloom.emit.lanes import View
from hexloom.emit.report_data import ReportData
from hexloom.emit.report_more import (
    comparison_section,
    infeasibility_section,
    periods_of,
    stretches_section,
    what_if_section,
)
from hexloom.emit.report_sections import (
    Times,
    bounds_table,
    cards,
    contention_section,
    critical_section,
    gain_table,
    headline,
    list_of,
    paragraph,
    proof,
    section,
    times_table,
)
from hexloom.emit.svg import clean, escape

if TYPE_CHECKING:
    from hexloom.optimizer.infeasibility import Infeasibility
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.comparison import Comparison
    from hexloom.optimizer.what_if import WhatIf

SCRIPTS = ("state.js", "timeline.js", "panels.js", "tables.js", "main.js")

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
"""The page may ask nobody for anything."""


def report_html(schedule: Schedule, comparison: Comparison | None = None, points: WhatIf | None = None) -> str:
    """Return the report of ``schedule``, with a measured run of it and what-if points where there are any.

    Notes
    -----
    Same schedule, same bytes. All words and tables are there without scripts; these draw the pictures.
    """
    at, view = Times(schedule), View(schedule)
    causes = Causes(view)
    chain = causes.chain()
    existing = schedule.baselines.get("existing")
    summary: list[object] = [
        headline(schedule.makespan, existing, at),
        proof(schedule.makespan, schedule.lower_bound, schedule.certificate, at),
        cards(schedule, view),
        times_table(at, schedule.makespan, schedule.lower_bound, schedule.baselines),
    ]
    if schedule.gain is not None:
        summary.append(gain_table(schedule.gain, at))
    summary.append(list_of("Notes", schedule.notes))
    parts = [section("summary", "In short", *summary), _pictures(view, causes, measured=comparison is not None)]
    if comparison is not None:
        parts.append(section("measured", "Predicted and measured", comparison_section(schedule, comparison)))
    if chain:
        parts.append(section("critical", "What the time is made of", critical_section(view, chain, at)))
    if points is not None:
        parts.append(section("whatif", "What if", what_if_section(points)))
    parts += [_bounds(schedule, at), _ops_section(), _trust(schedule, comparison is not None)]
    data = ReportData(view, causes, chain, comparison).everything()
    return _page(schedule.name, _subtitle(schedule), parts, data)


def periodic_report_html(schedule: PeriodicSchedule) -> str:
    """Return the report of a plan of loops: its totals, its phases, and pictures of what is written down of it."""
    written = schedule.written
    at, view = Times(written), View(written)
    causes = Causes(view)
    chain = causes.chain()
    summary = [
        headline(schedule.makespan, schedule.baselines.get("existing"), at),
        proof(schedule.makespan, schedule.lower_bound, "arithmetic", at),
        times_table(at, schedule.makespan, schedule.lower_bound, schedule.baselines),
        list_of("Notes", schedule.notes),
    ]
    parts = [
        section("summary", "In short", *summary),
        section("phases", "Phases", stretches_section(schedule)),
        _pictures(view, causes, measured=False),
        section("critical", "What the time written down is made of", critical_section(view, chain, at)),
        section("bounds", "How good it can be", bounds_table(schedule.bounds, schedule.makespan, at)),
        _ops_section(),
        _trust(written, measured=False),
    ]
    data = ReportData(view, causes, chain, None).everything() | {"periods": periods_of(schedule, view)}
    return _page(schedule.name, f"{_subtitle(written)} \u00b7 in loops", parts, data)


def infeasible_report_html(name: str, machine: str | None, why: Infeasibility) -> str:
    """Return the report where it is proven that there is no plan."""
    parts = [section("summary", "There is no plan", infeasibility_section(why))]
    return _page(name, " \u00b7 ".join(filter(None, (machine, "proven infeasible"))), parts, None)


def _subtitle(schedule: Schedule) -> str:
    of = [
        schedule.machine or "",
        f"{len(schedule.problem.ops):,} ops",
        f"channels {schedule.contention}",
        schedule.status,
    ]
    return " \u00b7 ".join(part for part in of if part)


def _pictures(view: View, causes: Causes, *, measured: bool) -> Html:
    """Return the places of the pictures, with what a reader who sees none is told."""
    picture = "timeline of predicted and measured times" if measured else "timeline of predicted times"
    label = f"Interactive {picture}. Arrow keys move between ops; the same numbers stand in the table of ops."
    stage = element(
        "canvas", id="timeline", tabindex="0", role="application", aria_label=label, aria_describedby="keys"
    )
    buttons = [
        element("button", words, type="button", id=f"do-{name}")
        for name, words in (
            ("in", "Zoom in"),
            ("out", "Zoom out"),
            ("left", "\u25c0"),
            ("right", "\u25b6"),
            ("all", "All"),
        )
    ]
    toggles = [_toggle("critical", "critical path"), _toggle("deps", "dependencies")]
    if measured:
        toggles.append(_toggle("measured", "measured", on=True))
    keys = (
        "Click or Tab into the picture, then: arrows move from op to op, + and \u2212 or the wheel zoom, Shift with "
        "arrows or a drag pans, 0 shows all, Enter zooms to the op, N follows the critical path, Esc lets go. With "
        "Ctrl the wheel zooms at any time."
    )
    parts: list[object] = [
        element("div", *buttons, *toggles, class_="controls", role="group", aria_label="Timeline"),
        element("div", id="legend", class_="legend", aria_label="Colours", role="list"),
        element("div", stage, class_="canvas"),
        paragraph(keys, id="keys", class_="small keys"),
        element("div", id="said", class_="unseen", aria_live="polite"),
        element("div", id="details", class_="details"),
        element("noscript", paragraph("The pictures need JavaScript; everything else on this page does not.")),
    ]
    drawn = section("pictures", "When everything runs", *parts)
    memory = channels = Html("")
    if any(view.lives()):
        memory = section("memory", "Where buffers lie", element("div", id="maps"), element("div", id="buffers"))
    if view.schedule.problem.channels:
        told = contention_section(view.schedule, Times(view.schedule))
        channels = section("channels", "What channels carry", element("div", id="loads"), told)
    return joined([drawn, memory, channels])


def _toggle(name: str, words: str, *, on: bool = False) -> Html:
    checked = " checked" if on else ""
    return Html(f'<label><input type="checkbox" id="show-{name}"{checked}> {escape(words)}</label>')


def _bounds(schedule: Schedule, at: Times) -> Html:
    return section("bounds", "How good it can be", bounds_table(schedule.bounds, schedule.makespan, at))


def _ops_section() -> Html:
    return section("ops", "All ops", element("div", id="op-table"))


def _trust(schedule: Schedule, measured: bool) -> Html:
    """Return what is proven, what is a model, and what was measured."""
    machine = schedule.machine or "no machine file"
    digest = f" (digest {schedule.machine_digest[:12]})" if schedule.machine_digest else ""
    run = (
        "the run that is shown beside the prediction."
        if measured
        else ("nothing on this page; hexloom report SCHEDULE --trace TRACE puts a run beside it.")
    )
    items = (
        (
            "Proven: ",
            "the plan has no deadlock, no lost dependency and no overwritten buffer, for any durations; the bounds, "
            "for the model.",
        ),
        (
            "Predicted: ",
            f"all times, from {machine}{digest}, channels under rule {schedule.contention}. Its numbers with their "
            "ranges and sources: hexloom hw show.",
        ),
        ("Measured: ", run),
    )
    return section(
        "trust", "What this rests on", element("ul", *(element("li", element("strong", a), b) for a, b in items))
    )


def _asset(name: str) -> str:
    return (resources.files("hexloom.emit") / "report_assets" / name).read_text(encoding="utf-8")


def _page(name: str, subtitle: str, parts: list[Html], data: dict[str, Any] | None) -> str:
    title = clean(name, 120) or "schedule"
    links = [
        element("a", words, href=f"#{ident}")
        for ident, words in _NAVIGATION.items()
        if any(f'<section id="{ident}"' in part for part in parts)
    ]
    header = element(
        "header",
        element("div", element("h1", title), paragraph(subtitle, class_="small"), class_="title"),
        element("button", "Theme: auto", type="button", id="theme"),
        element("nav", *links, aria_label="On this page") if len(links) > 1 else "",
    )
    scripts = ""
    if data is not None:
        body = "\n".join(_asset(script) for script in SCRIPTS)
        scripts = f'{script_data("data", data)}\n<script>\n"use strict";\n{_asset("theme.js")}{body}</script>\n'
    else:
        scripts = f'<script>\n"use strict";\n{_asset("theme.js")}</script>\n'
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<title>{text(title)} \u2013 hexloom</title>\n'
        f"<style>\n{_asset('report.css')}</style>\n</head>\n<body>\n"
        f'<a class="skip" href="#main">To the report</a>\n{header}\n<main id="main">\n'
        + "\n".join(parts)
        + f"\n</main>\n{scripts}</body>\n</html>\n"
    )


_NAVIGATION = {
    "summary": "In short",
    "phases": "Phases",
    "pictures": "Timeline",
    "memory": "Buffers",
    "channels": "Channels",
    "measured": "Measured",
    "critical": "Critical path",
    "whatif": "What if",
    "bounds": "Bounds",
    "ops": "Ops",
    "trust": "Trust",
}
