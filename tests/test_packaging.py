"""What a clone promises before any of its code runs: the layers, short files, no foreign paths, the wheel."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("optimizer", "formulations", "hwmodels", "emit")
MAY_IMPORT = {
    "formulations": {"formulations"},
    "hwmodels": {"hwmodels"},
    "optimizer": {"optimizer", "formulations", "hwmodels"},
    "emit": {"emit", "optimizer", "hwmodels"},
}
INDEPENDENT = (
    "optimizer/simulate*.py",
    "optimizer/check*.py",
    "optimizer/happens_before*.py",
    "optimizer/pipeline/decide.py",
    "optimizer/pipeline/report.py",
)
LONGEST_FILE_LINES = 420
MACHINE_PATH = re.compile(r"(?<![\w.~)\]}>/-])/(?:work|root|farm|tmp|home|Users)\b")


def repository_files() -> list[str]:
    """List what a commit of everything here would hold: tracked files and new ones that are not ignored."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    git = ["git", "-c", "safe.directory=*"]  # the gate may run as another user than the one who cloned
    command = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in set(answer.split("\0")) if name and (ROOT / name).is_file())


def room_of(name: str) -> str | None:
    room = name.partition("/")[0]
    return room if room in ROOMS else None


# --- layers ---------------------------------------------------------------------------------------------


DATA = tuple(
    f"formulations/{name}.py"
    for name in (
        "problem", "mode", "region", "ticks", "configuration/certificate", "periodic/loop", "periodic/schedule",
    )
)  # fmt: skip
"""What the checker and the simulator may read of the formulations."""


