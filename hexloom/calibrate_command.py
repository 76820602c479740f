"""The command `hexloom calibrate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hexloom.emit.calibration_table import calibration_table
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.traces.calibrate import calibrate, calibrate_classes, machine_yaml
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.workload import Workload
from hexloom.schedules import load_schedule
from hexloom.talk import DONE, check_folder


def calibrate_command(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces of runs of the schedule.")],
    hw: Annotated[str, typer.Option(help="Machine name or file where the fit begins.")],
    schedule: Annotated[
        Path | None, typer.Option(help="The schedule.json that ran; none for ggml-hexagon logs.")
    ] = None,
    workload: Annotated[Path | None, typer.Option(help="The workload that it was solved for.")] = None,
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
    if schedule is not None and workload is not None:
        plan, work = load_schedule(schedule), Workload.load(workload)
        found, fitted = calibrate(machine, [(work, plan, [read_trace(path) for path in traces])])
    else:
        found, fitted = calibrate_classes(machine, [read_trace(path) for path in traces])
    if out is not None:
        write_whole(out, machine_yaml(fitted))
    if as_json:
        sys.stdout.write(json.dumps(found.model_dump(mode="json"), indent=1) + "\n")
        return DONE
    console = Console(highlight=False, soft_wrap=True)
    for part in calibration_table(found):
        console.print(part)
    if out is not None:
        console.print(f"wrote {out}")
    return DONE
