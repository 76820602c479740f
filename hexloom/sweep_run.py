"""`hexloom study --sweep`: progress, files and pictures of a sweep."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hexloom.emit.files import write_texts
from hexloom.emit.sweep_plots import has_matplotlib, plots
from hexloom.emit.sweep_table import sweep_table
from hexloom.optimizer.study.sweep import sweep
from hexloom.talk import BAD_INPUT, DONE, NO_PLAN, say, tell

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hexloom.formulations.problem import Problem
    from hexloom.optimizer.workload import Workload

SAID_EVERY_S = 5.0


def run_sweep(
    work: Workload | Problem, hw: str | None, specs: list[str], out: Path, *, as_json: bool, quiet: bool, **how: Any
) -> int:
    """Run a sweep with progress on the terminal, and write its files and pictures into ``out``."""
    console = Console(stderr=True, highlight=False)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
    )
    task = bar.add_task(work.name, total=None)
    said = None if quiet or console.is_terminal else _lines()

    def on_row(done: int, points: int, row: dict[str, Any] | None) -> None:
        bar.update(task, completed=done, total=points)
        if said is not None:
            said(done, points)

    try:
        with bar:
            found = sweep(work, hw, specs, out, on_row=on_row, **how)
    except KeyboardInterrupt:
        return say(f"interrupted; what is finished is in {out}, and the same command goes on from there", NO_PLAN)
    files = [str(path) for path in found.files]
    if has_matplotlib():
        files += write_texts(out, plots(found)).values()
    else:
        tell("no pictures: pip install 'hexloom[study]' for matplotlib")
    if as_json:
        rows = [row | {"point": number} for number, row in enumerate(found.rows)]
        sys.stdout.write(json.dumps({"unit": found.unit, "reused": found.reused, "files": files, "rows": rows}) + "\n")
    else:
        talk = Console(highlight=False, soft_wrap=True)
        talk.print(sweep_table(found))
        for path in files:
            talk.print(f"wrote {path}")
    notes = [row["note"] for row in found.rows if row["status"] in ("INVALID", "LOST")]
    if found.rows and len(notes) == len(found.rows):
        return say(f"no point of the sweep can be studied: {notes[0]}", BAD_INPUT)
    return DONE


def _lines() -> Callable[[int, int], None]:
    """Return what says in lines how far it is, where there is no terminal."""
    began = last = time.monotonic()
    first: int | None = None

    def said(done: int, points: int) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = done if first is None else first
        if now - last < SAID_EVERY_S:
            return
        last = now
        rate = (done - first) / (now - began)
        left = f", about {(points - done) / rate:,.0f} s left" if rate else ""
        tell(f"{now - began:6.1f} s  {done:,} of {points:,} points{left}")

    return said
