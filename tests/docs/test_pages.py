"""The documentation: every block is run, every command and name has its place, and it builds without a warning.

Blocks of a page run one after the other in an empty folder. ``yaml`` and ``json`` with a title are files, ``sh`` are
commands of hexloom, ``python`` shares its names over the page, ``c`` is compiled, lines of ``text`` must stand in what
the block before has printed. A comment before a block says what else to expect: ``code 1``, or ``not run: reason``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import hexloom
from hexloom.cli import main
from hexloom.emit.host import find_compiler
from hexloom.optimizer.errors import InvalidInputError

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
BLOCK = re.compile(r"(?:<!-- ([^>]*) -->\n)?^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REASON = "not run: "


class Block(NamedTuple):
    note: str
    kind: str
    title: str | None
    text: str


def blocks(page: str) -> list[Block]:
    found = []
    for note, head, text in BLOCK.findall((DOCS / page).read_text(encoding="utf-8")):
        title = re.search(r'title="([^"]+)"', head)
        found.append(Block(note, head.split(" ")[0], title[1] if title else None, text))
    return found


def commands(block: Block) -> list[str]:
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_can_be_run(page: str) -> None:
    after = ""
    for block in blocks(page):
        assert block.kind in ("sh", "python", "yaml", "json", "c", "text"), f"{page}: a block of {block.kind!r}"
        if block.kind in ("yaml", "json"):
            assert block.title, f"{page}: a file without a name"
        if block.kind == "text":
            assert after in ("sh", "python"), f"{page}: output of nothing"
        if block.kind == "sh" and not block.note.startswith(REASON):
            assert all(line.startswith("hexloom ") for line in commands(block)), f"{page}: not a command of ours"
        assert not block.note or block.note.startswith((REASON, "code "))
        after = block.kind


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__page__"}
    said = ""
    for block in blocks(page):
        if block.note.startswith(REASON):
            continue
        if block.title is not None:
            (tmp_path / block.title).write_text(block.text, encoding="utf-8")
        elif block.kind == "sh":
            said = "".join(ran(line, block.note) for line in commands(block))
        elif block.kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, f"{page}", "exec"), names)
            said = out.getvalue()
        elif block.kind == "c":
            compiled(block.text, tmp_path)
        else:
            assert [line for line in block.text.splitlines() if line not in said] == [], said


def ran(line: str, note: str) -> str:
    """Run a command of hexloom in this process and return all it says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(shlex.split(line, comments=True)[1:])
    expected = int(note.removeprefix("code ")) if note else 0
    assert code == expected, f"{line}: {out.getvalue()}"
    return out.getvalue()


def compiled(text: str, folder: Path) -> None:
    try:
        compiler = find_compiler()
    except InvalidInputError as missing:
        pytest.skip(str(missing))
    (folder / "block.c").write_text(text, encoding="utf-8")
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only")
    places = (f"-I{ROOT / 'emit' / 'include'}", f"-I{ROOT / 'emit' / 'runtime'}")
    command = [compiler, *flags, *places, str(folder / "block.c")]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    cells = json.loads((DOCS / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert all(cell.get("outputs", []) == [] for cell in cells)
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["schedule"]._repr_html_().count("<svg") == 1
    assert {row.field for row in names["points"].rows} == {"vtcm"}


# --- the reference, from the code


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_all_that_there_is(reference: ModuleType) -> None:
    pages = reference.pages()
    for name in hexloom.__all__:
        assert re.search(rf"^## `{name}\b", pages["reference/python.md"], re.MULTILINE), name
    shown = set(re.findall(r"^## `hexloom ([a-z ]+)`", pages["reference/cli.md"], re.MULTILINE))
    assert {"solve", "check", "report", "doctor", "hw show", "schemas list"} <= shown
    assert "`--time-limit`" in pages["reference/cli.md"]
    assert "| `hazards` |" in pages["reference/files.md"] and "## workload" in pages["reference/files.md"]
    assert "hexloom_execute" in pages["reference/c_abi.md"]
    assert all(page.startswith("# ") and " at 0x" not in page for page in pages.values())


def test_every_link_inside_leads_somewhere(reference: ModuleType) -> None:
    there = {*PAGES, *reference.pages(), "notebook.ipynb", "llama_matmul_and_norm.svg"}
    for page in PAGES:
        text = (DOCS / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if not target.startswith("http"):
                whole = (DOCS / page).parent.joinpath(target).resolve().relative_to(DOCS)
                assert str(whole) in there, f"{page}: {target}"


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None or shutil.which("git") is None:
        pytest.skip("needs the extra docs: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    page = (tmp_path / "site" / "mathematics.html").read_text(encoding="utf-8")
    assert "<math" in page and 'class="arithmatex"' not in page
