"""What a person reads at a glance after a solve, and the same numbers for programs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from hexloom.emit.figures import number, short
from hexloom.emit.lanes import View
from hexloom.formulations.problem import slows
from hexloom.hwmodels import format_bytes
from hexloom.optimizer.contention import contention_of
from hexloom.optimizer.sharing import acting_rule

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.contention import Contention, OpGroup
    from hexloom.optimizer.infeasibility import Infeasibility, Lever
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.solve import Result

MOST_RIVALS = 3
"""Pairs in the summary; programs get `MOST_RIVALS_TOLD`."""

MOST_RIVALS_TOLD = 20

ADVICE = {
    "co_schedule": "co-schedule the tasks",
    "pipeline": "pipeline each task; running them together gains little",
    "keep": "keep what exists: do not fuse these",
}


def busy_fractions(schedule: Schedule, view: View | None = None) -> dict[str, float]:
    """Return for each engine the share of its units' time that is held, from the first to its last work."""
    lanes = (view or View(schedule)).lanes()
    shares: dict[str, float] = {}
    for engine in schedule.problem.engines:
        spans = [
            (s.start, s.end)
            for lane in lanes
            if lane.engine == engine.name
            for s in lane.slices
            if s.kind in ("run", "transfer") and s.end > s.start
        ]
        if spans:
            first, last = min(s for s, _ in spans), max(e for _, e in spans)
            shares[engine.name] = float(sum(e - s for s, e in spans) / Fraction(engine.units * (last - first)))
    return shares


def result_numbers(result: Result, files: dict[str, str]) -> dict[str, Any]:
    """Return the object that ``solve --json`` prints; times of a problem in bare ticks end in ``_ticks``."""
    schedule = result.schedule
    found: dict[str, Any] = {"status": result.status, "wall_s": round(result.wall_s, 3), "files": files}
    if result.infeasibility is not None:
        found["proved_twice"] = result.proved_twice
        found["infeasibility"] = result.infeasibility.model_dump(mode="json")
    if schedule is None:
        return found
    unit = schedule.unit

    def us(ticks: Moment | None) -> int | float | None:
        return None if ticks is None else number(schedule.us(ticks))

    gain = schedule.gain
    contention = contention_of(schedule)
    return {
        "status": result.status,
        f"makespan_{unit}": us(schedule.makespan),
        f"lower_bound_{unit}": us(schedule.lower_bound),
        "gap": float(schedule.gap),
        f"plan_bound_{unit}": us(schedule.plan_bound),
        "plan_gap": float(schedule.plan_gap),
        "optimal_in": schedule.optimal_in,
        "certificate": schedule.certificate,
        "proved_twice": result.proved_twice,
        f"serial_{unit}": us(schedule.baselines["serial"]),
        f"existing_{unit}": us(schedule.baselines["existing"]),
        "baselines": {name: us(ticks) for name, ticks in schedule.baselines.items()},
        "bounds": {b.name: us(b.ticks) for b in schedule.bounds},
        "bottleneck": result.bottleneck,
        "gain": None
        if gain is None
        else {
            "total": us(gain.total),
            "saved_entries": us(gain.saved_entries),
            "overlap_within_tasks": us(gain.overlap_within_tasks),
            "overlap_between_tasks": us(gain.overlap_between_tasks),
            "contention_cost": us(gain.contention_cost),
            "tail": us(gain.tail),
        },
        "advice": None if schedule.advice is None else schedule.advice.model_dump(),
        "scratchpad": _scratchpad_numbers(schedule),
        "overlap": {engine: round(share, 6) for engine, share in busy_fractions(schedule).items()},
        "contention": schedule.contention,
        "contention_cost": None if contention is None else _contention_numbers(schedule, contention),
        "unit": unit,
        "seed": schedule.seed,
        "interrupted": result.interrupted,
        "evaluations": result.evaluations,
        "notes": list(result.notes),
        **found,
    }


def _scratchpad_numbers(schedule: Schedule) -> dict[str, int | None]:
    """Return bytes: available, most alive at once, and the fewest found that hold the plan."""
    from hexloom.optimizer.footprint import least_footprint  # it searches, and loads what searches

    return {
        "available_bytes": schedule.problem.scratchpad.available_bytes,
        "live_bytes": max((total for _, total in View(schedule).live_bytes()), default=0),
        "least_bytes": least_footprint(schedule),
    }


