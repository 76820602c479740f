"""The command `hexloom compare`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from hexloom.emit.comparison_svg import comparison_svg
from hexloom.emit.comparison_table import comparison_table
from hexloom.emit.trace_table import trace_table
from hexloom.hwmodels import MachineFileError, load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.traces.compare import compare
from hexloom.optimizer.traces.floors import Floors, task_of
from hexloom.optimizer.traces.importer import Format, read_trace
from hexloom.optimizer.traces.numbers import decimal, scaled
from hexloom.optimizer.traces.summary import summarize
from hexloom.optimizer.tune.search import tune
from hexloom.schedules import load_any_schedule
from hexloom.talk import CHECK_FAILED, DONE, check_folder, say, seconds, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule
    from hexloom.optimizer.traces.floors import FloorRow
    from hexloom.optimizer.traces.summary import OpRow, TraceSummary
    from hexloom.optimizer.traces.trace import Trace
    from hexloom.optimizer.tune.report import Tuned

SAID_EVERY_S = 2.0
WORTH_SAYING = 1 << 26
"""Bytes of a file whose import takes long enough that a person wants to see it move."""


def compare_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="[SCHEDULE] TRACE", help="A trace, or a schedule.json and a trace.")
    ],
    form: Annotated[str | None, typer.Option("--format", help="Format of the trace; default: told from it.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of a Chrome trace: us, ns, cycles, cycles@MHZ or ticks19.2.")
    ] = None,
    hw: Annotated[str | None, typer.Option(help="Machine name or file, to say what each op takes at least.")] = None,
    top: Annotated[int, typer.Option(min=0, help="How many ops get a screen of their own, the longest first.")] = 3,
    mhz: Annotated[str | None, typer.Option(help="Clock of a trace in cycles that does not state one.")] = None,
    tuned: Annotated[
        str | None,
        typer.Option("--tune", help="With --hw: tune the shown matmuls for this long each, such as 5s, and say it."),
    ] = None,
    fail_above: Annotated[
        str | None, typer.Option(help="End with code 4 when the makespan is off by more than this: 10%.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for comparison.json and the picture comparison.svg.")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Import what is there of a JSON object that ends in the middle.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Say what bounds each op of a measured trace and which engine idles; with a schedule, where it was wrong."""
    if len(files) > 2:
        raise InvalidInputError(f"{len(files)} files: give a trace, or a schedule and a trace")
    limit = None if fail_above is None else _part(fail_above)
    if len(files) == 1 and (limit is not None or out is not None):
        raise InvalidInputError("--fail-above and --out compare with a schedule: give SCHEDULE and TRACE")
    if tuned is not None and (hw is None or len(files) == 2):
        raise InvalidInputError("--tune is for a trace alone, and needs the machine: give --hw and no schedule")
    limit_s = None if tuned is None else seconds(tuned, "--tune")
    if out is not None:
        check_folder(out)
    schedule = load_any_schedule(files[0]) if len(files) == 2 else None
    trace = _trace(files[-1], form, unit, partial=partial, quiet=quiet)
    if not len(trace) and not trace.totals:
        raise InvalidInputError(f"{files[-1]}: there is no event in it, so it says nothing; record the run again")
    if mhz is not None:
        trace.khz = _khz(mhz, trace)
    if schedule is None:
        return _alone(trace, str(files[-1]), hw, top, limit_s, as_json=as_json)
    if isinstance(schedule, PeriodicSchedule) and not quiet:
        say("the schedule is of loops: the run is held against the iterations that it has written down", DONE)
    return _held_against(schedule, trace, str(files[-1]), hw, limit, out, as_json=as_json)


def _part(text: str) -> float:
    """Return the part that "10%" or "0.1" is."""
    number = scaled(decimal(text.strip().removesuffix("%").strip()), 10**9)
    if number is None or number < 0:
        raise InvalidInputError(f"--fail-above {text!r}: write 10% or 0.1")
    return number / (10**11 if text.strip().endswith("%") else 10**9)


def _khz(text: str, trace: Trace) -> int:
    khz = scaled(decimal(text), 1000)
    if khz is None or not 0 < khz < 10**8:
        raise InvalidInputError(f"--mhz {text!r}: write a clock such as 1943.6")
    if trace.clock != "cycles":
        raise InvalidInputError(f"--mhz {text}: the trace counts {trace.clock}, not cycles; drop it")
    return khz


