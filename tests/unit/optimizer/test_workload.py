from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from hexloom.formulations.problem import Problem
from hexloom.hwmodels import load_hw
from hexloom.optimizer.errors import InvalidInputError
from hexloom.optimizer.kernels import Explicit, RmsNorm
from hexloom.optimizer.kernels.spec import explain
from hexloom.optimizer.lower import lower
from hexloom.optimizer.reading import read_data
from hexloom.optimizer.schemas import schema_texts
from hexloom.optimizer.workload import Workload

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*/*.yaml") if "\ntasks:" in path.read_text("utf-8"))
SCHEMAS = ROOT / "optimizer" / "schemas"

OP = {"name": "a", "engine": "hvx", "duration_us": 1}


BOMB = b"0: &a0 [x]\n"
"""The first line of a few that stand for 2^40 values."""


def work(*tasks: Any, **keys: Any) -> Workload:
    return Workload.from_data({"name": "w", "tasks": list(tasks), **keys}, "w.yaml")


def explicit(*ops: Any, **keys: Any) -> dict[str, Any]:
    return {"name": "t", "ops": list(ops), **keys}


def fault(*tasks: Any, **keys: Any) -> str:
    with pytest.raises(InvalidInputError) as raised:
        work(*tasks, **keys)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("w.yaml: ")
    return str(raised.value).removeprefix("w.yaml: ")


# --- reading and writing --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_json_and_back_is_the_same_workload(path: Path) -> None:
    once = Workload.load(path)
    again = Workload.from_json(once.to_json())
    assert again == once
    assert again.digest() == once.digest()
    assert again.to_json() == once.to_json()


def test_all_keys_survive_json() -> None:
    full = work(
        explicit(
            {**OP, "latency_us": "1/3", "also": {"mine": 1}, "alternatives": [{"engine": "hmx", "duration_us": 2}]},
            {"for": "i", "count": 2, "ops": [{**OP, "name": "b{i}", "scratch_bytes": "1KiB", "deadline_us": 9}]},
            buffers=[{"name": "x", "size_bytes": "0x10", "address": 0, "resident": True}],
        ),
        {"name": "n", "kernel": "rmsnorm", "mode": "direct", "rows": 3, "cols": 4, "duration_us": "1e2"},
        {"name": "m", "kernel": "matmul_w4a16", "m": 1, "k": 32, "n": 32, "depth": {"raw": 1}},
        hw="hexagon-v79",
        tick_us="0.1",
        engines=[{"name": "mine", "units": 2, "kind": "worker"}],
    )
    again = Workload.from_json(full.to_json())
    assert again == full
    assert again.tick_us == Fraction(1, 10)
    assert isinstance(again.tasks[0], Explicit) and isinstance(again.tasks[1], RmsNorm)
    assert full.digest() != work(explicit(OP)).digest()


def test_numbers_in_text_are_exact() -> None:
    (task,) = work(explicit({**OP, "duration_us": "1e6"}, {**OP, "name": "b", "duration_us": 0.1})).tasks
    assert isinstance(task, Explicit)
    assert [op.duration_us for op in task.ops if not hasattr(op, "count")] == [1_000_000, Fraction(1, 10)]


def test_a_kernel_is_told_by_its_name_and_ops_by_themselves() -> None:
    names = [t.kernel for t in work(explicit(OP), {**explicit(OP), "name": "u", "kernel": "explicit"}).tasks]
    assert names == ["explicit", "explicit"]


# --- faults ---------------------------------------------------------------------------------------------


def test_an_unknown_key_names_the_nearest() -> None:
    assert fault(explicit(OP), titel="x") == "unknown key 'titel' (did you mean 'title'?)"
    assert fault({"name": "n", "kernel": "rmsnorm", "row": 8, "cols": 8}).startswith(
        "tasks[0]: unknown key 'row' (did you mean 'rows'?)"
    )


def test_a_key_without_its_unit_names_the_one_with_it() -> None:
    said = fault(explicit({"name": "a", "engine": "hvx", "duration": 5}))
    assert said == "tasks[0].ops[0]: unknown key 'duration' (did you mean 'duration_us'?)"
    nested = fault(explicit({"for": "i", "count": 2, "ops": [{"name": "a", "engine": "hvx", "duration": 5}]}))
    assert nested.endswith("tasks[0].ops[0].ops[0]: unknown key 'duration' (did you mean 'duration_us'?)")
    assert "did you mean 'size_bytes'" in fault(explicit(OP, buffers=[{"name": "b", "size": 4}]))


def test_several_unknown_keys_are_all_named() -> None:
    said = fault(explicit(OP), titel="x", taskz=[], zzz=1)
    assert "unknown key 'titel' (did you mean 'title'?)" in said
    assert "unknown key 'taskz' (did you mean 'tasks'?)" in said
    assert said.endswith("unknown key 'zzz'")


def test_faults_of_several_tasks_are_all_named() -> None:
    said = fault({"name": "n", "kernel": "copy", "rows": 0, "cols": 8}, {"name": "m", "kernel": "rmsnorm", "cols": 8})
    assert "tasks[0].rows: Input should be greater than or equal to 1, got 0" in said
    assert "tasks[1].rows: Field required" in said
    assert "at least 1 item" not in said  # the list is short only because of the two


@pytest.mark.parametrize(
    ("tasks", "keys", "says"),
    [
        ([], {}, "tasks: List should have at least 1 item"),
        (
            [{"name": "n", "kernel": "rmsnrm"}],
            {},
            "no such kernel; known: matmul_w4a16, rmsnorm, copy, softmax, swiglu, add, gemv, matmul_id, matmul_w4a8, "
            "attention, or ops of",
        ),
        ([explicit(OP), explicit(OP)], {}, "two tasks are named 't'; names must differ"),
        ([explicit(OP)], {"engines": [{"name": "e"}, {"name": "e"}]}, "two engines are named 'e'; names must differ"),
        ([explicit(OP)], {"tick_us": 0}, "tick_us must be above 0"),
        ([explicit(OP)], {"tick_us": -1}, "tick_us: must not be negative, got -1"),
        ([explicit(OP)], {"schema": "hexloom.workload/2"}, "schema: Input should be 'hexloom.workload/1', got"),
        ([explicit({**OP, "duration_us": "abc"})], {}, "'abc' is not a finite number"),
        ([explicit({**OP, "duration_us": -5})], {}, "duration_us: must not be negative, got -5"),
        ([explicit({**OP, "duration_us": True})], {}, "True is not a number"),
        ([explicit(OP, buffers=[{"name": "b", "size_bytes": "1e6"}])], {}, "'1e6' is not a size"),
        ([explicit(OP, buffers=[{"name": "b", "size_bytes": "64K"}])], {}, "'64K' is ambiguous: write 64KiB"),
        ([{"name": "n", "kernel": "copy", "rows": "1e6", "cols": 1}], {}, "rows: Input should be a valid integer"),
        ([{"name": "n", "kernel": "copy", "rows": 2**31, "cols": 1}], {}, "less than or equal to 1000000000"),
        ([explicit()], {}, "tasks[0].ops: List should have at least 1 item"),
        ([explicit({"for": "i", "count": 2, "ops": []})], {}, "tasks[0].ops[0].ops: List should have at least 1 item"),
        (
            [explicit({"for": "I", "count": 2, "ops": [OP]})],
            {},
            "for: should be a small letter, and letters, digits",
        ),
        ([explicit({**OP, "name": "a\nb"})], {}, "tasks[0].ops[0].name: String should not hold line breaks"),
        ([explicit({**OP, "name": "n" * 300})], {}, "at most 200 characters, got '" + "n" * 59 + "..."),
        ([explicit({**OP, "units": 0})], {}, "tasks[0].ops[0].units: Input should be greater than or equal to 1 or"),
        ([explicit({**OP, "units": 0})], {}, " 1 or Input should be 'all', got 0"),
        ([explicit({**OP, "after": "b"})], {}, "tasks[0].ops[0].after: Input should be a list, got 'b'"),
        (
            [{"name": "m", "kernel": "matmul_w4a16", "m": 1, "k": 32, "n": 32, "depth": 2}],
            {},
            "depth: Input should be keys",
        ),
        ([explicit(*[{**OP, "duration_us": -1}] * 300)], {}, "; and 290 more faults"),
        (["x"], {}, "tasks[0]"),
    ],
)
def test_a_fault_says_where_and_what(tasks: list[Any], keys: dict[str, Any], says: str) -> None:
    assert says in fault(*tasks, **keys)


@pytest.mark.parametrize("data", [None, [], "text", 3])
def test_a_workload_is_keys_and_values(data: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"x\.yaml: expected keys and values, got"):
        Workload.from_data(data, "x.yaml")


def test_text_that_is_no_json_is_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="not JSON at line 1"):
        Workload.from_json("{")


# --- files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", b"name: a\nname: b\n", "not YAML at line 2, column 1: key 'name' is written twice"),
        ("a.yaml", b"tasks:\n - {a: 1, a: 2}\n", "not YAML at line 2, column 11: key 'a' is written twice"),
        ("a.yaml", b"a: [1", "not YAML at line 1"),
        ("a.yaml", b"\x00\x01", "not YAML"),
        ("a.yaml", b"\xff\xfe", "cannot be read"),
        ("a.json", b'{"a": 1,}', "not JSON at line 1, column 9"),
        ("a.json", b"", "not JSON at line 1, column 1"),
        ("a.json", b"[" * 100_000, "cannot be read"),
        ("a.yaml", b"[" * 5_000, "cannot be read"),
        ("a.json", b'{"a":' + b"9" * 5_000 + b"}", "cannot be read: it holds a number of thousands of digits"),
        ("a.yaml", b"[" * 150 + b"]" * 150, "nested more than 100 levels deep"),
        (
            "a.yaml",
            b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d, *a%d]\n" % (k + 1, k + 1, k, k) for k in range(40)),
            "anchors",
        ),
        ("a.yaml", b"x: &x {a: 1}\ny: {<<: *x}\n", "not YAML at line 2, column 5: merge keys (<<) are not read"),
        ("piped", b'{"a": ["x", ' + b'"y", ' * 30_000, "not JSON at line 1"),  # not minutes in the YAML reader
    ],
)
def test_a_file_that_cannot_be_read(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as raised:
        read_data(path)
    assert says in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    for name, text in (("a.json", '{"a": 1}'), ("a.yaml", "a: 1")):
        (tmp_path / name).write_text(text, encoding="utf-8-sig")
        assert read_data(tmp_path / name) == {"a": 1}


def test_loops_deep_enough_to_break_a_reader_are_refused() -> None:
    ops: list[Any] = [OP]
    for k in range(200):
        ops = [{"for": f"i{k}", "count": 1, "ops": ops}]
    assert "nested more than 100 levels deep" in fault(explicit(*ops))
    for _ in range(155):
        ops = ops[0]["ops"]
    assert work(explicit(*ops)).digest()


def test_another_file_of_hexloom_is_named(tmp_path: Path) -> None:
    assert fault(schema="hexloom.schedule/1") == "this is a schedule, not a workload: `hexloom check` reads it"
    assert fault(schema="hexloom.machine/1") == "this is a machine, not a workload: give it as --hw"


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="No such file or directory"):
        read_data(tmp_path / "none.yaml")
    with pytest.raises(InvalidInputError, match="Is a directory"):
        read_data(tmp_path)


def test_json_without_a_name_is_read_as_json_and_flow_yaml_still_as_yaml(tmp_path: Path) -> None:
    path = tmp_path / "piped"
    path.write_text('{"a": "\\u00e9", "b": [1]}')
    assert read_data(path) == {"a": "é", "b": [1]}
    path.write_text("{a: 1}")
    assert read_data(path) == {"a": 1}


# --- schemas --------------------------------------------------------------------------------------------


def test_committed_schemas_are_current() -> None:
    assert {p.name: p.read_text(encoding="utf-8") for p in SCHEMAS.glob("*.json")} == schema_texts()


@pytest.mark.parametrize("name", ["workload", "problem", "schedule", "pipeline"])
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_follow_the_committed_schema(path: Path) -> None:
    schema = json.loads((SCHEMAS / "workload.schema.json").read_text(encoding="utf-8"))
    validator = Draft202012Validator(schema)
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert [e.message for e in validator.iter_errors(data)] == []
    assert [e.message for e in validator.iter_errors(json.loads(Workload.from_data(data).to_json()))] == []
    assert not validator.is_valid({**data, "titel": "x"})
    assert not validator.is_valid({**data, "tasks": [{"name": "n", "kernel": "rmsnorm", "rows": 8}]})


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (
            {"interference": [{"victim": "x", "cause": "x", "factor": "0"}]},
            "factor: should be a fraction above 0",
        ),
        ({"tick_us": "0"}, "tick_us: should be a fraction above 0, such as '1/1000', got '0'"),
        ({"channels": [{"name": "c", "capacity": 1, "unit_mb_s": "x"}]}, "unit_mb_s: should be a fraction above 0"),
    ],
)
def test_what_a_problem_should_hold_is_said_in_words(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Problem.model_validate({"ops": [{"name": "a", "modes": [{"latency_ticks": 1}]}], **keys})
    assert says in explain(raised.value)


def test_too_much_work_names_who_asks() -> None:
    ops = [explicit({"name": "a", "engine": "hvx", "duration_us": 10**9, "channels": {"ddr": "1e9GB/s"}})]
    with pytest.raises(InvalidInputError, match="op 'a' asks for 1000000000000 of channel 'ddr', which for up to"):
        lower(Workload.from_data({"name": "w", "tasks": ops}), load_hw("hexagon-v81"))
