"""The command `hexloom tune`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from rich.console import Console

from hexloom.emit.parameters import HEADER, parameters_header, tune_summary
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.matmul_w4a16 import WeightType
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.tune.search import USUAL_OVERHEAD_US, tune
from hexloom.talk import DONE, INFEASIBLE, NO_PLAN, check_folder, say, seconds, tell

if TYPE_CHECKING:
    from hexloom.optimizer.tune.report import Tuned

DIGITS = re.compile(r"0*[1-9][0-9]{0,9}")

MOST_ROWS = 64
"""Values of m in one run."""


def tune_command(
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="A kernel of the library: matmul_w4a16.")],
    m: Annotated[str, typer.Argument(metavar="M", help="Rows; several with commas: a table of them is written.")],
    k: Annotated[int, typer.Argument(metavar="K", min=1, help="Depth.")],
    n: Annotated[int, typer.Argument(metavar="N", min=1, help="Columns.")],
    hw: Annotated[str, typer.Option(help="Machine name or file.")],
    weight_type: Annotated[str, typer.Option("--type", help="Type of the weights: q4_0, q8_0 or f16.")] = "q4_0",
    threads: Annotated[int | None, typer.Option(min=1, help="HVX workers; default: all of the machine.")] = None,
    overhead_us: Annotated[
        float, typer.Option(help="Microseconds of a fork/join and of a hand-over to the HMX.")
    ] = float(USUAL_OVERHEAD_US),
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for tune.json and the C table of parameters.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="How long to search for all M together: 30s, 2m.")] = "30s",
    seed: Annotated[int | None, typer.Option(help="Deterministic search: same seed, same report.")] = None,
    contention: Annotated[
        str, typer.Option(help="Rule for shared channels: fluid, rigid, none, proportional or priority.")
    ] = "fluid",
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON: one report, or a list.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Choose chunks, buffers, and splits of loads and vector work for a kernel, beside what ggml-hexagon chooses."""
    limit, rows = seconds(time_limit), _rows(m)
    if weight_type not in get_args(WeightType):
        raise InvalidInputError(f"--type {weight_type!r}: known are {', '.join(get_args(WeightType))}")
    if out is not None:
        check_folder(out)
        for path in _paths(out):
            if path.is_dir():
                raise InvalidInputError(f"--out {out}: {path} is a folder; name another one")
    reports: list[Tuned] = []
    code, interrupted = DONE, False
    for count in rows:
        try:
            result = tune(
                kernel,
                count,
                k,
                n,
                cast("WeightType", weight_type),
                hw,
                threads=threads,
                time_limit_s=limit / len(rows),
                overhead_us=overhead_us,
                contention=contention,
                seed=seed,
                on_progress=None if quiet else tell,
            )
        except KeyboardInterrupt:
            if not reports:
                raise
            interrupted = True
            break
        if result.tuned is None:
            why = result.infeasibility
            text = "no plan was found in the time" if why is None else why.message
            code = say(f"{kernel} {count} x {k} x {n}: {text}", NO_PLAN if why is None else INFEASIBLE)
            break
        reports.append(result.tuned)
        if result.interrupted:
            interrupted = True
            break
    if not reports:
        return code
    if interrupted:
        tell(f"hexloom: interrupted; reported for M = {', '.join(str(report.m) for report in reports)}")
    files = [] if out is None else _written(reports, out)
    if as_json:
        data = [report.model_dump(mode="json") for report in reports]
        print(json.dumps(data[0] if len(data) == 1 else data, indent=1))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for report in reports:
            console.print(tune_summary(report))
        for path in files:
            console.print(f"wrote {path}")
    return code


def _rows(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_ROWS or not all(DIGITS.fullmatch(part) for part in parts):
        raise InvalidInputError(f"M {text!r}: write rows above 0, such as 742 or 32,128,742, at most {MOST_ROWS}")
    return sorted({int(part) for part in parts})


def _written(reports: list[Tuned], folder: Path) -> list[Path]:
    paths = _paths(folder)
    if len(reports) == 1:
        write_whole(paths[0], reports[0].to_json())
    else:
        write_whole(paths[0], json.dumps([report.model_dump(mode="json") for report in reports], indent=1) + "\n")
    write_whole(paths[1], parameters_header(reports))
    return paths


def _paths(folder: Path) -> list[Path]:
    return [folder / "tune.json", folder / HEADER]