def imported_names(source: str) -> set[str]:
    """Name all that a file of the project imports from hexloom, `from a import b` as `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "hexloom"}


def climbing_imports(room: str, source: str) -> set[str]:
    allowed = MAY_IMPORT[room]
    data = ("hexloom.formulations.problem.", "hexloom.formulations.ticks.")  # every room above may know these
    return {
        name
        for name in imported_names(source)
        if (name + ".").split(".")[1] not in allowed and not (room == "emit" and name.startswith(data))
    }


def module_file(root: Path, name: str) -> str | None:
    """Find the file behind `hexloom.room.module` or behind `hexloom.room.module.attribute`."""
    parts = name.split(".")[1:]
    for end in (len(parts), len(parts) - 1):
        stem = "/".join(parts[:end])
        for candidate in (f"{stem}.py", f"{stem}/__init__.py"):
            if (root / candidate).is_file():
                return candidate
    return None


def ways_into_formulations(root: Path, start: str) -> list[str]:
    """Follow the imports of a file; tell each chain that ends in formulations, but in what is data only."""
    chains, seen, waiting = [], {start}, [(start, start)]
    while waiting:
        name, chain = waiting.pop()
        for imported in sorted(imported_names((root / name).read_text(encoding="utf-8"))):
            target = module_file(root, imported)
            if target in DATA:
                continue
            if imported.split(".")[1:2] == ["formulations"]:
                chains.append(f"{chain} -> {imported}")
            elif target is not None and target not in seen:
                seen.add(target)
                waiting.append((target, f"{chain} -> {target}"))
    return chains


@pytest.mark.parametrize(
    ("room", "line", "climbs"),
    [
        ("formulations", "from hexloom.optimizer.plan import Plan", True),
        ("formulations", "from hexloom import hwmodels", True),
        ("formulations", "from hexloom.formulations.problem import Problem", False),
        ("hwmodels", "import hexloom.formulations.problem", True),
        ("optimizer", "from hexloom.cli import main", True),
        ("optimizer", "import hexloom", True),
        ("optimizer", "def f():\n    from hexloom.emit import c_tables", True),
        ("optimizer", "import networkx, hexloom.hwmodels.machine", False),
        ("emit", "from hexloom.formulations.problem import Problem", False),
        ("emit", "from hexloom.formulations.bounds import Bound", True),
    ],
)
def test_a_climbing_import_is_seen(room: str, line: str, climbs: bool) -> None:
    assert bool(climbing_imports(room, line)) is climbs


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    climbing = [
        f"{name}: {imported}"
        for name in repository_files()
        if room_of(name) == room and name.endswith(".py")
        for imported in sorted(climbing_imports(room, (ROOT / name).read_text(encoding="utf-8")))
    ]
    assert climbing == []


def test_a_detour_into_formulations_is_seen(tmp_path: Path) -> None:
    files = {
        "formulations/problem.py": "import hexloom.formulations.mode",
        "formulations/mode.py": "",
        "formulations/greedy.py": "",
        "optimizer/check.py": "from hexloom.optimizer.plan import Plan",
        "optimizer/plan.py": "import hexloom.formulations.problem\nimport hexloom.optimizer.search",
        "optimizer/search.py": "from hexloom.formulations import greedy\nfrom hexloom.optimizer import plan",
    }
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    chain = "optimizer/check.py -> optimizer/plan.py -> optimizer/search.py -> hexloom.formulations.greedy"
    assert ways_into_formulations(tmp_path, "optimizer/check.py") == [chain]
    (tmp_path / "optimizer/search.py").write_text("", encoding="utf-8")
    assert ways_into_formulations(tmp_path, "optimizer/check.py") == []


def test_what_judges_a_plan_shares_no_code_with_what_made_it() -> None:
    judges = sorted(str(path.relative_to(ROOT)) for pattern in INDEPENDENT for path in ROOT.glob(pattern))
    assert [chain for judge in judges for chain in ways_into_formulations(ROOT, judge)] == []


# --- files ----------------------------------------------------------------------------------------------


def test_python_files_stay_short() -> None:
    lines = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in repository_files()
        if name.endswith(".py") and not name.startswith("tests/")
    }
    assert lines
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE_LINES} == {}


@pytest.mark.parametrize("folder", ["work", "root", "tmp", "home", "Users"])
def test_a_machine_path_is_seen(folder: str) -> None:
    assert MACHINE_PATH.search(f"open('/{folder}/a.yaml')")
    assert MACHINE_PATH.search(f"cd /{folder}")
    assert not MACHINE_PATH.search(f"see ../{folder}/a.yaml or bytes/{folder}")


def test_no_file_names_a_path_of_one_machine() -> None:
    found = []
    for name in repository_files():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture or an archive
            continue
        found += [
            f"{name}:{number}: {line.strip()[:100]}"
            for number, line in enumerate(text.splitlines(), start=1)
            if MACHINE_PATH.search(line)
        ]
    assert found == []


def test_the_version_is_the_same_everywhere() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert (citation["version"], newest[1]) == (version, version)


# --- the wheel ------------------------------------------------------------------------------------------


def python_prints(code: str, argument: Path, cwd: Path) -> str:
    ran = subprocess.run([sys.executable, "-c", code, argument], cwd=cwd, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the repository's files, as pip would, but without an index to ask."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    links = [path.relative_to(ROOT) for path in (ROOT / "hexloom").iterdir() if path.is_symlink()]
    for name in [*repository_files(), *links]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    python_prints(build, out, cwd=tree)
    (path,) = out.glob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_rooms_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    release = "-".join(wheel.stem.split("-")[:2])
    metadata = {name for name in held if name.startswith(f"{release}.dist-info/")}
    rooms = {f"hexloom/{name}" for name in repository_files() if room_of(name) and not name.endswith(".md")}
    front = {name for name in repository_files() if name.startswith("hexloom/")}
    assert held - metadata == rooms | front
    assert "hexloom/py.typed" in held
    assert f"{release}.dist-info/licenses/LICENSE" in metadata


@pytest.mark.slow
def test_the_wheel_imports_away_from_the_repository(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "\n".join(
        [
            "import importlib, pkgutil, sys",
            "sys.path.insert(0, sys.argv[1])",
            "import hexloom",
            "for module in pkgutil.walk_packages(hexloom.__path__, 'hexloom.'):",
            "    if not module.name.endswith('__main__'):",
            "        assert importlib.import_module(module.name).__file__.startswith(sys.argv[1])",
            "        print(module.name)",
        ]
    )
    imported = python_prints(code, tmp_path, cwd=tmp_path).split()
    assert {f"hexloom.{room}" for room in ROOMS} <= set(imported)
