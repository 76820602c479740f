"""Times and addresses chosen together against a schedule first and its packing afterwards, by counted work."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "joint.py"


@pytest.fixture(scope="module")
def joint() -> Any:
    spec = importlib.util.spec_from_file_location("joint_benchmark", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_not_longer(joint: Any, factor: float, number: int, seconds: float, seed: int) -> None:
    together, apart, _ = joint.compared(joint.three_by_three(factor, number), seconds, seed)
    assert together is not None
    assert apart is None or together <= apart


@pytest.mark.parametrize("number", [1, 6, 20])
def test_never_longer_on_a_few(joint: Any, number: int) -> None:
    assert_not_longer(joint, 1.3, number, seconds=0.2, seed=number)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_never_longer_on_others_than_the_named(joint: Any, factor: float) -> None:
    for number in range(21, 27):
        assert_not_longer(joint, factor, number, seconds=0.5, seed=2)


@pytest.mark.slow
def test_shorter_on_the_named_set(joint: Any) -> None:
    for name in joint.NAMED:
        _, factor, number = name.rsplit("_", 2)
        together, apart, _ = joint.compared(joint.three_by_three(float(factor), int(number)), 1.0)
        assert together is not None
        assert apart is None or together < apart, name
