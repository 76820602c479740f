"""The command `hexloom study`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from hexloom.emit.files import write_texts
from hexloom.emit.study_svg import study_svg
from hexloom.emit.study_table import study_table
from hexloom.emit.summary import short
from hexloom.formulations.problem import Problem
from hexloom.inputs import load_work
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.study.ablations import names_of
from hexloom.optimizer.study.groups import study
from hexloom.talk import DONE, check_folder, seconds, tell

if TYPE_CHECKING:
    from fractions import Fraction


def study_command(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Workload or problem (YAML, JSON); - is stdin.")],
    hw: Annotated[str | None, typer.Option(help="Machine name or file; default: what the workload names.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for the files.")] = None,
    time_limit: Annotated[str, typer.Option(help="How long to search, for each point of a sweep too.")] = "10s",
    seed: Annotated[int | None, typer.Option(help="Deterministic search: same seed, same numbers.")] = None,
    contention: Annotated[
        str, typer.Option(help="Rule for shared channels: fluid, rigid, none, proportional or priority.")
    ] = "fluid",
    without: Annotated[
        list[str] | None, typer.Option("--ablate", help="Solve without one thing, or 'all'; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Compare the plan with today's loops, back to back and side by side, and with its own ops one by one."""
    work = load_work(source)
    limit, ablations = seconds(time_limit), names_of(without or [])
    if hw is not None and isinstance(work, Problem):
        raise InvalidInputError(f"--hw {hw!r}: {source} is a problem in ticks, which needs no machine; drop it")
    if out is not None:
        check_folder(out)
    started = time.monotonic()

    def progress(makespan: Fraction, bound: Fraction) -> None:
        tell(f"{time.monotonic() - started:6.1f} s  best {short(makespan)}  bound {short(bound)}")

    found = study(
        work,
        hw,
        time_limit_s=limit,
        contention=contention,
        seed=seed,
        ablations=ablations,
        on_progress=None if quiet else progress,
    )
    files = {} if out is None else write_texts(out, {"study.json": found.to_json(), "study.svg": study_svg(found)})
    if as_json:
        print(found.to_json(), end="")
    else:
        console = Console(highlight=False, soft_wrap=True)
        console.print(study_table(found))
        for path in files.values():
            console.print(f"wrote {path}")
    return DONE