def _held_against(
    schedule: Schedule | PeriodicSchedule,
    trace: Trace,
    source: str,
    hw: str | None,
    limit: float | None,
    out: Path | None,
    *,
    as_json: bool,
) -> int:
    """Print how a run differs from its schedule."""
    found = compare(schedule, trace, machine=_machine(schedule, hw))
    written = schedule.written if isinstance(schedule, PeriodicSchedule) else schedule
    files = []
    if out is not None:
        for name, text in (("comparison.json", found.to_json()), ("comparison.svg", comparison_svg(written, found))):
            write_whole(out / name, text)
            files.append(out / name)
    if as_json:
        sys.stdout.write(found.to_json())
    else:
        console = Console(highlight=False, soft_wrap=True)
        for part in comparison_table(found, source):
            console.print(part)
        for path in files:
            console.print(f"wrote {path}")
    if limit is not None and abs(found.error) > limit:
        return say(f"the makespan is off by {found.error:+.2%}, more than {limit:.2%}", CHECK_FAILED)
    return DONE


def _machine(schedule: Schedule | PeriodicSchedule, hw: str | None) -> Machine | None:
    """Return the machine of a schedule: the named one, else the shipped one that it was made for, unchanged."""
    if hw is not None:
        return load_hw(hw)
    if schedule.machine is None:
        return None
    try:
        machine = load_hw(schedule.machine)
    except MachineFileError:
        return None
    return machine if machine.digest() == schedule.machine_digest else None


def _trace(path: Path, form: str | None, unit: str | None, *, partial: bool, quiet: bool) -> Trace:
    on_progress = None if quiet else _teller()
    return read_trace(path, cast("Format | None", form), unit=unit, partial=partial, on_progress=on_progress)


def _teller() -> Callable[[int, int], None]:
    """Return what says how far a large file is read, now and then."""
    last = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if total >= WORTH_SAYING and now - last >= SAID_EVERY_S:
            last = now
            tell(f"read {done / 1e6:,.0f} of {total / 1e6:,.0f} MB ({done / total:.0%})")

    return progress


def _tuned(summary: TraceSummary, machine: Machine, top: int, limit_s: float) -> dict[int, Tuned]:
    """Return what tuning makes of the longest ops that can be tuned; ops of one shape are tuned once."""
    found: dict[int, Tuned] = {}
    known: dict[str, Tuned | None] = {}
    for k in sorted(range(len(summary.ops)), key=lambda k: (-summary.ops[k].span_ticks, k))[:top]:
        task = task_of(summary.ops[k].name, summary.ops[k].detail)
        if task is None or task["kernel"] != "matmul_w4a16":
            continue
        shape = str(task)
        if shape not in known:
            m, inner, n, weights = (task[key] for key in ("m", "k", "n", "weight_type"))
            known[shape] = tune("matmul_w4a16", m, inner, n, weights, machine, time_limit_s=limit_s, seed=0).tuned
        report = known[shape]
        if report is not None:
            found[k] = report
    return found


def _in_words(op: OpRow, report: Tuned) -> str:
    """Return in one line what tuning changes."""
    saves = "" if report.existing_us is None else f" instead of {report.existing_us:,.1f}"
    loop = "" if report.loop_us is None else f"; with the loop of today {report.loop_us:,.1f}"
    return (
        f"tuned {op.name} {report.m} x {report.k} x {report.n}: {report.makespan_us:,.1f} us{saves} as predicted{loop}"
        f"; bound by {report.bound_by}"
    )


def _alone(trace: Trace, source: str, hw: str | None, top: int, tune_s: float | None, *, as_json: bool) -> int:
    """Print what a trace says by itself."""
    floors = None if hw is None else Floors(load_hw(hw))
    summary = summarize(trace)
    found: dict[int, FloorRow] = {}
    if floors is not None:
        for k, op in enumerate(summary.ops):
            floor = floors.of(op.name, op.detail)
            if floor is not None:
                found[k] = floor
    reports = {} if floors is None or tune_s is None else _tuned(summary, floors.machine, top, tune_s)
    if as_json:
        data: dict[str, Any] = summary.model_dump(mode="json", by_alias=True)
        data["floors"] = [{"op": k, **floor.model_dump(mode="json")} for k, floor in found.items()]
        if tune_s is not None:
            data["tuned"] = [
                {"op": k, **report.model_dump(mode="json", by_alias=True)} for k, report in reports.items()
            ]
        sys.stdout.write(json.dumps(data, indent=1) + "\n")
        return DONE
    console = Console(highlight=False, soft_wrap=True)
    for part in trace_table(summary, found, top, source):
        console.print(part)
    for k, report in reports.items():
        console.print(_in_words(summary.ops[k], report))
    return DONE
