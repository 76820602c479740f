"""The command line's catalogues: machine files and the kernel library."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hexloom.hwmodels import list_hw, load_hw
from hexloom.hwmodels.show import machine_rows
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import KERNELS

hw_app = typer.Typer(no_args_is_help=True, help="The machine files.")
kernels_app = typer.Typer(no_args_is_help=True, help="The kernel library.")


@hw_app.command("list")
def hw_list(as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False) -> None:
    """List the machines that come with hexloom."""
    titles = {name: load_hw(name).title for name in list_hw()}
    if as_json:
        print(json.dumps(titles, indent=1))
        return
    for name, title in titles.items():
        print(f"{name:14} {title}")


@hw_app.command("show")
def hw_show(
    name: Annotated[str, typer.Argument(help="Machine name or file.", autocompletion=lambda: list(list_hw()))],
    as_json: Annotated[bool, typer.Option("--json", help="Print the machine as JSON.")] = False,
) -> None:
    """Print every number of a machine with its unit, range, confidence and source."""
    machine = load_hw(name)
    if as_json:
        print(machine.to_json())
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("name", "value", "range", "confidence", "source"):
        table.add_column(column, overflow="fold", justify="right" if column == "value" else "left")
    section = ""
    for row in machine_rows(machine):
        if row["section"] != section:
            section = row["section"]
            table.add_row(f"[bold]{section}[/bold]")
        value = f"{row['value']} {row['unit']}".strip()
        table.add_row(f"  {row['name']}", value, row["range"], row["confidence"], row["source"].replace("[", r"\["))
    Console(highlight=False).print(table)


@kernels_app.command("list")
def kernels_list(as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False) -> None:
    """List the kernels a task can name."""
    if as_json:
        print(json.dumps({name: _first_line(spec) for name, spec in KERNELS.items()}, indent=1))
        return
    for name, spec in KERNELS.items():
        print(f"{name:14} {_first_line(spec)}")


@kernels_app.command("show")
def kernels_show(
    name: Annotated[str, typer.Argument(help="Kernel name.", autocompletion=lambda: list(KERNELS))],
    as_json: Annotated[bool, typer.Option("--json", help="Print the JSON schema of its keys.")] = False,
) -> None:
    """Print the keys of a kernel."""
    spec = KERNELS.get(name)
    if spec is None:
        raise InvalidInputError(f"there is no kernel {name!r}; known: {', '.join(KERNELS)}")
    if as_json:
        print(json.dumps(spec.model_json_schema(), indent=1))
        return
    print(f"{name}: {(spec.__doc__ or '').strip()}\n")
    schema: dict[str, Any] = spec.model_json_schema()
    required = set(schema.get("required", ()))
    for key, field in schema["properties"].items():
        kind = field.get("type") or " | ".join(str(o.get("type", o.get("const", ""))) for o in field.get("anyOf", ()))
        if "enum" in field:
            kind = " | ".join(map(str, field["enum"]))
        default = "required" if key in required else f"default {field.get('default', '-')}"
        print(f"  {key:16} {kind or 'see below':24} {default}")


def _first_line(spec: type) -> str:
    return (spec.__doc__ or "").strip().splitlines()[0]
