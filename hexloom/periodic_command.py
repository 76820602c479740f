"""`hexloom solve` where tasks are loops, and `hexloom check` of what it wrote."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from hexloom.emit.figures import short
from hexloom.emit.files import remove_tables, table_texts, write_texts
from hexloom.emit.gantt import gantt_svg
from hexloom.emit.periodic_summary import periodic_numbers, periodic_summary
from hexloom.emit.report import periodic_report_html
from hexloom.emit.timeline import timeline_json
from hexloom.optimizer.errors import InvalidInputError, PlanError
from hexloom.optimizer.periodic.check import check_periodic_schedule
from hexloom.optimizer.periodic.choose import formulation_for
from hexloom.optimizer.periodic.roll import ImpossibleLoopError, NotALoopError
from hexloom.optimizer.periodic.solve import solve_periodic
from hexloom.optimizer.solve import machine_of, rule_named
from hexloom.optimizer.workload import Workload
from hexloom.schedules import periodic_from
from hexloom.talk import DONE, INFEASIBLE, NO_PLAN, say, tell, tell_check

if TYPE_CHECKING:
    from pathlib import Path

    from hexloom.formulations.problem import Problem

FORMULATIONS = ("auto", "flat", "periodic")


def why_loops(
    work: Workload | Problem, hw: str | None, formulation: str, contention: str
) -> tuple[str | None, str | None]:
    """Return why ``work`` is to be solved as loops, None if it is not; and where nobody asked, why it is not.

    Raises
    ------
    InvalidInputError
        There is no such formulation, or loops are asked for where there are none.
    """
    if formulation not in FORMULATIONS:
        raise InvalidInputError(f"--formulation {formulation!r}: write {', '.join(FORMULATIONS[:-1])} or periodic")
    if formulation == "flat":
        return None, None
    if not isinstance(work, Workload):
        if formulation == "auto":
            return None, None
        raise InvalidInputError(
            "--formulation periodic: a problem in ticks has no loops; give the workload, or use flat"
        )
    if formulation == "periodic":
        return "as asked", None
    chosen, why = formulation_for(work, machine_of(work, hw), rule_named(contention))
    return (why, None) if chosen == "periodic" else (None, why)


def solve_loops(
    work: Workload,
    hw: str | None,
    out: Path | None,
    limit_s: float,
    contention: str,
    seed: int | None,
    why: str,
    *,
    as_json: bool,
) -> int | str:
    """Solve, write and print; return the exit code, or in words why ``work`` cannot be solved as loops."""
    started = time.monotonic()
    try:
        schedule = solve_periodic(work, hw, time_limit_s=limit_s, contention=contention, seed=seed)
    except ImpossibleLoopError as reason:
        return say(f"infeasible: {reason}", INFEASIBLE)
    except NotALoopError as reason:
        return str(reason)
    files: dict[str, str] = {}
    to_stdout = str(out) == "-"
    if out is not None and not to_stdout:
        texts = {
            "schedule.json": schedule.to_json(),
            "timeline.json": timeline_json(schedule.written),
            "gantt.svg": gantt_svg(schedule.written),
            "report.html": periodic_report_html(schedule),
        }
        try:
            texts |= table_texts(schedule)
        except (InvalidInputError, PlanError) as error:
            tell(f"no C tables: {error}")
            remove_tables(out, schedule.name)
        try:
            files = write_texts(out, texts)
        except KeyboardInterrupt:
            return say(f"interrupted while writing to {out}; what is there may be of different runs", NO_PLAN)
        tell("timeline and pictures show the iterations written down")
    if to_stdout:
        sys.stdout.write(schedule.to_json())
    elif as_json:
        print(json.dumps(periodic_numbers(schedule, files, time.monotonic() - started, why), indent=1))
    if to_stdout or not as_json:
        print(periodic_summary(schedule, files, why), file=sys.stderr if to_stdout else sys.stdout)
    return DONE


def check_loops(source: Path, data: Any, *, as_json: bool) -> int:
    """Check a periodic schedule for every violation."""
    schedule = periodic_from(source, data)
    trips = ", ".join(f"{n:,} x {task}" for task, n in schedule.trips.items())
    done = f"{schedule.name}: checked, no violation ({trips}; {len(schedule.written.rows)} ops written down)"
    known = {name: ticks for name, ticks in schedule.baselines.items() if ticks is not None}
    times = " and ".join(f"{name} {short(schedule.us(ticks))} us" for name, ticks in known.items())
    trust = [f"baselines {times} rest on the loops of today; solve the workload again to see them"] if known else []
    return tell_check(source, check_periodic_schedule(schedule), done, trust, as_json=as_json)