def _contention_numbers(schedule: Schedule, contention: Contention) -> dict[str, Any]:
    def us(ticks: float) -> float:
        return round(float(schedule.us(Fraction(ticks))), 6)

    return {
        "channels": {name: us(ticks) for name, ticks in contention.channels.items()},
        "interference": us(contention.interference),
        "pairs": [
            {"first": list(rivals.groups[0]), "second": list(rivals.groups[1]), "lost": us(rivals.ticks)}
            for rivals in contention.rivals[:MOST_RIVALS_TOLD]
        ],
    }


def summary(result: Result, files: dict[str, str]) -> RenderableType:
    """Return the summary of a solve as a rich renderable."""
    schedule = result.schedule
    if schedule is None:
        if result.infeasibility is not None:
            return _infeasible(result.infeasibility, result.proved_twice)
        ended = "interrupted before a plan was found" if result.interrupted else "no plan found within the limit"
        return Text(f"{ended}, and none is excluded: give more time", style="bold red")
    parts: list[RenderableType] = [_head(schedule, result), _times(schedule)]
    if schedule.gain is not None:
        parts.append(_gain(schedule))
    contention = contention_of(schedule)
    if contention is not None:
        parts.append(_contention(schedule, contention))
    parts.append(_engines(schedule))
    if schedule.advice is not None:
        parts.append(_advice(schedule))
    parts += [
        Text(f"note      {note}", style="red" if note.startswith("internal error") else "") for note in result.notes
    ]
    if files:
        parts.append(Text("files     " + ", ".join(files.values()), style="dim"))
    return Group(*parts)


def _infeasible(why: Infeasibility, twice: bool | None) -> RenderableType:
    """Return the message, then each member of the conflict, then each lever with what came of it."""
    parts = [Text(f"INFEASIBLE: {why.message}", style="bold red")]
    if twice is not None:
        said = "two searches agree" if twice else "one search was exhausted; --prove-twice asks another"
        parts.append(Text(f"proof     {said}", style="dim"))
    for k, member in enumerate(why.conflict):
        line = Text("conflict  " if k == 0 else "          ", style="dim")
        line.append(member.text, "not dim")
        shown = "without it the others have a checked schedule"
        line.append(f": {shown if member.without == 'feasible' else 'whether the others need it was not decided'}")
        parts.append(line)
    if why.conflict and not why.conflict_proven:
        parts.append(Text("          that these alone exclude each other was not decided in time", style="dim"))
    for k, lever in enumerate(why.levers):
        line = Text("levers    " if k == 0 else "          ", style="dim")
        line.append(f"{lever.text}{_effect(lever, why.time_unit)}", "not dim")
        parts.append(line)
    return Group(*parts)


def _effect(lever: Lever, unit: str) -> str:
    if lever.outcome == "infeasible":
        return ": not enough alone"
    if lever.outcome != "feasible" or lever.makespan is None:
        return "" if lever.outcome == "not_asked" else ": not decided in time"
    text = f": {short(Fraction(lever.makespan))} {unit}"
    if lever.cost is not None:
        more = "more" if lever.cost >= 0 else "less"
        text += f", {short(abs(Fraction(lever.cost)))} {unit} {more} than with room for everything"
    return text + ("; any less is not enough" if lever.least else "")


def _head(schedule: Schedule, result: Result) -> Text:
    where = f" on {schedule.machine}" if schedule.machine else ""
    name = schedule.name.strip() or "(no name)"
    text = Text(f"{name}{where}", style="bold")
    twice = {None: "", True: ", proven by two searches", False: ", proven by one search"}[result.proved_twice]
    text.append(f"  {result.status}, checked{twice if result.status == 'OPTIMAL' else ''}", style="green")
    text.append(f"  {len(schedule.problem.ops)} ops, {result.wall_s:.1f} s, channels: {schedule.contention}", "dim")
    return text


def _times(schedule: Schedule) -> Text:
    """Return the times one below the other; lines of their own rather than a table, which would be cut in a pipe."""
    unit = schedule.unit
    notes = {"serial": "one stage at a time", "existing": "tasks back to back, each with today's loop"}
    rows: list[tuple[str, str, str, str]] = []
    for name, ticks in schedule.baselines.items():
        if ticks is None:
            rows.append((name, "-", "does not fit into the scratchpad, breaks a deadline, or waits for itself", ""))
        else:
            rows.append((name, f"{short(schedule.us(ticks))} {unit}", notes.get(name, ""), ""))
    existing = schedule.baselines.get("existing")
    factor = (
        f"{float(existing / schedule.makespan):.3f}x faster than existing" if existing and schedule.makespan else ""
    )
    rows.append(("schedule", f"{short(schedule.us(schedule.makespan))} {unit}", factor, "bold green"))
    best = schedule.bounds[0]
    gap = "reached: no schedule is shorter" if schedule.gap == 0 else f"gap {float(schedule.gap):.2%}"
    note = f"{gap}; {best.name} ({schedule.certificate}): {best.detail}"
    rows.append(("bound", f"{short(schedule.us(schedule.lower_bound))} {unit}", note, ""))
    if slows(acting_rule(schedule.problem, schedule.contention)):
        gap = "reached: no such plan is shorter" if schedule.plan_gap == 0 else f"gap {float(schedule.plan_gap):.2%}"
        note = f"{gap}; for plans whose ops start at events, as tables do; the bound above is for any start times"
        rows.append(("plans", f"{short(schedule.us(schedule.plan_bound))} {unit}", note, ""))
    width = max(len(value) for _, value, _, _ in rows)
    lines = []
    for name, value, note, style in rows:
        line = Text(f"{name:<9} ", style="dim")
        line.append(value.rjust(width), style or "not dim")
        line.append(f"  {note}" if note else "", "not dim")
        lines.append(line)
    return Text("\n").join(lines)


