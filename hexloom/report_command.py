"""The command `hexloom report`, and the reports that `hexloom solve` writes where there is no plan."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer
from pydantic import BaseModel, ValidationError

from hexloom.emit.files import write_texts
from hexloom.emit.report import infeasible_report_html, periodic_report_html, report_html
from hexloom.optimizer.check import check_schedule
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.infeasibility import Infeasibility
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.periodic.check import check_periodic_schedule
from hexloom.optimizer.periodic.schedule import PeriodicSchedule
from hexloom.optimizer.reading import read_data, wrong_kind
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.traces.compare import compare
from hexloom.optimizer.traces.importer import Format, read_trace
from hexloom.optimizer.what_if import WhatIf
from hexloom.schedules import schedule_from
from hexloom.talk import CHECK_FAILED, DONE, check_folder, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hexloom.optimizer.check import Violation

REPORT = "report.html"

KINDS: dict[type[BaseModel], str] = {
    Infeasibility: "infeasibility",
    PeriodicSchedule: "periodic_schedule",
    WhatIf: "what_if",
}

Model = TypeVar("Model", bound=BaseModel)


def report_command(
    source: Annotated[
        Path,
        typer.Argument(metavar="SCHEDULE", help="A schedule.json, of loops too, or an infeasibility.json; - is stdin."),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file; default: report.html beside SCHEDULE; - is stdout.")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="A measured run of it, shown beside the prediction.")] = None,
    form: Annotated[str | None, typer.Option("--format", help="Format of the trace; default: told from it.")] = None,
    what_if: Annotated[Path | None, typer.Option(help="A what_if.json, shown as a table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON which file was written.")] = False,
) -> int:
    """Write one HTML file with everything about a schedule: it opens offline, same bytes for the same schedule."""
    target = out or (Path(REPORT) if str(source) == "-" else source.parent / REPORT)
    to_stdout = str(target) == "-"
    if not to_stdout:
        check_folder(target.parent)
    data = read_data(source)
    kind = str(data.get("schema", "")) if isinstance(data, dict) else ""
    flat = not kind.startswith(("hexloom.periodic_schedule/", "hexloom.infeasibility/"))
    if not flat and (trace is not None or what_if is not None):
        raise InvalidInputError("--trace and --what-if belong to a schedule of single ops; drop them")
    if kind.startswith("hexloom.infeasibility/"):
        text = infeasible_report_html("no plan", None, _read(Infeasibility, source, data))
    elif flat:
        schedule = schedule_from(source, data)
        if (code := _refused(source, check_schedule(schedule))) is not None:
            return code
        found = None if trace is None else compare(schedule, read_trace(trace, cast("Format | None", form)))
        points = None if what_if is None else _read(WhatIf, what_if, read_data(what_if))
        text = report_html(schedule, found, points)
    else:
        loops = _read(PeriodicSchedule, source, data)
        if (code := _refused(source, check_periodic_schedule(loops))) is not None:
            return code
        text = periodic_report_html(loops)
    if to_stdout:
        sys.stdout.write(text)
        return DONE
    write_whole(target, text)
    typer.echo(json.dumps({"files": {REPORT: str(target)}}, indent=1) if as_json else f"wrote {target}")
    return DONE


def _refused(source: Path, violations: Sequence[Violation]) -> int | None:
    """Say why there is no report of a schedule that does not hold."""
    if not violations:
        return None
    more = f" and {len(violations) - 1} more violations" if len(violations) > 1 else ""
    return say(f"{source}: nothing written: {violations[0].message}{more}", CHECK_FAILED)


def _read(model: type[Model], source: Path, data: Any) -> Model:
    """Return what a file holds; raises InvalidInputError where it is something else."""
    fault = wrong_kind(data, KINDS[model])
    if fault is not None:
        raise InvalidInputError(f"{source}: {fault}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InvalidInputError(f"{source}: not a {KINDS[model]}: {explain(error, model)}") from None


def write_infeasible(name: str, machine: str | None, why: Infeasibility, folder: Path) -> dict[str, str]:
    """Write why there is no plan, for people and for programs; return the paths by file name."""
    texts = {"infeasibility.json": why.to_json(), REPORT: infeasible_report_html(name, machine, why)}
    return write_texts(folder, texts)
