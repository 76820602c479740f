"""The command `hexloom tune`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, cast, get_args

import typer
from rich.console import Console

from hexloom.emit.parameters import HEADER, parameters_header, tune_summary
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels.ggml_layout import TILE, WeightType
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.traces.importer import read_trace
from hexloom.optimizer.tune.logged import chunks_of, read_log
from hexloom.optimizer.tune.parameters import Shape
from hexloom.optimizer.tune.report import Measured
from hexloom.optimizer.tune.search import USUAL_OVERHEAD_US, tune
from hexloom.talk import DONE, INFEASIBLE, NO_PLAN, check_folder, say, seconds, tell

if TYPE_CHECKING:
    from hexloom.hwmodels import Machine
    from hexloom.optimizer.tune.report import Tuned

DIGITS = re.compile(r"0*[1-9][0-9]{0,9}")

MOST_ROWS = 64
"""Values of m in one run."""


class _Job(NamedTuple):
    """A shape to tune, the chunks that run today where they are known, and what a log says of it."""

    shape: Shape
    chunks: tuple[int, int] | None = None
    measured: Measured | None = None


def tune_command(
    hw: Annotated[str, typer.Option(help="Machine name or file.")],
    kernel: Annotated[
        str, typer.Argument(metavar="KERNEL", help="A kernel of the library: matmul_w4a16.")
    ] = "matmul_w4a16",
    m: Annotated[
        str | None, typer.Argument(metavar="M", help="Rows; several with commas: a table of them is written.")
    ] = None,
    k: Annotated[int | None, typer.Argument(metavar="K", min=1, help="Depth.")] = None,
    n: Annotated[int | None, typer.Argument(metavar="N", min=1, help="Columns.")] = None,
    log: Annotated[
        Path | None, typer.Option(help="A profile log of ggml-hexagon: its products are tuned, longest first.")
    ] = None,
    weight_type: Annotated[
        str | None, typer.Option("--type", help="Type of the weights: q4_0 (default), q8_0 or f16.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="HVX workers; default: all of the machine.")] = None,
    overhead_us: Annotated[
        float, typer.Option(help="Microseconds of a fork/join and of a hand-over to the HMX.")
    ] = float(USUAL_OVERHEAD_US),
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Folder for tune.json and the C table of parameters.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="How long to search for all shapes together: 30s, 2m.")] = "30s",
    seed: Annotated[int | None, typer.Option(help="Deterministic search: same seed, same report.")] = None,
    contention: Annotated[
        str, typer.Option(help="Rule for shared channels: fluid, rigid, none, proportional or priority.")
    ] = "fluid",
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON: one report, or a list.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Choose chunks, buffers, and splits of loads and vector work for a kernel, beside what ggml-hexagon chooses."""
    limit = seconds(time_limit)
    if out is not None:
        check_folder(out)
        for path in _paths(out):
            if path.is_dir():
                raise InvalidInputError(f"--out {out}: {path} is a folder; name another one")
    if log is None:
        jobs = _jobs_of(m, k, n, weight_type)
    elif (m, k, n, weight_type) != (None, None, None, None):
        raise InvalidInputError(f"--log {log}: the log says the shapes; drop M, K, N and --type")
    else:
        jobs, threads = _jobs_in(log, load_hw(hw), threads)
    reports: list[Tuned] = []
    code, interrupted = DONE, False
    for job in jobs:
        shape = job.shape
        try:
            result = tune(
                kernel,
                *shape,
                hw,
                threads=threads,
                time_limit_s=limit / len(jobs),
                overhead_us=overhead_us,
                contention=contention,
                seed=seed,
                chunks=job.chunks,
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
            code = say(f"{kernel} {shape.m} x {shape.k} x {shape.n}: {text}", NO_PLAN if why is None else INFEASIBLE)
            break
        reports.append(result.tuned.model_copy(update={"measured": job.measured}))
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


def _jobs_of(m: str | None, k: int | None, n: int | None, weight_type: str | None) -> list[_Job]:
    """Return a job per number of rows."""
    if m is None or k is None or n is None:
        raise InvalidInputError("tune needs a shape: write KERNEL M K N, or --log FILE of ggml-hexagon")
    rows, kind = _rows(m), weight_type or "q4_0"
    if kind not in get_args(WeightType):
        raise InvalidInputError(f"--type {kind!r}: known are {', '.join(get_args(WeightType))}")
    return [_Job(Shape(count, k, n, cast("WeightType", kind))) for count in rows]


def _jobs_in(path: Path, machine: Machine, threads: int | None) -> tuple[list[_Job], int | None]:
    """Return a job per product of a log that can be tuned, and the workers: the given ones, else the log's."""
    log = read_log(read_trace(path))
    found = [one for one in log.products if one.shape.k % TILE == 0 and one.shape.n % TILE == 0]
    left_out = dict(log.others)
    if len(found) < len(log.products):
        left_out[f"of k or n that is no multiple of {TILE}"] = len(log.products) - len(found)
    if len(found) > MOST_ROWS:
        left_out[f"shapes beyond the {MOST_ROWS} that take longest"] = len(found) - MOST_ROWS
    said = "; ".join(f"{count} {why}" for why, count in left_out.items())
    if not found:
        raise InvalidInputError(
            f"--log {path}: no product on the matrix unit that can be tuned ({said or 'no op'}); record it with "
            "GGML_HEXAGON_PROFILE=1 or more"
        )
    if said:
        tell(f"hexloom: not tuned of the log: {said}")
    workers = threads or (log.threads if log.threads and log.threads <= machine.hvx_contexts else None)
    jobs = []
    for one in found[:MOST_ROWS]:
        chunks = chunks_of(one.shape, one.vtcm_bytes, machine, workers or machine.hvx_contexts)
        measured = Measured(
            runs=one.runs,
            median_us=one.median_us,
            least_us=one.least_us,
            vtcm_bytes=one.vtcm_bytes,
            chunks_known=chunks is not None,
        )
        jobs.append(_Job(one.shape, chunks, measured))
    return jobs, workers


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
