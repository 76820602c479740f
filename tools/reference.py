"""The reference pages of the documentation, from the code: `mkdocs build` asks for them, nothing of them is kept.

Each function returns one page in Markdown: the command line from its typer commands, Python from what `hexloom` names,
files from their schemas, C from the headers.
"""

from __future__ import annotations

import inspect
import json
import re
from html import unescape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import hexloom
from hexloom.cli import app
from hexloom.later import Later
from hexloom.schemas_command import schema_names

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
WIDEST = 100
HEADERS = (("include", "hexloom_tables.h"), ("runtime", "hexloom_runtime.h"), ("runtime", "hexloom_port.h"))


def pages() -> dict[str, str]:
    """Return every page by its path in the documentation."""
    return {
        "reference/cli.md": cli_page(),
        "reference/python.md": python_page(),
        "reference/files.md": files_page(),
        "reference/c_abi.md": c_page(),
        "reference/release_notes.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    }


def on_files(files: Any, config: Any) -> Any:
    """Give the pages to mkdocs."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    for name in schema_names():
        files.append(File.generated(config, f"schemas/{name}.schema.json", content=_schema_text(name)))
    return files


def _schema_text(name: str) -> str:
    return (resources.files("hexloom.optimizer") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")


MATH = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Write formulas as MathML, which browsers draw without a script from elsewhere."""
    from latex2mathml.converter import convert

    def drawn(found: re.Match[str]) -> str:
        return convert(unescape(found[2]), display="block" if found[1] == "div" else "inline")

    return MATH.sub(drawn, html)


# --- the command line


def cli_page() -> str:
    """Return every command with its arguments and options."""
    lines = ["# Command line", "", "Results go to standard output or files, talk goes to standard error.", ""]
    for words, command in _commands(typer.main.get_command(app), "hexloom"):
        lines += [f"## `{words}`", "", _plain(command.help), ""]
        rows = [_option(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
        lines += ["| | what it is | default |", "|---|---|---|", *(row for row in rows if row), ""]
    return "\n".join(lines)


def _commands(group: Any, words: str) -> Iterator[tuple[str, Any]]:
    for name, found in sorted(group.commands.items()):
        command = found.load() if isinstance(found, Later) else found
        if hasattr(command, "commands"):
            yield from _commands(command, f"{words} {name}")
        else:
            yield f"{words} {name}", command


def _option(parameter: Any) -> str:
    """Return a row of the table; empty for what every command has."""
    if parameter.name == "help":
        return ""
    if parameter.param_type_name == "argument":
        name, default = (parameter.metavar or parameter.name.upper()), "required" if parameter.required else ""
    else:
        name = ", ".join([*parameter.opts, *parameter.secondary_opts])
        value = parameter.default
        default = "required" if parameter.required else "" if value in (None, False) else str(value)
    return f"| {_code(name)} | {_cell(getattr(parameter, 'help', '') or '')} | {_code(default) if default else ''} |"


# --- Python


def python_page() -> str:
    """Return every name of the front door with its signature and docstring."""
    lines = ["# Python", "", "Everything here is imported from `hexloom`; all data are frozen and typed.", ""]
    for name in sorted(hexloom.__all__, key=str.lower):
        value = getattr(hexloom, name)
        if inspect.isclass(value):
            lines += [f"## `{name}`", "", _docs(value), "", *_members(value)]
        elif callable(value):
            shown = f"{name}{_signature(value)}"
            lines += [f"## `{name}`", "", "```python", _wrapped(shown), "```", "", _docs(value), ""]
        else:
            lines += [f"## `{name}`", "", f"`{value!r}`", ""]
    return "\n".join(lines)


def _members(value: type) -> Iterator[str]:
    """Yield the fields of data, then properties and methods with their first sentence."""
    fields = getattr(value, "model_fields", {})
    if fields:
        yield from ("| field | type | default |", "|---|---|---|")
        for name, field in fields.items():
            default = "required" if field.is_required() else _code(repr(field.default)[:60])
            yield f"| `{field.alias or name}` | {_code(_type(value, name))} | {default} |"
        yield ""
    for name, member in vars(value).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if name.startswith("_") or not (inspect.isfunction(function) and function.__doc__):
            continue
        shown = name if isinstance(member, property) else f"{name}{_signature(function)}"
        yield f"- {_code(shown)}: {_cell(_first(function.__doc__))}"
    yield ""


def _signature(function: Any) -> str:
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(function)))
    return re.sub(r"\s+", " ", text.replace("hexloom.", ""))


def _wrapped(call: str) -> str:
    """Return a long signature with one parameter on a line."""
    if len(call) <= WIDEST:
        return call
    head, _, rest = call.partition("(")
    inside, _, result = rest.rpartition(")")
    parts, depth = [""], 0
    for char in inside:
        depth += (char in "([{") - (char in ")]}")
        parts = [*parts, ""] if char == "," and depth == 0 else [*parts[:-1], parts[-1] + char]
    return f"{head}(\n" + "".join(f"    {part.strip()},\n" for part in parts) + f"){result}"


def _type(model: type, name: str) -> str:
    """Return the type of a field as its class says it."""
    for base in model.__mro__:
        found = inspect.get_annotations(base).get(name)
        if found is not None:
            return found if isinstance(found, str) else str(getattr(found, "__name__", found))
    return "any"


def _docs(value: Any) -> str:
    """Return a docstring with its sections as small headings."""
    text = inspect.cleandoc(value.__doc__ or "")
    text = re.sub(r"^(\w[\w ]*)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r"^    (?=\S)", ": ", text, flags=re.MULTILINE))


# --- files


def files_page() -> str:
    """Return every file format with its fields, from its schema."""
    lines = ["# Files", "", "`hexloom schemas show NAME` prints the JSON schema of each; unknown keys are refused.", ""]
    for name in schema_names():
        schema = json.loads(_schema_text(name))
        lines += [f"## {name.replace('_', ' ')}", "", _plain(schema.get("description", "")), ""]
        lines += [f"[The schema](../schemas/{name}.schema.json)", "", *_fields(schema)]
        for inner, part in sorted(schema.get("$defs", {}).items()):
            if "properties" in part:
                lines += [f"### {name}: {inner}", "", _plain(part.get("description", "")), "", *_fields(part)]
    return "\n".join(lines)


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    if "properties" not in schema:
        return
    required = set(schema.get("required", ()))
    yield from ("| key | value | default |", "|---|---|---|")
    for key, field in schema["properties"].items():
        default = "required" if key in required else _code(json.dumps(field["default"])) if "default" in field else ""
        yield f"| `{key}` | {_cell(_kind(field))} | {default} |"
    yield ""


def _kind(field: dict[str, Any]) -> str:
    """Return the type of a field in a few words."""
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if "const" in field:
        return json.dumps(field["const"])
    if "enum" in field:
        return " or ".join(json.dumps(one) for one in field["enum"])
    for key in ("anyOf", "oneOf"):
        if key in field:
            return " or ".join(dict.fromkeys(_kind(one) for one in field[key]))
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), dict):
        return f"map to {_kind(field['additionalProperties'])}"
    return str(field.get("type", "any"))


# --- C


def c_page() -> str:
    """Return the headers: their comments are the reference."""
    lines = ["# C", "", "Tables are C99 and C++11 without pointers; the runtime needs nothing but a port.", ""]
    for folder, name in HEADERS:
        text = (resources.files("hexloom.emit") / folder / name).read_text(encoding="utf-8")
        lines += [f"## `{name}`", "", "```c", text.strip(), "```", ""]
    return "\n".join(lines)


# --- words


def _plain(text: str | None) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", inspect.cleandoc(text or "")).replace("\f", "")


def _first(text: str) -> str:
    return re.split(r"(?<=[.])\s", inspect.cleandoc(text), maxsplit=1)[0]


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{text}`"
