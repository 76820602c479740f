"""What is loaded when: help and version without solver or models, CP-SAT in the child only, there without pandas."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
import typer

from hexloom.cli import app
from hexloom.later import LATER

HEAVY = ("ortools", "pandas", "networkx", "numpy", "pulp", "pydantic", "yaml", "rich.console")


def loaded(code: str, *names: str) -> list[str]:
    """Say which of ``names`` a new interpreter has loaded after ``code``."""
    code = f"import sys\n{code}\nprint('loaded:', *(name for name in {names!r} if name in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_load_no_solver_and_no_models(arguments: list[str]) -> None:
    assert loaded(f"from hexloom.cli import main\nassert main({arguments!r}) == 0", *HEAVY) == []


def test_who_solves_loads_no_solver() -> None:
    """CP-SAT runs in the child; the parent only sends it problems."""
    code = "import hexloom\nfor name in hexloom.__all__: getattr(hexloom, name)\nimport hexloom.periodic_command"
    assert loaded(code, "ortools", "pandas", "pulp") == []


def test_who_checks_loads_no_solver() -> None:
    code = "import hexloom.optimizer.check, hexloom.schedules, hexloom.optimizer.pipeline.decide"
    assert loaded(code, "ortools", "pandas", "pulp", "rich", "networkx", "hexloom.optimizer.kernels.library") == []


def test_the_child_has_the_solver_without_pandas() -> None:
    code = "import hexloom.formulations.flat.child\nfrom ortools.sat.python.cp_model import CpModel\nCpModel()"
    assert loaded(code, "ortools", "pandas") == ["ortools"]


def test_pandas_can_be_loaded_after_the_child_has_done_without() -> None:
    pytest.importorskip("pandas")
    assert loaded("import hexloom.formulations.flat.child\nimport pandas\npandas.DataFrame()", "pandas") == ["pandas"]


@pytest.mark.parametrize("name", LATER)
def test_a_command_that_is_loaded_later_says_the_same_of_itself(name: str) -> None:
    home, line = LATER[name]
    module, _, attribute = home.partition(":")
    command = getattr(import_module(module), attribute)
    said = command.info.help if isinstance(command, typer.Typer) else command.__doc__
    assert said.splitlines()[0] == line
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    assert group.commands[name].help == line
