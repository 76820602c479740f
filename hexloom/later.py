"""Commands whose files are loaded when they are asked for: loading all of them takes a second, which is no help."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

LATER = {
    "tune": (
        "hexloom.tune_command:tune_command",
        "Choose chunks, buffers, and splits of loads and vector work for a kernel, beside what ggml-hexagon chooses.",
    ),
    "study": (
        "hexloom.study_command:study_command",
        "Compare the plan with today's loops, back to back and side by side, and with its own ops one by one.",
    ),
    "opportunities": (
        "hexloom.opportunities_command:opportunities_command",
        "Say which independent work a real graph has, what running it together could save, and why not more.",
    ),
    "qos": (
        "hexloom.qos_command:qos_command",
        "Replay a stream that must answer in time, with fillers beside it: fused, reordered, or only while it idles.",
    ),
    "run": (
        "hexloom.run_command:run_command",
        "Build runtime and tables for this host, execute them with real threads, and see that every order holds.",
    ),
    "compare": (
        "hexloom.compare_command:compare_command",
        "Say what bounds each op of a measured trace and which engine idles; with a schedule, where it was wrong.",
    ),
    "calibrate": (
        "hexloom.calibrate_command:calibrate_command",
        "Fit a machine file to measured runs: the numbers that they determine, with their spread, and no others.",
    ),
    "report": (
        "hexloom.report_command:report_command",
        "Write one HTML file with everything about a schedule: it opens offline, same bytes for the same schedule.",
    ),
    "doctor": (
        "hexloom.doctor_command:doctor_command",
        "Say which compilers, emulators and solvers are here, and what is skipped without those that are not.",
    ),
    "schemas": ("hexloom.schemas_command:schemas_app", "The JSON schemas of the files."),
    "hw": ("hexloom.catalogues:hw_app", "The machine files."),
    "kernels": ("hexloom.catalogues:kernels_app", "The kernel library."),
}
"""By name of a command: where it is, and the first line of what it says about itself."""


class Later(TyperCommand):
    """Stands for a command in lists; whoever wants to run it, or its help, gets the command itself."""

    def __init__(self, name: str, home: str, line: str) -> None:
        super().__init__(name, help=line, rich_markup_mode=None)
        self._home = home

    def load(self) -> Any:
        """Return the command itself, or the group of commands."""
        module, _, attribute = self._home.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            command, found = found, typer.Typer(add_completion=False, rich_markup_mode=None)
            found.command(self.name)(command)
        return typer.main.get_command(found)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Load the command and let it read its arguments."""
        return self.load().make_context(info_name, args, parent, **extra)


class LaterGroup(TyperGroup):
    """A group that has the commands of `LATER` too."""

    def __init__(self, *, commands: Mapping[str, Any] | None = None, **settings: Any) -> None:
        later = {name: Later(name, *of) for name, of in LATER.items()}
        super().__init__(commands={**(commands or {}), **later}, **settings)
