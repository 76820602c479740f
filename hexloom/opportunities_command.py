"""The command `hexloom opportunities`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from hexloom.emit.opportunities_table import opportunities_table
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.opportunities.find import find, of_totals
from hexloom.optimizer.opportunities.from_gguf import graph_of_gguf
from hexloom.optimizer.opportunities.from_log import graph_of_log, totals_of
from hexloom.optimizer.opportunities.from_onnx import graph_of_onnx
from hexloom.optimizer.schedule import write_whole
from hexloom.optimizer.traces.importer import read_trace
from hexloom.talk import DONE, check_folder, seconds

if TYPE_CHECKING:
    from hexloom.optimizer.opportunities.report import Opportunities

MOST_REQUESTS = 8
TOKENS = 512
"""Of a pass, where nothing else is said."""


def opportunities_command(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A ggml-hexagon profile log, or an .onnx or .gguf file.")
    ],
    hw: Annotated[str, typer.Option(help="Machine name or file.")],
    requests: Annotated[
        int, typer.Option(min=1, max=MOST_REQUESTS, help="Also look at so many requests at a time, apart from one.")
    ] = 1,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of a pass of a .gguf model: 512 by default; 1 is decode.")
    ] = None,
    context: Annotated[int | None, typer.Option(min=1, help="Keys that attention of a .gguf model looks at.")] = None,
    dim: Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=SIZE", help="An open dimension of an .onnx model.")
    ] = None,
    time_limit: Annotated[str, typer.Option(help="How long to search for the best overlap.")] = "10s",
    seed: Annotated[int, typer.Option(help="Deterministic search: same seed, same report.")] = 1,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder for opportunities.json.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> int:
    """Say which independent work a real graph has, what running it together could save, and why not more."""
    limit = seconds(time_limit)
    if out is not None:
        check_folder(out)
    found = _found(source, hw, requests, tokens, context, _dims(dim or []), limit, seed)
    if out is not None:
        write_whole(out / "opportunities.json", found.to_json())
    if as_json:
        print(found.to_json(), end="")
        return DONE
    console = Console(highlight=False, soft_wrap=True)
    console.print(opportunities_table(found))
    if out is not None:
        console.print(f"wrote {out / 'opportunities.json'}")
    return DONE


def _dims(texts: list[str]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, sign, size = text.partition("=")
        if not sign or not size.isdecimal() or not int(size):
            raise InvalidInputError(f"--dim {text!r}: write NAME=SIZE, such as batch=1")
        found[name] = int(size)
    return found


def _found(
    source: Path,
    hw: str,
    requests: int,
    tokens: int | None,
    context: int | None,
    dims: dict[str, int],
    limit: float,
    seed: int,
) -> Opportunities:
    machine = load_hw(hw)
    kind = source.suffix.lower()
    if dims and kind != ".onnx":
        raise InvalidInputError(f"--dim is for .onnx models, not {source}")
    for option, given in (("--tokens", tokens), ("--context", context)):
        if given is not None and kind != ".gguf":
            raise InvalidInputError(f"{option} is for .gguf models, not {source}")
    if kind == ".onnx":
        graph = graph_of_onnx(source, machine, dims)
    elif kind == ".gguf":
        graph = graph_of_gguf(source, machine, tokens or TOKENS, context)
    else:
        trace = read_trace(source)
        if trace.form in ("ggml-hexagon-table", "ggml-hexagon-summary"):
            return of_totals(source.name, machine, *totals_of(trace))
        graph = graph_of_log(trace, machine, source.name)
    return find(graph, machine, requests=requests, time_limit_s=limit, seed=seed)
