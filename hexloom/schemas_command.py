"""The command `hexloom schemas`: the JSON schemas of all files, for editors and other programs."""

from __future__ import annotations

import json
import sys
from importlib import resources
from typing import Annotated

import typer

from hexloom.optimizer.errors import InvalidInputError

ENDING = ".schema.json"

schemas_app = typer.Typer(no_args_is_help=True, help="The JSON schemas of the files.")


def schema_names() -> list[str]:
    """Return the kinds of files that have a schema."""
    folder = resources.files("hexloom.optimizer") / "schemas"
    return sorted(item.name.removesuffix(ENDING) for item in folder.iterdir() if item.name.endswith(ENDING))


@schemas_app.command("list")
def schemas_list(
    as_json: Annotated[bool, typer.Option("--json", help="Print the names as JSON.")] = False,
) -> None:
    """List the kinds of files that have a schema."""
    names = schema_names()
    typer.echo(json.dumps(names, indent=1) if as_json else "\n".join(names))


@schemas_app.command("show")
def schemas_show(
    name: Annotated[str, typer.Argument(help="Kind of file, such as workload.", autocompletion=schema_names)],
) -> None:
    """Print a schema, as it comes with hexloom."""
    known = schema_names()
    if name not in known:
        raise InvalidInputError(f"there is no schema {name!r}; known: {', '.join(known)}")
    file = resources.files("hexloom.optimizer") / "schemas" / f"{name}{ENDING}"
    sys.stdout.write(file.read_text(encoding="utf-8"))
