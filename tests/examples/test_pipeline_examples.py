"""The pipelines of the examples: the answers that their ``expected.json`` and their README promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from hexloom.cli import main
from hexloom.optimizer.pipeline.decide import check_pipeline
from hexloom.optimizer.pipeline.model import Pipeline

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "attention_pipeline"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))


def data_of(name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return data


def test_no_pipeline_is_left_out() -> None:
    assert {path.name for path in FOLDER.glob("*.yaml")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_promised_answer(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    promised = EXPECTED[name]
    monkeypatch.chdir(ROOT)
    code = main(["check", f"examples/attention_pipeline/{name}", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["status"]) == (0 if promised["status"] == "safe" else 4, promised["status"])
    for violation in found["violations"]:
        for key in ("kind", "parties", "trip_count"):
            assert violation[key] == promised[key]
        assert violation["shortest"] and len(violation["steps"]) == promised["steps"]
    if promised["status"] == "safe":
        assert found["proven_to"] == promised["proven_to"]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_readme_shows_what_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", str(FOLDER / name)])
    assert capsys.readouterr().out in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_pipeline_of_the_front_page_is_safe() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = [part.partition("```")[0] for part in text.split("```yaml\n") if part.startswith("schema: hexloom.pipe")]
    assert check_pipeline(Pipeline.from_data(yaml.safe_load(block))).status == "safe"


def test_the_two_differ_in_the_order_of_two_pushes_only() -> None:
    right, wrong = (data_of(name) for name in EXPECTED)
    body = wrong["threads"][0]["body"]
    body[2], body[3] = body[3], body[2]
    assert {**wrong, "name": right["name"]} == right


def test_a_wait_that_says_what_it_means_is_told_at_once() -> None:
    data = data_of("pipeline_push_first.yaml")
    data["threads"][0]["body"][9]["expect"] = "PV[i-1]"
    broken = check_pipeline(Pipeline.from_data(data)).broken
    assert broken is not None
    assert (broken.fault.kind, broken.trip_count, len(broken.moves)) == ("unexpected", 3, 33)


@pytest.mark.parametrize("name", EXPECTED)
def test_examples_follow_the_committed_schema(name: str) -> None:
    schema = json.loads((ROOT / "optimizer" / "schemas" / "pipeline.schema.json").read_text(encoding="utf-8"))
    validator = Draft202012Validator(schema)
    data = data_of(name)
    assert [e.message for e in validator.iter_errors(data)] == []
    assert [e.message for e in validator.iter_errors(json.loads(Pipeline.from_data(data).to_json()))] == []
    assert not validator.is_valid({**data, "titel": "x"})
