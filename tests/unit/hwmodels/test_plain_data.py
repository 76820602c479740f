"""Text that means what it looks like, and data that is small and flat enough."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hexloom.hwmodels.plain_data import MAX_DEPTH, PlainLoader, extent_fault, unreadable


def read(text: str) -> Any:
    return yaml.load(text, Loader=PlainLoader)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("0x10", 16),
        ("1_000", 1000),
        ("2.5", 2.5),
        ("1.0e+3", 1000.0),
        ("true", True),
        ("010", "010"),  # 8 in YAML 1.1
        ("0b11", "0b11"),
        ("1:30", "1:30"),  # 90
        ("1:30.5", "1:30.5"),
        ("2020-01-01", "2020-01-01"),
        ("2020-99-99", "2020-99-99"),  # a ValueError without a place
        ("1e6", "1e6"),
        ("~", None),
    ],
)
def test_plain_text_means_what_it_looks_like(text: str, means: Any) -> None:
    found = read(f"a: {text}")["a"]
    assert (found, type(found)) == (means, type(means))


def test_a_key_written_twice_and_a_merge_key_are_refused_with_their_place() -> None:
    for text, says in (("a: 1\na: 2\n", "'a' is written twice"), ("x: &x {a: 1}\ny: {<<: *x}\n", "merge keys")):
        with pytest.raises(yaml.MarkedYAMLError) as raised:
            read(text)
        assert says in str(raised.value.problem)
        assert raised.value.problem_mark.line == 1
    assert list(read("1: 2\ntrue: 3\n").values()) == [3]  # two keys in the text, equal in Python


def doubled(levels: int) -> Any:
    node: Any = ["x"]
    for _ in range(levels):
        node = [node, node]
    return node


def nest(node: Any, levels: int) -> Any:
    for k in range(levels):
        node = [node] if k % 2 else {"a": node}
    return node


def nested(levels: int) -> Any:
    return nest(1, levels)


def test_a_few_lines_that_stand_for_more_than_fits_into_memory_are_refused() -> None:
    assert extent_fault(doubled(10)) is None
    for levels in (30, 60):  # would take minutes, and ages of the universe, to walk
        assert "anchors repeat more than 1,000,000 values" in str(extent_fault(doubled(levels)))


def test_much_data_without_repeats_is_no_fault() -> None:
    assert extent_fault([[k, k] for k in range(400_000)]) is None


def test_depth_and_lists_inside_themselves() -> None:
    assert extent_fault(nested(MAX_DEPTH)) is None
    assert "nested more than 100 levels" in str(extent_fault(nested(MAX_DEPTH + 1)))
    assert "nested more than 100 levels" in str(extent_fault(nested(5_000)))
    around: list[Any] = []
    around.append({"a": around})
    assert "nested more than 100 levels" in str(extent_fault(around))
    shared = nested(60)
    assert extent_fault([shared, [shared]]) is None
    assert "nested" in str(extent_fault([shared, {"a": shared, "b": nest(shared, 45)}]))  # deep only the second time


def test_reasons_are_for_people() -> None:
    assert "nested" in unreadable(RecursionError("maximum recursion depth exceeded"))
    with pytest.raises(ValueError, match="digits") as raised:
        int("9" * 5_000)
    assert unreadable(raised.value) == "it holds a number of thousands of digits"
    with pytest.raises(UnicodeDecodeError) as undecoded:
        b"\xff".decode()
    assert unreadable(undecoded.value) == "not UTF-8 text"
    assert unreadable(ValueError("month")) == "month"