def _gain(schedule: Schedule) -> Text:
    gain = schedule.gain
    assert gain is not None
    parts = (
        (" = ", "saved entries", gain.saved_entries),
        (" + ", "overlap within tasks", gain.overlap_within_tasks),
        (" + ", "between tasks", gain.overlap_between_tasks),
        (" - ", "contention", gain.contention_cost),
        (" - ", "tail", gain.tail),
    )
    text = Text("gain      ", style="dim")
    text.append(f"{short(schedule.us(gain.total))} {schedule.unit}", "bold")
    for sign, name, ticks in parts:
        text.append(f"{sign}{short(schedule.us(ticks))} ", "")
        text.append(name, "dim")
    return text


def _contention(schedule: Schedule, contention: Contention) -> Text:
    """Return what each channel costs, and who slows whom most."""
    unit = schedule.unit
    costs = {name: ticks for name, ticks in contention.channels.items() if ticks}
    if contention.interference:
        costs["interference"] = contention.interference
    text = Text("channels  ", style="dim")
    paid = [f"{name} costs {_us(schedule, ticks)} {unit}" for name, ticks in costs.items() if ticks > 0]
    text.append(", ".join(paid) or "no cost")
    text.append(" (the same plan if it had no limit)", "dim")
    # Who is no longer slowed by one may be in the way of others somewhere else.
    longer = [
        f"without {'a limit of ' * (name in contention.channels)}{name} it takes {_us(schedule, -ticks)} {unit} longer"
        for name, ticks in costs.items()
        if ticks < 0
    ]
    text.append("".join(f"; {one}" for one in longer))
    worst = contention.rivals[:MOST_RIVALS]
    if worst:
        text.append("\nslowed    ", "dim")
        text.append(
            "; ".join(f"{_pair(rivals.groups)} {_us(schedule, rivals.ticks)} {unit}" for rivals in worst), "not dim"
        )
        text.append(" of work lost beside each other", "dim")
    return text


def _us(schedule: Schedule, ticks: float) -> str:
    return short(schedule.us(Fraction(ticks)))


def _pair(groups: tuple[OpGroup, OpGroup]) -> str:
    first, second = ("/".join(part for part in group if part) for group in groups)
    return f"{first} among themselves" if first == second else f"{first} and {second}"


def _engines(schedule: Schedule) -> Text:
    text = Text("busy      ", style="dim")
    shares = busy_fractions(schedule)
    named = {engine: share for engine, share in shares.items() if not engine.startswith("dma_queue")}
    if named:
        text.append(", ".join(f"{engine} {share:.1%}" for engine, share in named.items()), "")
        text.append(" of the time from first to last work", "dim")
    else:
        text.append("no engine", "dim")
    peak = max((total for _, total in View(schedule).live_bytes()), default=0)
    if peak:
        available = schedule.problem.scratchpad.available_bytes
        text.append("\nscratchpad ", "dim")
        text.append(f"at most {format_bytes(peak)} of {format_bytes(available)}", "")
        from hexloom.optimizer.footprint import least_footprint

        least = least_footprint(schedule)
        text.append("" if least is None else f"; {format_bytes(least)} hold this plan")
    return text


def _advice(schedule: Schedule) -> Text:
    advice = schedule.advice
    assert advice is not None
    text = Text("advice    ", style="dim")
    text.append(ADVICE[advice.answer], "bold")
    text.append(f": {advice.reason}")
    if advice.flips:
        text.append(f"\n          the answer changes inside a published range: {'; '.join(advice.flips)}", "yellow")
    elif advice.flips is None:
        text.append("; whether an overhead changes this was not asked", "dim")
    else:
        text.append("; no unknown overhead changes this inside its range", "dim")
    return text
