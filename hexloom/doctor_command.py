"""The command `hexloom doctor`: what this machine has of what hexloom can use, and what is left out without it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hexloom.emit.hexagon import find_clang, find_emulator
from hexloom.emit.host import find_compiler
from hexloom.optimizer.errors import InvalidInputError
from hexloom.talk import CHECK_FAILED, DONE, say

if TYPE_CHECKING:
    from collections.abc import Callable

NEEDED = ("ortools", "pulp", "numpy", "networkx", "pydantic", "pyyaml", "typer", "rich")
PROVEN_SOLVER = "9.15."
"""The releases of OR-Tools whose answers were studied; see CONTRIBUTING.md."""

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAMS = {
    "cmake": "the CMake file of hexloom emit --kit is written, but cannot be tried here",
}
EXTRAS = {
    "highspy": "a second MILP solver, HiGHS; CBC comes with PuLP",
    "playwright": "tests of the report in a browser (extra browser)",
    "ziglang": "hexloom run --target hexagon-v75, v79 and v81 (extra hexagon)",
    "mkdocs": "building the documentation (extra docs)",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for; ``without`` says what its absence takes away."""

    name: str
    kind: Literal["python", "needed", "solver", "program", "extra"]
    ok: bool
    found: str
    without: str = ""


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Say which compilers, emulators and solvers are here, and what is skipped without those that are not."""
    found = findings()
    broken = [one.name for one in found if one.kind in ("python", "needed", "solver") and not one.ok]
    if as_json:
        typer.echo(json.dumps({"ok": not broken, "findings": [asdict(one) for one in found]}, indent=1))
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            state = "ok     " if one.ok else "broken " if one.name in broken else "missing"
            typer.echo(f"{state}  {one.name:{width}}  {one.found if one.ok else one.without}")
    if broken:
        return say(f"{', '.join(broken)}: reinstall with pip install hexloom", CHECK_FAILED)
    return DONE


def findings() -> list[Finding]:
    """Look at this machine; nothing is changed."""
    found = [Finding("python", "python", True, f"{platform.python_version()}, {os.cpu_count()} cores")]
    found += [_package(name, "needed", "hexloom does not run") for name in ("hexloom", *NEEDED)]
    found += [_cp_sat(), _cbc()]
    found.append(_tool("compiler", find_compiler, "hexloom run has no host to run tables on"))
    found.append(_tool("clang", find_clang, "hexloom run --target hexagon-v73 cannot compile"))
    found.append(_tool("qemu-hexagon", find_emulator, "hexloom run --target hexagon-v73 cannot execute"))
    found += [_program(name, shutil.which(name), without) for name, without in PROGRAMS.items()]
    browser = os.environ.get("HEXLOOM_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    found.append(_program("chromium", browser, "tests of the report in a browser are skipped"))
    found += [_package(name, "extra", f"without it: {what}") for name, what in EXTRAS.items()]
    return found


def _package(name: str, kind: Literal["needed", "extra"], without: str) -> Finding:
    try:
        return Finding(name, kind, True, version(name), without)
    except PackageNotFoundError:
        return Finding(name, kind, False, "", without)


def _cp_sat() -> Finding:
    """Let CP-SAT prove something small: a wheel that does not fit the machine fails here."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    x, y = (model.new_int_var(0, 9, name) for name in "xy")
    model.add(x + y >= 7)
    model.minimize(2 * x + 3 * y)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    right = status == cp_model.OPTIMAL and solver.objective_value == 14
    studied = version("ortools").startswith(PROVEN_SOLVER)
    said = "proves a small optimum" + ("" if studied else f"; releases {PROVEN_SOLVER}x were studied, this is another")
    return Finding("cp-sat", "solver", right, said, "CP-SAT gives a wrong answer to a small question")


def _cbc() -> Finding:
    """Ask PuLP which solvers it can start; it is only the cross-check, so its absence breaks nothing."""
    import pulp

    names = [name for name in pulp.listSolvers(onlyAvailable=True) if name in ("PULP_CBC_CMD", "HiGHS", "COIN_CMD")]
    return Finding("milp", "extra", bool(names), ", ".join(names), "no MILP cross-check: neither CBC nor HiGHS")


def _tool(name: str, find: Callable[[], str], without: str) -> Finding:
    try:
        return _program(name, find(), without)
    except InvalidInputError as missing:
        return Finding(name, "program", False, "", f"{without}: {missing}")


def _program(name: str, path: str | None, without: str) -> Finding:
    if path is None:
        return Finding(name, "program", False, "", without)
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, "program", False, "", f"{without}: {error}")
    return Finding(name, "program", True, said.strip().splitlines()[0] if said.strip() else path, without)
