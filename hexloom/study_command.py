"""The command `hexloom study`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from hexloom.emit.figures import short
from hexloom.emit.files import write_texts
from hexloom.emit.study_svg import study_svg
from hexloom.emit.study_table import study_table
from hexloom.formulations.problem import Problem
from hexloom.inputs import load_work
from hexloom.optimizer.errors import InvalidInputError, NoPlanError
from hexloom.optimizer.study.ablations import names_of
from hexloom.optimizer.study.study import study
from hexloom.sweep_run import run_sweep
from hexloom.talk import DONE, INFEASIBLE, NO_PLAN, check_folder, say, seconds, tell

if TYPE_CHECKING:
    from fractions import Fraction


def study_command(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Workload or problem (YAML, JSON); - is stdin.")],
    hw: Annotated[str | None, typer.Option(help="Machine name or file; default: what the workload names.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for the files.")] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="How long to search: 10s by default, 500ms for a point of a sweep.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Deterministic search: same seed, same numbers.")] = None,
    contention: Annotated[
        str, typer.Option(help="Rule for shared channels: fluid, rigid, none, proportional or priority.")
    ] = "fluid",
    without: Annotated[
        list[str] | None, typer.Option("--ablate", help="Solve without one thing, or 'all'; may be repeated.")
    ] = None,
    sweeps: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="FIELD=SPEC",
            help="Study at every value: work_ratio=0.1..10:log9, tasks.norm.rows=128,512, vtcm.total_bytes=2MiB,8MiB, "
            "overheads.fork_join=low,high; may be repeated. Needs --out.",
        ),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Draw so many points of a sweep instead of all.")] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Processes of a sweep on this machine; 1: this one.")
    ] = 2,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask scheduler that runs the sweep.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Compare the plan with today's loops, back to back and side by side, and with its own ops one by one."""
    work = load_work(source)
    limit = seconds(time_limit or ("500ms" if sweeps else "10s"))
    ablations = names_of(without or [])
    if hw is not None and isinstance(work, Problem):
        raise InvalidInputError(f"--hw {hw!r}: {source} is a problem in ticks, which needs no machine; drop it")
    if out is not None:
        check_folder(out)
    if sweeps:
        if out is None or ablations:
            raise InvalidInputError("--sweep needs a folder for its points, --out, and goes without --ablate")
        how: dict[str, Any] = {
            "samples": samples,
            "scheduler": scheduler,
            "workers": workers,
            "seed": 1 if seed is None else seed,
        }
        how |= {"time_limit_s": limit, "contention": contention}
        return run_sweep(work, hw, sweeps, out, as_json=as_json, quiet=quiet, **how)
    if samples is not None or scheduler is not None:
        raise InvalidInputError(
            f"{'--samples' if scheduler is None else '--scheduler'} goes with --sweep: name what is varied, or drop it"
        )
    started = time.monotonic()

    def progress(makespan: Fraction, bound: Fraction) -> None:
        tell(f"{time.monotonic() - started:6.1f} s  best {short(makespan)}  bound {short(bound)}")

    try:
        found = study(
            work,
            hw,
            time_limit_s=limit,
            contention=contention,
            seed=seed,
            ablations=ablations,
            on_progress=None if quiet else progress,
        )
    except NoPlanError as error:
        return say(str(error), INFEASIBLE if error.proven else NO_PLAN)
    files = {} if out is None else write_texts(out, {"study.json": found.to_json(), "study.svg": study_svg(found)})
    if as_json:
        print(found.to_json(), end="")
    else:
        console = Console(highlight=False, soft_wrap=True)
        console.print(study_table(found))
        for path in files.values():
            console.print(f"wrote {path}")
    return DONE
