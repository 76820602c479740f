"""The command `hexloom run`."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hexloom.emit.c_tables import tables_of
from hexloom.emit.hexagon import ARCHITECTURES, run_on_hexagon
from hexloom.emit.host import run_on_host
from hexloom.emit.job import job_of, looped_job
from hexloom.emit.numbers import made_for, numbers_of
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.workload import Workload
from hexloom.schedules import load_any_schedule, violations_of
from hexloom.talk import CHECK_FAILED, DONE, check_folder, say

if TYPE_CHECKING:
    from hexloom.emit.host import HostRun
    from hexloom.emit.job import Job
    from hexloom.emit.numbers import Numbers
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule


def run_command(
    source: Annotated[Path, typer.Argument(metavar="SCHEDULE", help="A schedule.json; - is stdin.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File for the measured trace (hexloom.trace/1); - is stdout.")
    ] = None,
    chrome: Annotated[
        Path | None, typer.Option(help="File for the same trace as Chrome events, for ui.perfetto.dev.")
    ] = None,
    workload: Annotated[
        Path | None, typer.Option(help="The workload it was made from: kernels compute, numpy checks the results.")
    ] = None,
    hw: Annotated[
        str | None, typer.Option(help="Its machine; default: what the workload or the schedule names.")
    ] = None,
    target: Annotated[
        str, typer.Option(help="host, or hexagon-v68 to v81: compiled by clang or ziglang, run in qemu-hexagon.")
    ] = "host",
    times: Annotated[
        str | None,
        typer.Option(
            help="Runs of each stretch of a periodic schedule, such as 40 or 40,12; default: those written down."
        ),
    ] = None,
    trips: Annotated[
        str | None,
        typer.Option(help="Instead, iterations of its tasks, any number, such as matmul=17,norm=3; others as usual."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, max=1_000_000, help="How often the tables are executed.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the order of transfers and of all delays.")] = 0,
    delay_us: Annotated[int, typer.Option(min=0, max=1_000_000, help="Most delay of a kernel, at random.")] = 0,
    transfer_us: Annotated[int, typer.Option(min=0, max=1_000_000, help="Most delay of a transfer.")] = 20,
    timeout_ms: Annotated[int, typer.Option(min=1, max=3_600_000, help="Deadline of every wait.")] = 10_000,
    keep: Annotated[
        Path | None, typer.Option(help="Folder in which the program and its sources stay; default: none.")
    ] = None,
    descriptors: Annotated[
        bool, typer.Option("--descriptors", help="Transfers of named tensors are in the tables, not in kernels.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> int:
    """Build runtime and tables for this host, execute them with real threads, and see that every order holds.

    The kernels move patterns in which a task sees who came too early and what was overwritten; with --workload they
    compute, on data from the seed. Times are this host's.
    """
    to_stdout = str(out) == "-"
    for path in (out, chrome):
        if path is not None and str(path) != "-":
            check_folder(path.parent)
    if str(chrome) == "-":
        raise InvalidInputError("--chrome -: name a file; only -o can be stdout")
    schedule = load_any_schedule(source)
    violations = violations_of(schedule)
    if violations:
        return say(f"{source}: not run: {violations[0].message}", CHECK_FAILED)
    if target != "host" and not target.startswith("hexagon-"):
        raise InvalidInputError(f"--target {target!r}: known are host, hexagon-{', hexagon-'.join(ARCHITECTURES)}")
    work = None if workload is None else Workload.load(workload)
    job, machine = _job(schedule, work, hw, times, trips)
    numbers = None
    if job.workload is not None and machine is not None:
        numbers = numbers_of(job.problem, job.plain, job.workload, machine, seed)
    if descriptors:
        job = _described(job, numbers, target)
    with tempfile.TemporaryDirectory(prefix="hexloom_") as scratch:
        folder = Path(scratch) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        if target != "host":
            arch = target.removeprefix("hexagon-")
            found = run_on_hexagon(job, folder, arch, numbers, runs=runs, seed=seed, timeout_ms=timeout_ms)
        else:
            delays = {"delay_us": delay_us, "transfer_us": transfer_us, "timeout_ms": timeout_ms}
            found = run_on_host(job, folder, runs=runs, seed=seed, numbers=numbers, **delays)
    if out is not None and not to_stdout:
        write_whole(out, found.measured.to_json())
    if chrome is not None:
        write_whole(chrome, found.measured.to_chrome())
    if to_stdout:
        typer.echo(found.measured.to_json(), nl=False)
    elif as_json:
        typer.echo(json.dumps(_numbers(found), indent=1))
    elif found.ok:
        typer.echo(_told(schedule, found, runs))
    return DONE if found.ok else say(f"{source}: {found.explain()}", CHECK_FAILED)


def _job(
    schedule: Schedule | PeriodicSchedule, work: Workload | None, hw: str | None, times: str | None, trips: str | None
) -> tuple[Job, Machine | None]:
    """Return what is to be run, and the machine if its kernels compute."""
    machine = None if work is None else made_for(schedule, work, hw)
    if not isinstance(schedule, PeriodicSchedule):
        if times is not None or trips is not None:
            what = f"--times {times}" if trips is None else f"--trips {trips}"
            raise InvalidInputError(f"{what}: only a periodic schedule runs as often as you say")
        return job_of(schedule, work), machine
    if trips is not None:
        if times is not None:
            raise InvalidInputError("--times and --trips say the same in two ways; give one of them")
        return looped_job(schedule, None, work, machine, trips=_trips(trips)), machine
    try:
        counts = None if times is None else [int(part) for part in times.split(",")]
    except ValueError:
        raise InvalidInputError(f"--times {times!r}: write one number for each stretch, such as 40 or 40,12") from None
    return looped_job(schedule, counts, work, machine), machine


def _trips(text: str) -> dict[str, int]:
    """Read iterations by task."""
    found: dict[str, int] = {}
    for part in text.split(","):
        task, _, count = part.partition("=")
        if not count.isdecimal() or task in found:
            raise InvalidInputError(f"--trips {text!r}: write tasks with a number each, such as matmul=17,norm=3")
        found[task] = int(count)
    return found


def _described(job: Job, numbers: Numbers | None, target: str) -> Job:
    """Return the same run with tables that say what transfers move."""
    if target != "host":
        raise InvalidInputError(
            f"--descriptors: they are tried on this host, not on {target}; leave one of the two out"
        )
    if numbers is None:
        raise InvalidInputError("--descriptors: they move data of kernels that compute on this host; add --workload")
    tables = tables_of(job.source, descriptors=True)
    if not tables.descriptors:
        raise InvalidInputError(
            f"--descriptors: no task of {job.source.name!r} moves a tensor with a name; name its input or output"
        )
    return replace(job, tables=tables)


def _numbers(found: HostRun) -> dict[str, object]:
    said = found.said
    return {
        "ok": found.ok,
        "code": said["code"],
        "faults": said["faults"],
        "task": None if said["task"] is None else found.ops[said["task"]],
        "event": said["event"],
        "executed": said["executed"],
        "tasks": len([name for name in found.ops if name]),
        "workers": len(found.measured.workers),
        "records": len(found.measured.records),
        "dropped": said["dropped"],
        "span_us": found.measured.span_ns / 1000,
        "elapsed_us": said["elapsed_ns"] / 1000,
    }


def _told(schedule: Schedule | PeriodicSchedule, found: HostRun, runs: int) -> str:
    times = "once" if runs == 1 else f"{runs} times"
    us = found.measured.span_ns / runs / 1000
    where = "this host" if found.measured.target == "host" else f"an emulated {found.measured.target}"
    tasks = sum(1 for name in found.ops if name)
    executed = f"{schedule.name}: executed {times} with {len(found.measured.workers)} threads on {where}"
    if found.measured.kernels == "numeric":
        return (
            f"{executed}: the results of {tasks} tasks are those of numpy "
            f"({us:.1f} us each, with kernels in portable C)"
        )
    return (
        f"{executed}: each of {tasks} tasks found what it should in its buffers, and nothing that was needed "
        f"was overwritten ({us:.1f} us each, with kernels that only move patterns)"
    )
