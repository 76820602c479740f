"""The gallery of published systems: every row is computed, and comes out as its scenario and the README say."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hexloom.formulations.flat.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator

GALLERY = Path(__file__).resolve().parents[2] / "examples" / "gallery"


def _gallery() -> Any:
    spec = importlib.util.spec_from_file_location("gallery", GALLERY / "run.py")
    assert spec is not None and spec.loader is not None
    sys.path.insert(0, str(GALLERY))  # as for a script
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    return module


gallery = _gallery()
WRITE = "the README says something else: run examples/gallery/run.py --write"
README = (GALLERY / "README.md").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def guard() -> Iterator[Guard]:
    """One process for the loops of all rows: loading the solver costs more than most of them."""
    with Guard(lazy=True) as process:
        yield process


def _comes_out(name: str, guard: Guard, *, slow: bool) -> Any:
    row = gallery.answer(name, slow=slow, guard=guard)
    assert row.answers
    for answered in row.answers:
        assert answered.as_expected, f"{name}: {answered.claim.says}: {answered.ours}"
        assert gallery.line_of(row, answered) in README, WRITE
    if row.left_out == 0:
        assert gallery.verdict_line(row) in README, WRITE
    return row


@pytest.mark.parametrize("name", gallery.folders())
def test_the_row(name: str, guard: Guard) -> None:
    _comes_out(name, guard, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in gallery.folders() if any(r.slow for r in gallery.load(n).runs.values())])
def test_the_row_with_its_slow_runs(name: str, guard: Guard) -> None:
    row = _comes_out(name, guard, slow=True)
    assert row.left_out == 0


def test_no_system_is_left_out() -> None:
    named = {line.partition("](")[2].partition("/")[0] for line in README if line.startswith("| [")}
    assert (
        named == set(gallery.folders()) == {path.name for path in GALLERY.iterdir() if path.is_dir()} - {"__pycache__"}
    )
    # A claim that the other lines hold is no other system's.
    assert len(README) == len(set(README)) + README.count("") - 1


@pytest.mark.parametrize(
    ("published", "within", "ours", "holds"),
    [
        (2, "0%", 2.0, True),
        (2, "0%", 2.01, False),
        (2, "1%", 2.019, True),
        (2, "1%", 2.021, False),
        (2, "1%", "2", False),
        ("> 1", "0%", 1.0, False),
        ("> 1", "0%", 1 + 1e-12, False),
        ("> 1", "0%", 1.001, True),
        (">= 1", "0%", 1 - 1e-12, True),
        (">= 1", "0%", 0.99, False),
        ("< 1", "0%", 1.0, False),
        ("<= 1", "0%", 1.0, True),
        ("1.15..1.29", "0%", 1.2, True),
        ("1.15..1.29", "0%", 1.3, False),
        ("1.15..1.29", "0%", "many", False),
        ("> 1", "0%", "many", False),
        ("hvx", "0%", "hvx", True),
        ("hvx", "0%", "dma", False),
    ],
)
def test_a_claim_can_fail(published: float | str, within: str, ours: float | str, holds: bool) -> None:
    claim = gallery.Claim(says="x", published=published, within=within, ours="a.b")
    assert gallery.meets(claim, ours) is holds
    assert gallery.Answered(claim, ours, holds).as_expected is holds
    missed = claim.model_copy(update={"differs": "because"})
    assert gallery.Answered(missed, ours, holds).as_expected is not holds


def test_expressions_over_runs() -> None:
    outcomes = {"a": {"x": 3.0, "word": "hvx"}, "b": {"x": 2}}
    assert gallery.value_of("max(a.x, 1) / b.x - 0.5", outcomes) == 1.0
    assert gallery.value_of("ceil(a.x / b.x)", outcomes) == 2.0
    assert gallery.value_of("a.word", outcomes) == "hvx"
    assert gallery.runs_of("max(a.x, b.y) + 1") == {"a", "b"}
    for wrong in ("c.x", "a.y", "__import__('os')", "a.x ** 2", "'2'"):
        with pytest.raises(gallery.InvalidInputError, match="there is no"):
            gallery.value_of(wrong, outcomes)


def test_what_is_wrong_in_a_scenario_is_one_line() -> None:
    with pytest.raises(gallery.InvalidInputError, match="No such file"):
        gallery.load("nobody")
    with pytest.raises(ValueError, match="one of workload, loop, pipeline and script"):
        gallery.Run(workload="a.yaml", loop="b.yaml")
    with pytest.raises(ValueError, match="5%"):
        gallery.Claim(says="x", published=1, ours="a.b", within="five")


@pytest.mark.parametrize("arguments", [["nobody"], ["--write", "tacker"]])
def test_what_the_script_does_not_take_ends_as_bad_input(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        gallery.main()
    assert ended.value.code == 2
