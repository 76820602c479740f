"""The command `hexloom compare`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console

from hexloom.emit.trace_table import trace_table
from hexloom.hwmodels import load_hw
from hexloom.optimizer.traces.floors import Floors
from hexloom.optimizer.traces.importer import Format, read_trace
from hexloom.optimizer.traces.summary import summarize
from hexloom.talk import DONE, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from hexloom.optimizer.traces.floors import FloorRow
    from hexloom.optimizer.traces.trace import Trace

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
    partial: Annotated[
        bool, typer.Option("--partial", help="Import what is there of a JSON object that ends in the middle.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Say what bounds each op of a measured trace and which engine idles; with a schedule, where it was wrong."""
    trace = _trace(files[-1], form, unit, partial=partial, quiet=quiet)
    return _alone(trace, str(files[-1]), hw, top, as_json=as_json)


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


def _alone(trace: Trace, source: str, hw: str | None, top: int, *, as_json: bool) -> int:
    """Print what a trace says by itself."""
    floors = None if hw is None else Floors(load_hw(hw))
    summary = summarize(trace)
    found: dict[int, FloorRow] = {}
    if floors is not None:
        for k, op in enumerate(summary.ops):
            floor = floors.of(op.name, op.detail)
            if floor is not None:
                found[k] = floor
    if as_json:
        data: dict[str, Any] = summary.model_dump(mode="json", by_alias=True)
        data["floors"] = [{"op": k, **floor.model_dump(mode="json")} for k, floor in found.items()]
        sys.stdout.write(json.dumps(data, indent=1) + "\n")
        return DONE
    console = Console(highlight=False, soft_wrap=True)
    for part in trace_table(summary, found, top, source):
        console.print(part)
    return DONE
