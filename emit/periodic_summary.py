"""What a person reads of a periodic schedule, and the same numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hexloom.emit.figures import number, short
from hexloom.optimizer.bottleneck import limiting_engine

if TYPE_CHECKING:
    from hexloom.formulations.ticks import Moment
    from hexloom.optimizer.periodic.schedule import PeriodicSchedule, Stretch


def periodic_numbers(schedule: PeriodicSchedule, files: dict[str, str], wall_s: float, why: str) -> dict[str, Any]:
    """Return the object that ``solve --json`` prints for loops."""

    def us(ticks: Moment | None) -> int | float | None:
        return None if ticks is None else number(schedule.us(ticks))

    return {
        "status": "OPTIMAL" if schedule.makespan == schedule.lower_bound else "FEASIBLE",
        "formulation": "periodic",
        "formulation_why": why,
        "makespan_us": us(schedule.makespan),
        "lower_bound_us": us(schedule.lower_bound),
        "gap": float(schedule.gap),
        "certificate": "arithmetic",
        "serial_us": us(schedule.baselines["serial"]),
        "existing_us": us(schedule.baselines["existing"]),
        "baselines": {name: us(ticks) for name, ticks in schedule.baselines.items()},
        "bounds": {f"{b.name}.{b.engine}": us(b.ticks) for b in schedule.bounds},
        "bottleneck": limiting_engine(schedule.bounds),
        "trips": schedule.trips,
        "stretches": [
            {
                "times": s.times,
                "count": s.count,
                "runs": s.runs,
                "interval_us": us(s.interval_ticks),
                "period": s.period,
                "period_us": us(s.period_ticks),
                "left_out": s.left_out,
            }
            for s in schedule.stretches
        ],
        "contention": schedule.contention,
        "unit": "us",
        "seed": schedule.seed,
        "wall_s": round(wall_s, 3),
        "files": files,
        "notes": list(schedule.notes),
    }


def periodic_summary(schedule: PeriodicSchedule, files: dict[str, str], why: str) -> str:
    """Return a few lines: times, bound, and every stretch with its steady state."""
    lines = [f"{schedule.name} on {schedule.machine}, in loops: {why}"]
    existing = schedule.baselines["existing"]
    if existing is None:
        lines.append("existing  unknown: today's loop of a task does not fit, or does not repeat itself")
    else:
        lines.append(f"existing  {short(schedule.us(existing))} us  tasks back to back, each with today's loop")
    faster = ""
    if existing is not None and existing > schedule.makespan:
        faster = f"  {float(existing / schedule.makespan):.3f}x faster than existing"
    elif existing:
        faster = f"  no faster than existing ({float(schedule.makespan / existing - 1):.2%} longer): keep today's loops"
    lines.append(f"schedule  {short(schedule.us(schedule.makespan))} us{faster}")
    best = schedule.bounds[0]
    lines.append(f"bound     {short(schedule.us(best.ticks))} us  gap {float(schedule.gap):.2%}; {best.detail}")
    lines += [_stretch_words(schedule, stretch) for stretch in schedule.stretches]
    lines += [f"note      {note}" for note in schedule.notes]
    lines += [f"wrote     {path}" for path in files.values()]
    return "\n".join(lines)


def _stretch_words(schedule: PeriodicSchedule, stretch: Stretch) -> str:
    body = " + ".join(f"{n} x {task}" for task, n in stretch.times.items())
    words = f"stretch   {body}, {stretch.runs:,} times"
    if not stretch.left_out:
        return f"{words}, all written down"
    each = schedule.us(stretch.period_ticks) / stretch.period
    every = "each" if stretch.period == 1 else f"each, a period of {stretch.period}"
    return f"{words}: {short(each)} us {every}, from run {stretch.first} on; {stretch.left_out:,} not written down"
