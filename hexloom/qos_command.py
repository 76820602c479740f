"""The command `hexloom qos`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hexloom.emit.qos_table import qos_table
from hexloom.hwmodels import load_hw
from hexloom.optimizer.qos.model import Qos
from hexloom.optimizer.qos.report import qos
from hexloom.optimizer.reading import read_data
from hexloom.optimizer.schedule import write_whole
from hexloom.talk import DONE, check_folder, seconds


def qos_command(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="Stream, fillers, pairs and arrivals (YAML, JSON).")],
    hw: Annotated[str | None, typer.Option(help="Machine name or file; default: what the file names.")] = None,
    time_limit: Annotated[str, typer.Option(help="How long to search for each kernel and pair that is a task.")] = "1s",
    seed: Annotated[int, typer.Option(help="Deterministic search: same seed, same report.")] = 1,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for qos.json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Replay a stream that must answer in time, with fillers beside it: fused, reordered, or only while it idles."""
    limit = seconds(time_limit)
    if out is not None:
        check_folder(out)
    spec = Qos.from_data(read_data(source), str(source))
    name = hw or spec.hw
    found = qos(spec, None if name is None else load_hw(name), time_limit_s=limit, seed=seed)
    if out is not None:
        write_whole(out / "qos.json", found.to_json())
    if as_json:
        print(found.to_json(), end="")
        return DONE
    console = Console(highlight=False, soft_wrap=True)
    console.print(qos_table(found))
    if out is not None:
        console.print(f"wrote {out / 'qos.json'}")
    return DONE
