"""The command `hexloom calibrate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from hexloom.emit.calibration_table import calibration_table
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.schedule import write_together
from hexloom.optimizer.traces.bench_fit import calibrate_bench
from hexloom.optimizer.traces.bench_log import is_bench_log, read_bench_log
from hexloom.optimizer.traces.calibrate import (
    calibrate,
    calibrate_classes,
    durations_of,
    machine_yaml,
)
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.traces.match import of_another
from hexloom.optimizer.workload import Workload
from hexloom.schedules import load_schedule
from hexloom.talk import DONE, check_folder, tell

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.schedule import Schedule


def calibrate_command(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of runs of the schedule.")],
    hw: Annotated[str, typer.Option(help="Machine name or file where the fit begins.")],
    schedule: Annotated[
        Path | None, typer.Option(help="The schedule.json that ran; none for ggml-hexagon logs.")
    ] = None,
    workload: Annotated[Path | None, typer.Option(help="The workload that it was solved for.")] = None,
    durations: Annotated[
        Path | None, typer.Option(help="File for how each stage scatters around the fit, for `solve --robust`.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The machine file to write (YAML).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> int:
    """Fit a machine file to measured runs: the numbers that they determine, with their spread, and no others."""
    if out is not None:
        check_folder(out.parent)
        if out.suffix not in (".yaml", ".yml"):
            raise InvalidInputError(f"--out {out}: a machine file ends in .yaml")
    if (schedule is None) != (workload is None):
        raise InvalidInputError("--schedule and --workload belong together: give both, or none for ggml-hexagon logs")
    machine = load_hw(hw)
    if durations is not None:
        check_folder(durations.parent)
        if out is not None and durations.resolve() == out.resolve():
            raise InvalidInputError(f"--durations {durations}: the machine file of --out goes there; name another file")
    if schedule is not None and workload is not None:
        plan, work = load_schedule(schedule), Workload.load(workload)
        _tell_other_machine(plan, machine)
        runs = [read_trace(path) for path in traces]
        for path, run in zip(traces, runs, strict=True):
            other = of_another(plan, run)
            if other is not None:
                raise InvalidInputError(f"{path}: {other}")
        found, fitted = calibrate(machine, [(work, plan, runs)])
    elif any(is_bench_log(path) for path in traces):
        found, fitted = calibrate_bench(machine, [read_bench_log(path) for path in traces])
    else:
        found, fitted = calibrate_classes(machine, [read_trace(path) for path in traces])
    texts = {} if durations is None else {durations: durations_of(found).to_json()}
    texts |= {} if out is None else {out: machine_yaml(fitted)}
    write_together(texts)
    if as_json:
        sys.stdout.write(json.dumps(found.model_dump(mode="json"), indent=1) + "\n")
        return DONE
    console = Console(highlight=False, soft_wrap=True)
    for part in calibration_table(found):
        console.print(part)
    for path in texts:
        console.print(f"wrote {path}")
    return DONE


def _tell_other_machine(schedule: Schedule, machine: Machine) -> None:
    """Say what it means that the fit begins at another machine file than the schedule was made for."""
    if schedule.machine is None or schedule.machine == machine.name:
        return
    tell(
        f"the schedule was made for {schedule.machine}, the fit begins at {machine.name}: what these runs do not tell "
        f"keeps the numbers of {machine.name}; to begin where the schedule did, write --hw {schedule.machine}"
    )
